//! Records, offsets and back-pressure.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use settle_core::position::Partition;
use settle_core::record::Header;
use settle_engine::kafka::KafkaConfig;
use settle_engine::source::CommitPoint;
use settle_engine::source::SourceEvent;
use settle_testkit::kafka as broker;
use settle_testkit::services;

use crate::stage::{LIMIT, Reading, committed, config, fill, numbered, topic, until_end, values};
use crate::wire;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_group_reads_from_the_beginning_and_every_byte() {
    let topic = topic("bytes", 1, 0).await;
    let mut full = broker::Record::new(&topic, 0, Some("key"), Some("value"));
    full.headers =
        vec![("a".to_owned(), Some(b"1".to_vec())), ("a".to_owned(), None), ("b".to_owned(), Some(Vec::new()))];
    full.timestamp_ms = Some(1_700_000_000_123);
    let tombstone = broker::Record::new(&topic, 0, Some("key"), None);
    let empty = broker::Record::new(&topic, 0, None, Some(""));
    broker::produce([full, tombstone, empty]).await;

    let mut reading = Reading::start(until_end(&broker::unique("g"), &[&topic]));
    let whole = reading.whole(1).await;
    let partition = Partition::new(&*topic, 0);
    assert_eq!((whole.assigned[&partition].start, whole.assigned[&partition].resumed), (0, false));
    let records = &whole.records[&partition];
    assert_eq!(records.iter().map(|record| record.offset).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(records[0].timestamp_ms, Some(1_700_000_000_123));
    assert_eq!(records[0].key.as_deref(), Some(&b"key"[..]));
    assert_eq!(records[0].payload.as_deref(), Some(&b"value"[..]));
    let header = |name: &str, value: Option<&'static [u8]>| Header { name: name.into(), value: value.map(Into::into) };
    assert_eq!(records[0].headers, [header("a", Some(b"1")), header("a", None), header("b", Some(b""))]);
    assert_eq!((&records[1].payload, records[1].key.as_deref()), (&None, Some(&b"key"[..])));
    assert_eq!((records[2].payload.as_deref(), &records[2].key), (Some(&b""[..]), &None));
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_resumes_where_it_committed() {
    let topic = topic("resume", 1, 10).await;
    let (group, partition) = (broker::unique("g"), Partition::new(&*topic, 0));
    let mut reading = Reading::start(until_end(&group, &[&topic]));
    reading.whole(1).await;
    reading.commit(&partition, 4).await;
    reading.close().await;
    assert_eq!(committed(&group, &topic, 0).await, Some(4));

    let mut reading = Reading::start(until_end(&group, &[&topic]));
    let whole = reading.whole(1).await;
    assert_eq!((whole.assigned[&partition].start, whole.assigned[&partition].resumed), (4, true));
    assert_eq!(whole.values(&topic, 0), numbered(4, 6));
    reading.commit(&partition, 10).await;
    reading.close().await;

    let mut reading = Reading::start(until_end(&group, &[&topic]));
    let whole = reading.whole(1).await;
    assert!(whole.records.is_empty());
    assert_eq!(whole.end(&topic, 0), (10, true));
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_never_lowers_an_offset() {
    let topic = topic("lower", 2, 10).await;
    let (group, partition) = (broker::unique("g"), Partition::new(&*topic, 0));
    let mut reading = Reading::start(config(&group, &[&topic]));
    reading.whole(2).await;
    reading.commit(&partition, 7).await;
    let other = Partition::new(&*topic, 1);
    reading
        .offsets
        .commit(&[CommitPoint::bare(partition.clone(), 5), CommitPoint::bare(other.clone(), 0)])
        .await
        .unwrap();
    assert_eq!(committed(&group, &topic, 0).await, Some(7));
    // The beginning is an offset like others where none was committed.
    assert_eq!(committed(&group, &topic, 1).await, Some(0));
    reading.close().await;
}

/// A destination that hangs: `max.poll.interval.ms` passes with nothing taken from the channel.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_loop_that_takes_nothing_keeps_its_partitions() {
    let topic = topic("pressure", 2, 20_000).await;
    let group = broker::unique("g");
    let mut slow = config(&group, &[&topic]);
    slow.properties.insert("max.poll.interval.ms".to_owned(), "6000".to_owned());
    let mut reading = Reading::start_with(slow, 2);
    let assigned = reading.assigned().await;
    assert_eq!(assigned.len(), 2);

    let member = wire::members(&group);
    assert_eq!(member.len(), 1);
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        let group = group.clone();
        let members = tokio::task::spawn_blocking(move || wire::members(&group)).await.unwrap();
        assert_eq!(members, member);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }

    let mut read = [Vec::new(), Vec::new()];
    while read.iter().any(|values| values.len() < 20_000) {
        match reading.next().await {
            SourceEvent::Records(chunk) => {
                assert_eq!(chunk.generation, assigned[0].generation);
                read[usize::try_from(chunk.partition.number).unwrap()].extend(values(&chunk.records));
            }
            SourceEvent::ReachedEnd { .. } => {}
            other => panic!("the assignment did not last: {other:?}"),
        }
    }
    assert_eq!(read, [numbered(0, 20_000), numbered(0, 20_000)]);
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_takes_topics_that_come_later_and_no_internal_ones() {
    let name = broker::unique("later");
    let (first, second, internal) = (format!("a.{name}"), format!("b.{name}"), format!("__c.{name}"));
    broker::create_topic(&first, 1, &[]).await;
    broker::create_topic(&internal, 1, &[]).await;
    fill(&first, 1, 0, 1).await;
    fill(&internal, 1, 0, 1).await;
    let mut pattern: KafkaConfig = config(&broker::unique("g"), &[&format!("*{name}")]);
    pattern.properties.insert("topic.metadata.refresh.interval.ms".to_owned(), "500".to_owned());
    let mut reading = Reading::start(pattern);
    let assigned = reading.assigned().await;
    assert_eq!(assigned.iter().map(|a| &*a.partition.topic).collect::<Vec<_>>(), [&*first]);
    broker::create_topic(&second, 1, &[]).await;
    fill(&second, 1, 0, 2).await;
    let assigned = reading.assigned().await;
    assert_eq!(assigned.iter().map(|a| &*a.partition.topic).collect::<Vec<_>>(), [&*second]);
    assert_eq!(reading.values_of(&assigned[0].partition, 2).await, numbered(0, 2));
    reading.close().await;
}

/// Offsets that a tool moved while the group was stopped count like any other.
#[tokio::test(flavor = "multi_thread")]
async fn offsets_moved_by_a_tool_are_followed() {
    let topic = topic("moved", 1, 10).await;
    let group = broker::unique("g");
    move_offset(&group, &topic, 6).await;
    let mut reading = Reading::start(until_end(&group, &[&topic]));
    assert_eq!(reading.whole(1).await.values(&topic, 0), numbered(6, 4));
    reading.close().await;
}

/// Commits an offset for partition 0 as an administrator does, in no group.
pub async fn move_offset(group: &str, topic: &str, offset: i64) {
    let (group, topic) = (group.to_owned(), topic.to_owned());
    tokio::task::spawn_blocking(move || {
        let tool: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", services::kafka())
            .set("group.id", &group)
            .set("socket.timeout.ms", LIMIT.as_millis().to_string())
            .create()
            .unwrap();
        let mut list = rdkafka::TopicPartitionList::new();
        list.add_partition_offset(&topic, 0, rdkafka::Offset::Offset(offset)).unwrap();
        tool.commit(&list, rdkafka::consumer::CommitMode::Sync).unwrap();
    })
    .await
    .unwrap();
}
