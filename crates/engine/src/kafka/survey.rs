//! What there is to read and who reads it, asked without joining the group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use settle_core::position::{Offset, Partition};
use tokio::time::Instant;

use super::client::{self, Consumer};
use super::config::KafkaConfig;
use super::failure::{Verdict, judge, of_call};
use super::probe::blocking;
use super::start;
use super::topic_id::topic_ids;
use super::topics;
use crate::log::{LogPartition, Member};
use crate::source::{SourceError, SourceFailure};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a broker may take to be ready for a question.
const READY: Duration = Duration::from_secs(20);
/// Rest between two attempts.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Every partition that would be read, with its ends and where the group stands.
pub async fn survey(config: KafkaConfig) -> Result<Vec<LogPartition>, SourceError> {
    blocking("looking at the log", move || {
        config.check()?;
        let client = client::create(&config, &config.consumer(1))?;
        let existing = client::list(&client, &config, PATIENCE)?;
        let selected = topics::select(&config.topics, &existing, &config.brokers)?;
        let names: Vec<&str> = selected.iter().map(|topic| topic.name.as_str()).collect();
        let ids = topic_ids(client.client(), &names, PATIENCE)
            .map_err(|code| of_call("reading topic ids", &config.brokers, &KafkaError::MetadataFetch(code)))?;
        let mut asked = TopicPartitionList::new();
        for topic in &selected {
            asked.add_partition_range(&topic.name, 0, topic.partitions - 1);
        }
        let committed = committed(&client, &config, &asked)?;
        let mut found = Vec::new();
        for element in committed.elements() {
            let partition = Partition { topic: Arc::from(element.topic()), number: element.partition() };
            let (start, end) = start::watermarks(&client, &config, &partition)?;
            let committed = match element.offset() {
                rdkafka::Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            found.push(LogPartition {
                topic_id: ids.get(element.topic()).copied().flatten(),
                partition,
                start,
                end,
                committed,
            });
        }
        found.sort_by(|a, b| a.partition.cmp(&b.partition));
        Ok(found)
    })
    .await
}

/// A broker that never had a group makes its coordinator when it is first asked.
fn committed(
    client: &Consumer,
    config: &KafkaConfig,
    asked: &TopicPartitionList,
) -> Result<TopicPartitionList, SourceError> {
    let until = std::time::Instant::now() + READY;
    loop {
        match client.committed_offsets(asked.clone(), PATIENCE) {
            Ok(committed) => return Ok(committed),
            Err(error) if is_early(&error) && std::time::Instant::now() < until => std::thread::sleep(RETRY_AFTER),
            Err(error) => {
                return Err(of_call(
                    &format!("reading the offsets of group {}", config.group),
                    &config.brokers,
                    &error,
                ));
            }
        }
    }
}

fn is_early(error: &KafkaError) -> bool {
    error.rdkafka_error_code().is_some_and(|code| judge(code) == Verdict::Heals)
}

/// The first offset of each partition whose record is of `since_ms` or later, by the broker's index
/// of timestamps; none where there is none.
pub async fn offsets_since(
    config: KafkaConfig,
    partitions: Vec<Partition>,
    since_ms: i64,
) -> Result<BTreeMap<Partition, Option<Offset>>, SourceError> {
    blocking("looking for a time", move || {
        let client = client::create(&config, &config.client())?;
        let ask = |error: &KafkaError| of_call("looking for a time", &config.brokers, error);
        let mut asked = TopicPartitionList::with_capacity(partitions.len());
        for partition in &partitions {
            let time = rdkafka::Offset::Offset(since_ms);
            asked.add_partition_offset(&partition.topic, partition.number, time).map_err(|error| ask(&error))?;
        }
        let found = client.offsets_for_times(asked, PATIENCE).map_err(|error| ask(&error))?;
        let mut first = BTreeMap::new();
        for element in found.elements() {
            element.error().map_err(|error| ask(&error))?;
            let partition = Partition { topic: Arc::from(element.topic()), number: element.partition() };
            let offset = match element.offset() {
                rdkafka::Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            first.insert(partition, offset);
        }
        Ok(first)
    })
    .await
}

/// The state of the group as the broker words it, and its members.
pub async fn members(config: KafkaConfig) -> Result<(String, Vec<Member>), SourceError> {
    blocking("looking at the group", move || {
        let client = client::create(&config, &config.client())?;
        let what = format!("reading the members of group {}", config.group);
        let list = client
            .fetch_group_list(Some(&config.group), PATIENCE)
            .map_err(|error| client::explain(&client, &config, of_call(&what, &config.brokers, &error)))?;
        let Some(group) = list.groups().iter().find(|group| group.name() == config.group) else {
            return Ok(("unknown".to_owned(), Vec::new()));
        };
        let members = group.members().iter().map(|member| Member {
            client: member.client_id().to_owned(),
            host: member.client_host().trim_start_matches('/').to_owned(),
            partitions: member.assignment().and_then(assigned).unwrap_or_default(),
        });
        Ok((group.state().to_owned(), members.collect()))
    })
    .await
}

/// Reads a consumer's assignment: version, then topics with their partitions. None where it is cut
/// off; what stands behind them is the client's own.
fn assigned(bytes: &[u8]) -> Option<Vec<Partition>> {
    let mut rest = bytes.get(2..)?;
    let mut take = |length: usize| -> Option<&[u8]> {
        let (taken, behind) = rest.split_at_checked(length)?;
        rest = behind;
        Some(taken)
    };
    let mut partitions = Vec::new();
    let topics = i32::from_be_bytes(take(4)?.try_into().ok()?);
    for _ in 0..topics {
        let length = i16::from_be_bytes(take(2)?.try_into().ok()?);
        let topic: Arc<str> = std::str::from_utf8(take(usize::try_from(length).ok()?)?).ok()?.into();
        let count = i32::from_be_bytes(take(4)?.try_into().ok()?);
        for _ in 0..count {
            let number = i32::from_be_bytes(take(4)?.try_into().ok()?);
            partitions.push(Partition { topic: topic.clone(), number });
        }
    }
    partitions.sort();
    Some(partitions)
}

/// Deletes a group that was made for one pass. Waits for its members to be gone: a broker notices
/// a moment later that they left.
pub async fn delete_group(config: KafkaConfig, group: &str) -> Result<(), SourceError> {
    let failed = |error: &KafkaError| of_call(&format!("deleting group {group}"), &config.brokers, error);
    let admin: AdminClient<DefaultClientContext> =
        config.admin().create().map_err(|error| config.refused_by_library(&error))?;
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let until = Instant::now() + READY;
    loop {
        let asked = admin.delete_groups(&[group], &options).await.map_err(|error| failed(&error))?;
        let code = match asked.into_iter().next() {
            Some(Err((_, code))) => code,
            Some(Ok(_)) | None => return Ok(()),
        };
        match code {
            // It read no partition, so it never committed and never was.
            RDKafkaErrorCode::GroupIdNotFound => return Ok(()),
            RDKafkaErrorCode::NonEmptyGroup if Instant::now() < until => {}
            code if judge(code) == Verdict::Heals && Instant::now() < until => {}
            RDKafkaErrorCode::NonEmptyGroup => {
                let message = format!("group {group} still has members; delete it when they are gone");
                return Err(SourceError::new(SourceFailure::Contract, message));
            }
            code => return Err(failed(&KafkaError::AdminOp(code))),
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_and_one_that_is_cut_off_is_none() {
        let mut bytes: Vec<u8> = vec![0, 1, 0, 0, 0, 1, 0, 2];
        bytes.extend(b"ab");
        bytes.extend([0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 1]);
        assert_eq!(assigned(&bytes), Some(vec![Partition::new("ab", 1), Partition::new("ab", 7)]));
        for length in 0..bytes.len() {
            assert_eq!(assigned(&bytes[..length]), None, "{length} bytes");
        }
        bytes.extend(b"of the client");
        assert!(assigned(&bytes).is_some());
    }
}
