//! Rows that are held behind a dead letter, in `settle_meta` as kind `held`: one fact for each dead
//! letter that a hold stands for, at its offset, with the row's key as subject.
//!
//! A fact is over for good once a whole row behind it was written. A replay that comes past the
//! dead letter again holds its row in the process; the destination has the later row by then.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use settle_core::holds::{Held, Hold, HoldNote, HoldState};
use settle_core::key::Key;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::{FailureKind, PlacedPartition, SinkError};

use super::client::Client;
use super::meta::TABLE;
use super::names::QualifiedName;
use super::server::{CONSISTENTLY, Server};

const KIND: &str = "held";

/// How many rows of a topic are held, in whichever partition.
pub(crate) async fn count(server: &Server, topic_id: TopicId) -> Result<u64, SinkError> {
    let name = QualifiedName::new(&server.database, TABLE);
    let sql = format!(
        "SELECT uniqExact(`partition`, `subject`) AS found FROM {name} FINAL \
         WHERE kind = '{KIND}' AND `topic_id` = '{topic_id}'{CONSISTENTLY}"
    );
    server.client.number(&format!("reading {name}"), &sql).await
}

/// The facts of the partitions that were opened.
pub(crate) struct HoldFacts {
    name: QualifiedName,
    topic_ids: HashMap<Partition, TopicId>,
    /// Offsets recorded and not over.
    known: BTreeMap<(Partition, Key), BTreeSet<Offset>>,
}

#[derive(Deserialize)]
struct Row {
    topic: String,
    number: String,
    subject: String,
    at: String,
}

impl HoldFacts {
    pub(crate) fn new(database: &str) -> Self {
        Self { name: QualifiedName::new(database, TABLE), topic_ids: HashMap::new(), known: BTreeMap::new() }
    }

    /// The holds recorded for these partitions.
    pub(crate) async fn open(&mut self, client: &Client, parts: &[PlacedPartition]) -> Result<Vec<Hold>, SinkError> {
        self.topic_ids.extend(parts.iter().map(|part| (part.partition.clone(), part.topic_id)));
        self.known.retain(|(partition, _), _| parts.iter().all(|part| part.partition != *partition));
        let sql = format!(
            "SELECT toString(`topic_id`) AS topic, toString(`partition`) AS number, `subject`, toString(`offset`) AS at \
             FROM {} FINAL WHERE kind = '{KIND}'{CONSISTENTLY}",
            self.name
        );
        let mut found: BTreeMap<(Partition, Key), BTreeSet<Offset>> = BTreeMap::new();
        for row in client.rows::<Row>(&format!("reading {}", self.name), &sql).await? {
            let number: i32 = row.number.parse().map_err(|_| self.unreadable())?;
            let part = parts.iter().find(|p| p.partition.number == number && p.topic_id.to_string() == row.topic);
            let Some(part) = part else { continue };
            let key = Key::parse(&row.subject, None).map_err(|_| self.unreadable())?;
            let offset = row.at.parse().map_err(|_| self.unreadable())?;
            found.entry((part.partition.clone(), key)).or_default().insert(offset);
        }
        let hold = |((partition, key), offsets): (&(Partition, Key), &BTreeSet<Offset>)| {
            let held = Held { first: *offsets.first()?, last: *offsets.last()? };
            Some(Hold { partition: partition.clone(), key: key.clone(), held })
        };
        let holds = found.iter().filter_map(hold).collect();
        self.known.extend(found);
        Ok(holds)
    }

    /// Records what a batch changes. When it returns it is durable.
    pub(crate) async fn record(&mut self, client: &Client, notes: &[HoldNote]) -> Result<(), SinkError> {
        if notes.is_empty() {
            return Ok(());
        }
        let mut lines: Vec<String> = Vec::new();
        let mut known = self.known.clone();
        for HoldNote { partition, key, now } in notes {
            let topic_id = self.topic_ids.get(partition).ok_or_else(|| {
                let operation = format!("recording a hold in {}", self.name);
                SinkError::new(FailureKind::Bug, operation, format!("partition {partition} was never opened"))
            })?;
            let line = |offset: &Offset, over: u8| {
                serde_json::json!({
                    "kind": KIND, "topic_id": topic_id.to_string(), "partition": partition.number,
                    "subject": key.to_json(), "offset": offset, "value": "0", "revision": over, "is_deleted": over,
                })
                .to_string()
            };
            let offsets = known.entry((partition.clone(), key.clone())).or_default();
            match now {
                HoldState::Held(held) => {
                    lines
                        .extend([held.first, held.last].iter().filter(|at| offsets.insert(**at)).map(|at| line(at, 0)));
                }
                HoldState::Lifted(by) => {
                    let still = offsets.split_off(by);
                    lines.extend(offsets.iter().map(|at| line(at, 1)));
                    *offsets = still;
                }
            }
        }
        known.retain(|_, offsets| !offsets.is_empty());
        if !lines.is_empty() {
            let statement = format!(
                "INSERT INTO {} (`kind`, `topic_id`, `partition`, `subject`, `offset`, `value`, `revision`, `is_deleted`) \
                 FORMAT JSONEachRow",
                self.name
            );
            let sent =
                client.insert(&format!("recording holds in {}", self.name), &statement, lines.join("\n").into()).await;
            sent.map_err(SinkError::beside_the_rows)?;
        }
        self.known = known;
        Ok(())
    }

    fn unreadable(&self) -> SinkError {
        let context = "a row of kind \"held\" is not of the form this program writes; restore the table from a backup";
        SinkError::new(FailureKind::Contract, format!("reading {}", self.name), context)
    }
}
