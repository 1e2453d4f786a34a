//! The sink itself: a connection, and one transaction a batch.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use settle_core::batch::Batch;
use settle_core::holds::Hold;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::{
    BoxFuture, Durable, Effect, FailureKind, Guarantee, Outcome, Passed, Pending, PlacedPartition, Places, Seen, Sink,
    SinkError, Sweep,
};
use tokio::time::Instant;

use super::apply::{self, State, Written};
use super::config::MySqlConfig;
use super::connection::Connection;
use super::failure::is_connection_lost;
use super::purge::purge;
use super::sweeps::sweep;
use crate::config::target::Target;
use crate::epochs::RecordedEpoch;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::positions::Fence;
use crate::sinks::sql::session::Session;
use crate::sinks::sql::tombstones::Purges;
use crate::sinks::sql::{filled, holds, meta, own, places, standings, sweeps};

/// After such a rest a server, or what lies before it, may have closed the connection.
const RESTED: Duration = Duration::from_secs(20);
/// How often a batch begins anew because a table changes under it.
const CHANGES: u32 = 3;

/// Keeps tables in a database of MySQL or MariaDB.
#[derive(Debug)]
pub struct MySql {
    config: MySqlConfig,
    /// None while it is used, and where that did not end well: what is dropped half-way is rolled back.
    connection: Option<(Connection, Instant)>,
    state: State,
}

impl MySql {
    /// A sink that will keep `target` in the database. Opens nothing yet.
    pub fn new(config: MySqlConfig, target: Target) -> Self {
        let fence = Fence::new(config.group.as_str());
        let (tables, ranked, purges) = (HashMap::new(), HashSet::new(), Purges::default());
        let state = State { target, fence, tables, ranked, purges };
        Self { config, connection: None, state }
    }

    async fn connection(&mut self) -> Result<Connection, SinkError> {
        if let Some((mut connection, used)) = self.connection.take()
            && (used.elapsed() < RESTED || connection.execute_text("ask the server", "DO 0").await.is_ok())
        {
            return Ok(connection);
        }
        Connection::open(&self.config).await
    }

    /// Keeps the connection, unless it is worth nothing any more.
    fn keep<T>(&mut self, connection: Connection, result: &Result<T, SinkError>) {
        if let Err(error) = result {
            if !matches!(error.kind, FailureKind::Row | FailureKind::Constraint | FailureKind::Fenced) {
                self.state.tables.clear();
            }
            self.state.tables.values_mut().for_each(|prepared| prepared.forget_notes());
            if is_connection_lost(error) || error.effect == Effect::Unknown {
                return;
            }
        }
        self.connection = Some((connection, Instant::now()));
    }

    async fn open_now(&mut self, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
        let mut connection = self.connection().await?;
        let operation = format!("open {}", self.config.address);
        let fence = &self.state.fence;
        let opened = async {
            make_own(&mut connection).await?;
            connection.begin(&operation).await?;
            let places = places::read(&mut connection, fence.group(), &self.state.target, parts).await?;
            Ok((places, fence.raise(&mut connection, parts).await?))
        }
        .await;
        let opened = end(&mut connection, &operation, opened).await;
        self.keep(connection, &opened);
        let (places, raised) = opened?;
        self.state.fence.hold(raised);
        Ok(places)
    }

    async fn apply_now(&mut self, batch: &Batch) -> Result<Durable, SinkError> {
        let mut connection = self.connection().await?;
        let operation = format!("apply a batch to {}", self.config.address);
        let applied = self.apply_over(&mut connection, &operation, batch).await;
        self.keep(connection, &applied);
        let outcome = applied?;
        self.purge_due().await;
        #[expect(clippy::disallowed_methods, reason = "COMMIT has returned")]
        Ok(Durable::mint(batch, outcome))
    }

    async fn apply_over(
        &mut self,
        connection: &mut Connection,
        operation: &str,
        batch: &Batch,
    ) -> Result<Outcome, SinkError> {
        for _ in 0..CHANGES {
            let ready = apply::ready(connection, &self.config, &mut self.state, batch).await?;
            connection.begin(operation).await?;
            let written = apply::write(connection, &mut self.state, batch, &ready).await;
            if let Ok(Written::Changed) = written {
                connection.roll_back(operation).await?;
                self.state.tables.clear();
                continue;
            }
            return match end(connection, operation, written).await? {
                Written::All(outcome) => Ok(outcome),
                Written::Changed => break,
            };
        }
        Err(SinkError::new(FailureKind::Conflict, operation, "a table is altered again and again"))
    }

    /// Purges tombstones where it is time. The batch before it is durable, whatever becomes of this.
    async fn purge_due(&mut self) {
        let Some(retention) = self.state.target.tombstone_retention else { return };
        let dated = self.state.tables.values().filter_map(|prepared| prepared.dated_graves.clone());
        for graves in self.state.purges.due(dated) {
            let purged = match self.connection().await {
                Ok(mut connection) => {
                    let purged = purge(&mut connection, &self.state.target, &graves, retention).await;
                    self.keep(connection, &purged);
                    purged
                }
                Err(error) => Err(error),
            };
            self.state.purges.done(graves, purged);
        }
    }

    /// The epochs recorded. Makes what Settle keeps of its own where nothing was written yet.
    pub async fn epochs(&mut self) -> Result<Vec<RecordedEpoch>, SinkError> {
        let mut connection = self.connection().await?;
        let found = async {
            make_own(&mut connection).await?;
            standings::epochs(&mut connection).await
        }
        .await;
        self.keep(connection, &found);
        found
    }

    /// Records where epochs begin.
    pub async fn record_epochs(&mut self, epochs: &[RecordedEpoch]) -> Result<(), SinkError> {
        let operation = format!("record an epoch in {}", self.config.address);
        let mut connection = self.connection().await?;
        let recorded = async {
            connection.begin(&operation).await?;
            standings::record(&mut connection, epochs).await
        }
        .await;
        let recorded = end(&mut connection, &operation, recorded).await;
        self.keep(connection, &recorded);
        recorded
    }

    async fn held_now(&mut self, parts: &[PlacedPartition]) -> Result<Vec<Hold>, SinkError> {
        let mut connection = self.connection().await?;
        let read = holds::read(&mut connection, parts).await;
        self.keep(connection, &read);
        read
    }

    async fn plan_now(&mut self, topic_id: TopicId, what: &Sweep, seen: Seen) -> Result<(), SinkError> {
        let mut connection = self.connection().await?;
        // One statement is its own transaction.
        let planned = sweeps::plan(&mut connection, topic_id, what, seen).await;
        self.keep(connection, &planned);
        planned
    }

    async fn sweep_now(
        &mut self,
        topic_id: TopicId,
        what: &Sweep,
        ends: &[(Partition, Offset)],
    ) -> Result<u64, SinkError> {
        let operation = format!("sweep ghosts from {}", self.config.address);
        let mut connection = self.connection().await?;
        let swept = async {
            connection.begin(&operation).await?;
            sweep(&mut connection, &self.state.target, topic_id, what, ends).await
        }
        .await;
        let swept = end(&mut connection, &operation, swept).await;
        self.keep(connection, &swept);
        swept
    }

    async fn stored_now(&mut self, committed: &[(PlacedPartition, Offset)]) -> Result<(), SinkError> {
        let operation = format!("note the offsets of the group in {}", self.config.address);
        let mut connection = self.connection().await?;
        let group = self.state.fence.group();
        let noted = async {
            connection.begin(&operation).await?;
            standings::remember(&mut connection, group, committed).await
        }
        .await;
        let noted = end(&mut connection, &operation, noted).await;
        self.keep(connection, &noted);
        noted
    }
}

/// Commits what went well, and takes back what did not.
pub(super) async fn end<T>(
    connection: &mut Connection,
    operation: &str,
    result: Result<T, SinkError>,
) -> Result<T, SinkError> {
    match result {
        Ok(done) => connection.commit(operation).await.map(|()| done),
        Err(error) if is_connection_lost(&error) => Err(error),
        Err(error) => match connection.roll_back(operation).await {
            Ok(()) => Err(error),
            // What could not be taken back is taken back with the connection.
            Err(lost) => Err(SinkError { kind: FailureKind::Unreachable, ..lost }),
        },
    }
}

/// Makes what Settle keeps of its own, where it is missing: outside of a transaction, which DDL ends.
pub(super) async fn make_own(connection: &mut Connection) -> Result<(), SinkError> {
    // Asked first: who may not create tables may go on with those that are there.
    let sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() \
               AND TABLE_NAME IN ('settle_meta', 'settle_positions')";
    if connection.query("look for settle_meta", sql, &[]).await?.len() < 2 {
        for sql in own::create(Dialect::MySql, |table| Dialect::MySql.quoted(table)) {
            connection.execute_text("create settle_meta and settle_positions", &sql).await?;
        }
    }
    filled::refuse_lost_meta(connection).await?;
    meta::open(connection).await
}

impl Sink for MySql {
    fn guarantee(&self) -> Guarantee {
        Guarantee::Atomic
    }

    fn open<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        Box::pin(self.open_now(parts))
    }

    fn apply<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Durable, SinkError>> {
        Box::pin(self.apply_now(batch))
    }

    fn held<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Vec<Hold>, SinkError>> {
        Box::pin(self.held_now(parts))
    }

    fn plan<'a>(&'a mut self, id: TopicId, sweep: &'a Sweep, seen: Seen) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(self.plan_now(id, sweep, seen))
    }

    fn finish<'a>(&'a mut self, passed: &'a Passed) -> BoxFuture<'a, Result<u64, SinkError>> {
        Box::pin(async move {
            match &passed.what {
                // Every batch reads the truncates in its own transaction: nothing is left to do.
                Pending::Truncate { .. } => Ok(0),
                Pending::Sweep(topic_id, what) => self.sweep_now(*topic_id, what, &passed.ends).await,
            }
        })
    }

    fn stored<'a>(&'a mut self, committed: &'a [(PlacedPartition, Offset)]) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(self.stored_now(committed))
    }
}
