//! Where an assigned partition starts, and why it may not.
//!
//! A group without an offset starts at the beginning of the log. A committed offset that the log
//! no longer (or not yet) holds stops the run: any reset would lose changes or apply old ones
//! without a word.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use settle_core::position::{Offset, Partition, TopicId};

use super::config::KafkaConfig;
use super::context::Context;
use super::failure::of_call;
use super::topic_id::topic_ids;
use super::topics::Topic;
use crate::source::{SourceError, SourceFailure};

/// How long one question may take. The main queue is not polled meanwhile.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// An assigned partition, ready to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) partition: Partition,
    pub(super) topic_id: Option<TopicId>,
    /// Next offset to read.
    pub(super) start: Offset,
    /// What the group has.
    pub(super) committed: Option<Offset>,
    /// End of a bounded run.
    pub(super) bound: Option<Offset>,
}

/// Ends of a bounded run, fixed once.
pub(super) use crate::log::Ends;

/// Asks for everything that the assigned partitions need.
pub(super) fn resolve(
    consumer: &BaseConsumer<Context>,
    config: &KafkaConfig,
    ends: Option<&Ends>,
    assigned: &TopicPartitionList,
) -> Result<Vec<Start>, SourceError> {
    let ask = |what: &str, error: &KafkaError| of_call(what, &config.brokers, error);
    let mut names: Vec<&str> = Vec::new();
    let mut wanted = TopicPartitionList::with_capacity(assigned.count());
    let elements = assigned.elements();
    for element in &elements {
        wanted.add_partition(element.topic(), element.partition());
        if !names.contains(&element.topic()) {
            names.push(element.topic());
        }
    }
    let committed = consumer
        .committed_offsets(wanted, PATIENCE)
        .map_err(|error| ask(&format!("reading the offsets of group {}", config.group), &error))?;
    let ids = topic_ids(consumer.client(), &names, PATIENCE)
        .map_err(|code| ask("reading topic ids", &KafkaError::MetadataFetch(code)))?;
    let topics: BTreeMap<&str, Arc<str>> = names.iter().map(|name| (*name, Arc::from(*name))).collect();

    let mut starts = Vec::with_capacity(elements.len());
    for element in committed.elements() {
        let (topic, number) = (element.topic(), element.partition());
        let partition = Partition { topic: topics.get(topic).cloned().unwrap_or_else(|| topic.into()), number };
        element
            .error()
            .map_err(|error| ask(&format!("reading the offset of group {} for {partition}", config.group), &error))?;
        let committed = match element.offset() {
            rdkafka::Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        let (first, end) = watermarks(consumer, config, &partition)?;
        let start = committed.unwrap_or(first);
        check(config, &partition, start, first, end)?;
        let topic_id = ids.get(topic).copied().flatten();
        // A topic that came after the start of a bounded run is not part of it.
        let bound = ends.map(|ends| ends.get(&partition).copied().unwrap_or(start));
        starts.push(Start { partition, topic_id, start, committed, bound });
    }
    Ok(starts)
}

/// Refuses an offset that the log, from `first` to its last stable offset `end`, does not hold.
pub(super) fn check(
    config: &KafkaConfig,
    partition: &Partition,
    offset: Offset,
    first: Offset,
    end: Offset,
) -> Result<(), SourceError> {
    if offset < first {
        return Err(removed(config, partition, offset, first));
    }
    // Above the last stable offset lie records of open transactions; a tool may have moved the
    // group there.
    if offset > end && offset > log_end(config, partition)? {
        return Err(beyond(config, partition, offset, end));
    }
    Ok(())
}

/// First offset and last stable offset: the client reads committed records only.
pub(super) fn watermarks(
    consumer: &BaseConsumer<Context>,
    config: &KafkaConfig,
    partition: &Partition,
) -> Result<(Offset, Offset), SourceError> {
    consumer
        .fetch_watermarks(&partition.topic, partition.number, PATIENCE)
        .map_err(|error| of_call(&format!("reading the ends of {partition}"), &config.brokers, &error))
}

/// The end of the log, records of open transactions included.
fn log_end(config: &KafkaConfig, partition: &Partition) -> Result<Offset, SourceError> {
    let client: BaseConsumer<Context> = config
        .client()
        .set("isolation.level", "read_uncommitted")
        .create_with_context(Context::new())
        .map_err(|error| config.refused_by_library(&error))?;
    watermarks(&client, config, partition).map(|(_, end)| end)
}

/// The last stable offsets of all partitions of `topics`.
pub(super) fn ends(
    consumer: &BaseConsumer<Context>,
    config: &KafkaConfig,
    topics: &[Topic],
) -> Result<Ends, SourceError> {
    let mut ends = Ends::new();
    for topic in topics {
        let name: Arc<str> = topic.name.as_str().into();
        for number in 0..topic.partitions {
            let partition = Partition { topic: name.clone(), number };
            let (_, end) = watermarks(consumer, config, &partition)?;
            ends.insert(partition, end);
        }
    }
    Ok(ends)
}

/// Records between the group's offset and the log were removed unread.
fn removed(config: &KafkaConfig, partition: &Partition, offset: Offset, first: Offset) -> SourceError {
    let message = format!(
        "group {group} is to read {partition} from offset {offset}, but the log begins at {first}: what lay between was \
         removed by retention before it was read. To go on without it, move the group there ({command}); rows that \
         changed in the gap are right again after a new snapshot",
        group = config.group,
        command = move_group(config, partition, first),
    );
    SourceError::new(SourceFailure::Contract, message)
}

/// The group's offset lies behind the end of the log.
fn beyond(config: &KafkaConfig, partition: &Partition, offset: Offset, end: Offset) -> SourceError {
    let message = format!(
        "group {group} is to read {partition} from offset {offset}, but the log ends at {end}: the topic was made anew \
         or truncated, so the group's offsets belong to another log. Read it under a new group, or move this one to the \
         beginning ({command})",
        group = config.group,
        command = format_args!("{} --to-earliest --execute", reset_offsets(config, partition)),
    );
    SourceError::new(SourceFailure::Contract, message)
}

fn move_group(config: &KafkaConfig, partition: &Partition, offset: Offset) -> String {
    format!("{} --to-offset {offset} --execute", reset_offsets(config, partition))
}

fn reset_offsets(config: &KafkaConfig, partition: &Partition) -> String {
    format!(
        "kafka-consumer-groups --bootstrap-server {} --group {} --topic {partition} --reset-offsets",
        config.brokers, config.group
    )
}
