//! The sink itself: a connection, and one transaction a batch.

use rusqlite::{Connection, TransactionBehavior};
use settle_core::batch::Batch;
use settle_core::holds::Hold;
use settle_core::position::{Offset, TopicId};
use settle_core::sink::{
    BoxFuture, Durable, Guarantee, Outcome, Passed, Pending, PlacedPartition, Places, Seen, Sink, SinkError, Sweep,
};
use std::collections::{HashMap, HashSet};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::apply::{self, State};
use super::config::SqliteConfig;
use super::connection::{self, FileId};
use super::failure::{self, During, is_connection_lost};
use super::name::quoted;
use super::positions;
use super::session::Attached;
use super::sweeps::sweep as sweep_table;
use crate::config::target::Target;
use crate::epochs::RecordedEpoch;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::positions::Fence;
use crate::sinks::sql::session::at_once;
use crate::sinks::sql::tombstones::Purges;
use crate::sinks::sql::{filled, holds, meta, places, standings, sweeps, tombstones};

/// Keeps tables in a SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    config: SqliteConfig,
    opened: Option<Opened>,
    /// The file as it was first opened: another one under its name is not ours.
    file: Option<FileId>,
    state: State,
}

/// An open database.
#[derive(Debug)]
struct Opened {
    connection: Connection,
    /// SQLite's count of schema changes, as of our last transaction: a change that is not ours
    /// makes what is known of the tables worthless.
    schema_version: i64,
}

impl Sqlite {
    /// A sink that will keep `target` in the file. Opens nothing yet.
    pub fn new(config: SqliteConfig, target: Target) -> Result<Self, SinkError> {
        let state = State {
            target,
            fence: Fence::new(config.group.as_str()),
            tables: HashMap::new(),
            written: HashSet::new(),
            purges: Purges::default(),
        };
        Ok(Self { config, opened: None, file: None, state })
    }

    fn open_now(&mut self, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
        let (places, raised) = self.in_transaction("open", |connection, state| {
            make_own(connection)?;
            let mut session = Attached(connection);
            let places = at_once(places::read(&mut session, state.fence.group(), &state.target, parts))?;
            Ok((places, at_once(state.fence.raise(&mut session, parts))?))
        })?;
        self.state.fence.hold(raised);
        Ok(places)
    }

    /// The epochs recorded. Makes the database where nothing was written yet.
    pub fn epochs(&mut self) -> Result<Vec<RecordedEpoch>, SinkError> {
        self.in_transaction("read the epochs of", |connection, _| {
            make_own(connection)?;
            at_once(standings::epochs(&mut Attached(connection)))
        })
    }

    /// Records where epochs begin.
    pub fn record_epochs(&mut self, epochs: &[RecordedEpoch]) -> Result<(), SinkError> {
        self.in_transaction("record an epoch in", |connection, _| {
            at_once(standings::record(&mut Attached(connection), epochs))
        })
    }

    fn apply_now(&mut self, batch: &Batch) -> Result<Durable, SinkError> {
        let outcome: Outcome =
            self.in_transaction("apply a batch to", |connection, state| apply::apply(connection, state, batch))?;
        self.state.written.extend(batch.tables().map(|rows| rows.table.clone()));
        self.purge_due();
        #[expect(clippy::disallowed_methods, reason = "COMMIT has returned, with synchronous=FULL")]
        Ok(Durable::mint(batch, outcome))
    }

    /// Purges tombstones where it is time. The batch before it is durable, whatever becomes of this.
    fn purge_due(&mut self) {
        let Some(retention) = self.state.target.tombstone_retention else { return };
        let dated = self.state.tables.values().filter_map(|prepared| prepared.dated_graves.clone());
        for graves in self.state.purges.due(dated) {
            let purged = self.in_transaction("purge tombstones in", |connection, state| {
                let mut session = Attached(connection);
                if state.target.create && !at_once(tombstones::is_indexed(&mut session, &graves))? {
                    let (operation, table) = (tombstones::indexing(&graves), quoted(&graves.table));
                    let index = tombstones::create_index(Dialect::Sqlite, &graves.table, &table, &graves.written);
                    connection.execute_batch(&index).during(|| operation)?;
                }
                at_once(tombstones::purge(&mut session, &graves, retention))
            });
            self.state.purges.done(graves, purged);
        }
    }

    /// Runs `work` in one transaction that holds the write lock from its start, so that what it
    /// reads is what it writes upon. After an error nothing of it is left.
    fn in_transaction<T>(
        &mut self,
        what: &str,
        work: impl FnOnce(&Connection, &mut State) -> Result<T, SinkError>,
    ) -> Result<T, SinkError> {
        let result = self.try_transaction(what, work);
        if result.as_ref().is_err_and(is_connection_lost) {
            self.opened = None;
        }
        result
    }

    fn try_transaction<T>(
        &mut self,
        what: &str,
        work: impl FnOnce(&Connection, &mut State) -> Result<T, SinkError>,
    ) -> Result<T, SinkError> {
        let Self { config, opened, file, state } = self;
        let operation = || format!("{what} {}", config.path.display());
        let opened = match opened {
            Some(opened) => opened,
            None => {
                // Not to make a new file where ours was.
                if file.is_some() {
                    connection::still_the_same(&config.path, *file)?;
                }
                opened.insert(Opened { connection: connection::open(config)?, schema_version: 0 })
            }
        };
        *file = file.or_else(|| FileId::of(&config.path));
        let begun = opened.connection.transaction_with_behavior(TransactionBehavior::Immediate).during(operation)?;
        if schema_version(&begun).during(operation)? != opened.schema_version {
            state.tables.clear();
        }
        let finished = work(&begun, state).and_then(|done| {
            let schema_version = schema_version(&begun).during(operation)?;
            connection::still_the_same(&config.path, *file)?;
            begun.commit().map_err(|error| failure::of(error, operation()).effect_unknown())?;
            opened.schema_version = schema_version;
            Ok(done)
        });
        if finished.is_err() {
            // What was made in the transaction is gone with it.
            state.tables.clear();
        }
        finished
    }
}

/// Makes what Settle keeps of its own, where it is missing.
pub(super) fn make_own(connection: &Connection) -> Result<(), SinkError> {
    at_once(filled::refuse_lost_meta(&mut Attached(connection)))?;
    connection.execute_batch(&meta::create(Dialect::Sqlite, meta::TABLE)).during(|| "create settle_meta".into())?;
    positions::make(connection)?;
    at_once(meta::open(&mut Attached(connection)))
}

fn schema_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "schema_version", |row| row.get(0))
}

impl Sink for Sqlite {
    fn guarantee(&self) -> Guarantee {
        Guarantee::Atomic
    }

    fn open<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        Box::pin(async move { blocking(|| self.open_now(parts)) })
    }

    fn apply<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Durable, SinkError>> {
        Box::pin(async move { blocking(|| self.apply_now(batch)) })
    }

    fn held<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Vec<Hold>, SinkError>> {
        let read = move |connection: &Connection, _: &mut State| at_once(holds::read(&mut Attached(connection), parts));
        Box::pin(async move { blocking(|| self.in_transaction("read the holds of", read)) })
    }

    fn plan<'a>(&'a mut self, id: TopicId, sweep: &'a Sweep, seen: Seen) -> BoxFuture<'a, Result<(), SinkError>> {
        let plan = move |connection: &Connection, _: &mut State| {
            at_once(sweeps::plan(&mut Attached(connection), id, sweep, seen))
        };
        Box::pin(async move { blocking(|| self.in_transaction("plan a sweep in", plan)) })
    }

    fn finish<'a>(&'a mut self, passed: &'a Passed) -> BoxFuture<'a, Result<u64, SinkError>> {
        Box::pin(async move {
            match &passed.what {
                // Every batch reads the truncates in its own transaction: nothing is left to do.
                Pending::Truncate { .. } => Ok(0),
                Pending::Sweep(topic_id, sweep) => blocking(|| {
                    self.in_transaction("sweep ghosts from", |connection, state| {
                        sweep_table(connection, &state.target, *topic_id, sweep, &passed.ends)
                    })
                }),
            }
        })
    }

    fn stored<'a>(&'a mut self, committed: &'a [(PlacedPartition, Offset)]) -> BoxFuture<'a, Result<(), SinkError>> {
        let remember = move |connection: &Connection, state: &mut State| {
            at_once(standings::remember(&mut Attached(connection), state.fence.group(), committed))
        };
        Box::pin(async move { blocking(|| self.in_transaction("note the offsets of the group in", remember)) })
    }
}

/// Runs what waits for a disk or a lock without holding up the other tasks of a runtime that has
/// threads for them. It has no point at which it could be cancelled half-way.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
