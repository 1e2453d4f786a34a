//! Ghosts: rows that a full snapshot taken again did not refresh. They are deleted with the version
//! just above their own, so that a replay of the old log does not bring them back, and whatever
//! the source says of them later still wins.

use std::sync::Arc;

use rusqlite::{Connection, params};
use settle_core::change::TableName;
use settle_core::position::TopicId;
use settle_core::sink::{Pending, PlacedPartition, Seen, Sweep};
use settle_core::version::Version;
use uuid::Uuid;

use super::failure::{During, Outcome, contract};
use super::holds;
use super::name::{list, quoted, same, tombstones};
use super::table::describe;
use crate::config::target::{Deletes, OnResnapshot, Target};
use crate::sinks::held::not_swept;
use crate::sinks::plan::Plan;

/// Remembers what was seen of a snapshot until its sweep is done.
pub(super) fn plan(connection: &Connection, topic_id: TopicId, sweep: &Sweep, seen: Seen) -> Outcome<()> {
    let (hi, lo) = (sweep.below.hi_signed(), sweep.below.lo_signed());
    connection
        .execute(
            "INSERT INTO settle_meta (kind, subject, at, hi, lo) VALUES (?1, ?2, ?3, ?3, ?4) ON CONFLICT DO NOTHING",
            params![kind(seen), subject(topic_id, sweep), hi, lo],
        )
        .during(|| "write settle_meta".into())?;
    Ok(())
}

fn kind(seen: Seen) -> &'static str {
    match seen {
        Seen::Gap => "sweep-gap",
        Seen::Last => "sweep-last",
    }
}

/// The snapshots of the topics of these partitions whose last rows were seen.
pub(super) fn pending(connection: &Connection, parts: &[PlacedPartition]) -> Outcome<Vec<Pending>> {
    let rows: Vec<(String, i64, i64)> = connection
        .prepare("SELECT subject, hi, lo FROM settle_meta WHERE kind = ?1")
        .and_then(|mut select| {
            select
                .query_map([kind(Seen::Last)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<Result<_, _>>()
        })
        .during(|| "read settle_meta".into())?;
    let mut pending = Vec::new();
    for (subject, hi, lo) in rows {
        let (id, topic, namespace, name): (Uuid, String, Box<str>, Box<str>) = serde_json::from_str(&subject)
            .map_err(|_| contract("read settle_meta", "a sweep is not of the form this program writes"))?;
        if parts.iter().any(|part| part.topic_id.0 == id) {
            let below = Version::from_halves(hi.cast_unsigned(), lo.cast_unsigned());
            let table = Arc::new(TableName { namespace, name });
            pending.push(Pending::Sweep(TopicId(id), Sweep { table, topic: topic.into(), below }));
        }
    }
    Ok(pending)
}

/// Deletes the ghosts, where a gap was seen and a sweep is still asked for, and forgets what was seen.
/// Says how many they were.
pub(super) fn sweep(connection: &Connection, target: &Target, topic_id: TopicId, sweep: &Sweep) -> Outcome<u64> {
    let subject = subject(topic_id, sweep);
    let forget = |seen| {
        let forget = "DELETE FROM settle_meta WHERE kind = ?1 AND subject = ?2 AND at = ?3";
        let forgotten = connection.execute(forget, params![kind(seen), subject, sweep.below.hi_signed()]);
        forgotten.during(|| "write settle_meta".into()).map(|rows| rows > 0)
    };
    let (gap, last) = (forget(Seen::Gap)?, forget(Seen::Last)?);
    if !(gap && last) || target.on_resnapshot(&sweep.table) != OnResnapshot::Sweep {
        return Ok(0);
    }
    let plan = Plan::of(target, &sweep.table, Deletes::Hard);
    let operation = || format!("sweep ghosts from table \"{}\"", plan.table);
    let held = holds::count(connection, topic_id)?;
    if held > 0 {
        return Err(not_swept(&operation(), held));
    }
    let swept = match describe(connection, &plan.table, |column| plan.declared_type(column))? {
        None => 0,
        Some(table) => {
            let (hi, lo) = (quoted(&plan.version_hi()), quoted(&plan.version_lo()));
            let flag = table.column(&plan.meta.is_deleted).map(|column| quoted(&column.name));
            let live = flag.as_ref().map_or(String::new(), |flag| format!(" AND {flag} = 0"));
            let (ours, ghosts) = (quoted(&table.name), format!("({hi}, {lo}) < (?1, ?2){live}"));
            let below = params![sweep.below.hi_signed(), sweep.below.lo_signed()];
            if let (Deletes::Soft, Some(flag)) = (plan.deletes, &flag) {
                let op = quoted(&plan.meta.op);
                let mark = format!("UPDATE {ours} SET {flag} = 1, {op} = 'd', {lo} = {lo} + 1 WHERE {ghosts}");
                connection.execute(&mark, below).during(operation)?
            } else {
                let graves = tombstones(&table.name);
                let described = describe(connection, &graves, |_| None)?
                    .ok_or_else(|| contract(operation(), format!("the table \"{graves}\" is not there")))?;
                let halves = [plan.version_hi(), plan.version_lo()];
                let is_key = |name: &str| !halves.iter().any(|half| same(half, name));
                let keys =
                    list(described.columns.iter().map(|column| column.name.as_str()).filter(|name| is_key(name)));
                let bury = format!(
                    "INSERT INTO {graves} AS g ({keys}, {hi}, {lo}) SELECT {keys}, {hi}, {lo} + 1 FROM {ours} WHERE {ghosts} \
                     ON CONFLICT ({keys}) DO UPDATE SET {hi} = excluded.{hi}, {lo} = excluded.{lo} \
                     WHERE (excluded.{hi}, excluded.{lo}) > (g.{hi}, g.{lo})",
                    graves = quoted(&graves)
                );
                connection.execute(&bury, below).during(operation)?;
                connection.execute(&format!("DELETE FROM {ours} WHERE {ghosts}"), below).during(operation)?
            }
        }
    };
    tracing::info!(table = plan.table, rows = swept, "ghosts are swept: the last full snapshot did not refresh them");
    Ok(swept as u64)
}

fn subject(topic_id: TopicId, sweep: &Sweep) -> String {
    serde_json::json!([topic_id.0, &*sweep.topic, sweep.table.namespace, sweep.table.name]).to_string()
}
