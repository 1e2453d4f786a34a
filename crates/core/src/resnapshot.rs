//! Full snapshots that come after streamed changes: a gap may have hidden deletes, so rows that the
//! snapshot does not name again may be ghosts.

use std::sync::Arc;

use crate::change::TableName;
use crate::position::{Offset, TopicId};
use crate::version::Version;

/// The sweeps that were done of a table.
///
/// Behind a sweep, a record from before it that is older than its snapshot says nothing new: its row
/// was refreshed by the snapshot, or it is a ghost. One that was set aside at first, or is read for
/// the first time, would bring the ghost back. A record that lies behind what was read when ghosts were
/// swept is none of these, however old its version: its transaction may have been open all the time.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    done: Vec<(TopicId, i32, Offset, Version)>,
}

impl Swept {
    /// A sweep of rows below a version; the partition was read up to `end`.
    pub fn add(&mut self, topic_id: TopicId, partition: i32, end: Offset, below: Version) {
        self.done.push((topic_id, partition, end, below));
    }

    /// True if nothing was swept.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// True for a record whose row is not to be made anew.
    pub fn covers(&self, topic_id: TopicId, partition: i32, offset: Offset, version: Version) -> bool {
        self.done.iter().any(|(id, number, end, below)| {
            *id == topic_id && *number == partition && offset < *end && version < *below
        })
    }
}

/// What came last of each table of a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resnapshots {
    tables: Vec<(Arc<TableName>, Came)>,
    /// The table of the record before.
    current: usize,
    /// The run of the connector that streamed last.
    run: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Nothing,
    Streamed,
    Snapshot,
}

impl Resnapshots {
    /// A change was streamed by this run of the connector.
    pub(crate) fn streamed(&mut self, table: &Arc<TableName>, run: &[u8]) {
        if self.run != run {
            self.run.clear();
            self.run.extend_from_slice(run);
        }
        *self.of(table, Came::Nothing) = Came::Streamed;
    }

    /// True if this run of the connector streamed the last change.
    pub(crate) fn is_of_run(&self, run: &[u8]) -> bool {
        !run.is_empty() && self.run == run
    }

    /// A row of a full snapshot was read. True if it is the first behind streamed changes, which an
    /// earlier run may have read (`had_streamed`).
    pub(crate) fn read(&mut self, table: &Arc<TableName>, had_streamed: bool) -> bool {
        let came = self.of(table, if had_streamed { Came::Streamed } else { Came::Nothing });
        let begins = *came == Came::Streamed;
        *came = Came::Snapshot;
        begins
    }

    /// An epoch begins: another log. What it reads first comes behind all of the log before.
    pub(crate) fn begin_epoch(&mut self) {
        *self = Self::default();
    }

    fn of(&mut self, table: &Arc<TableName>, unknown: Came) -> &mut Came {
        if self.tables.get(self.current).is_none_or(|(known, _)| !Arc::ptr_eq(known, table)) {
            self.current = self.tables.iter().position(|(known, _)| known == table).unwrap_or(self.tables.len());
            if let Some((known, _)) = self.tables.get_mut(self.current) {
                *known = table.clone();
            } else {
                self.tables.push((table.clone(), unknown));
            }
        }
        &mut self.tables[self.current].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_before_a_sweep_and_is_older_than_its_snapshot_stays_away() {
        let id = |text: &str| TopicId::of_first_line("t", text.as_bytes());
        let at = |hi| Version::from_halves(hi, 0);
        let mut swept = Swept::default();
        assert!(swept.is_empty());
        swept.add(id("a"), 0, 10, at(5));
        swept.add(id("a"), 0, 30, at(9));
        for (topic, partition, offset, version, covers) in [
            ("a", 0, 9, 4, true),
            ("a", 0, 29, 8, true),
            ("a", 0, 29, 9, false),
            ("a", 0, 30, 4, false),
            ("a", 1, 9, 4, false),
            ("b", 0, 9, 4, false),
        ] {
            assert_eq!(swept.covers(id(topic), partition, offset, at(version)), covers, "{topic}:{partition}:{offset}");
        }
    }

    #[test]
    fn a_snapshot_behind_streamed_changes_of_its_table_is_told_once() {
        let table = |name: &str| Arc::new(TableName { namespace: "s".into(), name: name.into() });
        let mut seen = Resnapshots::default();
        let (a, b) = (table("a"), table("b"));
        assert!(!seen.read(&a, false), "the first snapshot");
        assert!(!seen.read(&a, false));
        seen.streamed(&a, b"run");
        assert!(!seen.read(&b, false), "another table's first");
        assert!(seen.read(&table("a"), false));
        assert!(!seen.read(&a, true), "the same snapshot");
        seen.streamed(&a, b"run");
        assert!(seen.read(&a, false), "the next one");
        assert!(seen.read(&table("c"), true), "changes that an earlier run read");
        seen.begin_epoch();
        assert!(seen.read(&a, true), "what was known of the epoch before says nothing");
    }
}
