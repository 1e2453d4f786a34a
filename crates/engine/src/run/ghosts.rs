//! Full snapshots that a connector took because it had lost its place: rows that were deleted in the
//! gap have no event, and stay as ghosts.
//!
//! The rows of one snapshot share its position. A table is swept once the first and the last row of
//! its snapshot were read, whichever partitions they lie in, and everything of the snapshot is
//! applied: then what is older than the snapshot was not refreshed by it.

use std::collections::BTreeMap;
use std::sync::Arc;

use settle_core::change::{Change, Event, TableName};
use settle_core::lane::FullRow;
use settle_core::sink::Sweep;
use settle_core::version::Version;

use crate::config::target::{OnResnapshot, Target};

/// A snapshot of one table.
#[derive(Debug)]
struct Seen {
    /// Version of its rows: epoch and commit position.
    at: u64,
    begun: bool,
    ended: bool,
}

/// The snapshots of the tables that were read.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    tables: BTreeMap<Arc<TableName>, Seen>,
    /// Tables that may hold ghosts, by name.
    pub(super) suspected: Vec<String>,
}

impl Ghosts {
    /// Follows a row; gives the sweep that it completes.
    pub(super) fn follow(&mut self, event: &Event, full: FullRow, target: &Target) -> Option<Sweep> {
        let Event::Change(change) = event else { return None };
        if full == FullRow::default() {
            return None;
        }
        let at = change.version.hi();
        let seen = self.tables.entry(change.table.clone()).or_insert(Seen { at, begun: false, ended: false });
        if seen.at != at {
            *seen = Seen { at, begun: false, ended: false };
        }
        let first_told = full.begins && !seen.begun;
        seen.begun |= full.begins;
        seen.ended |= full.last;
        let completes = seen.begun && seen.ended;
        if completes {
            // The next one is another.
            seen.begun = false;
        }
        let sweeps = target.on_resnapshot(&change.table) == OnResnapshot::Sweep;
        if first_told {
            self.suspect(change, sweeps);
        }
        (completes && sweeps).then(|| Sweep {
            table: change.table.clone(),
            topic: change.record.partition.topic.clone(),
            below: Version::from_halves(at, 0),
        })
    }

    fn suspect(&mut self, change: &Change, sweeps: bool) {
        let table = change.table.to_string();
        if sweeps {
            tracing::warn!(
                table,
                "the connector took a full snapshot again: rows deleted in the gap have no event; those that the \
                 snapshot does not refresh are swept once all of it is applied"
            );
        } else {
            tracing::warn!(
                table,
                "possible ghosts: the connector took a full snapshot again, and rows deleted in the gap have no event; \
                 compare with the source, or set on_resnapshot = \"sweep\" and read the snapshot once more"
            );
        }
        if !self.suspected.contains(&table) {
            self.suspected.push(table);
        }
    }
}
