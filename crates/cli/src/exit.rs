//! Exit codes, and the one place that maps failures to them.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

pub use settle_core::causes::chain;
use settle_core::policy::{Verdict, decide};
use settle_core::sink::{FailureKind, SinkError};
use settle_engine::config::Config;
use settle_engine::run::RunError;
use settle_engine::scan::ScanError;
use settle_engine::source::{SourceError, SourceFailure};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Usage or configuration.
    Usage = 2,
    /// The source was unreachable until the deadline.
    SourceUnreachable = 3,
    /// The sink was unreachable until the deadline.
    SinkUnreachable = 4,
    /// A contract is broken, or a record cannot be applied: nothing was lost, someone must decide.
    Contract = 5,
    /// More records cannot be applied than may be set aside.
    DeadLetterLimit = 6,
    /// Another instance took our place.
    Fenced = 7,
    /// A bug in Settle.
    Bug = 70,
    /// Stopped by a signal, drained.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The code of a failed run.
pub fn of_run(error: &RunError) -> Exit {
    match error {
        RunError::Source(error) => of_source(error),
        RunError::Sink(error) | RunError::DeadLetters(error) => of_sink(error),
        RunError::TooManyDeadLetters(_) => Exit::DeadLetterLimit,
        RunError::Record(_) => Exit::Contract,
        RunError::Bug(_) => Exit::Bug,
    }
}

/// The code of a failure at the source.
pub fn of_source(error: &SourceError) -> Exit {
    match error.kind {
        SourceFailure::Unreachable => Exit::SourceUnreachable,
        SourceFailure::Contract => Exit::Contract,
        SourceFailure::Fenced => Exit::Fenced,
    }
}

/// The code of a failure at the sink.
pub fn of_sink(error: &SinkError) -> Exit {
    if error.kind == FailureKind::Fenced {
        return Exit::Fenced;
    }
    match decide(error.kind) {
        Verdict::Retry | Verdict::Pause => Exit::SinkUnreachable,
        Verdict::Isolate | Verdict::Stop => Exit::Contract,
        Verdict::Bug => Exit::Bug,
    }
}

/// Prints why a scan ended early, and gives its code.
pub(crate) fn of_scan(error: &ScanError) -> Exit {
    match error {
        ScanError::Source(source) => fail(of_source(source), error),
        ScanError::Interrupted => fail(Exit::Interrupted, error),
    }
}

/// Prints the error and gives its exit back.
pub fn fail(exit: Exit, error: &dyn Error) -> Exit {
    eprintln!("settle: {}", chain(error));
    exit
}

/// Reads the configuration, and runs a command by it.
pub(crate) fn by_config(path: &Path, command: impl AsyncFnOnce(Config) -> Exit) -> Exit {
    match Config::load(path) {
        Ok(config) => block_on(command(config)).unwrap_or_else(|error| fail(Exit::Bug, &error)),
        Err(error) => fail(Exit::Usage, &error),
    }
}

/// Runs a future to its end on a runtime of its own.
pub fn block_on<F: Future>(future: F) -> std::io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    Ok(runtime.block_on(future))
}
