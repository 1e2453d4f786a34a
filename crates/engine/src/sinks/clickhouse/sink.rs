//! The sink: what is done in which order.
//!
//! What a loss is told by, floors and truncates first, then rows, then what the truncates empty, then
//! the proof. Every write is idempotent (versions decide), so after any failure the same batch is
//! applied again from its beginning, and sends the same bytes.

use std::collections::{BTreeSet, HashMap, HashSet};

use settle_core::batch::{Batch, Row};
use settle_core::change::{Change, TableName};
use settle_core::holds::Hold;
use settle_core::position::{Offset, TopicId};
use settle_core::resnapshot::Swept;
use settle_core::sink::{
    BoxFuture, Durable, FailureKind, Guarantee, Outcome, Passed, Pending, PlacedPartition, Places, Seen, Sink,
    SinkError, Sweep,
};
use settle_core::version::Version;

use super::apply;
use super::config::ClickHouseConfig;
use super::destination::Destination;
use super::filled::{self, Filled};
use super::holds::HoldFacts;
use super::meta::Meta;
use super::server::Server;
use super::standings::{self, OfGroup};
use super::sweeps;
use super::table::describe;
use super::truncates;
use crate::config::{Deletes, Target};
use crate::epochs::{RecordedEpoch, latest_last, placed};

/// ClickHouse as a destination.
pub struct ClickHouse {
    pub(crate) server: Server,
    pub(crate) target: Target,
    pub(crate) meta: Meta,
    holds: HoldFacts,
    filled: Filled,
    /// Sweeps that were done, as of the last opening.
    swept: HashMap<TableName, Swept>,
    /// The pipeline's consumer group.
    group: String,
    /// Partitions of which it is noted that the group begins to write them.
    begun: HashSet<(TopicId, i32)>,
    destination: Destination,
    /// Target tables whose pending DELETE this process has repeated.
    repeated: HashSet<String>,
    is_open: bool,
}

impl ClickHouse {
    /// Checks the configuration; nothing is sent before [`Sink::open`].
    pub fn new(config: ClickHouseConfig, target: Target) -> Result<Self, SinkError> {
        let hard = target.tables.iter().find(|(_, rule)| rule.deletes == Some(Deletes::Hard));
        let section = match hard {
            Some((table, _)) => Some(format!("[tables.\"{table}\"]")),
            None => (target.deletes == Some(Deletes::Hard)).then(|| "[sink]".to_owned()),
        };
        if let Some(section) = section {
            let context = format!(
                "deletes = \"hard\" in {section}: ClickHouse keeps delete markers, so that a late older row cannot \
                 resurrect a deleted one; remove it and read the `_current` view"
            );
            return Err(super::config::refused(context));
        }
        let group = config.group.clone();
        let server = Server::new(config)?;
        let meta = Meta::new(&server.database);
        let holds = HoldFacts::new(&server.database);
        Ok(Self {
            server,
            target,
            meta,
            holds,
            filled: Filled::default(),
            swept: HashMap::new(),
            group,
            begun: HashSet::new(),
            destination: Destination::default(),
            repeated: HashSet::new(),
            is_open: false,
        })
    }

    async fn open_parts(&mut self, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
        let version = self.server.probe().await?;
        self.server.prepare(self.target.create).await?;
        let floors = self.meta.open(&self.server.client, parts).await?;
        if !self.is_open {
            tracing::info!(version, database = self.server.database, "connected to ClickHouse");
        }
        self.is_open = true;
        Ok(Places { floors, ..self.recorded(parts).await? })
    }

    /// What is recorded of these places, without changing anything.
    pub async fn places(&mut self, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
        if describe(&self.server.client, self.meta.name()).await?.is_none() {
            return Ok(Places::default());
        }
        let floors = self.meta.read_floors(&self.server.client, parts).await?;
        Ok(Places { floors, ..self.recorded(parts).await? })
    }

    async fn recorded(&mut self, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
        let client = &self.server.client;
        let holds = self.holds.open(client, parts).await?;
        let all_epochs = standings::epochs(&self.meta, client).await?;
        let epochs = placed(&all_epochs, parts);
        let OfGroup { written, begun, committed } = standings::of_group(&self.meta, client, &self.group, parts).await?;
        let written = latest_last(&all_epochs, written);
        let missing = filled::missing(&self.server, &self.meta, &self.target, parts).await?;
        self.filled.forget(parts);
        self.swept = sweeps::done(&self.server, &self.meta).await?;
        self.begun.extend(begun.iter().map(|part| (part.topic_id, part.partition.number)));
        let mut pending = sweeps::pending(&self.server, &self.meta, parts).await?;
        pending.extend(truncates::pending(&self.server, &self.meta, parts).await?);
        Ok(Places { holds, epochs, written, begun, applied: committed, missing, pending, ..Places::default() })
    }

    async fn finish_one(&mut self, passed: &Passed) -> Result<u64, SinkError> {
        match &passed.what {
            Pending::Sweep(topic_id, sweep) => {
                let swept =
                    sweeps::sweep(&self.server, &self.meta, &self.target, *topic_id, sweep, &passed.ends).await?;
                self.swept = sweeps::done(&self.server, &self.meta).await?;
                Ok(swept)
            }
            Pending::Truncate { topic_id, version, .. } => {
                let (id, passed) = (*topic_id, *version);
                self.finish_pending(|topic_id, version| topic_id == id && version <= passed).await.map(|_| 0)
            }
        }
    }

    /// The epochs recorded. Prepares the database where nothing was written yet.
    pub async fn epochs(&mut self) -> Result<Vec<RecordedEpoch>, SinkError> {
        self.open_parts(&[]).await?;
        standings::epochs(&self.meta, &self.server.client).await
    }

    /// Records where epochs begin.
    pub async fn record_epochs(&mut self, epochs: &[RecordedEpoch]) -> Result<(), SinkError> {
        standings::record(&self.meta, &self.server.client, epochs).await
    }

    /// Carries out for the last time the truncates whose position everything has passed, as `passed`
    /// says of a topic and a version; they are not pending any more. Returns how many.
    pub async fn finish_pending(
        &mut self,
        passed: impl Fn(TopicId, Version) -> bool + Sync,
    ) -> Result<usize, SinkError> {
        truncates::finish(&self.server, &self.meta, &self.target, &passed).await
    }

    /// Notes that the group begins to write the partitions of the batch, before any of its offsets is
    /// committed.
    async fn begin(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut begin: Vec<PlacedPartition> = Vec::new();
        for span in batch.spans() {
            let part =
                PlacedPartition { topic_id: self.meta.topic_id(&span.partition)?, partition: span.partition.clone() };
            if !self.begun.contains(&(part.topic_id, part.partition.number)) && !begin.contains(&part) {
                begin.push(part);
            }
        }
        standings::begin(&self.meta, &self.server.client, &self.group, &begin).await?;
        self.begun.extend(begin.into_iter().map(|part| (part.topic_id, part.partition.number)));
        Ok(())
    }

    /// Forgets a group that was made for one pass.
    pub(crate) async fn forget_group(&self, group: &str) -> Result<(), SinkError> {
        if describe(&self.server.client, self.meta.name()).await?.is_none() {
            return Ok(());
        }
        standings::forget(&self.meta, &self.server.client, group).await
    }

    async fn apply_batch(&mut self, batch: &Batch) -> Result<Durable, SinkError> {
        if !self.is_open {
            return Err(SinkError::new(FailureKind::Bug, "applying a batch", "the sink was never opened"));
        }
        self.begin(batch).await?;
        let Self { server, target, meta, destination, repeated, filled, swept, .. } = self;
        meta.record(&server.client, batch.floors()).await?;
        let mut to_empty = truncates::record(server, meta, target, batch.truncates()).await?;
        let before = truncates::read(server, meta).await?;
        let mut outcome = Outcome::default();
        let mut written = BTreeSet::new();
        for rows in batch.tables() {
            let known = destination.prepare(server, target, &rows, meta).await?;
            let name = known.table.name.table.clone();
            filled.note(server, meta, &name, &rows).await?;
            let of_table = swept.get(&**rows.table);
            let is_swept = |row: &Row<'_>| {
                let Change { record, version, .. } = row.change();
                of_table.is_some_and(|swept| {
                    let topic_id = meta.topic_id(&record.partition);
                    topic_id.is_ok_and(|id| swept.covers(id, record.partition.number, record.offset, *version))
                })
            };
            let became = match apply::table(server, target, known, &rows, before.of(&name), &is_swept).await {
                Ok(became) => became,
                Err(error) => {
                    if error.kind == FailureKind::Contract {
                        destination.forget(rows.table);
                    }
                    return Err(error);
                }
            };
            outcome.applied += became.written;
            outcome.stale += became.stale + became.emptied;
            if before.is_pending(&name) && (became.emptied > 0 || !repeated.contains(&name)) {
                to_empty.insert(name.clone());
            }
            written.insert(name);
        }
        // What another instance recorded meanwhile it could not carry out for rows that came behind.
        let after = if written.is_empty() { None } else { Some(truncates::read(server, meta).await?) };
        let after = after.as_ref().unwrap_or(&before);
        to_empty.extend(written.into_iter().filter(|table| after.of(table) != before.of(table)));
        for table in to_empty {
            truncates::delete(server, target, &table, after.of(&table)).await?;
            repeated.insert(table);
        }
        // Behind the rows: what lifts a hold is a row that is there.
        self.holds.record(&self.server.client, batch.holds()).await?;
        #[expect(clippy::disallowed_methods, reason = "the server acknowledged every insert of the batch")]
        Ok(Durable::mint(batch, outcome))
    }
}

impl Sink for ClickHouse {
    fn guarantee(&self) -> Guarantee {
        Guarantee::Versioned
    }

    fn open<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        Box::pin(self.open_parts(parts))
    }

    fn apply<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Durable, SinkError>> {
        Box::pin(self.apply_batch(batch))
    }

    fn held<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Vec<Hold>, SinkError>> {
        Box::pin(self.holds.read(&self.server.client, parts))
    }

    fn plan<'a>(&'a mut self, id: TopicId, sweep: &'a Sweep, seen: Seen) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(sweeps::plan(&self.server, &self.meta, id, sweep, seen))
    }

    fn finish<'a>(&'a mut self, passed: &'a Passed) -> BoxFuture<'a, Result<u64, SinkError>> {
        Box::pin(self.finish_one(passed))
    }

    fn stored<'a>(&'a mut self, committed: &'a [(PlacedPartition, Offset)]) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(standings::remember(&self.meta, &self.server.client, &self.group, committed))
    }
}
