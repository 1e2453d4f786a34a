//! What lies in a topic, and how far a group has committed.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{LIMIT, Record, blocking, client};

/// What a reader sees of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Only what is committed; its end is the last stable offset.
    ReadCommitted,
    /// Everything, also aborted records; its end is the log's end.
    ReadUncommitted,
}

/// A group's place in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The next offset to read.
    pub offset: i64,
    /// The text committed with it.
    pub metadata: String,
}

fn consumer(group: &str, isolation: Isolation) -> BaseConsumer {
    let level = match isolation {
        Isolation::ReadCommitted => "read_committed",
        Isolation::ReadUncommitted => "read_uncommitted",
    };
    client()
        .set("group.id", group)
        .set("isolation.level", level)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "error")
        .create()
        .expect("a consumer")
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> i32 {
    let metadata = consumer.fetch_metadata(Some(topic), LIMIT).expect("metadata");
    let count = metadata.topics().iter().map(|found| found.partitions().len()).sum::<usize>();
    assert!(count > 0, "topic {topic} does not exist");
    i32::try_from(count).expect("a count of partitions")
}

fn watermarks(consumer: &BaseConsumer, topic: &str) -> Vec<(i64, i64)> {
    let mark = |partition| consumer.fetch_watermarks(topic, partition, LIMIT).expect("watermarks");
    (0..partitions(consumer, topic)).map(mark).collect()
}

/// The end (next offset to be written) of each partition, as `isolation` sees it.
pub async fn end_offsets(topic: &str, isolation: Isolation) -> Vec<i64> {
    let topic = topic.to_owned();
    let ends = move || watermarks(&consumer("testkit-reader", isolation), &topic);
    blocking(ends).await.into_iter().map(|(_, end)| end).collect()
}

/// Waits until the last stable offset of a partition is `end` at least: no transaction is open below it.
pub(super) fn await_stable(topic: &str, partition: i32, end: i64) {
    let consumer = consumer("testkit-reader", Isolation::ReadCommitted);
    let deadline = Instant::now() + LIMIT;
    loop {
        let (_, stable) = consumer.fetch_watermarks(topic, partition, LIMIT).expect("watermarks");
        if stable >= end {
            return;
        }
        assert!(Instant::now() < deadline, "a transaction is open in {topic}/{partition} at {stable} after {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The first offset still kept in each partition.
pub async fn start_offsets(topic: &str) -> Vec<i64> {
    let topic = topic.to_owned();
    let marks = move || watermarks(&consumer("testkit-reader", Isolation::ReadCommitted), &topic);
    blocking(marks).await.into_iter().map(|(start, _)| start).collect()
}

/// What `group` has committed for each partition of `topic`; `None` where it never did.
pub async fn committed(group: &str, topic: &str) -> Vec<Option<Committed>> {
    let (group, topic) = (group.to_owned(), topic.to_owned());
    blocking(move || {
        let consumer = consumer(&group, Isolation::ReadCommitted);
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&topic, 0, partitions(&consumer, &topic) - 1);
        let places = when_coordinated(|| consumer.committed_offsets(list.clone(), LIMIT));
        let place = |partition| {
            let found = places.find_partition(&topic, partition).expect("the partition asked for");
            match found.offset() {
                Offset::Offset(offset) => Some(Committed { offset, metadata: found.metadata().to_owned() }),
                _ => None,
            }
        };
        (0..partitions(&consumer, &topic)).map(place).collect()
    })
    .await
}

/// Moves a group that has no members, as a tool does: nothing is kept beside the offsets.
pub async fn move_group(group: &str, topic: &str, offsets: &[(i32, i64)]) {
    let (group, topic, offsets) = (group.to_owned(), topic.to_owned(), offsets.to_vec());
    blocking(move || {
        let consumer = consumer(&group, Isolation::ReadCommitted);
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset(&topic, partition, Offset::Offset(offset)).expect("an offset");
        }
        when_coordinated(|| consumer.commit(&list, CommitMode::Sync));
    })
    .await;
}

/// The groups that the broker knows whose names begin with `prefix`.
pub async fn groups(prefix: &str) -> Vec<String> {
    let prefix = prefix.to_owned();
    blocking(move || {
        let list =
            when_coordinated(|| consumer("testkit-reader", Isolation::ReadCommitted).fetch_group_list(None, LIMIT));
        let names = list.groups().iter().map(|group| group.name().to_owned());
        names.filter(|name| name.starts_with(&prefix)).collect()
    })
    .await
}

/// A new broker has no coordinator for a group until its internal topic is made, which the first question for it begins.
fn when_coordinated<T>(ask: impl Fn() -> Result<T, KafkaError>) -> T {
    use RDKafkaErrorCode::{CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator};
    let deadline = Instant::now() + LIMIT;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(failure) => {
                let code = failure.rdkafka_error_code();
                let early = matches!(code, Some(CoordinatorLoadInProgress | CoordinatorNotAvailable | NotCoordinator));
                assert!(early && Instant::now() < deadline, "asking the coordinator: {failure}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Every record of a topic that `isolation` shows, partition by partition, up to the ends found at the start.
pub async fn read_topic(topic: &str, isolation: Isolation) -> Vec<Record> {
    let topic = topic.to_owned();
    blocking(move || {
        let consumer = consumer("testkit-reader", isolation);
        let mut list = TopicPartitionList::new();
        for (partition, (start, end)) in (0..).zip(watermarks(&consumer, &topic)) {
            if start < end {
                list.add_partition_offset(&topic, partition, Offset::Offset(start)).expect("an offset");
            }
        }
        let mut unfinished = list.count();
        consumer.assign(&list).expect("an assignment");
        let mut records = Vec::new();
        let deadline = Instant::now() + LIMIT;
        while unfinished > 0 {
            assert!(Instant::now() < deadline, "reading {topic} took longer than {LIMIT:?}");
            match consumer.poll(LIMIT) {
                Some(Ok(message)) => records.push(record(&message)),
                Some(Err(KafkaError::PartitionEOF(_))) => unfinished -= 1,
                // A connection that broke on a busy machine is made again; the deadline stands.
                Some(Err(failure)) if is_connection(&failure) => {}
                Some(Err(failure)) => panic!("reading {topic}: {failure}"),
                None => {}
            }
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    })
    .await
}

/// Every committed record of a topic, read again until they are `enough`. The topic need not exist yet. Panics after a minute with
/// how many there were.
pub async fn read_topic_until(topic: &str, enough: impl Fn(&[Record]) -> bool) -> Vec<Record> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let records = if exists(topic).await { read_topic(topic, Isolation::ReadCommitted).await } else { Vec::new() };
        if enough(&records) {
            return records;
        }
        let found = records.len();
        assert!(Instant::now() < deadline, "{found} records in {topic} are not what was waited for {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn exists(topic: &str) -> bool {
    let topic = topic.to_owned();
    blocking(move || {
        let consumer = consumer("testkit-reader", Isolation::ReadCommitted);
        let metadata = consumer.fetch_metadata(Some(&topic), LIMIT).expect("metadata");
        metadata.topics().iter().any(|found| !found.partitions().is_empty())
    })
    .await
}

fn is_connection(failure: &KafkaError) -> bool {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure};
    matches!(failure, KafkaError::MessageConsumption(AllBrokersDown | BrokerTransportFailure))
}

fn record(message: &impl Message) -> Record {
    let headers = message.headers().map(|headers| {
        let owned =
            |header: rdkafka::message::Header<'_, &[u8]>| (header.key.to_owned(), header.value.map(<[u8]>::to_vec));
        headers.iter().map(owned).collect()
    });
    Record {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: Some(message.offset()),
        timestamp_ms: message.timestamp().to_millis(),
        headers: headers.unwrap_or_default(),
        key: message.key().map(<[u8]>::to_vec),
        payload: message.payload().map(<[u8]>::to_vec),
    }
}
