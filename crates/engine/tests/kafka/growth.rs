//! Topics that gain partitions: one key must not sit in two lanes, whoever reads which.

use std::time::Duration;

use settle_core::epoch::Epoch;
use settle_core::position::{Offset, Partition};
use settle_core::standing::Standing;
use settle_engine::kafka::KafkaConfig;
use settle_engine::source::{Assignment, CommitPoint, SourceEvent};
use settle_testkit::kafka as broker;

use crate::stage::{LIMIT, Reading, config, fill, numbered, record, topic, until_end};
use crate::wire;

/// Longer than it takes to ask the broker twice.
const A_WHILE: Duration = Duration::from_millis(1500);

/// Sees a topic's new partitions within a second.
fn attentive(config: KafkaConfig) -> KafkaConfig {
    let mut config = config;
    config.properties.insert("topic.metadata.refresh.interval.ms".to_owned(), "1000".to_owned());
    config
}

/// Commits as a run does: with what it keeps beside the offset.
async fn commit(reading: &Reading, assignment: &Assignment, offset: Offset) {
    let standing = Standing {
        topic_id: assignment.topic_id.unwrap(),
        offset,
        partitions: assignment.partitions,
        epoch: Epoch::FIRST,
        marks: Vec::new(),
    };
    let point = CommitPoint { partition: assignment.partition.clone(), offset, metadata: standing.line() };
    reading.offsets.commit(&[point]).await.unwrap();
}

async fn grow(topic: &str, to: i32) -> Partition {
    broker::create_partitions(topic, to).await;
    broker::produce((0..2).map(|number| record(topic, to - 1, number)).collect::<Vec<_>>()).await;
    Partition::new(topic, to - 1)
}

async fn says_nothing(reading: &mut Reading) {
    let said = tokio::time::timeout(A_WHILE, reading.next()).await;
    assert!(said.is_err(), "while it waits: {said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_partition_waits_for_what_another_instance_has_not_committed() {
    let topic = topic("grown", 1, 10).await;
    let group = broker::unique("g");
    let mut first = Reading::start(attentive(config(&group, &[&topic])));
    let old = first.assigned().await.remove(0);
    assert_eq!((old.partitions, old.waits, old.standing.as_ref()), (1, false, None));
    commit(&first, &old, 3).await;
    let mut second = Reading::start(attentive(config(&group, &[&topic])));
    tokio::time::timeout(LIMIT, async {
        while wire::members(&group).len() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("two members");
    let partition = grow(&topic, 2).await;
    let new = second.assigned().await.remove(0);
    assert_eq!((&new.partition, new.partitions, new.waits), (&partition, 2, true));
    says_nothing(&mut second).await;
    // Records that come later are read at once with those of the new partition: their keys are settled.
    fill(&topic, 1, 10, 1).await;
    commit(&first, &old, 9).await;
    says_nothing(&mut second).await;
    commit(&first, &old, 10).await;
    assert_eq!(second.values_of(&partition, 2).await, numbered(0, 2));
    // It has an offset from then on, and nothing waits for it any more.
    commit(&second, &new, 2).await;
    second.close().await;
    first.close().await;
    let mut later = Reading::start(config(&group, &[&topic]));
    let assigned = later.assigned().await;
    assert!(assigned.iter().all(|assignment| !assignment.waits && assignment.partitions == 2), "{assigned:?}");
    assert_eq!(assigned[1].standing.as_ref().map(|standing| standing.offset), Some(2));
    later.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_run_reads_the_old_partitions_first() {
    let topic = topic("grown", 2, 5).await;
    let group = broker::unique("g");
    let mut reading = Reading::start(config(&group, &[&topic]));
    let assigned = reading.assigned().await;
    // The second was empty for this group so far: it has no offset of it.
    commit(&reading, &assigned[0], 5).await;
    reading.close().await;
    let partition = grow(&topic, 3).await;
    let mut reading = Reading::start(until_end(&group, &[&topic]));
    let assigned = reading.assigned().await;
    let waits: Vec<(i32, bool)> = assigned.iter().map(|a| (a.partition.number, a.waits)).collect();
    assert_eq!(waits, [(0, false), (1, false), (2, true)]);
    let mut ended = Vec::new();
    while ended.len() < 2 {
        match reading.next().await {
            SourceEvent::Records(chunk) => assert_eq!(chunk.partition.number, 1),
            SourceEvent::ReachedEnd { partition, .. } => ended.push(partition.number),
            other => panic!("{other:?}"),
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, [0, 1]);
    says_nothing(&mut reading).await;
    commit(&reading, &assigned[1], 5).await;
    assert_eq!(reading.values_of(&partition, 2).await, numbered(0, 2));
    reading.close().await;
}
