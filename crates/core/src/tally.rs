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
