//! Rows that are held behind a dead letter, in `settle_meta` as kind `held`: written in the
//! transaction that moves the offsets they go with.
//!
//! | subject | hi | lo |
//! |---|---|---|
//! | topic id, partition, key | offset of the first dead letter | of the last |

use rusqlite::{Connection, params};
use settle_core::holds::{Held, Hold, HoldNote, HoldState};
use settle_core::key::Key;
use settle_core::position::{Offset, TopicId};
use settle_core::sink::{PlacedPartition, SinkError};

use super::failure::{During, Outcome, contract};

const READ: &str = "read settle_meta";
const WRITE: &str = "write settle_meta";

/// Records what a batch changes about a hold. A hold is only lifted by a record behind all of its
/// dead letters: a replay beside the pipeline must not end what it has not come to.
pub(super) fn note(connection: &Connection, topic_id: TopicId, note: &HoldNote) -> Outcome<()> {
    let subject = serde_json::json!([topic_id.0.to_string(), note.partition.number, note.key.to_json()]).to_string();
    let written = match note.now {
        HoldState::Held(Held { first, last }) => connection
            .prepare_cached(
                "INSERT INTO settle_meta (kind, subject, hi, lo) VALUES ('held', ?1, ?2, ?3)
                 ON CONFLICT (kind, subject, at) DO UPDATE
                 SET hi = min(excluded.hi, settle_meta.hi), lo = max(excluded.lo, settle_meta.lo)",
            )
            .and_then(|mut upsert| upsert.execute(params![subject, first, last])),
        HoldState::Lifted(by) => connection
            .prepare_cached("DELETE FROM settle_meta WHERE kind = 'held' AND subject = ?1 AND lo < ?2")
            .and_then(|mut delete| delete.execute(params![subject, by])),
    };
    written.map(drop).during(|| WRITE.into())
}

/// The holds of these partitions.
pub(super) fn read(connection: &Connection, parts: &[PlacedPartition]) -> Outcome<Vec<Hold>> {
    let rows: Vec<(String, Offset, Offset)> = connection
        .prepare("SELECT subject, hi, lo FROM settle_meta WHERE kind = 'held' ORDER BY subject")
        .and_then(|mut select| {
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<Result<_, _>>()
        })
        .during(|| READ.into())?;
    let mut holds = Vec::new();
    for (subject, first, last) in rows {
        let (id, number, key): (String, i32, String) = serde_json::from_str(&subject).map_err(|_| unreadable())?;
        let part = parts.iter().find(|p| p.topic_id.0.to_string() == id && p.partition.number == number);
        let Some(part) = part else { continue };
        let key = Key::parse(&key, None).map_err(|_| unreadable())?;
        holds.push(Hold { partition: part.partition.clone(), key, held: Held { first, last } });
    }
    Ok(holds)
}

/// How many rows of a topic are held, in whichever partition.
pub(super) fn count(connection: &Connection, topic_id: TopicId) -> Outcome<u64> {
    let held = "SELECT count(*) FROM settle_meta WHERE kind = 'held' AND json_extract(subject, '$[0]') = ?1";
    connection
        .query_row(held, [topic_id.0.to_string()], |row| row.get::<_, i64>(0))
        .during(|| READ.into())
        .map(i64::unsigned_abs)
}

fn unreadable() -> SinkError {
    contract(READ, "a row of kind \"held\" is not of the form this program writes; restore the database from a backup")
}
