//! Rows that are held behind a dead letter, in `settle_meta` as kind `held`: written in the
//! transaction that moves the offsets they go with.
//!
//! | subject | hi | lo |
//! |---|---|---|
//! | topic id, partition, key | offset of the first dead letter | of the last |

use settle_core::holds::{Held, Hold, HoldNote, HoldState};
use settle_core::key::Key;
use settle_core::position::TopicId;
use settle_core::sink::{PlacedPartition, SinkError};

use super::dialect::Take;
use super::meta::{Line, READ, WRITE, is_subject, of_kind, put, subject_value, table};
use super::session::{Cells, Outcome, Session, contract};

const KIND: &str = "held";

/// Records what a batch changes about a hold. A hold is only lifted by a record behind all of its
/// dead letters: a replay beside the pipeline must not end what it has not come to.
pub(super) async fn note(session: &mut impl Session, topic_id: TopicId, note: &HoldNote) -> Outcome<()> {
    let subject = serde_json::json!([topic_id.0.to_string(), note.partition.number, note.key.to_json()]).to_string();
    match note.now {
        HoldState::Held(Held { first, last }) => {
            let line = Line { kind: KIND, subject: &subject, hi: first, lo: last, ..Line::default() };
            put(session, line, &[("hi", Take::Least), ("lo", Take::Greatest)]).await
        }
        HoldState::Lifted(by) => {
            let dialect = session.dialect();
            let sql = format!(
                "DELETE FROM {} WHERE {} AND {} < {}",
                table(dialect),
                is_subject(dialect, 1),
                dialect.quoted("lo"),
                dialect.place(3)
            );
            let values = [KIND.into(), subject_value(dialect, &subject), by.into()];
            session.execute(WRITE, &sql, &values).await.map(drop)
        }
    }
}

/// The holds of these partitions.
pub(crate) async fn read(session: &mut impl Session, parts: &[PlacedPartition]) -> Outcome<Vec<Hold>> {
    let sql = of_kind(session.dialect(), &["subject", "hi", "lo"]);
    let mut holds = Vec::new();
    for row in session.query(READ, &sql, &[KIND.into()]).await? {
        let mut cells = Cells::of(READ, row);
        let (subject, first, last) = (cells.text()?, cells.int()?, cells.int()?);
        let (id, number, key): (String, i32, String) = serde_json::from_str(&subject).map_err(|_| unreadable())?;
        let part = parts.iter().find(|p| p.topic_id.0.to_string() == id && p.partition.number == number);
        let Some(part) = part else { continue };
        let key = Key::parse(&key, None).map_err(|_| unreadable())?;
        holds.push(Hold { partition: part.partition.clone(), key, held: Held { first, last } });
    }
    Ok(holds)
}

/// How many rows of a topic are held, in whichever partition.
pub(super) async fn count(session: &mut impl Session, topic_id: TopicId) -> Outcome<u64> {
    let sql = of_kind(session.dialect(), &["subject"]);
    let mut held = 0;
    for row in session.query(READ, &sql, &[KIND.into()]).await? {
        let (id, _, _): (String, i32, String) =
            serde_json::from_str(&Cells::of(READ, row).text()?).map_err(|_| unreadable())?;
        held += u64::from(id == topic_id.0.to_string());
    }
    Ok(held)
}

fn unreadable() -> SinkError {
    contract(READ, "a row of kind \"held\" is not of the form this program writes; restore the database from a backup")
}
