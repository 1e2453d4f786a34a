//! Ghosts in a table of MySQL: the shared rule, with the table as it is here.

use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::Sweep;

use super::connection::Connection;
use super::failure::Outcome;
use super::prepared::plan_of;
use super::table::describe;
use crate::config::target::Target;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::sweeps::{SweptTable, bury, is_due, record};

const SQL: Dialect = Dialect::MySql;

/// Deletes the ghosts, where that is due, and forgets what was seen. Says how many they were.
pub(super) async fn sweep(
    connection: &mut Connection,
    target: &Target,
    topic_id: TopicId,
    sweep: &Sweep,
    ends: &[(Partition, Offset)],
) -> Outcome<u64> {
    if !is_due(connection, target, topic_id, sweep).await? {
        return Ok(0);
    }
    record(connection, topic_id, sweep, ends).await?;
    let plan = plan_of(&connection.server, target, &sweep.table);
    let Some(table) = describe(connection, &plan.table).await? else { return Ok(0) };
    let graves = describe(connection, &SQL.tombstones(&table.name)).await?;
    let swept = SweptTable::of(SQL, &plan, &table, graves.as_ref());
    connection.be_patient(true);
    let buried = bury(connection, &swept, sweep.below).await;
    connection.be_patient(false);
    buried
}
