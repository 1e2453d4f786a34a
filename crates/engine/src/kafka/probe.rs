//! Questions without joining a group: what is there, and what does it look like.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::record::Record;

use super::client::{self, Consumer};
use super::config::KafkaConfig;
use super::failure::of_call;
use super::intake::{Intake, Look};
use super::start::{self, Start};
use super::topic_id::topic_ids;
use super::topics;
use crate::source::{SourceError, SourceEvent, SourceFailure};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a sample waits for the next record below the end.
const SAMPLE_PATIENCE: Duration = Duration::from_secs(30);

/// What a cluster has of what is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The topics that would be read, by name.
    pub topics: Vec<ProbedTopic>,
}

/// One topic that would be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedTopic {
    /// Its name.
    pub name: String,
    /// Number of partitions.
    pub partitions: i32,
    /// Its incarnation; none where the broker gives no ids (Kafka before 2.8).
    pub id: Option<TopicId>,
}

/// Looks whether the broker answers and which topics match.
pub async fn probe(config: KafkaConfig) -> Result<Probe, SourceError> {
    blocking("looking at the topics", move || {
        config.check()?;
        let client = client::create(&config, &config.client())?;
        let existing = client::list(&client, &config, PATIENCE)?;
        let selected = topics::select(&config.topics, &existing, &config.brokers)?;
        let names: Vec<&str> = selected.iter().map(|topic| topic.name.as_str()).collect();
        let ids = topic_ids(client.client(), &names, PATIENCE)
            .map_err(|code| of_call("reading topic ids", &config.brokers, &KafkaError::MetadataFetch(code)))?;
        let probed = selected.into_iter().map(|topic| ProbedTopic {
            id: ids.get(&topic.name).copied().flatten(),
            name: topic.name,
            partitions: topic.partitions,
        });
        Ok(Probe { topics: probed.collect() })
    })
    .await
}

/// Reads the first records of each partition of `topic`, up to `limit` of each and never past the
/// end that it has now. No group is joined and nothing is committed.
pub async fn sample(config: KafkaConfig, topic: String, limit: usize) -> Result<Vec<Record>, SourceError> {
    blocking("reading a sample", move || {
        config.check()?;
        topics::check(&topic).map_err(|message| SourceError::new(SourceFailure::Contract, message))?;
        let finder = client::create(&config, &config.client())?;
        let existing = client::list(&finder, &config, PATIENCE)?;
        let found = topics::select(&[topic], &existing, &config.brokers)?;
        let ends = start::ends(&finder, &config, &found)?;
        let mut starts = Vec::with_capacity(ends.len());
        for (partition, end) in ends {
            let (first, _) = start::watermarks(&finder, &config, &partition)?;
            starts.push(Start::alone(partition, first, end));
        }
        take_sample(&config, &starts, limit)
    })
    .await
}

/// Reads up to `limit` records of each partition between two offsets: its own part of the log.
pub async fn sample_from(
    config: KafkaConfig,
    parts: Vec<(Partition, Offset, Offset)>,
    limit: usize,
) -> Result<Vec<Record>, SourceError> {
    blocking("reading a sample", move || {
        let start = |(partition, start, end)| Start::alone(partition, start, end);
        let starts: Vec<Start> = parts.into_iter().map(start).collect();
        take_sample(&config, &starts, limit)
    })
    .await
}

fn take_sample(config: &KafkaConfig, starts: &[Start], limit: usize) -> Result<Vec<Record>, SourceError> {
    let consumer = Arc::new(client::create(config, &config.consumer(starts.len()))?);
    let cannot = |error: KafkaError| of_call("reading a sample", &config.brokers, &error);
    let mut positions = TopicPartitionList::with_capacity(starts.len());
    let mut intakes = Vec::with_capacity(starts.len());
    for start in starts {
        let Partition { topic, number } = &start.partition;
        positions.add_partition_offset(topic, *number, rdkafka::Offset::Offset(start.start)).map_err(cannot)?;
        intakes.extend(Intake::open(&consumer, 0, start));
    }
    consumer.assign(&positions).map_err(cannot)?;
    let mut records = Vec::new();
    for intake in &mut intakes {
        sample_partition(config, &consumer, intake, limit, &mut records)?;
    }
    Ok(records)
}

fn sample_partition(
    config: &KafkaConfig,
    consumer: &Consumer,
    intake: &mut Intake,
    limit: usize,
    records: &mut Vec<Record>,
) -> Result<(), SourceError> {
    let most = records.len().saturating_add(limit);
    let mut patience = Instant::now() + SAMPLE_PATIENCE;
    while records.len() < most {
        client::poll(consumer)?;
        match intake.look(consumer.context()) {
            Look::Event(SourceEvent::Records(chunk)) => {
                patience = Instant::now() + SAMPLE_PATIENCE;
                records.extend(chunk.records.into_iter().take(most - records.len()));
            }
            Look::Event(_) => return Ok(()),
            Look::Failed(error) => return Err(error),
            Look::Trouble(trouble) => {
                let message = format!("reading {} failed: {}", intake.partition, trouble.reason);
                return Err(SourceError::new(SourceFailure::Contract, message));
            }
            Look::Nothing if Instant::now() >= patience => {
                let message = format!("Kafka at {} sends nothing of {}", config.brokers, intake.partition);
                let silent = SourceError::new(SourceFailure::Unreachable, message);
                return Err(client::explain(consumer, config, silent));
            }
            Look::Nothing => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    Ok(())
}

/// librdkafka's questions block, so they are asked on a thread that may.
pub(super) async fn blocking<T: Send + 'static>(
    what: &str,
    ask: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    tokio::task::spawn_blocking(ask)
        .await
        .unwrap_or_else(|ended| Err(SourceError::new(SourceFailure::Contract, format!("{what} broke off ({ended})"))))
}
