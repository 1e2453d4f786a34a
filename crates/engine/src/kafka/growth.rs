//! Topics that gain partitions.
//!
//! With more partitions a key falls into another one, and its earlier records stay where they are.
//! So a partition that came later is read only when the others are committed up to the end that they
//! had when it was seen: one key must not sit in two lanes. Which partitions came later is known
//! from what the group keeps with its offsets: how many it began to read. An instance sees the
//! commits of the others, so it does not matter who holds which.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use settle_core::position::{Offset, Partition};
use settle_core::standing::Standing;
use tokio::time::Instant;

use super::config::KafkaConfig;
use super::context::Context;
use super::failure::of_call;
use super::reader::Reader;
use super::start::{Ends, watermarks};
use super::topics::Topic;
use crate::source::{SourceError, SourceFailure};
use crate::standing;

/// How often it is asked whether partitions may be read.
const ASK_AFTER: Duration = Duration::from_millis(500);
/// Patience with one answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the group committed of a partition.
#[derive(Clone, Debug)]
pub(super) struct Committed {
    pub(super) offset: Offset,
    pub(super) standing: Option<Standing>,
}

/// Asks what the group committed of all partitions of the topics.
pub(super) fn committed(
    consumer: &BaseConsumer<Context>,
    config: &KafkaConfig,
    topics: &[Topic],
    patience: Duration,
) -> Result<BTreeMap<Partition, Committed>, SourceError> {
    let mut partitions = Vec::new();
    for topic in topics {
        let name: Arc<str> = topic.name.as_str().into();
        partitions.extend((0..topic.partitions).map(|number| Partition { topic: name.clone(), number }));
    }
    committed_of(consumer, config, &partitions, patience)
}

fn committed_of(
    consumer: &BaseConsumer<Context>,
    config: &KafkaConfig,
    partitions: &[Partition],
    patience: Duration,
) -> Result<BTreeMap<Partition, Committed>, SourceError> {
    let mut wanted = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        wanted.add_partition(&partition.topic, partition.number);
    }
    let doing = || format!("reading the offsets of group {}", config.group);
    let answer =
        consumer.committed_offsets(wanted, patience).map_err(|error| of_call(&doing(), &config.brokers, &error))?;
    let mut found = BTreeMap::new();
    for element in answer.elements() {
        let here = |p: &&Partition| p.number == element.partition() && *p.topic == *element.topic();
        let Some(partition) = partitions.iter().find(here) else { continue };
        element.error().map_err(|error| of_call(&format!("{} for {partition}", doing()), &config.brokers, &error))?;
        if let rdkafka::Offset::Offset(offset) = element.offset() {
            let standing = standing::read(partition, element.metadata());
            found.insert(partition.clone(), Committed { offset, standing });
        }
    }
    Ok(found)
}

/// What the group knows of a topic's size.
pub(super) struct Growth<'a> {
    topic: &'a Topic,
    /// Partitions that it began to read; none where it is a new group, or keeps nothing.
    known: Option<u32>,
}

impl<'a> Growth<'a> {
    pub(super) fn of(topic: &'a Topic, committed: &'a BTreeMap<Partition, Committed>) -> Self {
        let ours = committed.iter().filter(|(partition, _)| *partition.topic == *topic.name);
        let known = ours.filter_map(|(_, committed)| committed.standing.as_ref()).map(|s| s.partitions).max();
        Self { topic, known: known.filter(|known| *known > 0) }
    }

    /// Partitions that the group is known to read.
    pub(super) fn known(&self) -> u32 {
        self.known.unwrap_or(self.topic.partitions.cast_unsigned())
    }

    /// True for a partition that came after the group began.
    pub(super) fn is_new(&self, number: i32) -> bool {
        self.known.is_some_and(|known| !is_below(number, known))
    }

    /// How far the old partitions must be committed: to the end that they have now, or to that of a
    /// bounded run.
    pub(super) fn reach(
        &self,
        consumer: &BaseConsumer<Context>,
        config: &KafkaConfig,
        ends: Option<&Ends>,
    ) -> Result<Vec<(Partition, Offset)>, SourceError> {
        let name: Arc<str> = self.topic.name.as_str().into();
        let mut reach = Vec::new();
        for number in (0..self.topic.partitions).filter(|number| !self.is_new(*number)) {
            let partition = Partition { topic: name.clone(), number };
            let (first, end) = watermarks(consumer, config, &partition)?;
            let end = ends.and_then(|ends| ends.get(&partition)).map_or(end, |bound| end.min(*bound));
            // Of a partition that holds nothing, nothing is ever committed.
            if end > first {
                reach.push((partition, end));
            }
        }
        Ok(reach)
    }
}

fn is_below(number: i32, known: u32) -> bool {
    u32::try_from(number).is_ok_and(|number| number < known)
}

impl Reader {
    /// Lets partitions be read whose wait is over.
    pub(super) fn look_after_growth(&mut self) -> Result<(), SourceError> {
        let now = Instant::now();
        if now < self.next_growth_look || self.intakes.iter().all(|intake| intake.waits_for().is_empty()) {
            return Ok(());
        }
        self.next_growth_look = now + ASK_AFTER;
        let mut partitions: Vec<Partition> =
            self.intakes.iter().flat_map(|intake| intake.waits_for()).map(|(partition, _)| partition.clone()).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let committed = match committed_of(&self.consumer, &self.config, &partitions, PATIENCE) {
            Ok(committed) => committed,
            // Whether the broker is away is found out elsewhere; it is asked again.
            Err(error) if error.kind == SourceFailure::Unreachable => return Ok(()),
            Err(error) => return Err(error),
        };
        for intake in &mut self.intakes {
            let is_there = |(partition, end): &(Partition, Offset)| {
                committed.get(partition).is_some_and(|committed| committed.offset >= *end)
            };
            if !intake.waits_for().is_empty() && intake.waits_for().iter().all(is_there) {
                tracing::info!(partition = %intake.partition, "the other partitions are committed so far: it is read now");
                intake.go();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use settle_core::epoch::Epoch;
    use settle_core::position::TopicId;

    use super::*;

    fn committed(numbers: &[(i32, Option<u32>)]) -> BTreeMap<Partition, Committed> {
        let standing = |partitions| Standing {
            topic_id: TopicId::of_first_line("t", b""),
            offset: 5,
            partitions,
            epoch: Epoch::FIRST,
            marks: Vec::new(),
        };
        numbers
            .iter()
            .map(|(number, partitions)| {
                (Partition::new("t", *number), Committed { offset: 5, standing: partitions.map(standing) })
            })
            .collect()
    }

    fn topic(partitions: i32) -> Topic {
        Topic { name: "t".to_owned(), partitions }
    }

    #[test]
    fn what_the_group_began_with_tells_what_came_later() {
        let committed = committed(&[(0, Some(2)), (1, Some(2))]);
        let topic = topic(4);
        let growth = Growth::of(&topic, &committed);
        assert_eq!((growth.known(), growth.is_new(1), growth.is_new(2), growth.is_new(3)), (2, false, true, true));
    }

    #[test]
    fn a_partition_that_another_instance_has_not_committed_yet_is_none_that_came_later() {
        let committed = committed(&[(0, Some(3))]);
        let topic = topic(3);
        assert!(!Growth::of(&topic, &committed).is_new(2));
    }

    #[test]
    fn a_new_group_waits_for_nothing_and_so_does_one_that_keeps_nothing() {
        let topic = topic(3);
        for numbers in [&[][..], &[(0, None)], &[(0, Some(0))]] {
            let committed = committed(numbers);
            let growth = Growth::of(&topic, &committed);
            assert_eq!((growth.known(), growth.is_new(2)), (3, false));
        }
    }

    #[test]
    fn once_one_of_them_is_read_so_may_the_others() {
        let committed = committed(&[(0, Some(2)), (1, Some(2)), (2, Some(4))]);
        let topic = topic(4);
        let growth = Growth::of(&topic, &committed);
        assert_eq!((growth.known(), growth.is_new(3)), (4, false));
    }
}
