//! The run loop: one `select!` says what happened, one `match` decides.
//!
//! Records flow one way (source → line → writer), proofs come back, and only a proof moves an
//! offset. Nothing here knows Kafka or a destination.

mod commits;
mod drain;
mod flow;
mod gap;
mod line;
mod owners;
pub mod progress;
mod report;
mod writer;

use std::time::Duration;

use settle_core::fold::Limits;
use settle_core::lane::LoneTombstones;
use settle_core::refusal::Refusal;
use settle_core::sink::SinkError;

pub use flow::run;
pub(crate) use gap::refuse as refuse_gap;
pub(crate) use owners::Owners;
pub use report::{End, Report};

use crate::source::SourceError;

/// When a run ends, and how it gathers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Batch limits.
    pub limits: Limits,
    /// Tombstones that follow no delete.
    pub lone_tombstones: LoneTombstones,
    /// End when every partition reached the end fixed at start.
    pub until_end: bool,
    /// End after this many records.
    pub max_messages: Option<u64>,
    /// End when no record came for this long.
    pub idle_timeout: Option<Duration>,
    /// Give up on a source or destination that is away for this long; never where none.
    pub deadline: Option<Duration>,
    /// How long a drain may take after a request to stop.
    pub drain_timeout: Duration,
}

/// Why a run failed. What came before the record, or the batch, at fault is durable; it is committed
/// too unless the source itself is what failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source.
    #[error("source: {0}")]
    Source(#[source] SourceError),
    /// The destination.
    #[error("sink: {0}")]
    Sink(#[source] SinkError),
    /// A record.
    #[error("{0}")]
    Record(#[from] Refusal),
    /// A task of ours ended without a word.
    #[error("the {0} stopped without saying why; this is a bug in settle")]
    Bug(&'static str),
}

/// What ended a run, with its report.
#[derive(Debug)]
pub struct Ended {
    /// Counters.
    pub report: Report,
    /// The failure, if it was one.
    pub error: Option<RunError>,
}
