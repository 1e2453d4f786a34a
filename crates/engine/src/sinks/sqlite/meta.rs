//! `settle_meta`: what the destination records of the log's places, beside its rows.
//!
//! | kind | subject | at | hi, lo | detail |
//! |---|---|---|---|---|
//! | `scheme` | | | | name of the version scheme |
//! | `floor` | topic id, partition, source, database | offset | commit position, 0 | |
//! | `truncate` | target table | what orders it: 0 commits, 1 records | version of the last truncate | |
//! | `table` | target table | | | the source table and lineage that fill it |
//! | `sweep-gap`, `sweep-last` | topic id, topic, table | version of a full snapshot's rows, high half | that version | |
//! | `held` | topic id, partition, key | | offsets of dead letters | |

use rusqlite::{Connection, params};
use settle_core::change::Lineage;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::PlacedPartition;
use settle_core::truncate::{Cut, Cuts, LogOrder};
use settle_core::version::{Floor, SCHEME, Version};
use std::sync::Arc;

use super::failure::{During, Outcome, contract};
use crate::owner::Owner;

const READ: &str = "read settle_meta";
const WRITE: &str = "write settle_meta";

/// The SQL that makes the table.
pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS settle_meta (
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

/// Records a truncate of a target table. False where all that it removes was removed before.
pub(super) fn record_truncate(connection: &Connection, table: &str, cut: Cut) -> Outcome<bool> {
    let mut cuts = truncates(connection, table)?;
    if cut.order == LogOrder::Record {
        // Written before the order was recorded. The lineage that fills the table is this one's.
        let earlier = Cut { version: cuts.of(LogOrder::Commit), order: LogOrder::Record };
        if earlier.version > Version::default() && cuts.add(earlier) {
            put_truncate(connection, table, earlier)?;
        }
        connection
            .prepare_cached("DELETE FROM settle_meta WHERE kind = 'truncate' AND subject = ?1 AND at = 0")
            .and_then(|mut delete| delete.execute([subject(table)]))
            .during(|| WRITE.into())?;
    }
    let is_news = cuts.add(cut);
    if is_news {
        put_truncate(connection, table, cut)?;
    }
    Ok(is_news)
}

fn put_truncate(connection: &Connection, table: &str, Cut { version, order }: Cut) -> Outcome<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO settle_meta (kind, subject, at, hi, lo) VALUES ('truncate', ?1, ?2, ?3, ?4)",
        )
        .and_then(|mut put| put.execute(params![subject(table), code(order), version.hi_signed(), version.lo_signed()]))
        .during(|| WRITE.into())?;
    Ok(())
}

/// What is known of the truncates of a target table.
pub(super) fn truncates(connection: &Connection, table: &str) -> Outcome<Cuts> {
    let rows: Vec<(i64, i64, i64)> = connection
        .prepare_cached("SELECT at, hi, lo FROM settle_meta WHERE kind = 'truncate' AND subject = ?1")
        .and_then(|mut select| {
            select.query_map([subject(table)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })
        .during(|| READ.into())?;
    let mut cuts = Cuts::default();
    for (at, hi, lo) in rows {
        let order = LogOrder::ALL.into_iter().find(|order| code(*order) == at).ok_or_else(|| {
            contract(READ, format!("a truncate of \"{table}\" is not of the form this program writes"))
        })?;
        cuts.add(Cut { version: Version::from_halves(hi.cast_unsigned(), lo.cast_unsigned()), order });
    }
    Ok(cuts)
}

/// Rows written before the order was recorded have 0, and were compared by the whole version.
fn code(order: LogOrder) -> i64 {
    match order {
        LogOrder::Commit => 0,
        LogOrder::Record => 1,
    }
}

/// Records what fills a target table, and refuses another: a truncate of one would empty the other,
/// too.
pub(super) fn claim(connection: &Connection, target: &str, source: &Owner) -> Outcome<()> {
    let ours = source.recorded();
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
    let known = Owner::of_record(&known).ok_or_else(|| {
        contract(READ, format!("what fills table \"{target}\" is not recorded in the form this program writes"))
    })?;
    match known.conflict(source, target) {
        None => Ok(()),
        Some(conflict) => Err(contract(format!("write {source}"), conflict)),
    }
}

/// SQLite folds the case of ASCII letters in names: one table has one subject.
fn subject(table: &str) -> String {
    table.to_ascii_lowercase()
}
