//! The truncates of the tables in the log: which one emptied a row.

use std::sync::Arc;

use settle_core::change::{TableName, Truncate};
use settle_core::position::Place;
use settle_core::truncate::{Cut, Cuts};
use settle_core::version::Version;

/// The last truncates of each table: where they are, and what they cut.
#[derive(Default)]
pub(super) struct Truncates(Vec<(Arc<TableName>, Cut, Place)>);

/// Why a row is not there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Emptied<'a> {
    /// By the truncate at this place.
    By(&'a Place),
    /// By one that the destination recorded, and the log has not.
    ByOneOfBefore,
    /// The log has one here; the destination does not know of it.
    NotYet(&'a Place),
}

impl Truncates {
    pub(super) fn take(&mut self, truncate: &Truncate, place: Place) {
        let cut = truncate.cut();
        let is_of = |(table, known, _): &&mut (Arc<TableName>, Cut, Place)| {
            **table == *truncate.table && known.order == cut.order
        };
        match self.0.iter_mut().find(is_of) {
            // The last one empties whatever the others did. Sent again, it is the same.
            Some((_, known, at)) if known.place() < cut.place() => (*known, *at) = (cut, place),
            Some(_) => {}
            None => self.0.push((truncate.table.clone(), cut, place)),
        }
    }

    /// What became of a row of this version; none where no truncate empties it. `recorded` are those
    /// that the destination knows.
    pub(super) fn empty(&self, table: &TableName, row: Version, recorded: Cuts) -> Option<Emptied<'_>> {
        let in_log = self.0.iter().find(|(of, cut, _)| **of == *table && cut.empties(row)).map(|(.., place)| place);
        match (in_log, recorded.empties(row)) {
            (Some(place), true) => Some(Emptied::By(place)),
            (None, true) => Some(Emptied::ByOneOfBefore),
            (Some(place), false) => Some(Emptied::NotYet(place)),
            (None, false) => None,
        }
    }
}
