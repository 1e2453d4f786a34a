//! `--fresh`: the log applied to a destination of its own, and both compared key by key.
//!
//! It sees what no replay can: rows of the destination that the log does not have, and rows that
//! were changed by hand and kept their version.

use std::sync::Arc;

use settle_core::change::TableName;
use settle_core::holds::Hold;
use settle_core::position::{Offset, TopicId};
use settle_core::sink::{BoxFuture, Durable, Guarantee, Passed, PlacedPartition, Places, Seen, Sink, SinkError, Sweep};
use settle_engine::config::Config;
use settle_engine::config::target::OnResnapshot;
use settle_engine::contents::TargetTable;
use settle_engine::inspection::{self, Scratch};
use settle_engine::log::{Ends, LogPartition};
use settle_engine::pipeline;
use settle_engine::shutdown::Shutdown;
use tokio::sync::Mutex;

use super::looks::{Difference, LookId, Looks};
use super::observer::{Watched, look};
use super::pass::Into;
use super::{Verdict, begins_late, finished, pass, read_since, text};
use crate::exit::{self, Exit, fail};

/// Applies the log anew, compares, removes what was made for it.
pub(super) async fn prove(
    config: &Config,
    log: &[LogPartition],
    ends: &Ends,
    shutdown: Shutdown,
) -> Result<Exit, Exit> {
    let folder = tempfile::tempdir().map_err(|error| fail(Exit::Bug, &error))?;
    let name = format!("prove_{:x}", std::process::id());
    let scratch = Scratch::make(config, &name, folder.path().to_owned()).await;
    let scratch = scratch.map_err(|error| fail(exit::of_sink(&error), &error))?;
    let proved = in_scratch(config, &scratch, log, ends, shutdown).await;
    if let Err(error) = scratch.remove().await {
        eprintln!("settle: the scratch destination could not be removed: {}", exit::chain(&error));
    }
    proved
}

async fn in_scratch(
    config: &Config,
    scratch: &Scratch,
    log: &[LogPartition],
    ends: &Ends,
    shutdown: Shutdown,
) -> Result<Exit, Exit> {
    let of_sink = |error: SinkError| fail(exit::of_sink(&error), &error);
    let into = scratch.config.clone().beside(pass::throwaway(&config.source.group, "prove", 1));
    let tables = Arc::new(Mutex::new(Vec::new()));
    let sink = pipeline::sink(&into).map_err(of_sink)?;
    let guarantee = sink.guarantee();
    let sink = Box::new(Listed { sink, target: config.target.clone(), tables: tables.clone() });
    let report = finished(pass::replay(&into, ends, Into::Scratch(sink), shutdown.clone()).await?)?;
    println!("\napplied anew to {}:{}", into.sink.address(), text::tally(&report.tally, guarantee));

    let mut looks = Looks::new().map_err(|error| fail(Exit::Bug, &error))?;
    let mut anew = inspection::contents(&into).map_err(of_sink)?;
    let mut live = inspection::contents(config).map_err(of_sink)?;
    let mut seen = Vec::new();
    let tables = std::mem::take(&mut *tables.lock().await);
    for (at, (source, table)) in tables.into_iter().enumerate() {
        let id = |look| LookId { table: at, look };
        let before = look(&mut *anew, &mut looks, id(0), &table, None).await.map_err(of_sink)?.unwrap_or_default();
        let after = look(&mut *live, &mut looks, id(1), &table, Some(&before.columns)).await.map_err(of_sink)?;
        seen.push((source, Watched { table, before }, after.unwrap_or_default()));
    }
    // After the looks: it explains what the live pipeline wrote until then.
    let since = read_since(config, ends, shutdown).await?;
    let is_whole = !log.iter().any(begins_late);
    let mut verdicts = Vec::with_capacity(seen.len());
    let mut perhaps_swept = Vec::new();
    for (at, (source, watched, after)) in seen.into_iter().enumerate() {
        // A row that the log does not have may be older than what is left of it.
        let left_out = |was, is| since.explains(&watched.table.name, was, is) || !is_whole && was.is_none();
        let compared = looks.compare(at, (0, 1), left_out).map_err(|error| fail(Exit::Bug, &error))?;
        let name = source.to_string();
        if compared.named.iter().any(|(_, how)| *how == Difference::OnlyBefore)
            && report.possible_ghosts.contains(&name)
            && config.target.on_resnapshot(&source) != OnResnapshot::Sweep
        {
            perhaps_swept.push(name);
        }
        verdicts.push(Verdict { watched, after, compared });
    }
    print!("{}", text::verdicts(&verdicts, text::Told::AppliedAnew));
    print!("{}", text::perhaps_swept(&perhaps_swept));
    let agrees = verdicts.iter().all(|verdict| verdict.compared.differing == 0);
    print!("{}", text::end_of_fresh(agrees, is_whole));
    Ok(if agrees { Exit::Done } else { Exit::Contract })
}

/// Tables that the log writes, in the order in which they come.
type Tables = Arc<Mutex<Vec<(Arc<TableName>, TargetTable)>>>;

/// The scratch destination, and what is written there.
struct Listed {
    sink: Box<dyn Sink>,
    target: settle_engine::config::Target,
    tables: Tables,
}

impl Sink for Listed {
    fn guarantee(&self) -> Guarantee {
        self.sink.guarantee()
    }

    fn open<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        self.sink.open(parts)
    }

    fn apply<'a>(&'a mut self, batch: &'a settle_core::batch::Batch) -> BoxFuture<'a, Result<Durable, SinkError>> {
        Box::pin(async move {
            let mut tables = self.tables.lock().await;
            for rows in batch.tables() {
                if tables.iter().all(|(source, _)| source != rows.table)
                    && let Some(row) = rows.rows().next()
                {
                    let table = TargetTable::of(&self.target, rows.table, row.key().names());
                    tables.push((rows.table.clone(), table));
                }
            }
            drop(tables);
            self.sink.apply(batch).await
        })
    }

    fn held<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Vec<Hold>, SinkError>> {
        self.sink.held(parts)
    }

    fn plan<'a>(&'a mut self, id: TopicId, sweep: &'a Sweep, seen: Seen) -> BoxFuture<'a, Result<(), SinkError>> {
        self.sink.plan(id, sweep, seen)
    }

    fn finish<'a>(&'a mut self, pending: &'a Passed) -> BoxFuture<'a, Result<u64, SinkError>> {
        self.sink.finish(pending)
    }

    /// The groups of a proof are gone after it: nothing of them is to be remembered.
    fn stored<'a>(&'a mut self, _: &'a [(PlacedPartition, Offset)]) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async { Ok(()) })
    }
}
