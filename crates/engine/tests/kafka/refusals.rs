//! What a run refuses to start or go on with, word for word.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use settle_core::epoch::Epoch;
use settle_core::position::TopicId;
use settle_core::standing::Standing;
use settle_engine::kafka;
use settle_engine::source::{CommitPoint, SourceFailure};
use settle_testkit::kafka as broker;
use settle_testkit::services;

use crate::ends::OpenTransaction;
use crate::reading::move_offset;
use crate::stage::{Reading, config, fill, topic, until_end};
use crate::wire;

/// The failure's kind and message, with what differs from run to run named.
async fn refusal(reading: &mut Reading, names: &[(&str, &str)]) -> (SourceFailure, String) {
    let error = reading.failed().await;
    let mut message = error.to_string().replace(services::kafka(), "BROKER");
    for (text, name) in names {
        message = message.replace(text, name);
    }
    (error.kind, message)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offset_that_retention_removed() {
    let topic = topic("removed", 1, 10).await;
    let group = broker::unique("g");
    move_offset(&group, &topic, 2).await;
    broker::delete_records(&topic, 0, 5).await;
    let mut reading = Reading::start(config(&group, &[&topic]));
    let (kind, message) = refusal(&mut reading, &[(&topic, "TOPIC"), (&group, "GROUP")]).await;
    assert_eq!(kind, SourceFailure::Contract);
    assert_eq!(
        message,
        "group GROUP is to read TOPIC:0 from offset 2, but the log begins at 5: what lay between was removed by \
         retention before it was read. To go on without it, move the group there (kafka-consumer-groups \
         --bootstrap-server BROKER --group GROUP --topic TOPIC:0 --reset-offsets --to-offset 5 --execute); rows that \
         changed in the gap are right again after a new snapshot"
    );
    reading.close().await;
    assert_eq!(crate::stage::committed(&group, &topic, 0).await, Some(2), "never a silent reset");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offset_beyond_the_log() {
    let topic = topic("beyond", 1, 10).await;
    let group = broker::unique("g");
    move_offset(&group, &topic, 11).await;
    let mut reading = Reading::start(config(&group, &[&topic]));
    let (kind, message) = refusal(&mut reading, &[(&topic, "TOPIC"), (&group, "GROUP")]).await;
    assert_eq!(kind, SourceFailure::Contract);
    assert_eq!(
        message,
        "group GROUP is to read TOPIC:0 from offset 11, but the log ends at 10: the topic was made anew or truncated, \
         so the group's offsets belong to another log. Rows of the one before would win or lose by accident: let a new \
         epoch begin with the new one (settle epoch bump TOPIC:0:0), and move the group to its beginning \
         (kafka-consumer-groups --bootstrap-server BROKER --group GROUP --topic TOPIC --reset-offsets --to-earliest \
         --execute)"
    );
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offset_beyond_the_log_of_a_topic_that_is_known_to_be_the_same() {
    let topic = topic("cut", 1, 10).await;
    let group = broker::unique("g");
    let mut reading = Reading::start(config(&group, &[&topic]));
    let assigned = reading.assigned().await.remove(0);
    let standing = |id| Standing { topic_id: id, offset: 11, partitions: 1, epoch: Epoch::FIRST, marks: Vec::new() };
    let point = |id| CommitPoint { partition: assigned.partition.clone(), offset: 11, metadata: standing(id).line() };
    reading.offsets.commit(&[point(assigned.topic_id.unwrap())]).await.unwrap();
    reading.close().await;
    let mut reading = Reading::start(config(&group, &[&topic]));
    let (kind, message) = refusal(&mut reading, &[(&topic, "TOPIC"), (&group, "GROUP")]).await;
    assert_eq!(kind, SourceFailure::Contract);
    assert_eq!(
        message,
        "group GROUP is to read TOPIC:0 from offset 11, but the log ends at 10: the topic is the one that it read, so the \
         broker lost the end of its log, or a tool moved the group. To go on, move the group to the end of the log \
         (kafka-consumer-groups --bootstrap-server BROKER --group GROUP --topic TOPIC:0 --reset-offsets --to-offset 10 \
         --execute); rows that changed in what was lost are right again after a new snapshot"
    );
    reading.close().await;
}

/// What is kept with an offset names the topic, whatever the broker keeps when one is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn an_offset_of_another_topic_of_the_same_name() {
    let topic = topic("another", 2, 10).await;
    let group = broker::unique("g");
    let mut reading = Reading::start(config(&group, &[&topic]));
    let assigned = reading.assigned().await.remove(0);
    let former = TopicId::of_first_line(&topic, b"former");
    let standing = Standing { topic_id: former, offset: 3, partitions: 2, epoch: Epoch::FIRST, marks: Vec::new() };
    let point = CommitPoint { partition: assigned.partition.clone(), offset: 3, metadata: standing.line() };
    reading.offsets.commit(&[point]).await.unwrap();
    reading.close().await;
    let mut reading = Reading::start(config(&group, &[&topic]));
    let (former, now) = (former.to_string(), assigned.topic_id.unwrap().to_string());
    let names = [(&*topic, "TOPIC"), (&group, "GROUP"), (&former, "FORMER"), (&now, "NOW")];
    let (kind, message) = refusal(&mut reading, &names).await;
    assert_eq!(kind, SourceFailure::Contract);
    assert_eq!(
        message,
        "topic TOPIC was deleted and made anew since group GROUP read it (id FORMER, now NOW): its offsets begin again, so \
         the group's belong to another log. Rows of the one before would win or lose by accident: let a new epoch begin \
         with the new one (settle epoch bump TOPIC:0:0 TOPIC:1:0), and move the group to its beginning \
         (kafka-consumer-groups --bootstrap-server BROKER --group GROUP --topic TOPIC --reset-offsets --to-earliest \
         --execute)"
    );
    reading.close().await;
}

/// A tool that moves a group to the end moves it behind the records of open transactions.
#[tokio::test(flavor = "multi_thread")]
async fn an_offset_inside_an_open_transaction_is_none_of_them() {
    let topic = topic("inside", 1, 2).await;
    let group = broker::unique("g");
    let open = OpenTransaction::begin(&topic).await;
    move_offset(&group, &topic, 3).await;
    let mut reading = Reading::start(until_end(&group, &[&topic]));
    let whole = reading.whole(1).await;
    assert!(whole.records.is_empty());
    assert_eq!(whole.end(&topic, 0), (3, true), "the end is never below the group's offset");
    open.abort().await;
    reading.close().await;
}

/// Retention may take the records that come next while they are being read.
#[tokio::test(flavor = "multi_thread")]
async fn retention_that_overtakes_the_reader() {
    let topic = topic("overtaken", 1, 30_000).await;
    let group = broker::unique("g");
    let mut config = config(&group, &[&topic]);
    for (name, value) in [("queued.min.messages", "500"), ("fetch.message.max.bytes", "1000")] {
        config.properties.insert(name.to_owned(), value.to_owned());
    }
    let mut reading = Reading::start_with(config, 1);
    reading.assigned().await;
    // The reader is held up by a full channel and its small queue, far from the end.
    broker::delete_records(&topic, 0, 29_000).await;
    let (kind, message) = refusal(&mut reading, &[(&topic, "TOPIC"), (&group, "GROUP")]).await;
    assert_eq!(kind, SourceFailure::Contract);
    assert!(message.starts_with("group GROUP is to read TOPIC:0 from offset "), "{message}");
    assert!(message.contains("but the log begins at 29000"), "{message}");
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_does_not_exist() {
    let topic = topic("shop.public.customers", 1, 0).await;
    let wrong = topic.replace("customers", "custmers");
    let mut reading = Reading::start(config("g", &[&wrong]));
    let (kind, message) = refusal(&mut reading, &[(&topic, "TOPIC"), (&wrong, "WRONG")]).await;
    assert_eq!(kind, SourceFailure::Contract);
    assert!(message.starts_with("topic WRONG does not exist on BROKER; existing topics like it: TOPIC"), "{message}");
    reading.close().await;

    let nothing = broker::unique("nothing");
    let mut reading = Reading::start(config("g", &[&format!("{nothing}.*")]));
    let (_, message) = refusal(&mut reading, &[(&nothing, "NOTHING")]).await;
    assert_eq!(
        message,
        "no topic on BROKER matches NOTHING.*; no existing topic is like it; is the connector running, and may this \
         user describe its topics?"
    );
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_deleted_while_it_is_read() {
    let topic = topic("deleted", 1, 3).await;
    let mut reading = Reading::start(config(&broker::unique("g"), &[&topic]));
    reading.whole(1).await;
    broker::delete_topic(&topic).await;
    loop {
        use settle_engine::source::SourceEvent as Event;
        match reading.next().await {
            Event::Failed(error) => {
                assert!(error.to_string().starts_with(&format!("topic {topic} does not exist on ")), "{error}");
                break;
            }
            // The broker may take the partitions away first.
            Event::Revoked { done, .. } => drop(done),
            Event::Lost(_) | Event::ReachedEnd { .. } => {}
            other => panic!("after the topic was deleted: {other:?}"),
        }
    }
    reading.close().await;
}

#[test]
fn properties_that_librdkafka_does_not_know() {
    let start = |name: &str, value: &str| {
        let mut config = config("g", &["t"]);
        config.properties.insert(name.to_owned(), value.to_owned());
        kafka::start(config, 1).map(drop).unwrap_err().to_string()
    };
    assert_eq!(
        start("fetch.max.bites", "1"),
        "[source.properties] fetch.max.bites is not accepted by librdkafka: No such configuration property: \
         \"fetch.max.bites\""
    );
    let message = start("session.timeout.ms", "soon");
    assert!(message.contains("session.timeout.ms is not accepted by librdkafka: Invalid value"), "{message}");
}

/// A Java consumer with its defaults in the same group: partitions cannot be shared out.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_members_of_another_kind() {
    let topic = topic("strange", 1, 1).await;
    let group = broker::unique("g");
    let stranger: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", services::kafka())
        .set("group.id", &group)
        .set("partition.assignment.strategy", "range")
        .create()
        .unwrap();
    stranger.subscribe(&[&topic]).unwrap();
    let stranger = tokio::task::spawn_blocking({
        let group = group.clone();
        move || {
            while wire::members(&group).is_empty() {
                let _ = stranger.poll(Duration::from_millis(100));
            }
            stranger
        }
    })
    .await
    .unwrap();
    fill(&topic, 1, 1, 1).await;
    let mut reading = Reading::start(config(&group, &[&topic]));
    let (kind, message) = refusal(&mut reading, &[(&topic, "TOPIC"), (&group, "GROUP")]).await;
    assert_eq!(kind, SourceFailure::Contract);
    assert!(message.contains("Inconsistent group protocol"), "{message}");
    reading.close().await;
    drop(stranger);
}
