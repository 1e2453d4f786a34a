//! A source under test, and what it says, with a bound on every wait.

use std::collections::BTreeMap;
use std::time::Duration;

use settle_core::position::{Offset, Partition};
use settle_core::record::Record;
use settle_engine::kafka::{self, Bound, KafkaConfig, REVOKE_DEADLINE};
use settle_engine::source::{Assignment, CommitPoint, OffsetStore, Source, SourceError, SourceEvent};
use settle_testkit::kafka as broker;
use settle_testkit::services;
use tokio::sync::{mpsc, oneshot};

/// Bound of every wait.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Events between source and test, as in a run.
const CAPACITY: usize = 4;

/// Reads `topics` as `group`; times are as short as the broker allows.
pub fn config(group: &str, topics: &[&str]) -> KafkaConfig {
    let properties = [("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "500")];
    KafkaConfig {
        brokers: services::kafka().to_owned(),
        group: group.to_owned(),
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        instance: None,
        properties: properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        revoke_deadline: REVOKE_DEADLINE,
        bounded: None,
        tombstone_retention: None,
    }
}

/// The same, up to the end that the topics have now.
pub fn until_end(group: &str, topics: &[&str]) -> KafkaConfig {
    KafkaConfig { bounded: Some(Bound::LastStable), ..config(group, topics) }
}

/// A topic with `partitions`, in which each has `records` records.
pub async fn topic(prefix: &str, partitions: i32, records: usize) -> String {
    let topic = broker::unique(prefix);
    broker::create_topic(&topic, partitions, &[]).await;
    fill(&topic, partitions, 0, records).await;
    topic
}

/// Adds `records` records to each of `partitions`; their values are numbered from `first`.
pub async fn fill(topic: &str, partitions: i32, first: usize, records: usize) {
    let all = (0..partitions)
        .flat_map(|partition| (first..first + records).map(move |number| record(topic, partition, number)));
    broker::produce(all.collect::<Vec<_>>()).await;
}

/// The record `number` of a partition.
pub fn record(topic: &str, partition: i32, number: usize) -> broker::Record {
    broker::Record::new(topic, partition, Some(&format!("k{number}")), Some(&format!("v{number}")))
}

/// A running source.
pub struct Reading {
    pub events: mpsc::Receiver<SourceEvent>,
    pub offsets: Box<dyn OffsetStore>,
}

/// What a source said until every partition reached its end.
#[derive(Default)]
pub struct Whole {
    pub assigned: BTreeMap<Partition, Assignment>,
    pub records: BTreeMap<Partition, Vec<Record>>,
    pub ends: BTreeMap<Partition, (Offset, bool)>,
}

impl Whole {
    /// Values of one partition, as text.
    pub fn values(&self, topic: &str, number: i32) -> Vec<String> {
        values(self.records.get(&Partition::new(topic, number)).map_or(&[], Vec::as_slice))
    }

    /// The end of one partition.
    pub fn end(&self, topic: &str, number: i32) -> (Offset, bool) {
        self.ends[&Partition::new(topic, number)]
    }
}

/// Values as text.
pub fn values(records: &[Record]) -> Vec<String> {
    let text = |record: &Record| String::from_utf8(record.payload.clone().unwrap_or_default().to_vec()).unwrap();
    records.iter().map(text).collect()
}

/// `v<first>` and on.
pub fn numbered(first: usize, count: usize) -> Vec<String> {
    (first..first + count).map(|number| format!("v{number}")).collect()
}

impl Reading {
    pub fn start(config: KafkaConfig) -> Self {
        Self::start_with(config, CAPACITY)
    }

    pub fn start_with(config: KafkaConfig, capacity: usize) -> Self {
        let Source { events, offsets, .. } = kafka::start(config, capacity).unwrap();
        Self { events, offsets }
    }

    /// The next event, whatever it is.
    pub async fn next_of_all(&mut self) -> SourceEvent {
        tokio::time::timeout(LIMIT, self.events.recv()).await.expect("an event in time").expect("a source that goes on")
    }

    /// The next event that is not about the broker's health: on a busy machine it may well be
    /// away for a moment.
    pub async fn next(&mut self) -> SourceEvent {
        loop {
            match self.next_of_all().await {
                SourceEvent::Away(_) | SourceEvent::Back => {}
                other => return other,
            }
        }
    }

    /// The next outage.
    pub async fn away(&mut self) -> SourceError {
        loop {
            match self.next_of_all().await {
                SourceEvent::Away(error) => return error,
                SourceEvent::Records(_) | SourceEvent::ReachedEnd { .. } => {}
                other => panic!("instead of an outage: {other:?}"),
            }
        }
    }

    /// The end of the outage.
    pub async fn back(&mut self) {
        loop {
            match self.next_of_all().await {
                SourceEvent::Back => return,
                SourceEvent::Records(_) | SourceEvent::ReachedEnd { .. } => {}
                other => panic!("instead of the end of an outage: {other:?}"),
            }
        }
    }

    /// The next event that is not about records.
    pub async fn next_but_records(&mut self) -> SourceEvent {
        loop {
            match self.next().await {
                SourceEvent::Records(_) | SourceEvent::ReachedEnd { .. } => {}
                other => return other,
            }
        }
    }

    pub async fn assigned(&mut self) -> Vec<Assignment> {
        match self.next_but_records().await {
            SourceEvent::Assigned(mut assignments) => {
                assignments.sort_by(|a, b| a.partition.cmp(&b.partition));
                assignments
            }
            other => panic!("instead of an assignment: {other:?}"),
        }
    }

    pub async fn revoked(&mut self) -> (Vec<Partition>, oneshot::Sender<()>) {
        match self.next_but_records().await {
            SourceEvent::Revoked { partitions, done } => (partitions, done),
            other => panic!("instead of a revocation: {other:?}"),
        }
    }

    pub async fn lost(&mut self) -> Vec<Partition> {
        match self.next_but_records().await {
            SourceEvent::Lost(partitions) => partitions,
            other => panic!("instead of a loss: {other:?}"),
        }
    }

    pub async fn failed(&mut self) -> SourceError {
        match self.next_but_records().await {
            SourceEvent::Failed(error) => error,
            other => panic!("instead of a failure: {other:?}"),
        }
    }

    /// Reads until `partitions` partitions have reached their ends.
    pub async fn whole(&mut self, partitions: usize) -> Whole {
        let mut whole = Whole::default();
        while whole.ends.len() < partitions {
            match self.next().await {
                SourceEvent::Assigned(assignments) => {
                    whole.assigned.extend(assignments.into_iter().map(|a| (a.partition.clone(), a)));
                }
                SourceEvent::Records(chunk) => {
                    assert_eq!(whole.assigned[&chunk.partition].generation, chunk.generation);
                    assert!(!whole.ends.contains_key(&chunk.partition), "records of {} after its end", chunk.partition);
                    whole.records.entry(chunk.partition).or_default().extend(chunk.records);
                }
                SourceEvent::ReachedEnd { partition, generation, end, bounded } => {
                    assert_eq!(whole.assigned[&partition].generation, generation);
                    whole.ends.insert(partition, (end, bounded));
                }
                other => panic!("while reading: {other:?}"),
            }
        }
        whole
    }

    /// Reads values of one partition until there are `count`.
    pub async fn values_of(&mut self, partition: &Partition, count: usize) -> Vec<String> {
        let mut found = Vec::new();
        while found.len() < count {
            match self.next().await {
                SourceEvent::Records(chunk) if chunk.partition == *partition => found.extend(values(&chunk.records)),
                SourceEvent::Records(_) | SourceEvent::ReachedEnd { .. } => {}
                other => panic!("while reading {partition}: {other:?}"),
            }
        }
        found
    }

    pub async fn commit(&self, partition: &Partition, offset: Offset) {
        self.offsets.commit(&[CommitPoint::bare(partition.clone(), offset)]).await.unwrap();
    }

    /// Leaves the group.
    pub async fn close(mut self) {
        self.events.close();
        tokio::time::timeout(LIMIT, self.offsets.close()).await.expect("closed in time");
    }
}

/// The offset that `group` has committed for a partition.
pub async fn committed(group: &str, topic: &str, number: usize) -> Option<Offset> {
    broker::committed(group, topic).await[number].as_ref().map(|committed| committed.offset)
}
