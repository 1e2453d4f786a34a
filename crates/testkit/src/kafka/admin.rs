//! Topics and groups. A call returns once the broker's metadata show what was asked for.

use std::time::Instant;

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{LIMIT, blocking, client};

fn admin() -> AdminClient<DefaultClientContext> {
    client().create().expect("an admin client")
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(LIMIT)).request_timeout(Some(LIMIT))
}

/// Creates a topic; `config` are topic settings such as `("cleanup.policy", "compact")`.
pub async fn create_topic(name: &str, partitions: i32, config: &[(&str, &str)]) {
    let topic = config
        .iter()
        .fold(NewTopic::new(name, partitions, TopicReplication::Fixed(1)), |topic, (key, value)| topic.set(key, value));
    let results = admin().create_topics([&topic], &options()).await;
    for result in results.expect("the broker answers") {
        result.unwrap_or_else(|(topic, code)| panic!("creating topic {topic}: {code}"));
    }
    wait_for_partitions(name, partitions).await;
}

/// Deletes a topic.
pub async fn delete_topic(name: &str) {
    let results = admin().delete_topics(&[name], &options()).await;
    for result in results.expect("the broker answers") {
        result.unwrap_or_else(|(topic, code)| panic!("deleting topic {topic}: {code}"));
    }
    wait_for_partitions(name, 0).await;
}

/// Grows a topic to `total` partitions.
pub async fn create_partitions(topic: &str, total: i32) {
    let grown = NewPartitions::new(topic, usize::try_from(total).expect("a positive count"));
    let results = admin().create_partitions([&grown], &options()).await;
    for result in results.expect("the broker answers") {
        result.unwrap_or_else(|(topic, code)| panic!("growing topic {topic}: {code}"));
    }
    wait_for_partitions(topic, total).await;
}

/// Replaces a topic's settings by `config`.
pub async fn set_topic_config(topic: &str, config: &[(&str, &str)]) {
    let altered = config
        .iter()
        .fold(AlterConfig::new(ResourceSpecifier::Topic(topic)), |altered, (key, value)| altered.set(key, value));
    let results = admin().alter_configs([&altered], &options()).await;
    for result in results.expect("the broker answers") {
        result.unwrap_or_else(|(what, code)| panic!("setting {what:?}: {code}"));
    }
}

/// A setting of a topic, as `retention.ms`.
pub async fn topic_setting(topic: &str, name: &str) -> String {
    let described = admin().describe_configs([&ResourceSpecifier::Topic(topic)], &options()).await;
    let settings = described.expect("the broker answers").remove(0).expect("the topic's settings");
    let value = settings.get(name).and_then(|entry| entry.value.clone());
    value.unwrap_or_else(|| panic!("topic {topic} has no setting {name}"))
}

/// Deletes the records of one partition below `before`, as retention would.
pub async fn delete_records(topic: &str, partition: i32, before: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(before)).expect("an offset");
    let left = admin().delete_records(&list, &options()).await;
    for element in left.expect("the broker answers").elements() {
        element.error().unwrap_or_else(|code| panic!("deleting records of {topic}/{partition}: {code}"));
    }
}

/// Deletes a consumer group that has no members; one that does not exist is fine.
pub async fn delete_group(group: &str) {
    let results = admin().delete_groups(&[group], &options()).await;
    for result in results.expect("the broker answers") {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::GroupIdNotFound)) => {}
            Err((group, code)) => panic!("deleting group {group}: {code}"),
        }
    }
}

/// Waits until metadata show exactly that many partitions, each with a leader; 0 is no topic.
async fn wait_for_partitions(topic: &str, partitions: i32) {
    let topic = topic.to_owned();
    let wanted = usize::try_from(partitions).expect("a count");
    blocking(move || {
        let admin = admin();
        let deadline = Instant::now() + LIMIT;
        loop {
            let metadata = admin.inner().fetch_metadata(Some(&topic), LIMIT);
            let led = metadata
                .expect("metadata")
                .topics()
                .iter()
                .fold(0, |sum, found| sum + found.partitions().iter().filter(|part| part.leader() >= 0).count());
            if led == wanted {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "topic {topic} shows {led} partitions instead of {wanted} after {LIMIT:?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    })
    .await;
}
