//! `settle_positions`: up to where each consumer group's records are in the database, moved in the
//! transaction that writes them. It tells a record that is delivered again from a new one.

use rusqlite::{Connection, params};
use settle_core::position::Offset;
use settle_core::sink::PlacedPartition;

use super::failure::{During, Outcome};

/// The SQL that makes the table.
pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS settle_positions (
  consumer_group TEXT NOT NULL,
  topic_id TEXT NOT NULL,
  partition INTEGER NOT NULL,
  topic TEXT NOT NULL,
  next_offset INTEGER NOT NULL,
  PRIMARY KEY (consumer_group, topic_id, partition)
) STRICT, WITHOUT ROWID";

/// Makes the table, where it is missing.
pub(super) fn open(connection: &Connection) -> Outcome<()> {
    connection.execute_batch(CREATE).during(|| "create settle_positions".into())
}

/// The next offsets of the group in these partitions; none where it never wrote.
pub(super) fn read(
    connection: &Connection,
    group: &str,
    parts: &[PlacedPartition],
) -> Outcome<Vec<(PlacedPartition, Offset)>> {
    let select =
        "SELECT next_offset FROM settle_positions WHERE consumer_group = ?1 AND topic_id = ?2 AND partition = ?3";
    let mut positions = Vec::new();
    for part in parts {
        let place = params![group, part.topic_id.to_string(), part.partition.number];
        let found: Vec<Offset> = connection
            .prepare_cached(select)
            .and_then(|mut select| select.query_map(place, |row| row.get(0))?.collect())
            .during(|| "read settle_positions".into())?;
        positions.extend(found.into_iter().map(|offset| (part.clone(), offset)));
    }
    Ok(positions)
}

/// Moves the group's position of a partition forward; it never goes back.
pub(super) fn advance(connection: &Connection, group: &str, part: &PlacedPartition, next: Offset) -> Outcome<()> {
    let upsert = "INSERT INTO settle_positions (consumer_group, topic_id, partition, topic, next_offset)
        VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT DO UPDATE SET next_offset = excluded.next_offset, topic = excluded.topic
        WHERE excluded.next_offset > settle_positions.next_offset";
    let PlacedPartition { topic_id, partition } = part;
    connection
        .prepare_cached(upsert)
        .and_then(|mut upsert| {
            upsert.execute(params![group, topic_id.to_string(), partition.number, &*partition.topic, next])
        })
        .during(|| "write settle_positions".into())?;
    Ok(())
}
