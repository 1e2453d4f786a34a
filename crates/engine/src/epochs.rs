//! Epochs as a destination records them, whatever it is.

use settle_core::epoch::{Boundary, Epoch, Recorded};
use settle_core::position::TopicId;
use settle_core::sink::PlacedPartition;

/// From a place in a topic's partition on, records are of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEpoch {
    /// Topic.
    pub topic: String,
    /// Its incarnation.
    pub topic_id: TopicId,
    /// Partition.
    pub partition: i32,
    /// Where it begins.
    pub boundary: Boundary,
}

/// The epochs of the partitions that are opened.
pub(crate) fn placed(all: &[RecordedEpoch], parts: &[PlacedPartition]) -> Vec<(PlacedPartition, Boundary)> {
    let of = |part: &PlacedPartition| {
        let own = |epoch: &&RecordedEpoch| epoch.topic_id == part.topic_id && epoch.partition == part.partition.number;
        all.iter().filter(own).map(|epoch| (part.clone(), epoch.boundary)).collect::<Vec<_>>()
    };
    parts.iter().flat_map(of).collect()
}

/// Partitions of several incarnations of their topics, those of the last one last: an epoch begins with
/// each, or it is not read.
pub(crate) fn latest_last(all: &[RecordedEpoch], mut parts: Vec<PlacedPartition>) -> Vec<PlacedPartition> {
    let greatest = |part: &PlacedPartition| {
        let own = all.iter().filter(|epoch| epoch.topic_id == part.topic_id);
        own.map(|epoch| epoch.boundary.epoch).max().unwrap_or(Epoch::FIRST)
    };
    parts.sort_by_key(greatest);
    parts
}

/// What is recorded that matters where another epoch is to begin in a partition.
pub fn recorded(all: &[RecordedEpoch], topic: &str, topic_id: TopicId, partition: i32) -> Recorded {
    let own = all.iter().filter(|epoch| epoch.topic_id == topic_id && epoch.partition == partition);
    let former = all.iter().filter(|epoch| epoch.topic == topic && epoch.topic_id != topic_id);
    Recorded {
        own: own.map(|epoch| epoch.boundary).collect(),
        of_former_topics: former.map(|epoch| epoch.boundary.epoch).max(),
        greatest: all.iter().map(|epoch| epoch.boundary.epoch).max().unwrap_or(Epoch::FIRST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_one_restored_database_share_an_epoch_and_a_topic_made_anew_takes_a_greater_one() {
        let id = |text: &str| TopicId::of_first_line("t", text.as_bytes());
        let mut all: Vec<RecordedEpoch> = Vec::new();
        let mut bump = |topic_id, partition, offset| {
            let boundary = recorded(&all, "t", topic_id, partition).begin(offset, None).unwrap();
            all.push(RecordedEpoch { topic: "t".to_owned(), topic_id, partition, boundary });
            boundary.epoch.number()
        };
        assert_eq!((bump(id("a"), 0, 100), bump(id("a"), 1, 70)), (1, 1), "noticed one after the other");
        assert_eq!((bump(id("a"), 1, 90), bump(id("a"), 0, 130)), (2, 2), "restored once more");
        assert_eq!((bump(id("b"), 0, 0), bump(id("b"), 1, 0)), (3, 3), "rows of the former topic have up to 2");
    }
}
