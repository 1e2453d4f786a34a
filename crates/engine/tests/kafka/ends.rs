//! Where a run up to the end ends: at the last stable offset, whatever lies there.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use settle_core::position::Partition;
use settle_engine::source::SourceEvent;
use settle_testkit::kafka::{self as broker, Isolation, Transaction};
use settle_testkit::services;

use crate::stage::{LIMIT, Reading, config, fill, numbered, record, topic, until_end};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_topic_ends_at_once() {
    let topic = topic("empty", 3, 0).await;
    let mut reading = Reading::start(until_end(&broker::unique("g"), &[&topic]));
    let whole = reading.whole(3).await;
    assert!(whole.records.is_empty());
    for number in 0..3 {
        assert_eq!(whole.end(&topic, number), (0, true));
    }
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_marker_of_an_aborted_transaction_is_below_the_end() {
    let topic = topic("aborted", 1, 3).await;
    broker::produce_transaction((3..5).map(|n| record(&topic, 0, n)), Transaction::Abort).await;
    let stable = broker::end_offsets(&topic, Isolation::ReadCommitted).await;
    assert_eq!(stable, [6], "three records, two aborted ones, a marker");

    let mut reading = Reading::start(until_end(&broker::unique("g"), &[&topic]));
    let whole = reading.whole(1).await;
    assert_eq!(whole.values(&topic, 0), numbered(0, 3));
    assert_eq!(whole.end(&topic, 0), (6, true));
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_nothing_but_aborted_records_ends_too() {
    let topic = topic("only_aborted", 1, 0).await;
    broker::produce_transaction((0..2).map(|n| record(&topic, 0, n)), Transaction::Abort).await;
    let mut reading = Reading::start(until_end(&broker::unique("g"), &[&topic]));
    let whole = reading.whole(1).await;
    assert!(whole.records.is_empty());
    assert_eq!(whole.end(&topic, 0), (3, true));
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_end_tells_the_end_behind_the_marker() {
    let topic = topic("committed", 1, 0).await;
    broker::produce_transaction((0..2).map(|n| record(&topic, 0, n)), Transaction::Commit).await;
    let mut reading = Reading::start(config(&broker::unique("g"), &[&topic]));
    let whole = reading.whole(1).await;
    assert_eq!(whole.values(&topic, 0), numbered(0, 2));
    assert_eq!(whole.end(&topic, 0), (3, false));

    // It goes on from there.
    fill(&topic, 1, 2, 1).await;
    let partition = Partition::new(&*topic, 0);
    assert_eq!(reading.values_of(&partition, 1).await, numbered(2, 1));
    match reading.next().await {
        SourceEvent::ReachedEnd { end, bounded, .. } => assert_eq!((end, bounded), (4, false)),
        other => panic!("instead of the next end: {other:?}"),
    }
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_compaction_left_is_read_up_to_the_end() {
    let topic = broker::unique("compacted");
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "1048576"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("delete.retention.ms", "0"),
        ("file.delete.delay.ms", "0"),
    ];
    broker::create_topic(&topic, 1, &settings).await;
    let of_one_key = |number: usize| broker::Record::new(&topic, 0, Some("same"), Some(&format!("v{number}")));
    broker::produce((0..50).map(of_one_key)).await;
    // Only closed segments are compacted: this one closes the first.
    let deadline = Instant::now() + LIMIT;
    let mut written = 50;
    while broker::read_topic(&topic, Isolation::ReadCommitted).await.len() > written - 40 {
        assert!(Instant::now() < deadline, "nothing was compacted");
        broker::produce([record(&topic, 0, written)]).await;
        written += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let left = broker::read_topic(&topic, Isolation::ReadCommitted).await;
    let end = broker::end_offsets(&topic, Isolation::ReadCommitted).await[0];

    let mut reading = Reading::start(until_end(&broker::unique("g"), &[&topic]));
    let whole = reading.whole(1).await;
    let offsets: Vec<i64> = whole.records[&Partition::new(&*topic, 0)].iter().map(|record| record.offset).collect();
    assert_eq!(offsets, left.iter().map(|record| record.offset.unwrap()).collect::<Vec<_>>());
    assert_eq!(whole.end(&topic, 0), (end, true));
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_is_beyond_the_end() {
    let topic = topic("open", 1, 2).await;
    let open = OpenTransaction::begin(&topic).await;
    let mut reading = Reading::start(until_end(&broker::unique("g"), &[&topic]));
    let whole = reading.whole(1).await;
    assert_eq!(whole.values(&topic, 0), numbered(0, 2));
    assert_eq!(whole.end(&topic, 0), (2, true));
    open.abort().await;
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_fixed_at_the_start() {
    let topic = topic("fixed", 2, 3).await;
    let mut reading = Reading::start_with(until_end(&broker::unique("g"), &[&topic]), 1);
    let assigned = reading.assigned().await;
    assert_eq!(assigned.len(), 2);
    fill(&topic, 2, 3, 600).await;

    let mut read = [0, 0];
    let mut ended = 0;
    while ended < 2 {
        match reading.next().await {
            SourceEvent::Records(chunk) => {
                read[usize::try_from(chunk.partition.number).unwrap()] += chunk.records.len()
            }
            SourceEvent::ReachedEnd { end, bounded, .. } => {
                assert_eq!((end, bounded), (3, true));
                ended += 1;
            }
            other => panic!("while reading: {other:?}"),
        }
    }
    assert_eq!(read, [3, 3]);
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_partition_that_comes_later_is_fixed_at_the_start_too() {
    let topic = topic("later", 2, 3).await;
    let group = broker::unique("g");
    let mut first = Reading::start(config(&group, &[&topic]));
    assert_eq!(first.assigned().await.len(), 2);
    let mut bounded = Reading::start(until_end(&group, &[&topic]));
    let (_, done) = first.revoked().await;
    // By now the bounded one is in the group, so its ends are fixed.
    fill(&topic, 2, 3, 5).await;
    done.send(()).unwrap();
    let whole = bounded.whole(1).await;
    assert_eq!(whole.records.values().map(Vec::len).sum::<usize>(), 3);
    first.close().await;
    let whole = bounded.whole(1).await;
    assert_eq!(whole.records.values().map(Vec::len).sum::<usize>(), 3);
    assert_eq!(whole.ends.values().copied().collect::<Vec<_>>(), [(3, true)]);
    bounded.close().await;
}

/// A transaction with one record in partition 0 that is neither committed nor aborted.
pub struct OpenTransaction(BaseProducer);

impl OpenTransaction {
    pub async fn begin(topic: &str) -> Self {
        let topic = topic.to_owned();
        tokio::task::spawn_blocking(move || {
            let producer: BaseProducer = ClientConfig::new()
                .set("bootstrap.servers", services::kafka())
                .set("transactional.id", broker::unique("open"))
                .create()
                .unwrap();
            producer.init_transactions(LIMIT).unwrap();
            producer.begin_transaction().unwrap();
            producer.send(BaseRecord::to(&topic).partition(0).key("k").payload("open")).unwrap();
            producer.flush(LIMIT).unwrap();
            Self(producer)
        })
        .await
        .unwrap()
    }

    pub async fn abort(self) {
        tokio::task::spawn_blocking(move || self.0.abort_transaction(LIMIT).unwrap()).await.unwrap();
    }
}
