//! Where every record went. The counters balance: a record is in exactly one place.

use serde::Serialize;

/// Counts of records, by where they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Records delivered by the source and taken in.
    pub read: u64,
    /// Rows that the sink made current. For a sink that cannot know stale rows (ClickHouse): rows written.
    pub applied: u64,
    /// Changes overtaken inside their own batch by a greater version of their key, or repeated in it.
    pub superseded: u64,
    /// Rows that the destination had as new or newer.
    pub stale: u64,
    /// Tombstones, heartbeats, transaction and schema events, signals, messages.
    pub control: u64,
    /// Truncates.
    pub truncates: u64,
    /// Records in the dead letter queue.
    pub dead_lettered: u64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.read += other.read;
        self.applied += other.applied;
        self.superseded += other.superseded;
        self.stale += other.stale;
        self.control += other.control;
        self.truncates += other.truncates;
        self.dead_lettered += other.dead_lettered;
    }

    /// Records that have a place.
    pub fn placed(&self) -> u64 {
        self.applied + self.superseded + self.stale + self.control + self.truncates + self.dead_lettered
    }

    /// True if every record read is in exactly one place.
    pub fn balances(&self) -> bool {
        self.read == self.placed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_counted_where_it_ended_and_only_there() {
        let batch = Tally { read: 10, superseded: 2, control: 1, truncates: 1, dead_lettered: 1, ..Tally::default() };
        assert!(!batch.balances(), "rows that are not durable yet have no place");
        let mut run = Tally::default();
        assert!(run.balances());
        run.add(&batch);
        run.add(&Tally { applied: 3, stale: 2, ..Tally::default() });
        assert!(run.balances());
        run.add(&batch);
        assert_eq!((run.read, run.placed()), (20, 15));
        run.add(&Tally { applied: 6, ..Tally::default() });
        assert!(!run.balances(), "a record in two places");
    }
}
