//! Full snapshots that a connector took because it had lost its place: rows that were deleted in the
//! gap have no event, and stay as ghosts.
//!
//! The rows of one snapshot share its position. A table is swept once it is known that the snapshot
//! lies behind a gap and where its last row is, by whichever instance read that in whichever run, and
//! everything of the snapshot is applied: then what is older than the snapshot was not refreshed by it.

use settle_core::change::{Change, Event};
use settle_core::lane::FullRow;
use settle_core::sink::{Seen, Sweep};
use settle_core::version::Version;

use crate::config::target::{OnResnapshot, Target};

/// What this run saw of such snapshots.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    /// To be remembered before the next batch is handed over.
    pub(super) seen: Vec<(Sweep, Seen)>,
    /// Tables that may hold ghosts, by name.
    pub(super) suspected: Vec<String>,
    /// A pass beside the pipeline sweeps nothing, and the pipeline has warned.
    pub(super) beside: bool,
}

impl Ghosts {
    /// Follows a row.
    pub(super) fn follow(&mut self, event: &Event, full: FullRow, target: &Target) {
        let Event::Change(change) = event else { return };
        let FullRow { begins, last } = full;
        if !begins && !last {
            return;
        }
        let sweeps = target.on_resnapshot(&change.table) == OnResnapshot::Sweep;
        if begins {
            self.suspect(change, sweeps);
        }
        if sweeps {
            let sweep = Sweep {
                table: change.table.clone(),
                topic: change.record.partition.topic.clone(),
                below: Version::from_halves(change.version.hi(), 0),
            };
            let seen = [(begins, Seen::Gap), (last, Seen::Last)];
            self.seen.extend(seen.into_iter().filter(|(is, _)| *is).map(|(_, seen)| (sweep.clone(), seen)));
        }
    }

    fn suspect(&mut self, change: &Change, sweeps: bool) {
        let table = change.table.to_string();
        if self.suspected.contains(&table) {
            return;
        }
        if self.beside {
            tracing::debug!(table, "the connector took a full snapshot again");
        } else if sweeps {
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
        self.suspected.push(table);
    }
}
