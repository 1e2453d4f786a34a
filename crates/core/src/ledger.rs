//! From proofs to offsets: what may be committed, and never more.
//!
//! A span is opened when its batch is handed to a sink and settled by the sink's proof. The
//! committed offset of a partition is the end of its longest settled prefix *in order of
//! delivery*: numbers may have gaps, deliveries may not.

use std::collections::{BTreeMap, VecDeque};

use crate::invariant::{self, COMMITTED_LE_DURABLE, COMMITTED_RISES, SPANS_IN_ORDER};
use crate::position::{Offset, Partition, Span};
use crate::sink::Durable;

/// Open spans of every assigned partition.
#[derive(Debug, Default)]
pub struct Ledger {
    partitions: BTreeMap<Partition, Open>,
}

/// One partition since it was assigned.
#[derive(Debug, Default)]
struct Open {
    entries: VecDeque<Entry>,
    /// End of the last prefix that was settled.
    committed: Option<Offset>,
}

#[derive(Debug)]
struct Entry {
    span: Span,
    settled: bool,
}

impl Ledger {
    /// Opens a span: it was delivered after every span of its partition opened before. One that was
    /// not is left out, so that its proof commits nothing.
    pub fn open(&mut self, span: Span) {
        let open = self.partitions.entry(span.partition.clone()).or_default();
        let behind = open.entries.back().map(|last| last.span.end).or(open.committed);
        let in_order = span.start <= span.end && behind.is_none_or(|behind| behind <= span.start);
        if invariant::check(&SPANS_IN_ORDER, in_order) {
            open.entries.push_back(Entry { span, settled: false });
        }
    }

    /// Takes a proof and says which offsets may be committed now. Spans that are not open are
    /// ignored: their partition was dropped since, or they were proved before.
    pub fn settle(&mut self, proof: Durable) -> Vec<(Partition, Offset)> {
        let mut ready = Vec::new();
        for span in proof.into_spans() {
            let Some(open) = self.partitions.get_mut(&span.partition) else { continue };
            if let Some(entry) = open.entries.iter_mut().find(|entry| entry.span == span) {
                entry.settled = true;
            }
            let Some(end) = open.pop_settled() else { continue };
            let covered = open.entries.iter().all(|entry| entry.span.start >= end);
            let rises = open.committed.is_none_or(|before| before <= end);
            if invariant::check(&COMMITTED_LE_DURABLE, covered) && invariant::check(&COMMITTED_RISES, rises) {
                open.committed = Some(end);
                ready.push((span.partition, end));
            }
        }
        ready
    }

    /// True if nothing of the partition waits for a proof.
    pub fn is_settled(&self, partition: &Partition) -> bool {
        self.partitions.get(partition).is_none_or(|open| open.entries.is_empty())
    }

    /// True if nothing at all waits.
    pub fn is_all_settled(&self) -> bool {
        self.partitions.values().all(|open| open.entries.is_empty())
    }

    /// Forgets a partition that was revoked or lost: proofs of what was open commit nothing, until
    /// the very same span was delivered again (its records are durable then, whoever wrote them).
    pub fn drop_partition(&mut self, partition: &Partition) {
        self.partitions.remove(partition);
    }
}

impl Open {
    /// Takes the settled prefix out and says where it ends.
    fn pop_settled(&mut self) -> Option<Offset> {
        let mut end = None;
        while self.entries.front().is_some_and(|entry| entry.settled) {
            end = self.entries.pop_front().map(|entry| entry.span.end);
        }
        end
    }
}

#[cfg(test)]
mod tests;
