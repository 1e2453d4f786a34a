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
use settle_core::standing::Standing;

use super::client;
use super::config::KafkaConfig;
use super::context::Context;
use super::failure::of_call;
use super::growth::{self, Committed, Growth};
use super::topic_id::topic_ids;
use super::topics::Topic;
use crate::source::{Assignment, SourceError, SourceFailure};

/// How long one question may take. The main queue is not polled meanwhile.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// An assigned partition, ready to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) partition: Partition,
    pub(super) topic_id: Option<TopicId>,
    /// Next offset to read.
    pub(super) start: Offset,
    /// First offset of the log.
    pub(super) first: Offset,
    /// What the group has.
    pub(super) committed: Option<Offset>,
    /// What was kept with that.
    pub(super) standing: Option<Standing>,
    /// Partitions of the topic that the group is known to read.
    pub(super) partitions: u32,
    /// How far others must be committed before it is read; empty where it may be read at once.
    pub(super) waits_for: Vec<(Partition, Offset)>,
    /// End of a bounded run.
    pub(super) bound: Option<Offset>,
}

/// Ends of a bounded run, fixed once.
pub(super) use crate::log::Ends;

impl Start {
    /// A partition without a group.
    pub(super) fn alone(partition: Partition, start: Offset, bound: Offset) -> Self {
        Self {
            partition,
            topic_id: None,
            start,
            first: start,
            committed: None,
            standing: None,
            partitions: 0,
            waits_for: Vec::new(),
            bound: Some(bound),
        }
    }

    /// As the run is told of it.
    pub(super) fn into_assignment(self, generation: u64) -> Assignment {
        Assignment {
            partition: self.partition,
            topic_id: self.topic_id,
            start: self.start,
            begins: self.first,
            resumed: self.committed.is_some(),
            standing: self.standing,
            partitions: self.partitions,
            waits: !self.waits_for.is_empty(),
            generation,
        }
    }
}

/// Asks for everything that the assigned partitions need.
pub(super) fn resolve(
    consumer: &BaseConsumer<Context>,
    config: &KafkaConfig,
    ends: Option<&Ends>,
    assigned: &TopicPartitionList,
) -> Result<Vec<Start>, SourceError> {
    let elements = assigned.elements();
    let mut ours: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for element in &elements {
        ours.entry(element.topic()).or_default().push(element.partition());
    }
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = ours.keys().copied().collect();
    let ids = topic_ids(consumer.client(), &names, PATIENCE)
        .map_err(|code| of_call("reading topic ids", &config.brokers, &KafkaError::MetadataFetch(code)))?;
    let mut topics = Vec::with_capacity(ours.len());
    let existing = client::list(consumer, config, PATIENCE)?;
    for (name, numbers) in &ours {
        let greatest = numbers.iter().copied().max().unwrap_or(0);
        let known = existing.iter().find(|topic| topic.name == *name).map_or(0, |topic| topic.partitions);
        topics.push(Topic { name: (*name).to_owned(), partitions: known.max(greatest + 1) });
    }
    // Of all partitions: those of other instances tell whether the topic has grown.
    let committed = growth::committed(consumer, config, &topics, PATIENCE)?;

    let mut starts = Vec::with_capacity(elements.len());
    for topic in &topics {
        let topic_id = ids.get(&topic.name).copied().flatten();
        let growth = Growth::of(topic, &committed);
        for &number in ours.get(&*topic.name).map(Vec::as_slice).unwrap_or_default() {
            let partition = Partition::new(topic.name.as_str(), number);
            let at = At { topic, topic_id, growth: &growth, kept: committed.get(&partition) };
            let log = watermarks(consumer, config, &partition)?;
            starts.push(at.start(consumer, config, ends, partition, log)?);
        }
    }
    Ok(starts)
}

/// What is known of a partition before its start is found.
pub(super) struct At<'a> {
    pub(super) topic: &'a Topic,
    pub(super) topic_id: Option<TopicId>,
    pub(super) growth: &'a Growth<'a>,
    /// What the group committed.
    pub(super) kept: Option<&'a Committed>,
}

impl At<'_> {
    /// Where the partition starts, in a log from its first to its last stable offset.
    pub(super) fn start(
        &self,
        consumer: &BaseConsumer<Context>,
        config: &KafkaConfig,
        ends: Option<&Ends>,
        partition: Partition,
        (first, end): (Offset, Offset),
    ) -> Result<Start, SourceError> {
        let Self { topic, topic_id, growth, kept } = *self;
        if let (Some(id), Some(standing)) = (topic_id, kept.and_then(|kept| kept.standing.as_ref()))
            && standing.topic_id != id
        {
            return Err(made_anew(config, topic, standing.topic_id, id));
        }
        let start = kept.map_or(first, |kept| kept.offset);
        let is_same = topic_id.is_some() && kept.is_some_and(|kept| kept.standing.is_some());
        check(config, topic, &partition, start, (first, end), is_same)?;
        // A topic that came after the start of a bounded run is not part of it.
        let bound = ends.map(|ends| ends.get(&partition).copied().unwrap_or(start));
        let standing = kept.and_then(|kept| kept.standing.clone()).filter(|standing| standing.offset == start);
        let grown = kept.is_none() && growth.is_new(partition.number);
        let waits_for = if grown { growth.reach(consumer, config, ends)? } else { Vec::new() };
        if !waits_for.is_empty() {
            tracing::info!(%partition, "the topic has grown: read once the other partitions are committed so far");
        }
        let partitions = if grown { topic.partitions.cast_unsigned() } else { growth.known() };
        let committed = kept.map(|kept| kept.offset);
        Ok(Start { partition, topic_id, start, first, committed, standing, partitions, waits_for, bound })
    }
}

/// Refuses an offset that the log, from its first to its last stable offset, does not hold.
/// `is_same` is true where the topic is known to be the one that the group read.
pub(super) fn check(
    config: &KafkaConfig,
    topic: &Topic,
    partition: &Partition,
    offset: Offset,
    (first, end): (Offset, Offset),
    is_same: bool,
) -> Result<(), SourceError> {
    if offset < first {
        return Err(removed(config, partition, offset, first));
    }
    // Above the last stable offset lie records of open transactions; a tool may have moved the
    // group there.
    if offset > end && offset > log_end(config, partition)? {
        return Err(beyond(config, topic, partition, offset, end, is_same));
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
fn beyond(
    config: &KafkaConfig,
    topic: &Topic,
    partition: &Partition,
    offset: Offset,
    end: Offset,
    is_same: bool,
) -> SourceError {
    let why = if is_same {
        format!(
            "the topic is the one that it read, so the broker lost the end of its log, or a tool moved the group. To go \
             on, move the group to the end of the log ({command}); rows that changed in what was lost are right again \
             after a new snapshot",
            command = move_group(config, partition, end)
        )
    } else {
        format!(
            "the topic was made anew or truncated, so the group's offsets belong to another log. {}",
            remedy(config, topic)
        )
    };
    let message =
        format!("group {} is to read {partition} from offset {offset}, but the log ends at {end}: {why}", config.group);
    SourceError::new(SourceFailure::Contract, message)
}

/// The topic is another one than the group read.
pub(super) fn made_anew(config: &KafkaConfig, topic: &Topic, before: TopicId, now: TopicId) -> SourceError {
    let message = format!(
        "topic {} was deleted and made anew since group {} read it (id {before}, now {now}): its offsets begin again, so \
         the group's belong to another log. {}",
        topic.name,
        config.group,
        remedy(config, topic),
    );
    SourceError::new(SourceFailure::Contract, message)
}

/// How to go on with a topic that was made anew.
fn remedy(config: &KafkaConfig, topic: &Topic) -> String {
    let begins: Vec<String> = (0..topic.partitions).map(|number| format!("{}:{number}:0", topic.name)).collect();
    format!(
        "Rows of the one before would win or lose by accident: let a new epoch begin with the new one (settle epoch bump \
         {}), and move the group to its beginning ({} --topic {} --reset-offsets --to-earliest --execute)",
        begins.join(" "),
        move_command(config),
        topic.name
    )
}

fn move_group(config: &KafkaConfig, partition: &Partition, offset: Offset) -> String {
    format!("{} --topic {partition} --reset-offsets --to-offset {offset} --execute", move_command(config))
}

/// The command that moves the group, up to the topic.
pub(crate) fn move_command(config: &KafkaConfig) -> String {
    format!("kafka-consumer-groups --bootstrap-server {} --group {}", config.brokers, config.group)
}
