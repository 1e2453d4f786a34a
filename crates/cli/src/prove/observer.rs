//! Looks at the destination at the right moment: at a table before a replay first writes to it, and
//! at all of them afterwards.
//!
//! Which tables the log writes is known only from the log. So the first look at a table is taken
//! where its first batch comes by, before that batch is applied.

use std::sync::Arc;

use settle_core::batch::Batch;
use settle_core::holds::Hold;
use settle_core::position::{Offset, TopicId};
use settle_core::sink::{
    BoxFuture, Durable, FailureKind, Guarantee, Passed, PlacedPartition, Places, Seen, Sink, SinkError, Sweep,
};
use settle_engine::config::Target;
use settle_engine::contents::{Contents, Look, TargetTable};
use tokio::sync::Mutex;

use super::looks::{LookId, Looks};

/// A table that the log writes.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// In the destination.
    pub(super) table: TargetTable,
    /// The look before the replay that goes on, or before the last one.
    pub(super) before: Look,
}

/// What was seen so far.
pub(super) struct Observer {
    contents: Box<dyn Contents>,
    target: Target,
    pub(super) looks: Looks,
    pub(super) watched: Vec<Watched>,
    /// Number of the last look.
    pub(super) look: u32,
}

impl Observer {
    pub(super) fn new(contents: Box<dyn Contents>, target: Target) -> rusqlite::Result<Self> {
        Ok(Self { contents, target, looks: Looks::new()?, watched: Vec::new(), look: 0 })
    }

    /// Looks at the tables of the batch that were not seen yet.
    async fn meet(&mut self, batch: &Batch) -> Result<(), SinkError> {
        for rows in batch.tables() {
            let key = rows.rows().next().map(|row| row.key().names().map(str::to_owned).collect::<Vec<_>>());
            let table = TargetTable::of(&self.target, rows.table, key.iter().flatten().map(String::as_str));
            self.meet_table(table).await?;
        }
        for truncate in batch.truncates() {
            let name = self.target.table_name(&truncate.table);
            // A truncate does not say the key; a table that is not there has no rows to lose.
            let known = self.contents.tables().await?.into_iter().find(|table| table.name == name);
            if let Some(table) = known {
                self.meet_table(table).await?;
            }
        }
        Ok(())
    }

    async fn meet_table(&mut self, table: TargetTable) -> Result<(), SinkError> {
        if self.watched.iter().any(|watched| watched.table.name == table.name) {
            return Ok(());
        }
        let id = LookId { table: self.watched.len(), look: self.look };
        let Some(before) = look(&mut *self.contents, &mut self.looks, id, &table, None).await? else {
            let context = "the destination has no such table, though the group has read records of it: it was removed, or \
                           this is the wrong destination. A proof makes none; to fill it, read the log again (settle \
                           replay, or a run under a new group)";
            return Err(SinkError::new(FailureKind::Contract, format!("look at table {}", table.name), context));
        };
        self.watched.push(Watched { table, before });
        Ok(())
    }

    /// Looks at all tables again. The digests are of the columns that the look before had.
    pub(super) async fn look_again(&mut self) -> Result<Vec<Look>, SinkError> {
        let mut looks = Vec::with_capacity(self.watched.len());
        for (at, Watched { table, before, .. }) in self.watched.iter().enumerate() {
            let columns = Some(before.columns.as_slice()).filter(|columns| !columns.is_empty());
            let id = LookId { table: at, look: self.look + 1 };
            looks.push(look(&mut *self.contents, &mut self.looks, id, table, columns).await?.unwrap_or_default());
        }
        self.look += 1;
        Ok(looks)
    }

    /// Goes on from the last look: it is what the next replay is compared with.
    pub(super) fn go_on_from(&mut self, looks: Vec<Look>) {
        for (watched, look) in self.watched.iter_mut().zip(looks) {
            watched.before = look;
        }
    }
}

/// One look at one table, kept under `id`.
pub(super) async fn look(
    contents: &mut dyn Contents,
    looks: &mut Looks,
    id: LookId,
    table: &TargetTable,
    columns: Option<&[String]>,
) -> Result<Option<Look>, SinkError> {
    let full = |error: rusqlite::Error| {
        let context = "the temporary file for the rows seen cannot be written; make room where temporary files lie, or set \
                       SQLITE_TMPDIR to another folder";
        SinkError::new(FailureKind::Contract, format!("keep a look at {}", table.name), context).caused_by(error)
    };
    looks.begin(id).map_err(full)?;
    contents.rows(table, columns, &mut |row| looks.put(id, &row).map_err(full)).await
}

/// The destination, with an observer before it.
pub(super) struct Observed {
    pub(super) sink: Box<dyn Sink>,
    pub(super) observer: Arc<Mutex<Observer>>,
}

impl Sink for Observed {
    fn guarantee(&self) -> Guarantee {
        self.sink.guarantee()
    }

    fn open<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        self.sink.open(parts)
    }

    fn apply<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Durable, SinkError>> {
        Box::pin(async move {
            self.observer.lock().await.meet(batch).await?;
            self.sink.apply(batch).await
        })
    }

    fn held<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Vec<Hold>, SinkError>> {
        self.sink.held(parts)
    }

    /// The pipeline itself sweeps, when it has passed the snapshot.
    fn plan<'a>(&'a mut self, _: TopicId, _: &'a Sweep, _: Seen) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async { Ok(()) })
    }

    fn finish<'a>(&'a mut self, _: &'a Passed) -> BoxFuture<'a, Result<u64, SinkError>> {
        Box::pin(async { Ok(0) })
    }

    /// The groups of a proof are gone after it: nothing of them is to be remembered.
    fn stored<'a>(&'a mut self, _: &'a [(PlacedPartition, Offset)]) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async { Ok(()) })
    }
}
