//! The run loop: one `select!` says what happened, one `match` decides.
//!
//! Records flow one way (source → line → writer), proofs come back, and only a proof moves an
//! offset. Nothing here knows Kafka or a destination.

mod attempts;
mod burial;
mod commits;
mod contested;
mod drain;
mod fences;
mod flow;
mod gap;
mod ghosts;
mod line;
mod lost_rows;
mod notes;
mod orders;
mod owners;
mod passed;
pub mod progress;
mod report;
mod rules;
mod settling;
mod writer;

use std::time::Duration;

use settle_core::fold::Limits;
use settle_core::lane::LoneTombstones;
use settle_core::policy::{Verdict, decide};
use settle_core::refusal::{Class, Refusal};
use settle_core::sink::{Sink, SinkError};

pub use burial::TooMany;
pub use flow::run;
pub(crate) use gap::{refuse as refuse_gap, refuse_made_anew};
pub(crate) use owners::Owners;
pub use report::{End, Report};

use crate::config::dlq::DlqLimit;
use crate::dead_letter::{DeadLetters, Nowhere};
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
    /// It is nobody's progress: what waits until everything has passed is left to the pipeline.
    pub beside: bool,
}

/// Where a run writes: rows to a sink, and what cannot be applied to where dead letters are kept.
pub struct Destination {
    sink: Box<dyn Sink>,
    dead_letters: Option<(Box<dyn DeadLetters>, DlqLimit)>,
    /// What is set aside is skipped: it holds no row for anybody else.
    skips: bool,
}

impl Destination {
    /// Records that cannot be applied are set aside there, as long as they are few.
    #[must_use]
    pub fn with_dead_letters(self, store: Box<dyn DeadLetters>, limit: DlqLimit) -> Self {
        Self { dead_letters: Some((store, limit)), ..self }
    }

    /// Records that cannot be applied are counted and skipped, however many: for a replay beside the
    /// pipeline, which has dealt with them.
    #[must_use]
    pub fn skipping(self) -> Self {
        let all = DlqLimit { max_ratio: 1.0, min_records: 0 };
        Self { dead_letters: Some((Box::new(Nowhere), all)), skips: true, ..self }
    }
}

impl<S: Sink + 'static> From<Box<S>> for Destination {
    fn from(sink: Box<S>) -> Self {
        Self::from(sink as Box<dyn Sink>)
    }
}

impl From<Box<dyn Sink>> for Destination {
    /// Without a place for dead letters: a record that cannot be applied stops the run.
    fn from(sink: Box<dyn Sink>) -> Self {
        Self { sink, dead_letters: None, skips: false }
    }
}

/// Why a run failed. What came before the record, or the batch, at fault is durable; it is committed
/// too unless the source itself is what failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source.
    #[error("source: {0}")]
    Source(#[source] SourceError),
    /// The destination.
    #[error("sink: {0}{way_out}", way_out = way_out(decide(.0.kind) == Verdict::Isolate))]
    Sink(#[source] SinkError),
    /// A record.
    #[error("{0}{way_out}", way_out = way_out(.0.reason.class() == Class::Poison))]
    Record(#[from] Refusal),
    /// Where dead letters are kept.
    #[error("dead letters: {0}")]
    DeadLetters(#[source] SinkError),
    /// Too many records cannot be applied.
    #[error("{0}")]
    TooManyDeadLetters(TooMany),
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

/// How to go on past a record that alone is at fault: such a failure is only seen without a [dlq].
fn way_out(one_record: bool) -> &'static str {
    if one_record {
        "; to set such records aside and go on, say where: [dlq] path = \"dead.jsonl\", or topic = \"NAME\""
    } else {
        ""
    }
}
