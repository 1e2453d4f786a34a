//! Producing exactly the given records, each to its own partition, in the given order.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

use super::offsets::await_stable;
use super::{LIMIT, Record, blocking, client, unique};

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// Its records become visible.
    Commit,
    /// Its records stay in the log, and a read_committed consumer never sees them.
    Abort,
}

/// Produces `records` and gives the offset of each, in the same order.
pub async fn produce(records: impl IntoIterator<Item = Record>) -> Vec<i64> {
    let records: Vec<Record> = records.into_iter().collect();
    blocking(move || {
        let producer = producer(None);
        send(&producer, &records);
        delivered(&producer, records.len())
    })
    .await
}

/// Produces `records` in one transaction of its own, and gives the offset of each.
pub async fn produce_transaction(records: impl IntoIterator<Item = Record>, end: Transaction) -> Vec<i64> {
    let records: Vec<Record> = records.into_iter().collect();
    blocking(move || {
        let producer = producer(Some(&unique("testkit")));
        producer.init_transactions(LIMIT).expect("a transactional producer");
        producer.begin_transaction().expect("a transaction begins");
        send(&producer, &records);
        producer.flush(LIMIT).expect("the broker takes the records");
        match end {
            Transaction::Commit => producer.commit_transaction(LIMIT),
            Transaction::Abort => producer.abort_transaction(LIMIT),
        }
        .expect("the transaction ends");
        let offsets = delivered(&producer, records.len());
        // The broker answers before the marker is written; until then the next producer's records may come before it.
        let places = records.iter().map(|record| (&record.topic, record.partition));
        let last: BTreeMap<_, _> = places.zip(&offsets).collect();
        for ((topic, partition), offset) in last {
            await_stable(topic, partition, offset + 2);
        }
        offsets
    })
    .await
}

/// The delivery reports: index of the record and its offset.
#[derive(Default)]
struct Reports(Mutex<Vec<(usize, Result<i64, KafkaError>)>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, index: Box<usize>) {
        let offset = match result {
            Ok(message) => Ok(message.offset()),
            Err((failure, _)) => Err(failure.clone()),
        };
        let mut reports = self.0.lock().expect("no panic while holding the reports");
        reports.push((*index, offset));
    }
}

fn producer(transactional_id: Option<&str>) -> BaseProducer<Reports> {
    let mut config = client();
    config
        .set("enable.idempotence", "true") // keeps the order of a partition over retries
        .set("linger.ms", "5")
        .set("message.timeout.ms", "30000");
    if let Some(id) = transactional_id {
        config.set("transactional.id", id);
    }
    config.create_with_context(Reports::default()).expect("a producer")
}

fn send(producer: &BaseProducer<Reports>, records: &[Record]) {
    for (index, record) in records.iter().enumerate() {
        let mut message = BaseRecord::with_opaque_to(&record.topic, Box::new(index))
            .partition(record.partition)
            .headers(headers(record));
        message.timestamp = record.timestamp_ms;
        message.key = record.key.as_deref();
        message.payload = record.payload.as_deref();
        while let Err((failure, again)) = producer.send(message) {
            let full = failure.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            assert!(full, "producing to {}: {failure}", record.topic);
            producer.poll(Duration::from_millis(10));
            message = again;
        }
    }
}

fn headers(record: &Record) -> OwnedHeaders {
    let empty = OwnedHeaders::new_with_capacity(record.headers.len());
    record.headers.iter().fold(empty, |headers, (key, value)| headers.insert(Header { key, value: value.as_deref() }))
}

fn delivered(producer: &BaseProducer<Reports>, count: usize) -> Vec<i64> {
    producer.flush(LIMIT).expect("the broker takes the records");
    let context = producer.context();
    let mut reports = context.0.lock().expect("no panic while holding the reports");
    assert_eq!(reports.len(), count, "one report for each record");
    reports.sort_by_key(|(index, _)| *index);
    let offsets = reports
        .drain(..)
        .map(|(index, offset)| offset.unwrap_or_else(|failure| panic!("producing record {index}: {failure}")));
    offsets.collect()
}
