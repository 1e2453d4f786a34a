//! Ghosts in a table: the shared rule, with the table as it is here.

use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::Sweep;

use super::apply::State;
use super::failure::Outcome;
use super::table::describe;
use super::transaction::Transaction;
use crate::config::target::Deletes;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::sweeps::{SweptTable, bury, is_due, record};

/// Deletes the ghosts, where that is due, and forgets what was seen. Says how many they were.
pub(super) async fn sweep_table(
    session: &mut Transaction,
    state: &State,
    topic_id: TopicId,
    sweep: &Sweep,
    ends: &[(Partition, Offset)],
) -> Outcome<u64> {
    if !is_due(session, &state.target, topic_id, sweep).await? {
        return Ok(0);
    }
    record(session, topic_id, sweep, ends).await?;
    let plan = Plan::of(&state.target, &sweep.table, Deletes::Hard);
    let schema = &state.config.schema;
    let Some(table) = describe(session.connection(), schema, &plan.table).await? else { return Ok(0) };
    let graves = describe(session.connection(), schema, &Dialect::Postgres.tombstones(&table.name)).await?;
    let swept = SweptTable::of(Dialect::Postgres, &plan, &table, graves.as_ref());
    bury(session, &swept, sweep.below).await
}
