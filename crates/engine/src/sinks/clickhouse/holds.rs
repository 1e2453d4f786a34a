//! Rows that are held behind a dead letter, in `settle_meta` as kind `held`: one fact for each dead
//! letter that a hold stands for, at its offset, with the row's key as subject.
//!
//! A fact is over for good once a whole row behind it was written. A replay that comes past the
//! dead letter again holds its row in the process; the destination has the later row by then. That such a fact
//! is not there tells nothing, so it counts as recorded in that process.

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
    /// Offsets that were found, or noted here and are not over by what was noted here.
    known: Facts,
    /// Offsets that were over when they were noted here: their rows are held in this process, and nothing is kept
    /// of that.
    again: Facts,
}

/// Dead letters by row.
type Facts = BTreeMap<(Partition, Key), BTreeSet<Offset>>;

#[derive(Deserialize)]
struct Row {
    topic: String,
    number: String,
    subject: String,
    at: String,
}

impl HoldFacts {
    pub(crate) fn new(database: &str) -> Self {
        let (topic_ids, known, again) = (HashMap::new(), Facts::new(), Facts::new());
        Self { name: QualifiedName::new(database, TABLE), topic_ids, known, again }
    }

    /// The holds recorded for these partitions, which are opened.
    pub(crate) async fn open(&mut self, client: &Client, parts: &[PlacedPartition]) -> Result<Vec<Hold>, SinkError> {
        self.topic_ids.extend(parts.iter().map(|part| (part.partition.clone(), part.topic_id)));
        let recorded = self.recorded(client, parts).await?;
        for facts in [&mut self.known, &mut self.again] {
            facts.retain(|(partition, _), _| !is_among(partition, parts));
        }
        self.known.extend(recorded.clone());
        Ok(holds(recorded))
    }

    /// The holds of these partitions now: those recorded, and those that were noted here for nothing.
    pub(crate) async fn read(&self, client: &Client, parts: &[PlacedPartition]) -> Result<Vec<Hold>, SinkError> {
        let mut facts = self.recorded(client, parts).await?;
        for (row, offsets) in self.again.iter().filter(|((partition, _), _)| is_among(partition, parts)) {
            facts.entry(row.clone()).or_default().extend(offsets);
        }
        Ok(holds(facts))
    }

    async fn recorded(&self, client: &Client, parts: &[PlacedPartition]) -> Result<Facts, SinkError> {
        let mut facts = self.facts(client, &format!("FINAL WHERE kind = '{KIND}'")).await?;
        facts.retain(|(partition, _), _| is_among(partition, parts));
        Ok(facts)
    }

    /// Facts that are over, of the dead letters that these notes are the first to name.
    async fn over(&self, client: &Client, notes: &[HoldNote]) -> Result<Facts, SinkError> {
        let mut new = BTreeSet::new();
        for HoldNote { partition, key, now } in notes {
            let HoldState::Held(Held { first, last }) = now else { continue };
            let known = self.known.get(&(partition.clone(), key.clone()));
            new.extend([*first, *last].into_iter().filter(|at| known.is_none_or(|known| !known.contains(at))));
        }
        let (Some(first), Some(last)) = (new.first(), new.last()) else { return Ok(Facts::new()) };
        let over = format!("WHERE kind = '{KIND}' AND revision > 0 AND `offset` BETWEEN {first} AND {last}");
        self.facts(client, &over).await
    }

    /// Facts of the partitions that were opened.
    async fn facts(&self, client: &Client, which: &str) -> Result<Facts, SinkError> {
        let sql = format!(
            "SELECT toString(`topic_id`) AS topic, toString(`partition`) AS number, `subject`, toString(`offset`) AS at \
             FROM {} {which}{CONSISTENTLY}",
            self.name
        );
        let opened: HashMap<(String, i32), &Partition> =
            self.topic_ids.iter().map(|(partition, id)| ((id.to_string(), partition.number), partition)).collect();
        let mut facts = Facts::new();
        for row in client.rows::<Row>(&format!("reading {}", self.name), &sql).await? {
            let number: i32 = row.number.parse().map_err(|_| self.unreadable())?;
            let Some(&partition) = opened.get(&(row.topic, number)) else { continue };
            let key = Key::parse(&row.subject, None).map_err(|_| self.unreadable())?;
            let offset = row.at.parse().map_err(|_| self.unreadable())?;
            facts.entry((partition.clone(), key)).or_default().insert(offset);
        }
        Ok(facts)
    }

    /// Records what a batch changes. When it returns it is durable.
    pub(crate) async fn record(&mut self, client: &Client, notes: &[HoldNote]) -> Result<(), SinkError> {
        if notes.is_empty() {
            return Ok(());
        }
        let over = self.over(client, notes).await?;
        let mut lines: Vec<String> = Vec::new();
        let (mut known, mut again) = (self.known.clone(), self.again.clone());
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
            let row = (partition.clone(), key.clone());
            let is_over = |at: &Offset| over.get(&row).is_some_and(|over| over.contains(at));
            let (offsets, again) = (known.entry(row.clone()).or_default(), again.entry(row.clone()).or_default());
            match now {
                HoldState::Held(held) => {
                    let ends = [held.first, held.last];
                    again.extend(ends.iter().filter(|at| is_over(at)));
                    lines.extend(ends.iter().filter(|at| offsets.insert(**at)).map(|at| line(at, 0)));
                }
                HoldState::Lifted(by) => {
                    let still = offsets.split_off(by);
                    lines.extend(offsets.iter().map(|at| line(at, 1)));
                    *offsets = still;
                    *again = again.split_off(by);
                }
            }
        }
        known.retain(|_, offsets| !offsets.is_empty());
        again.retain(|_, offsets| !offsets.is_empty());
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
        (self.known, self.again) = (known, again);
        Ok(())
    }

    fn unreadable(&self) -> SinkError {
        let context = "a row of kind \"held\" is not of the form this program writes; restore the table from a backup";
        SinkError::new(FailureKind::Contract, format!("reading {}", self.name), context)
    }
}

fn is_among(partition: &Partition, parts: &[PlacedPartition]) -> bool {
    parts.iter().any(|part| part.partition == *partition)
}

fn holds(facts: Facts) -> Vec<Hold> {
    let hold = |((partition, key), offsets): ((Partition, Key), BTreeSet<Offset>)| {
        let held = Held { first: *offsets.first()?, last: *offsets.last()? };
        Some(Hold { partition, key, held })
    };
    facts.into_iter().filter_map(hold).collect()
}
