//! What a run did, in counters that balance.

use std::collections::BTreeMap;

use serde::Serialize;
use settle_core::tally::Tally;

use super::burial::Buried;

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The source ended, or every partition reached the end of a bounded run.
    #[default]
    End,
    /// As many records were read as were asked for.
    MaxMessages,
    /// No record came for the idle time.
    Idle,
    /// It was asked to stop.
    Interrupted,
    /// It failed.
    Failed,
}

impl End {
    /// As it stands in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::MaxMessages => "max-messages",
            Self::Idle => "idle",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// The report of a run. All counts are of this process's run alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Why it ended.
    pub ended: End,
    /// Milliseconds.
    pub elapsed_ms: u64,
    /// Where every record went.
    #[serde(flatten)]
    pub tally: Tally,
    /// Records read that the destination or this run had taken in before.
    pub redelivered: u64,
    /// Records read whose batch was not durable when the run ended; they will be delivered again.
    pub unsettled: u64,
    /// Batches that became durable.
    pub batches: u64,
    /// Attempts beyond the first to write a batch or its dead letters.
    pub retries: u64,
    /// Dead letters by their error class.
    pub dead_letters_by_class: BTreeMap<String, u64>,
    /// Dead letters whose bytes were too many for where they are kept: their origin is.
    pub dlq_truncated: u64,
    /// Source tables that may hold ghosts: a full snapshot was taken again.
    pub possible_ghosts: Vec<String>,
    /// Ghosts that were swept.
    pub swept: u64,
    /// Partitions assigned, counting every assignment.
    pub assigned: u64,
    /// Partitions revoked in an orderly way.
    pub revoked: u64,
    /// Partitions lost.
    pub lost: u64,
    /// Partitions that another instance had opened in the destination while they were held here.
    pub fenced: u64,
    /// Committed next-to-read offset per `topic:partition`.
    pub committed: BTreeMap<String, i64>,
    /// Invariants of Settle that did not hold, with how often: a bug, whatever else was reported.
    pub broken_invariants: BTreeMap<String, u64>,
}

impl Report {
    /// Counts what was set aside of a batch.
    pub(super) fn bury(&mut self, buried: Buried) {
        self.dlq_truncated += buried.truncated;
        for (class, count) in buried.by_class {
            *self.dead_letters_by_class.entry(class.to_owned()).or_default() += count;
        }
    }

    /// True if every record read is in exactly one place (or waits to be delivered again).
    pub fn balances(&self) -> bool {
        self.tally.read == self.tally.placed() + self.unsettled
    }

    /// True if nothing in the run's own books speaks of a bug.
    pub fn is_sound(&self) -> bool {
        self.balances() && self.broken_invariants.is_empty()
    }
}
