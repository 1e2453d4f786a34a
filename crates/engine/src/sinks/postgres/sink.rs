//! The sink itself: a connection, and one transaction a batch.

use std::collections::{HashMap, HashSet};

use settle_core::batch::Batch;
use settle_core::holds::Hold;
use settle_core::position::{Offset, TopicId};
use settle_core::sink::{
    BoxFuture, Durable, Guarantee, Outcome, Passed, Pending, PlacedPartition, Places, Seen, Sink, SinkError, Sweep,
};

use super::apply::{self, State};
use super::config::PostgresConfig;
use super::connection::Connection;
use super::failure::is_connection_lost;
use super::own;
use super::prepared::Prepared;
use super::purge::purge;
use super::stage::Stages;
use super::sweep::sweep_table;
use super::transaction::Transaction;
use crate::config::target::Target;
use crate::epochs::RecordedEpoch;
use crate::sinks::sql::positions::Fence;
use crate::sinks::sql::tombstones::Purges;
use crate::sinks::sql::{filled, holds, meta, places, standings, sweeps};

/// Keeps tables in a PostgreSQL schema.
#[derive(Debug)]
pub struct Postgres {
    opened: Option<(Connection, Stages)>,
    state: State,
}

impl Postgres {
    /// A sink that will keep `target` there. Connects to nothing yet.
    pub fn new(config: PostgresConfig, target: Target) -> Self {
        let fence = Fence::new(config.group.as_str());
        Self {
            opened: None,
            state: State {
                target,
                config,
                fence,
                tables: HashMap::new(),
                written: HashSet::new(),
                purges: Purges::default(),
            },
        }
    }

    /// The epochs recorded. Makes what Settle keeps for itself where nothing was written yet.
    pub async fn epochs(&mut self) -> Result<Vec<RecordedEpoch>, SinkError> {
        let mut session = self.begin("read the epochs of", true).await?;
        let read = standings::epochs(&mut session).await;
        self.end(session, "read the epochs of", read).await
    }

    /// Records where epochs begin.
    pub async fn record_epochs(&mut self, epochs: &[RecordedEpoch]) -> Result<(), SinkError> {
        let mut session = self.begin("record an epoch in", true).await?;
        let recorded = standings::record(&mut session, epochs).await;
        self.end(session, "record an epoch in", recorded).await
    }

    async fn open_now(&mut self, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
        let mut session = self.begin("open", true).await?;
        let opened = async {
            let places = places::read(&mut session, self.state.fence.group(), &self.state.target, parts).await?;
            Ok((places, self.state.fence.raise(&mut session, parts).await?))
        };
        let opened = opened.await;
        let (places, raised) = self.end(session, "open", opened).await?;
        self.state.fence.hold(raised);
        Ok(places)
    }

    async fn apply_now(&mut self, batch: &Batch) -> Result<Durable, SinkError> {
        const WHAT: &str = "apply a batch to";
        let mut session = self.begin(WHAT, false).await?;
        let applied = apply::apply(&mut session, &mut self.state, batch).await;
        let outcome: Outcome = self.end(session, WHAT, applied).await?;
        self.state.written.extend(batch.tables().map(|rows| rows.table.clone()));
        self.purge_due().await;
        #[expect(clippy::disallowed_methods, reason = "the server has said that it committed")]
        Ok(Durable::mint(batch, outcome))
    }

    /// Purges tombstones where it is time. The batch before it is durable, whatever becomes of this.
    async fn purge_due(&mut self) {
        const WHAT: &str = "purge tombstones in";
        let Some(retention) = self.state.target.tombstone_retention else { return };
        let dated = self.state.tables.values().filter_map(Prepared::dated_graves);
        for graves in self.state.purges.due(dated) {
            let purged = match self.begin(WHAT, false).await {
                Ok(mut session) => {
                    let purged = purge(&mut session, &self.state, &graves, retention).await;
                    self.end(session, WHAT, purged).await
                }
                Err(error) => Err(error),
            };
            self.state.purges.done(graves, purged);
        }
    }

    /// Begins a transaction, over a new connection where there is none. `anew` where it may be the first
    /// of this destination.
    async fn begin(&mut self, what: &str, anew: bool) -> Result<Transaction, SinkError> {
        let operation = self.operation(what);
        // Taken out: what happens to it half-way, a future that is dropped too, happens to no later batch.
        let (connection, stages) = match self.opened.take() {
            Some(opened) => opened,
            None => {
                // What was known of the tables was known over a connection that broke.
                self.state.tables.clear();
                (Connection::open(&self.state.config).await?, Stages::default())
            }
        };
        if anew {
            own::make(&connection, &self.state.config.schema).await?;
        }
        let mut session = Transaction::begin(connection, stages, &operation).await?;
        if anew {
            let opened = match filled::refuse_lost_meta(&mut session).await {
                Ok(()) => meta::open(&mut session).await,
                Err(error) => Err(error),
            };
            if let Err(error) = opened {
                return self.end(session, what, Err(error)).await;
            }
        }
        Ok(session)
    }

    /// Commits, or leaves nothing of it.
    async fn end<T>(&mut self, session: Transaction, what: &str, worked: Result<T, SinkError>) -> Result<T, SinkError> {
        let operation = self.operation(what);
        let ended = match worked {
            Ok(done) => match session.commit(&operation).await {
                Ok(opened) => {
                    self.opened = Some(opened);
                    return Ok(done);
                }
                Err(error) => error,
            },
            Err(error) => {
                if !is_connection_lost(&error)
                    && let Ok(connection) = session.roll_back(&operation).await
                {
                    self.opened = Some((connection, Stages::default()));
                }
                error
            }
        };
        // What was made in the transaction is gone with it.
        self.state.tables.clear();
        Err(ended)
    }

    fn operation(&self, what: &str) -> String {
        format!("{what} {}", self.state.config.address)
    }
}

impl Sink for Postgres {
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
        Box::pin(async move {
            let mut session = self.begin("read the holds of", false).await?;
            let read = holds::read(&mut session, parts).await;
            self.end(session, "read the holds of", read).await
        })
    }

    fn plan<'a>(&'a mut self, id: TopicId, sweep: &'a Sweep, seen: Seen) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            let mut session = self.begin("plan a sweep in", false).await?;
            let planned = sweeps::plan(&mut session, id, sweep, seen).await;
            self.end(session, "plan a sweep in", planned).await
        })
    }

    fn finish<'a>(&'a mut self, passed: &'a Passed) -> BoxFuture<'a, Result<u64, SinkError>> {
        Box::pin(async move {
            // Every batch reads the truncates in its own transaction: nothing is left to do.
            let Pending::Sweep(topic_id, sweep) = &passed.what else { return Ok(0) };
            let mut session = self.begin("sweep ghosts from", false).await?;
            let swept = sweep_table(&mut session, &self.state, *topic_id, sweep, &passed.ends).await;
            self.end(session, "sweep ghosts from", swept).await
        })
    }

    fn stored<'a>(&'a mut self, committed: &'a [(PlacedPartition, Offset)]) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            let mut session = self.begin("note the offsets of the group in", false).await?;
            let noted = standings::remember(&mut session, self.state.fence.group(), committed).await;
            self.end(session, "note the offsets of the group in", noted).await
        })
    }
}
