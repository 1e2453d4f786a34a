//! What there is to read, known before anything is read: partitions, their ends, a group's place.

use std::collections::BTreeMap;

use settle_core::position::{Offset, Partition, TopicId};

/// Where a pass through the log ends: next offsets, which are not read any more.
pub type Ends = BTreeMap<Partition, Offset>;

/// One partition as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPartition {
    /// Partition.
    pub partition: Partition,
    /// Incarnation of its topic; none where the broker gives no ids.
    pub topic_id: Option<TopicId>,
    /// First offset that is still in the log.
    pub start: Offset,
    /// Next offset to be written; on Kafka the last stable one.
    pub end: Offset,
    /// What the configured group has; none where it never committed.
    pub committed: Option<Offset>,
}

impl LogPartition {
    /// Records that the group has not settled yet; on Kafka an upper bound, since offsets have gaps.
    pub fn lag(&self) -> i64 {
        (self.end - self.committed.unwrap_or(self.start).max(self.start)).max(0)
    }

    /// Offsets that were removed from the log before the group read them.
    pub fn removed_unread(&self) -> i64 {
        self.committed.map_or(0, |committed| (self.start - committed).max(0))
    }

    /// Up to where the pipeline has settled the log: nothing below it can still be on its way to
    /// the destination. A partition without an offset has nothing of it yet: then it is the end.
    pub fn settled(&self) -> Offset {
        self.committed.map_or(self.end, |committed| committed.clamp(self.start, self.end))
    }
}

/// A member of a consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// As the client calls itself.
    pub client: String,
    /// Where it is.
    pub host: String,
    /// Partitions that it was given.
    pub partitions: Vec<Partition>,
}
