//! Ghosts in a table of SQLite: the shared rule, with the table as it is here.

use rusqlite::Connection;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::Sweep;

use super::failure::Outcome;
use super::name::tombstones;
use super::session::Attached;
use super::table::describe;
use crate::config::target::{Deletes, Target};
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::session::at_once;
use crate::sinks::sql::sweeps::{SweptTable, bury, is_due, record};

/// Deletes the ghosts, where that is due, and forgets what was seen. Says how many they were.
pub(super) fn sweep(
    connection: &Connection,
    target: &Target,
    topic_id: TopicId,
    sweep: &Sweep,
    ends: &[(Partition, Offset)],
) -> Outcome<u64> {
    let mut session = Attached(connection);
    if !at_once(is_due(&mut session, target, topic_id, sweep))? {
        return Ok(0);
    }
    at_once(record(&mut session, topic_id, sweep, ends))?;
    let plan = Plan::of(target, &sweep.table, Deletes::Hard);
    let Some(table) = describe(connection, &plan.table, |column| plan.declared_type(column))? else { return Ok(0) };
    let graves = describe(connection, &tombstones(&table.name), |_| None)?;
    let swept = SweptTable::of(Dialect::Sqlite, &plan, &table, graves.as_ref());
    at_once(bury(&mut session, &swept, sweep.below))
}
