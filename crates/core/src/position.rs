//! Where a record stands: topic incarnation, partition, offset.
//!
//! Offsets are always *next to read* and spans are half-open, `[start, end)`, so no border needs a
//! `+ 1`.

use std::fmt;
use std::str::FromStr;
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

/// Reads what `Display` writes; the topic may hold colons.
impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let parsed = || {
            let (rest, offset) = text.rsplit_once(':')?;
            let (topic, number) = rest.rsplit_once(':')?;
            let offset = offset.parse().ok().filter(|offset| *offset >= 0)?;
            Some(Self { partition: Partition::new(topic, number.parse().ok()?), offset })
        };
        parsed().ok_or_else(|| NoPlace(text.to_owned()))
    }
}

/// A text that names no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not topic:partition:offset")]
pub struct NoPlace(String);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        for text in ["t:0:0", "shop:public.t:2:17"] {
            assert_eq!(text.parse::<Place>().map(|place| place.to_string()).as_deref(), Ok(text));
        }
        for wrong in ["t", "t:1", "t:x:1", "t:1:x", "t:1:-2"] {
            assert_eq!(wrong.parse::<Place>(), Err(NoPlace(wrong.to_owned())));
        }
    }
}
