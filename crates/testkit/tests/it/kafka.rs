//! The broker keeps what the client was given, and shows transactions as Settle will meet them.

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use settle_testkit::kafka::{
    Committed, Isolation, Record, Transaction, committed, create_partitions, create_topic, delete_group,
    delete_records, delete_topic, end_offsets, produce, produce_transaction, read_topic, start_offsets, unique,
};
use settle_testkit::services;

#[tokio::test]
async fn records_come_back_as_they_were_produced_in_order_and_partition() {
    let topic = unique("records");
    create_topic(&topic, 3, &[]).await;
    let mut records: Vec<Record> =
        (0..300).map(|n| Record::new(&topic, n % 3, Some(&format!("k{n}")), Some(&format!("v{n}")))).collect();
    records[4].payload = None;
    records[5].key = None;
    records[6] = records[6].clone().with_header("a", "1").with_header("a", "2");
    records[7].headers.push(("null".to_owned(), None));
    records[8].timestamp_ms = Some(1_796_056_941_110);

    let offsets = produce(records.clone()).await;
    let mut expected = records;
    for (record, offset) in expected.iter_mut().zip(offsets) {
        record.offset = Some(offset);
    }
    expected.sort_by_key(|record| (record.partition, record.offset));

    let mut read = read_topic(&topic, Isolation::ReadCommitted).await;
    for (record, expected) in read.iter_mut().zip(&expected) {
        assert!(record.timestamp_ms.is_some());
        if expected.timestamp_ms.is_none() {
            record.timestamp_ms = None; // the producer's clock
        }
    }
    assert_eq!(read, expected);
    delete_topic(&topic).await;
}

#[tokio::test]
async fn an_aborted_transaction_leaves_a_gap_and_a_marker() {
    let topic = unique("transactions");
    create_topic(&topic, 1, &[]).await;
    let record = |text: &str| Record::new(&topic, 0, Some(text), Some(text));
    produce_transaction([record("a")], Transaction::Commit).await;
    let aborted = produce_transaction([record("b"), record("c")], Transaction::Abort).await;
    produce_transaction([record("d")], Transaction::Commit).await;
    assert_eq!(aborted, [2, 3]);

    let seen = |records: Vec<Record>| -> Vec<i64> { records.iter().filter_map(|record| record.offset).collect() };
    assert_eq!(seen(read_topic(&topic, Isolation::ReadCommitted).await), [0, 5]);
    assert_eq!(seen(read_topic(&topic, Isolation::ReadUncommitted).await), [0, 2, 3, 5]);
    assert_eq!(end_offsets(&topic, Isolation::ReadCommitted).await, [7]);
}

#[tokio::test]
async fn committed_offsets_are_read_with_their_metadata() {
    let (topic, group) = (unique("committed"), unique("group"));
    create_topic(&topic, 2, &[]).await;
    produce([Record::new(&topic, 1, None, Some("x"))]).await;
    assert_eq!(committed(&group, &topic).await, [None, None]);

    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", services::kafka()).set("group.id", &group).create().unwrap();
    let mut list = TopicPartitionList::new();
    let mut place = list.add_partition(&topic, 1);
    place.set_offset(Offset::Offset(1)).unwrap();
    place.set_metadata("settle1 x");
    consumer.commit(&list, CommitMode::Sync).unwrap();

    let place = Committed { offset: 1, metadata: "settle1 x".to_owned() };
    assert_eq!(committed(&group, &topic).await, [None, Some(place)]);
    delete_group(&group).await;
    assert_eq!(committed(&group, &topic).await, [None, None]);
}

#[tokio::test]
async fn topics_grow_lose_their_start_and_come_anew() {
    let topic = unique("changing");
    create_topic(&topic, 1, &[("cleanup.policy", "compact")]).await;
    produce((0..5).map(|_| Record::new(&topic, 0, Some("k"), Some("v")))).await;
    create_partitions(&topic, 3).await;
    assert_eq!(end_offsets(&topic, Isolation::ReadCommitted).await, [5, 0, 0]);
    delete_topic(&topic).await;

    create_topic(&topic, 1, &[]).await;
    produce((0..5).map(|_| Record::new(&topic, 0, Some("k"), Some("v")))).await;
    delete_records(&topic, 0, 3).await;
    assert_eq!(start_offsets(&topic).await, [3]);
    assert_eq!(read_topic(&topic, Isolation::ReadCommitted).await.len(), 2);
}

#[tokio::test]
async fn compaction_and_retention_act_within_a_tests_time() {
    let topic = unique("compacted");
    let config = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("max.compaction.lag.ms", "200"),
    ];
    create_topic(&topic, 1, &config).await;
    let record = |n: i32| Record::new(&topic, 0, Some("k"), Some(&n.to_string()));
    produce((0..10).map(record)).await;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut rolled = 10;
    loop {
        // A new record closes the segment before it; only closed segments are compacted.
        produce([record(rolled)]).await;
        rolled += 1;
        let left = read_topic(&topic, Isolation::ReadCommitted).await;
        if left[0].offset != Some(0) {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "not compacted: {} records left", left.len());
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_transaction_has_its_marker_when_the_call_returns() {
    let topic = unique("markers");
    create_topic(&topic, 1, &[]).await;
    for round in 1..=20 {
        let end = if round % 2 == 0 { Transaction::Commit } else { Transaction::Abort };
        produce_transaction([Record::new(&topic, 0, None, Some("x"))], end).await;
        assert_eq!(end_offsets(&topic, Isolation::ReadCommitted).await, [2 * round]);
    }
}
