//! What `settle_meta` keeps of epochs (kind `epoch`: topic as subject, its first offset, its number),
//! of groups that begin to write a partition (kind `group-begins`: group and topic as subject), and of
//! those that have offsets of it (kind `group`, with the offset that was committed at least; 0 where
//! that was not noted).

use settle_core::epoch::{Boundary, Epoch};
use settle_core::position::{Offset, Partition};
use settle_core::sink::{FailureKind, PlacedPartition, SinkError};

use super::client::Client;
use super::meta::{Fact, KIND_EPOCH, Meta};
use crate::epochs::RecordedEpoch;

const KIND_GROUP: &str = "group";
const KIND_BEGINS: &str = "group-begins";

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

/// What is known of the group, of the topics of `parts`: those of their earlier incarnations, too.
#[derive(Debug, Default)]
pub(crate) struct OfGroup {
    /// Partitions in which it has had an offset.
    pub(crate) written: Vec<PlacedPartition>,
    /// Partitions that it has begun to write.
    pub(crate) begun: Vec<PlacedPartition>,
    /// How far it has committed, at least.
    pub(crate) committed: Vec<(PlacedPartition, Offset)>,
}

/// Reads what is known of the group.
pub(crate) async fn of_group(
    meta: &Meta,
    client: &Client,
    group: &str,
    parts: &[PlacedPartition],
) -> Result<OfGroup, SinkError> {
    let mut known = OfGroup::default();
    for fact in meta.of_kinds(client, &[KIND_GROUP, KIND_BEGINS]).await? {
        let (owner, topic) = subject_of(meta, &fact)?;
        if owner != group || parts.iter().all(|part| *part.partition.topic != *topic) {
            continue;
        }
        let place = PlacedPartition { topic_id: fact.topic_id, partition: Partition::new(topic, fact.partition) };
        if fact.kind == KIND_BEGINS {
            known.begun.push(place);
            continue;
        }
        if let Ok(offset @ 1..) = Offset::try_from(fact.value) {
            known.committed.push((place.clone(), offset));
        }
        known.written.push(place);
    }
    Ok(known)
}

fn subject_of(meta: &Meta, fact: &Fact) -> Result<(String, String), SinkError> {
    serde_json::from_str(&fact.subject).map_err(|_| {
        let context = "a group is not of the form that settle writes; restore the table from a backup";
        SinkError::new(FailureKind::Contract, format!("reading {}", meta.name()), context)
    })
}

fn fact(kind: &str, group: &str, part: &PlacedPartition, committed: Offset) -> Fact {
    Fact {
        kind: kind.to_owned(),
        topic_id: part.topic_id,
        partition: part.partition.number,
        subject: serde_json::json!([group, &*part.partition.topic]).to_string(),
        offset: 0,
        value: u128::try_from(committed).unwrap_or_default(),
        done: false,
    }
}

/// Remembers that the group begins to write these partitions.
pub(crate) async fn begin(
    meta: &Meta,
    client: &Client,
    group: &str,
    parts: &[PlacedPartition],
) -> Result<(), SinkError> {
    let facts: Vec<Fact> = parts.iter().map(|part| fact(KIND_BEGINS, group, part, 0)).collect();
    meta.put(client, "recording that the group begins", &facts).await
}

/// Remembers that the group has committed these offsets; an offset that is noted never goes back.
pub(crate) async fn remember(
    meta: &Meta,
    client: &Client,
    group: &str,
    committed: &[(PlacedPartition, Offset)],
) -> Result<(), SinkError> {
    let parts: Vec<PlacedPartition> = committed.iter().map(|(part, _)| part.clone()).collect();
    let known = of_group(meta, client, group, &parts).await?.committed;
    let noted = |part: &PlacedPartition| known.iter().find(|(place, _)| place == part).map_or(0, |(_, offset)| *offset);
    let facts: Vec<Fact> =
        committed.iter().map(|(part, offset)| fact(KIND_GROUP, group, part, (*offset).max(noted(part)))).collect();
    meta.put(client, "recording that the group has offsets", &facts).await
}

/// Forgets a group that was made for one pass.
pub(crate) async fn forget(meta: &Meta, client: &Client, group: &str) -> Result<(), SinkError> {
    let mut done = Vec::new();
    for fact in meta.of_kinds(client, &[KIND_GROUP, KIND_BEGINS]).await? {
        if subject_of(meta, &fact)?.0 == group {
            done.push(Fact { done: true, ..fact });
        }
    }
    meta.put(client, "forgetting a group", &done).await
}
