//! What `settle_meta` keeps of epochs (kind `epoch`: topic as subject, its first offset, its number)
//! and of groups that have offsets (kind `group`: group and topic as subject).

use settle_core::epoch::{Boundary, Epoch};
use settle_core::position::Partition;
use settle_core::sink::{FailureKind, PlacedPartition, SinkError};

use super::client::Client;
use super::meta::{Fact, KIND_EPOCH, Meta};
use crate::epochs::RecordedEpoch;

const KIND_GROUP: &str = "group";

/// All epochs recorded.
pub(crate) async fn epochs(meta: &Meta, client: &Client) -> Result<Vec<RecordedEpoch>, SinkError> {
    let facts = meta.of_kind(client, KIND_EPOCH).await?;
    let epoch = |fact: Fact| {
        let number = u64::try_from(fact.value).unwrap_or(u64::MAX);
        let epoch = Epoch::new(number).map_err(|error| {
            SinkError::new(FailureKind::Contract, format!("reading {}", meta.name()), error.to_string())
        })?;
        Ok(RecordedEpoch {
            topic: fact.subject,
            topic_id: fact.topic_id,
            partition: fact.partition,
            boundary: Boundary { offset: fact.offset, epoch },
        })
    };
    facts.into_iter().map(epoch).collect()
}

/// Records where epochs begin. When it returns they are durable.
pub(crate) async fn record(meta: &Meta, client: &Client, epochs: &[RecordedEpoch]) -> Result<(), SinkError> {
    let fact = |epoch: &RecordedEpoch| Fact {
        kind: KIND_EPOCH.to_owned(),
        topic_id: epoch.topic_id,
        partition: epoch.partition,
        subject: epoch.topic.clone(),
        offset: epoch.boundary.offset,
        value: epoch.boundary.epoch.number().into(),
        done: false,
    };
    let facts: Vec<Fact> = epochs.iter().map(fact).collect();
    meta.put(client, "recording an epoch", &facts).await
}

/// The partitions in which the group is known to have had an offset, of the topics of `parts`:
/// those of their earlier incarnations, too.
pub(crate) async fn of_group(
    meta: &Meta,
    client: &Client,
    group: &str,
    parts: &[PlacedPartition],
) -> Result<Vec<PlacedPartition>, SinkError> {
    let mut known = Vec::new();
    for fact in meta.of_kind(client, KIND_GROUP).await? {
        let (owner, topic): (String, String) = serde_json::from_str(&fact.subject).map_err(|_| {
            let context = "a group is not of the form that settle writes; restore the table from a backup";
            SinkError::new(FailureKind::Contract, format!("reading {}", meta.name()), context)
        })?;
        if owner == group && parts.iter().any(|part| *part.partition.topic == *topic) {
            let partition = Partition::new(topic, fact.partition);
            known.push(PlacedPartition { topic_id: fact.topic_id, partition });
        }
    }
    Ok(known)
}

/// Remembers that the group has offsets in these partitions.
pub(crate) async fn remember(
    meta: &Meta,
    client: &Client,
    group: &str,
    parts: &[PlacedPartition],
) -> Result<(), SinkError> {
    let fact = |part: &PlacedPartition| Fact {
        kind: KIND_GROUP.to_owned(),
        topic_id: part.topic_id,
        partition: part.partition.number,
        subject: serde_json::json!([group, &*part.partition.topic]).to_string(),
        offset: 0,
        value: 0,
        done: false,
    };
    let facts: Vec<Fact> = parts.iter().map(fact).collect();
    meta.put(client, "recording that the group has offsets", &facts).await
}
