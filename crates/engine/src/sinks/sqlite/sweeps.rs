//! Ghosts in a table of SQLite: the shared rule, with the table as it is here.

use rusqlite::Connection;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::Sweep;

use super::failure::Outcome;
use super::name::{same, tombstones};
use super::session::Attached;
use super::table::{Column, describe};
use crate::config::target::{Deletes, Target};
use crate::sinks::plan::Plan;
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
    let added = [plan.version_hi(), plan.version_lo(), plan.meta.written_ms.clone()];
    let is_key = |column: &&Column| !added.iter().any(|added| same(added, &column.name));
    let key = graves.iter().flat_map(|graves| &graves.columns).filter(is_key);
    let swept = SweptTable {
        plan: &plan,
        table: &table.name,
        key: key.map(|column| column.name.as_str()).collect(),
        is_deleted: table.column(&plan.meta.is_deleted).map(|column| column.name.as_str()),
        graves: graves.as_ref().map(|graves| graves.name.clone()),
        written: graves.as_ref().and_then(|graves| graves.column(&plan.meta.written_ms)).map(|column| &*column.name),
    };
    at_once(bury(&mut session, &swept, sweep.below))
}
