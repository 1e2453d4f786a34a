//! A simulation from its first table to its last transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use settle_engine::shutdown::{Request, Shutdown};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::database::{DatabaseError, Session};
use crate::simulate::plan::Planner;
use crate::simulate::writer::{Common, Pace, Writer, elapsed_ms};
use crate::simulate::{Options, Report, schema};

/// Why a simulation ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// An option that cannot be.
    #[error("{0}")]
    Option(String),
    /// A table of ours by name, not by columns.
    #[error(
        "table {0} is there with other columns than the simulation's: it writes to tables of its own only; \
         give it an empty database"
    )]
    ForeignTable(&'static str),
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A writer ended in a way that it cannot.
    #[error("a writer broke down: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// Makes the tables and the shared rows where they are missing.
pub async fn prepare(options: &Options) -> Result<(), SimulateError> {
    let mut session = Session::open(&options.address).await?;
    let made = schema::make(&mut session, options).await;
    session.close().await;
    made
}

/// Prepares, then writes until the options or `shutdown` say that it is enough. Asked to drain, the writers finish
/// their transactions; asked to abort, they drop them. `show` is kept up to date.
pub async fn run(
    options: &Options,
    show: watch::Sender<Report>,
    mut shutdown: Shutdown,
) -> Result<Report, SimulateError> {
    if let Some(problem) = options.problem() {
        return Err(SimulateError::Option(problem));
    }
    prepare(options).await?;
    let common =
        Arc::new(Common { show, start: Instant::now(), truncates: AtomicU64::new(0), failed: AtomicBool::new(false) });
    let mut writers = Vec::new();
    for number in 0..options.writers {
        let planner = Planner::new(options.seed, number, options.address.engine(), &options.hazards);
        writers.push(Writer::start(options.address.clone(), planner, number, common.clone()).await?);
    }
    let until = options.duration.map(|duration| Instant::now() + duration);
    let mut tasks = JoinSet::new();
    for (number, writer) in writers.into_iter().enumerate() {
        let pace =
            Pace { period: options.period(), until, transactions: options.share(number), shutdown: shutdown.clone() };
        tasks.spawn(writer.write(pace));
    }
    let mut ended = Ok(());
    loop {
        let next = tokio::select! {
            next = tasks.join_next() => next,
            // Dropping the tasks drops their sessions, and the server rolls back.
            () = shutdown.at_least(Request::Abort) => break,
        };
        let Some(result) = next else { break };
        let result = result.map_err(SimulateError::from).and_then(|written| written.map_err(SimulateError::from));
        if result.is_err() {
            common.failed.store(true, Ordering::Relaxed);
            ended = ended.and(result);
        }
    }
    ended?;
    common.show.send_modify(|report| report.elapsed_ms = elapsed_ms(common.start));
    Ok(common.show.borrow().clone())
}
