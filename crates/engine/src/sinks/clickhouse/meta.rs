//! `settle_meta`: what the destination keeps of the log's places.
//!
//! One table for every kind of place, so that a later kind needs no migration. A row is a fact
//! that never changes ([`KIND_FLOOR`]: a floor raised at an offset; [`KIND_SCHEME`]: the version
//! scheme of everything in this database; [`KIND_TABLE`]: what fills a target table); `revision` is
//! for kinds that do change. The kinds of truncates are in [`super::truncates`].
//!
//! Invariant: a floor, and a truncate, is recorded before the rows that it concerns.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use settle_core::change::Lineage;
use settle_core::position::{Partition, TopicId};
use settle_core::sink::{FailureKind, PlacedPartition, SinkError};
use settle_core::version::{Floor, SCHEME};
use uuid::Uuid;

use super::client::Client;
use super::ddl::on_cluster;
use super::names::{QualifiedName, literal};
use super::server::CONSISTENTLY;
use crate::owner::Owner;

/// Its name, in the database of the target tables.
pub(crate) const TABLE: &str = "settle_meta";
const KIND_SCHEME: &str = "scheme";
const KIND_FLOOR: &str = "floor";
pub(crate) const KIND_EPOCH: &str = "epoch";
const KIND_TABLE: &str = "table";
/// The topic id of facts that belong to no topic.
const NO_TOPIC: &str = "00000000-0000-0000-0000-000000000000";

/// The statement that creates it. Floors must survive what the rows behind them survive, so each
/// insert reaches the disk.
pub(crate) fn create_table(database: &str, cluster: Option<&str>, replicated: bool) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {}{} (`kind` LowCardinality(String), `topic_id` UUID, `partition` Int32, \
         `subject` String, `offset` Int64, `value` UInt128, `revision` UInt64, `is_deleted` UInt8, \
         `written_at` DateTime64(3, 'UTC') DEFAULT now64(3)) \
         ENGINE = {}ReplacingMergeTree(`revision`, `is_deleted`) \
         ORDER BY (`kind`, `topic_id`, `partition`, `subject`, `offset`) SETTINGS fsync_after_insert = 1",
        QualifiedName::new(database, TABLE),
        on_cluster(cluster),
        if replicated { "Replicated" } else { "" },
    )
}

/// What is known of `settle_meta` in this process.
pub(crate) struct Meta {
    name: QualifiedName,
    topic_ids: HashMap<Partition, TopicId>,
    recorded: HashSet<Place>,
    /// What fills the target tables that were asked for.
    owners: HashMap<String, Owner>,
    /// The greatest epoch that any boundary recorded.
    max_epoch: u8,
}

/// Where a floor was raised.
type Place = (TopicId, i32, String, i64);

/// A row of a kind that is one for each place and subject.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) kind: String,
    pub(crate) topic_id: TopicId,
    pub(crate) partition: i32,
    pub(crate) subject: String,
    pub(crate) offset: i64,
    pub(crate) value: u128,
    /// Not a fact any more.
    pub(crate) done: bool,
}

impl Fact {
    fn line(&self, revision: u64) -> String {
        serde_json::json!({
            "kind": self.kind, "topic_id": self.topic_id.to_string(), "partition": self.partition,
            "subject": self.subject, "offset": self.offset, "value": self.value.to_string(),
            "revision": revision, "is_deleted": u8::from(self.done),
        })
        .to_string()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let place = |fact: &Self| (fact.topic_id, fact.partition, fact.offset);
        self.kind == other.kind && self.subject == other.subject && place(self) == place(other)
    }
}

#[derive(Deserialize)]
struct SubjectRow {
    subject: String,
}

#[derive(Deserialize)]
struct FactRow {
    kind: String,
    topic: String,
    number: String,
    subject: String,
    at: String,
    amount: String,
}

impl Meta {
    pub(crate) fn new(database: &str) -> Self {
        Self {
            name: QualifiedName::new(database, TABLE),
            topic_ids: HashMap::new(),
            recorded: HashSet::new(),
            owners: HashMap::new(),
            max_epoch: 0,
        }
    }

    /// The greatest epoch recorded.
    pub(crate) fn max_epoch(&self) -> u8 {
        self.max_epoch
    }

    /// Checks the version scheme, recording ours where there is none, and reads the floors of `parts`.
    pub(crate) async fn open(
        &mut self,
        client: &Client,
        parts: &[PlacedPartition],
    ) -> Result<Vec<(PlacedPartition, Floor)>, SinkError> {
        if self
            .facts(client, &format!("kind IN ('{KIND_SCHEME}', '{KIND_EPOCH}')"))
            .await?
            .iter()
            .all(|f| f.kind != KIND_SCHEME)
        {
            let line = serde_json::json!({
                "kind": KIND_SCHEME, "topic_id": NO_TOPIC, "partition": 0, "subject": SCHEME, "offset": 0, "value": "0",
            });
            self.insert(client, "recording the version scheme", line.to_string()).await?;
        }
        // Read again: another run may have recorded its own at the same moment.
        let facts = self.facts(client, &format!("kind IN ('{KIND_SCHEME}', '{KIND_EPOCH}')")).await?;
        self.check_scheme(&facts)?;
        for fact in facts.iter().filter(|fact| fact.kind == KIND_EPOCH) {
            self.max_epoch = self.max_epoch.max(self.number(&fact.amount)?);
        }
        for part in parts {
            self.topic_ids.insert(part.partition.clone(), part.topic_id);
        }
        self.read_floors(client, parts).await
    }

    /// What is wrong with the scheme that is recorded, without recording ours.
    pub(crate) async fn check(&mut self, client: &Client) -> Result<(), SinkError> {
        let facts = self.facts(client, &format!("kind IN ('{KIND_SCHEME}', '{KIND_EPOCH}')")).await?;
        for fact in facts.iter().filter(|fact| fact.kind == KIND_EPOCH) {
            self.max_epoch = self.max_epoch.max(self.number(&fact.amount)?);
        }
        self.check_scheme(&facts)
    }

    fn check_scheme(&self, facts: &[FactRow]) -> Result<(), SinkError> {
        match facts.iter().find(|fact| fact.kind == KIND_SCHEME && fact.subject != SCHEME) {
            Some(fact) => Err(SinkError::new(
                FailureKind::Contract,
                self.reading(),
                format!(
                    "the rows of this database were written with the version scheme \"{}\", this settle uses \"{SCHEME}\": \
                     their versions do not compare; use the settle that wrote them, or write to another database",
                    fact.subject
                ),
            )),
            None => Ok(()),
        }
    }

    /// The floors of `parts`.
    pub(crate) async fn read_floors(
        &mut self,
        client: &Client,
        parts: &[PlacedPartition],
    ) -> Result<Vec<(PlacedPartition, Floor)>, SinkError> {
        let mut ids: Vec<String> = parts.iter().map(|part| format!("'{}'", part.topic_id)).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let facts = self.facts(client, &format!("kind = '{KIND_FLOOR}' AND topic_id IN ({})", ids.join(", "))).await?;
        let mut floors = Vec::new();
        for fact in facts {
            let number: i32 = self.number(&fact.number)?;
            let part = parts.iter().find(|p| p.partition.number == number && p.topic_id.to_string() == fact.topic);
            let Some(part) = part else { continue };
            let (source, database): (Box<str>, Box<str>) =
                serde_json::from_str(&fact.subject).map_err(|_| self.unreadable("subject"))?;
            let (offset, commit) = (self.number(&fact.at)?, self.number(&fact.amount)?);
            self.recorded.insert((part.topic_id, number, fact.subject, offset));
            let lineage = Arc::new(Lineage { source, database });
            floors.push((part.clone(), Floor { lineage, offset, commit }));
        }
        Ok(floors)
    }

    /// Records floors that are not recorded yet. When it returns they are durable.
    pub(crate) async fn record(&mut self, client: &Client, floors: &[(Partition, Floor)]) -> Result<(), SinkError> {
        let mut lines = Vec::new();
        let mut places = Vec::new();
        for (partition, floor) in floors {
            let topic_id = self.topic_id(partition)?;
            let subject = subject(&floor.lineage);
            let place = (topic_id, partition.number, subject.clone(), floor.offset);
            if self.recorded.contains(&place) {
                continue;
            }
            lines.push(
                serde_json::json!({
                    "kind": KIND_FLOOR, "topic_id": topic_id.to_string(), "partition": partition.number,
                    "subject": subject, "offset": floor.offset, "value": floor.commit.to_string(),
                })
                .to_string(),
            );
            places.push(place);
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.insert(client, "recording floors", lines.join("\n")).await?;
        self.recorded.extend(places);
        Ok(())
    }

    /// The id of a partition's topic.
    pub(crate) fn topic_id(&self, partition: &Partition) -> Result<TopicId, SinkError> {
        self.topic_ids.get(partition).copied().ok_or_else(|| {
            let operation = format!("recording a place of {partition}");
            SinkError::new(FailureKind::Bug, operation, "the partition was never opened")
        })
    }

    pub(crate) fn name(&self) -> &QualifiedName {
        &self.name
    }

    /// Those of `wanted` that are not recorded.
    pub(crate) async fn missing(&self, client: &Client, wanted: Vec<Fact>) -> Result<Vec<Fact>, SinkError> {
        let mut known = Vec::new();
        let kinds: BTreeSet<&str> = wanted.iter().map(|fact| fact.kind.as_str()).collect();
        for kind in kinds {
            known.extend(self.of_kind(client, kind).await?);
        }
        let mut missing: Vec<Fact> = Vec::new();
        for fact in wanted {
            if !known.iter().chain(&missing).any(|other| other.is_same(&fact)) {
                missing.push(fact);
            }
        }
        Ok(missing)
    }

    /// All facts of a kind.
    pub(crate) async fn of_kind(&self, client: &Client, kind: &str) -> Result<Vec<Fact>, SinkError> {
        self.of_kinds(client, &[kind]).await
    }

    /// All facts of these kinds.
    pub(crate) async fn of_kinds(&self, client: &Client, kinds: &[&str]) -> Result<Vec<Fact>, SinkError> {
        let kinds: Vec<String> = kinds.iter().map(|kind| literal(kind)).collect();
        let rows = self.facts(client, &format!("kind IN ({})", kinds.join(", "))).await?;
        rows.into_iter().map(|row| self.fact(row)).collect()
    }

    fn fact(&self, row: FactRow) -> Result<Fact, SinkError> {
        Ok(Fact {
            topic_id: TopicId(row.topic.parse().map_err(|_| self.unreadable("topic id"))?),
            partition: self.number(&row.number)?,
            offset: self.number(&row.at)?,
            value: self.number(&row.amount)?,
            kind: row.kind,
            subject: row.subject,
            done: false,
        })
    }

    /// Writes facts, all at once, above whatever was written of them: what was done once may be to
    /// be done again, when a log is read anew. When it returns they are durable.
    pub(crate) async fn put(&self, client: &Client, what: &str, facts: &[Fact]) -> Result<(), SinkError> {
        if facts.is_empty() {
            return Ok(());
        }
        let mut kinds: Vec<String> = facts.iter().map(|fact| literal(&fact.kind)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let sql = format!(
            "SELECT `kind`, toString(`topic_id`) AS topic, toString(`partition`) AS number, `subject`, \
             toString(`offset`) AS at, toString(max(`revision`)) AS amount FROM {} WHERE `kind` IN ({}) \
             GROUP BY `kind`, `topic_id`, `partition`, `subject`, `offset`{CONSISTENTLY}",
            self.name,
            kinds.join(", ")
        );
        let rows: Vec<FactRow> = client.rows(&self.reading(), &sql).await?;
        let mut revisions = Vec::with_capacity(rows.len());
        for row in rows {
            let revision: u64 = self.number(&row.amount)?;
            revisions.push((self.fact(row)?, revision));
        }
        let above = |fact: &Fact| {
            let known = revisions.iter().find(|(other, _)| other.is_same(fact));
            fact.line(known.map_or(0, |(_, revision)| revision.saturating_add(1)))
        };
        let lines: Vec<String> = facts.iter().map(above).collect();
        self.insert(client, what, lines.join("\n")).await
    }

    /// Records what fills a target table, and refuses another: a truncate of one would empty the
    /// other, too.
    pub(crate) async fn claim(&mut self, client: &Client, table: &str, owner: &Owner) -> Result<(), SinkError> {
        let known = match self.owners.get(table) {
            Some(known) => known.clone(),
            None => {
                let mut first = self.first_owner(client, table).await?;
                if first.is_none() {
                    let fact = Fact {
                        kind: KIND_TABLE.to_owned(),
                        topic_id: TopicId(Uuid::nil()),
                        partition: 0,
                        subject: owner_subject(table, owner),
                        offset: 0,
                        value: 0,
                        done: false,
                    };
                    self.put(client, "recording what fills a table", &[fact]).await?;
                    // Another run may have recorded its own at the same moment; then the earlier one counts.
                    first = self.first_owner(client, table).await?;
                }
                let known = first.ok_or_else(|| {
                    SinkError::new(FailureKind::Contract, self.reading(), "what was just recorded is not there")
                })?;
                self.owners.entry(table.to_owned()).or_insert(known).clone()
            }
        };
        match known.conflict(owner, table) {
            None => Ok(()),
            Some(conflict) => {
                Err(SinkError::new(FailureKind::Contract, format!("preparing the table for {owner}"), conflict))
            }
        }
    }

    /// Refuses an owner beside the one that is recorded, without recording it.
    pub(crate) async fn refuse_other(&self, client: &Client, table: &str, owner: &Owner) -> Result<(), SinkError> {
        match self.first_owner(client, table).await?.and_then(|known| known.conflict(owner, table)) {
            None => Ok(()),
            Some(conflict) => {
                Err(SinkError::new(FailureKind::Contract, format!("preparing the table for {owner}"), conflict))
            }
        }
    }

    async fn first_owner(&self, client: &Client, table: &str) -> Result<Option<Owner>, SinkError> {
        let sql = format!(
            "SELECT `subject` FROM {} WHERE `kind` = {} GROUP BY `subject` ORDER BY min(`written_at`), `subject`{}",
            self.name,
            literal(KIND_TABLE),
            CONSISTENTLY
        );
        let rows: Vec<SubjectRow> = client.rows(&self.reading(), &sql).await?;
        for row in rows {
            let (target, owner) = owner_of(&row.subject).ok_or_else(|| self.unreadable("subject"))?;
            if target == table {
                return Ok(Some(owner));
            }
        }
        Ok(None)
    }

    async fn insert(&self, client: &Client, what: &str, lines: String) -> Result<(), SinkError> {
        let statement = format!(
            "INSERT INTO {} (`kind`, `topic_id`, `partition`, `subject`, `offset`, `value`, `revision`, `is_deleted`) \
             FORMAT JSONEachRow",
            self.name
        );
        let sent = client.insert(&format!("{what} in {}", self.name), &statement, lines.into()).await;
        sent.map_err(SinkError::beside_the_rows)
    }

    async fn facts(&self, client: &Client, condition: &str) -> Result<Vec<FactRow>, SinkError> {
        let sql = format!(
            "SELECT `kind`, toString(`topic_id`) AS topic, toString(`partition`) AS number, `subject`, \
             toString(`offset`) AS at, toString(`value`) AS amount FROM {} FINAL WHERE {condition} \
             ORDER BY `kind`, `topic_id`, `partition`, `subject`, `offset`",
            self.name
        );
        client.rows(&self.reading(), &sql).await
    }

    fn number<T: std::str::FromStr>(&self, text: &str) -> Result<T, SinkError> {
        text.parse().map_err(|_| self.unreadable("number"))
    }

    fn reading(&self) -> String {
        format!("reading {}", self.name)
    }

    pub(crate) fn unreadable(&self, what: &str) -> SinkError {
        let context = format!("a row holds a {what} that settle did not write; restore the table from a backup");
        SinkError::new(FailureKind::Contract, self.reading(), context)
    }
}

/// A lineage as one text that cannot be read two ways.
fn subject(lineage: &Lineage) -> String {
    serde_json::json!([lineage.source, lineage.database]).to_string()
}

/// A target table and what fills it, as one text that cannot be read two ways.
fn owner_subject(table: &str, owner: &Owner) -> String {
    format!("[{},{}]", serde_json::Value::from(table), owner.recorded())
}

fn owner_of(subject: &str) -> Option<(String, Owner)> {
    let (table, owner): (String, Box<RawValue>) = serde_json::from_str(subject).ok()?;
    Some((table, Owner::of_record(owner.get())?))
}
