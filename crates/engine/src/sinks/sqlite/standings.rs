//! What `settle_meta` keeps of epochs (kind `epoch`) and of groups that have offsets (kind `group`).

use rusqlite::{Connection, params};
use settle_core::epoch::{Boundary, Epoch};
use settle_core::position::{Partition, TopicId};
use settle_core::sink::PlacedPartition;
use settle_core::version::Version;
use uuid::Uuid;

use super::failure::{During, Outcome, contract};
use super::name::quoted;
use crate::epochs::RecordedEpoch;
use crate::sinks::plan::Plan;

/// All epochs recorded.
pub(super) fn epochs(connection: &Connection) -> Outcome<Vec<RecordedEpoch>> {
    let rows: Vec<(String, i64, i64)> = connection
        .prepare("SELECT subject, at, hi FROM settle_meta WHERE kind = 'epoch' ORDER BY subject, at")
        .and_then(|mut select| {
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<Result<_, _>>()
        })
        .during(|| "read settle_meta".into())?;
    let mut epochs = Vec::with_capacity(rows.len());
    for (subject, offset, number) in rows {
        let unreadable = || {
            contract("read settle_meta", format!("an epoch at offset {offset} is not of the form this program writes"))
        };
        let (topic, id, partition): (String, Uuid, i32) = serde_json::from_str(&subject).map_err(|_| unreadable())?;
        let epoch = u64::try_from(number).ok().and_then(|number| Epoch::new(number).ok()).ok_or_else(unreadable)?;
        epochs.push(RecordedEpoch { topic, topic_id: TopicId(id), partition, boundary: Boundary { offset, epoch } });
    }
    Ok(epochs)
}

/// Records where epochs begin.
pub(super) fn record(connection: &Connection, epochs: &[RecordedEpoch]) -> Outcome<()> {
    for RecordedEpoch { topic, topic_id, partition, boundary } in epochs {
        let subject = serde_json::json!([topic, topic_id.0, partition]).to_string();
        let number = i64::from(boundary.epoch.number());
        connection
            .execute(
                "INSERT INTO settle_meta (kind, subject, at, hi) VALUES ('epoch', ?1, ?2, ?3) ON CONFLICT DO NOTHING",
                params![subject, boundary.offset, number],
            )
            .during(|| "write settle_meta".into())?;
    }
    Ok(())
}

/// Refuses a table with rows of an epoch that is not recorded: they would win over everything that
/// comes. They are of another tool, or `settle_meta` was lost.
pub(super) fn refuse_outranking(connection: &Connection, plan: &Plan, table: &str) -> Outcome<()> {
    let operation = || format!("read the versions of table \"{table}\"");
    let recorded: Option<i64> = connection
        .query_row("SELECT max(hi) FROM settle_meta WHERE kind = 'epoch'", [], |row| row.get(0))
        .during(|| "read settle_meta".into())?;
    let recorded = recorded.and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let Ok(next) = Epoch::new(recorded + 1) else { return Ok(()) };
    let least = Version::default().with_epoch(next);
    let hi = quoted(&plan.version_hi());
    let found: bool = connection
        .query_row(
            &format!("SELECT EXISTS (SELECT 1 FROM {} WHERE {hi} >= ?1)", quoted(table)),
            [least.hi_signed()],
            |row| row.get(0),
        )
        .during(operation)?;
    if !found {
        return Ok(());
    }
    let context = format!(
        "it holds rows whose version is above every epoch recorded in settle_meta ({recorded}): they would win over \
         everything that comes. If another tool wrote them, run UPDATE {} SET {hi} = 0; if settle_meta was lost, restore \
         it from a backup",
        quoted(table)
    );
    Err(contract(operation(), context))
}

/// The partitions in which the group is known to have had an offset, of the topics of `parts`:
/// those of their earlier incarnations, too.
pub(super) fn of_group(
    connection: &Connection,
    group: &str,
    parts: &[PlacedPartition],
) -> Outcome<Vec<PlacedPartition>> {
    let subjects: Vec<String> = connection
        .prepare_cached("SELECT subject FROM settle_meta WHERE kind = 'group'")
        .and_then(|mut select| select.query_map([], |row| row.get(0))?.collect())
        .during(|| "read settle_meta".into())?;
    let mut known = Vec::new();
    for subject in subjects {
        let (owner, topic, id, number): (String, String, Uuid, i32) = serde_json::from_str(&subject)
            .map_err(|_| contract("read settle_meta", "a group is not of the form this program writes"))?;
        if owner == group && parts.iter().any(|part| *part.partition.topic == *topic) {
            known.push(PlacedPartition { topic_id: TopicId(id), partition: Partition::new(topic, number) });
        }
    }
    Ok(known)
}

/// Remembers that the group has offsets in these partitions.
pub(super) fn remember(connection: &Connection, group: &str, parts: &[PlacedPartition]) -> Outcome<()> {
    for PlacedPartition { topic_id, partition } in parts {
        let subject = serde_json::json!([group, &*partition.topic, topic_id.0, partition.number]).to_string();
        connection
            .execute("INSERT INTO settle_meta (kind, subject) VALUES ('group', ?1) ON CONFLICT DO NOTHING", [subject])
            .during(|| "write settle_meta".into())?;
    }
    Ok(())
}
