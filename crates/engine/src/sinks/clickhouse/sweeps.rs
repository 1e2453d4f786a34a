//! Ghosts: rows that a full snapshot taken again did not refresh. Each gets a delete marker with the
//! version just above its own, so that a replay of the old log does not bring it back, and whatever
//! the source says of it later still wins.

use std::collections::HashMap;
use std::sync::Arc;

use settle_core::change::TableName;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::resnapshot::Swept;
use settle_core::sink::{FailureKind, Pending, PlacedPartition, Seen, SinkError, Sweep};
use settle_core::version::Version;

use super::holds;
use super::meta::{Fact, Meta};
use super::names::{identifier, identifiers};
use super::server::{CONSISTENTLY, Server};
use super::table::describe;
use crate::config::Target;
use crate::config::target::OnResnapshot;
use crate::sinks::held::not_swept;

/// One for each partition, at the offset up to which it was read.
const DONE: &str = "swept";

fn kind(seen: Seen) -> &'static str {
    match seen {
        Seen::Gap => "sweep-gap",
        Seen::Last => "sweep-last",
    }
}

/// Remembers what was seen of a snapshot until its sweep is done.
pub(crate) async fn plan(
    server: &Server,
    meta: &Meta,
    topic_id: TopicId,
    sweep: &Sweep,
    seen: Seen,
) -> Result<(), SinkError> {
    meta.put(&server.client, "recording what was seen of a full snapshot", &[fact(topic_id, sweep, seen)]).await
}

/// The snapshots of the topics of these partitions whose last rows were seen.
pub(crate) async fn pending(
    server: &Server,
    meta: &Meta,
    parts: &[PlacedPartition],
) -> Result<Vec<Pending>, SinkError> {
    let mut pending = Vec::new();
    for Fact { topic_id, subject, value, .. } in meta.of_kind(&server.client, kind(Seen::Last)).await? {
        let (topic, namespace, name): (String, Box<str>, Box<str>) =
            serde_json::from_str(&subject).map_err(|_| meta.unreadable("subject"))?;
        if parts.iter().any(|part| part.topic_id == topic_id) {
            let table = Arc::new(TableName { namespace, name });
            pending.push(Pending::Sweep(topic_id, Sweep { table, topic: topic.into(), below: Version::from(value) }));
        }
    }
    Ok(pending)
}

/// The sweeps that were done, by source table.
pub(crate) async fn done(server: &Server, meta: &Meta) -> Result<HashMap<TableName, Swept>, SinkError> {
    let mut all: HashMap<TableName, Swept> = HashMap::new();
    for Fact { topic_id, partition, subject, offset, value, .. } in meta.of_kind(&server.client, DONE).await? {
        let (_, namespace, name): (String, Box<str>, Box<str>) =
            serde_json::from_str(&subject).map_err(|_| meta.unreadable("subject"))?;
        let swept = all.entry(TableName { namespace, name }).or_default();
        swept.add(topic_id, partition, offset, Version::from(value));
    }
    Ok(all)
}

/// Deletes the ghosts, where a gap was seen and a sweep is still asked for, and forgets what was seen.
/// Says how many they were.
pub(crate) async fn sweep(
    server: &Server,
    meta: &Meta,
    target: &Target,
    topic_id: TopicId,
    sweep: &Sweep,
    ends: &[(Partition, Offset)],
) -> Result<u64, SinkError> {
    let mut seen = Vec::new();
    for wanted in [Seen::Gap, Seen::Last].map(|seen| fact(topic_id, sweep, seen)) {
        let known = meta.of_kind(&server.client, &wanted.kind).await?;
        seen.extend(known.into_iter().find(|known| known.is_same(&wanted)));
    }
    let mut swept = 0;
    if seen.len() == 2 && target.on_resnapshot(&sweep.table) == OnResnapshot::Sweep {
        let held = holds::count(server, topic_id).await?;
        if held > 0 {
            return Err(not_swept(
                &format!("sweeping ghosts from {}", server.name(&target.table_name(&sweep.table))),
                held,
            ));
        }
        // Before they are deleted: what comes again meanwhile must not bring them back.
        let fact = |(partition, end): &(Partition, Offset)| Fact {
            kind: DONE.to_owned(),
            partition: partition.number,
            offset: *end,
            ..fact(topic_id, sweep, Seen::Last)
        };
        let facts: Vec<Fact> = ends.iter().map(fact).collect();
        meta.put(&server.client, "recording a sweep", &facts).await?;
        swept = bury(server, target, sweep).await?;
    }
    let done: Vec<Fact> = seen.into_iter().map(|fact| Fact { done: true, ..fact }).collect();
    meta.put(&server.client, "recording that ghosts are swept", &done).await?;
    Ok(swept)
}

/// Writes the delete markers.
async fn bury(server: &Server, target: &Target, sweep: &Sweep) -> Result<u64, SinkError> {
    let name = server.name(&target.table_name(&sweep.table));
    let operation = format!("sweeping ghosts from {name}");
    let Some(table) = describe(&server.client, &name).await? else { return Ok(0) };
    let key = table.sorting_columns().map_err(|text| {
        let context = format!("the table is ordered by {text}, which is no column");
        SinkError::new(FailureKind::Contract, &operation, context)
    })?;
    let [op, time, is_deleted, version] =
        [&target.meta.op, &target.meta.source_ts_ms, &target.meta.is_deleted, &target.meta.version]
            .map(|column| identifier(column));
    let keys = identifiers(key.iter().map(String::as_str));
    let ghosts =
        format!("FROM {name} FINAL WHERE {version} < toUInt128('{}') AND {is_deleted} = 0", sweep.below.as_u128());
    let swept = server.client.number(&operation, &format!("SELECT count() AS found {ghosts}{CONSISTENTLY}")).await?;
    if swept > 0 {
        let sql = format!(
            "INSERT INTO {name} ({keys}, {op}, {time}, {is_deleted}, {version}) \
             SELECT {keys}, 'd', {time}, 1, toUInt128({version} + 1) {ghosts}{CONSISTENTLY}"
        );
        server.client.insert_selected(&operation, &sql).await?;
    }
    tracing::info!(table = %name, rows = swept, "ghosts are swept: the last full snapshot did not refresh them");
    Ok(swept)
}

/// Its place is the snapshot's, so that a later sweep of the table is another fact.
fn fact(topic_id: TopicId, sweep: &Sweep, seen: Seen) -> Fact {
    Fact {
        kind: kind(seen).to_owned(),
        topic_id,
        partition: 0,
        subject: serde_json::json!([&*sweep.topic, sweep.table.namespace, sweep.table.name]).to_string(),
        offset: sweep.below.hi_signed(),
        value: sweep.below.as_u128(),
        done: false,
    }
}
