//! Where a record stands: topic incarnation, partition, offset.
//!
//! Offsets are always *next to read* and spans are half-open, `[start, end)`, so no border needs a
//! `+ 1`.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

/// A position in one partition's log. As the end of a span it is the next offset to read.
pub type Offset = i64;

/// One partition of a topic, by name. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition number, from 0.
    pub number: i32,
}

impl Partition {
    /// The partition `number` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, number: i32) -> Self {
        Self { topic: topic.into(), number }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.topic, self.number)
    }
}

/// The incarnation of a topic: a topic that was deleted and made anew has another id.
///
/// On Kafka it is the broker's topic id; for a capture it is derived from the first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(pub Uuid);

impl TopicId {
    /// The id of a log that has none of its own, derived from its name and its first line.
    pub fn of_first_line(topic: &str, line: &[u8]) -> Self {
        let topic = Uuid::new_v5(&Uuid::NAMESPACE_URL, topic.as_bytes());
        Self(Uuid::new_v5(&topic, line))
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of one record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Partition that holds the record.
    pub partition: Partition,
    /// The record's own offset.
    pub offset: Offset,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.offset)
    }
}

/// A stretch `[start, end)` of one partition, as delivered: offsets missing from the log
/// (compaction, aborted transactions, markers) belong to the stretch they fall into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Partition.
    pub partition: Partition,
    /// First offset of the stretch.
    pub start: Offset,
    /// Next offset to read after the stretch.
    pub end: Offset,
}
