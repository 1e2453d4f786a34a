//! `settle_meta`: what the destination records of the log's places, beside its rows.
//!
//! | kind | subject | at | hi, lo | detail |
//! |---|---|---|---|---|
//! | `scheme` | | | | name of the version scheme |
//! | `floor` | topic id, partition, source, database | offset | commit position, 0 | |
//! | `truncate` | target table | | version of the truncate | |
//! | `table` | target table | | | the source table and lineage that fill it |
//! | `held` | topic id, partition, key | | offsets of dead letters | |

use rusqlite::{Connection, OptionalExtension, params};
use settle_core::change::{Lineage, TableName};
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::PlacedPartition;
use settle_core::version::{Floor, SCHEME, Version};
use std::sync::Arc;

use super::failure::{During, Outcome, contract};

const READ: &str = "read settle_meta";
const WRITE: &str = "write settle_meta";

const CREATE: &str = "CREATE TABLE IF NOT EXISTS settle_meta (
  kind TEXT NOT NULL,
  subject TEXT NOT NULL DEFAULT '',
  at INTEGER NOT NULL DEFAULT 0,
  hi INTEGER NOT NULL DEFAULT 0,
  lo INTEGER NOT NULL DEFAULT 0,
  detail TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (kind, subject, at)
) STRICT, WITHOUT ROWID";

/// Makes the table, and records the version scheme or refuses another.
pub(super) fn open(connection: &Connection) -> Outcome<()> {
    connection.execute_batch(CREATE).during(|| "create settle_meta".into())?;
    let insert = "INSERT INTO settle_meta (kind, detail) VALUES ('scheme', ?1) ON CONFLICT DO NOTHING";
    connection.execute(insert, [SCHEME]).during(|| WRITE.into())?;
    let scheme: String = connection
        .query_row("SELECT detail FROM settle_meta WHERE kind = 'scheme'", [], |row| row.get(0))
        .during(|| READ.into())?;
    if scheme != SCHEME {
        return Err(contract(
            READ,
            format!(
                "the versions in this database are of scheme \"{scheme}\", this program's are of \"{SCHEME}\" and do not \
                 compare with them; use the program that wrote it, or a new database file"
            ),
        ));
    }
    Ok(())
}

/// Records a floor with the rows that raised it.
pub(super) fn record_floor(
    connection: &Connection,
    topic_id: TopicId,
    partition: &Partition,
    floor: &Floor,
) -> Outcome<()> {
    let subject = floor_subject(topic_id, partition.number, &floor.lineage);
    let commit = i64::try_from(floor.commit)
        .map_err(|_| contract(WRITE, "a floor above 2^63: the position does not fit the version"))?;
    connection
        .prepare_cached(
            "INSERT INTO settle_meta (kind, subject, at, hi) VALUES ('floor', ?1, ?2, ?3)
             ON CONFLICT (kind, subject, at) DO UPDATE SET hi = excluded.hi WHERE excluded.hi > settle_meta.hi",
        )
        .and_then(|mut insert| insert.execute(params![subject, floor.offset, commit]))
        .during(|| WRITE.into())?;
    Ok(())
}

/// The floors recorded for these partitions.
pub(super) fn floors(connection: &Connection, parts: &[PlacedPartition]) -> Outcome<Vec<(PlacedPartition, Floor)>> {
    let rows: Vec<(String, Offset, i64)> = connection
        .prepare("SELECT subject, at, hi FROM settle_meta WHERE kind = 'floor' ORDER BY subject, at")
        .and_then(|mut select| {
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<Result<_, _>>()
        })
        .during(|| READ.into())?;
    let mut floors = Vec::new();
    for (subject, offset, commit) in rows {
        let unreadable =
            || contract(READ, format!("a floor at offset {offset} is not of the form this program writes"));
        let (topic_id, number, lineage) = floor_of(&subject).ok_or_else(unreadable)?;
        let commit = u64::try_from(commit).map_err(|_| unreadable())?;
        for place in parts.iter().filter(|p| p.topic_id == topic_id && p.partition.number == number) {
            floors.push((place.clone(), Floor { lineage: lineage.clone(), offset, commit }));
        }
    }
    Ok(floors)
}

fn floor_subject(topic_id: TopicId, partition: i32, lineage: &Lineage) -> String {
    serde_json::json!([topic_id.0.to_string(), partition, lineage.source, lineage.database]).to_string()
}

fn floor_of(subject: &str) -> Option<(TopicId, i32, Arc<Lineage>)> {
    let (id, partition, source, database): (String, i32, Box<str>, Box<str>) = serde_json::from_str(subject).ok()?;
    Some((TopicId(uuid::Uuid::parse_str(&id).ok()?), partition, Arc::new(Lineage { source, database })))
}

/// Raises the truncate floor of a target table. False where it was as high before.
pub(super) fn raise_truncate_floor(connection: &Connection, table: &str, version: Version) -> Outcome<bool> {
    let raised = connection
        .prepare_cached(
            "INSERT INTO settle_meta (kind, subject, hi, lo) VALUES ('truncate', ?1, ?2, ?3)
             ON CONFLICT (kind, subject, at) DO UPDATE SET hi = excluded.hi, lo = excluded.lo
             WHERE (excluded.hi, excluded.lo) > (settle_meta.hi, settle_meta.lo)",
        )
        .and_then(|mut upsert| upsert.execute(params![subject(table), version.hi_signed(), version.lo_signed()]))
        .during(|| WRITE.into())?;
    Ok(raised > 0)
}

/// The version below which rows of a target table are gone.
pub(super) fn truncate_floor(connection: &Connection, table: &str) -> Outcome<Version> {
    let halves: Option<(i64, i64)> = connection
        .prepare_cached("SELECT hi, lo FROM settle_meta WHERE kind = 'truncate' AND subject = ?1 AND at = 0")
        .and_then(|mut select| select.query_row([subject(table)], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .during(|| READ.into())?;
    Ok(halves.map_or(Version::default(), |(hi, lo)| Version::from_halves(hi.cast_unsigned(), lo.cast_unsigned())))
}

/// Records which source table fills a target table, and refuses a second one: the positions of two
/// sources do not compare, and a truncate of one would empty the other.
pub(super) fn claim(connection: &Connection, target: &str, source: &TableName, lineage: &Lineage) -> Outcome<()> {
    let ours = serde_json::json!([lineage.source, lineage.database, source.namespace, source.name]).to_string();
    connection
        .prepare_cached(
            "INSERT INTO settle_meta (kind, subject, detail) VALUES ('table', ?1, ?2) ON CONFLICT DO NOTHING",
        )
        .and_then(|mut insert| insert.execute(params![subject(target), ours]))
        .during(|| WRITE.into())?;
    let known: String = connection
        .prepare_cached("SELECT detail FROM settle_meta WHERE kind = 'table' AND subject = ?1 AND at = 0")
        .and_then(|mut select| select.query_row([subject(target)], |row| row.get(0)))
        .during(|| READ.into())?;
    if known == ours {
        return Ok(());
    }
    Err(contract(
        format!("write {source} of {lineage} to \"{target}\""),
        format!(
            "the table is filled from {}, and positions of two sources do not compare; give this one another table: \
             [tables.\"{source}\"] name = …",
            shown(&known)
        ),
    ))
}

/// A recorded source table, for people.
fn shown(detail: &str) -> String {
    match serde_json::from_str::<[String; 4]>(detail) {
        Ok([source, database, namespace, name]) => format!("{namespace}.{name} of {source}/{database}"),
        Err(_) => "another source".to_owned(),
    }
}

/// SQLite folds the case of ASCII letters in names: one table has one subject.
fn subject(table: &str) -> String {
    table.to_ascii_lowercase()
}
