//! Topic ids, probe and sample.

use settle_core::position::{Partition, TopicId};
use settle_engine::kafka::{Probe, ProbedTopic, probe, sample};
use settle_engine::source::SourceFailure;
use settle_testkit::kafka::{self as broker, Transaction};

use crate::stage::{Reading, config, numbered, record, topic, values};
use crate::wire;

#[tokio::test(flavor = "multi_thread")]
async fn the_topic_id_is_the_one_another_client_sees() {
    let topic = topic("identity", 2, 0).await;
    let id = TopicId(wire::topic_id(&topic));
    let probed = probe(config("g", &[&topic])).await.unwrap();
    assert_eq!(probed, Probe { topics: vec![ProbedTopic { name: topic.clone(), partitions: 2, id: Some(id) }] });

    let mut reading = Reading::start(config(&broker::unique("g"), &[&topic]));
    let assigned = reading.assigned().await;
    assert!(assigned.iter().all(|assignment| assignment.topic_id == Some(id)));
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_anew_while_it_is_read_stops_the_run() {
    let topic = topic("anew", 1, 3).await;
    let before = wire::topic_id(&topic);
    let group = broker::unique("g");
    let mut reading = Reading::start(config(&group, &[&topic]));
    reading.whole(1).await;
    broker::delete_topic(&topic).await;
    broker::create_topic(&topic, 1, &[]).await;
    let after = wire::topic_id(&topic);
    let error = reading.failed().await;
    assert_eq!(error.kind, SourceFailure::Contract);
    assert_eq!(
        error.to_string(),
        format!(
            "topic {topic} was deleted and made anew since group {group} read it (id {before}, now {after}): its offsets \
             begin again, so the group's belong to another log. Rows of the one before would win or lose by accident: let \
             a new epoch begin with the new one (settle epoch bump {topic}:0:0), and move the group to its beginning \
             (kafka-consumer-groups --bootstrap-server {broker} --group {group} --topic {topic} --reset-offsets \
             --to-earliest --execute)",
            broker = settle_testkit::services::kafka(),
        )
    );
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_names_what_matches() {
    let prefix = broker::unique("probed");
    for (suffix, partitions) in [("a", 1), ("b", 3)] {
        broker::create_topic(&format!("{prefix}.{suffix}"), partitions, &[]).await;
    }
    broker::create_topic(&format!("__{prefix}"), 1, &[]).await;
    let found = probe(config("g", &[&format!("*{prefix}*")])).await.unwrap();
    let found: Vec<_> = found.topics.into_iter().map(|topic| (topic.name, topic.partitions)).collect();
    assert_eq!(found, [(format!("{prefix}.a"), 1), (format!("{prefix}.b"), 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_is_the_beginning_of_each_partition_up_to_its_end() {
    let topic = topic("sampled", 2, 1200).await;
    let group = broker::unique("g");
    let records = sample(config(&group, &[&topic]), topic.clone(), 700).await.unwrap();
    for number in 0..2 {
        let partition = Partition::new(&*topic, number);
        let of_it: Vec<_> = records.iter().filter(|record| record.partition == partition).cloned().collect();
        assert_eq!(values(&of_it), numbered(0, 700));
    }
    assert!(wire::members(&group).is_empty(), "a sample joins no group");
    assert_eq!(broker::committed(&group, &topic).await, [None, None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_ends_where_the_log_does() {
    let topic = topic("short", 3, 0).await;
    broker::produce([record(&topic, 1, 0)]).await;
    broker::produce_transaction([record(&topic, 2, 0)], Transaction::Abort).await;
    let records = sample(config("g", &[&topic]), topic.clone(), 10).await.unwrap();
    assert_eq!(values(&records), ["v0"]);
}
