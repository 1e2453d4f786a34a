//! From proofs to offsets: what may be committed, and never more.
//!
//! A span is opened when its batch is handed to a sink and settled by the sink's proof. The
//! committed offset of a partition is the end of its longest settled prefix *in order of
//! delivery*: numbers may have gaps, deliveries may not.

use std::collections::{BTreeMap, VecDeque};

use crate::position::{Offset, Partition, Span};
use crate::sink::Durable;

/// Open spans of every assigned partition.
#[derive(Debug, Default)]
pub struct Ledger {
    partitions: BTreeMap<Partition, VecDeque<Entry>>,
}

#[derive(Debug)]
struct Entry {
    span: Span,
    settled: bool,
}

impl Ledger {
    /// Opens a span: it was delivered after every span of its partition opened before.
    pub fn open(&mut self, span: Span) {
        let queue = self.partitions.entry(span.partition.clone()).or_default();
        debug_assert!(queue.back().is_none_or(|last| last.span.end <= span.start), "spans open in log order");
        queue.push_back(Entry { span, settled: false });
    }

    /// Takes a proof and says which offsets may be committed now. Spans of partitions that were
    /// dropped since are ignored.
    pub fn settle(&mut self, proof: Durable) -> Vec<(Partition, Offset)> {
        let mut ready = Vec::new();
        for span in proof.into_spans() {
            let Some(queue) = self.partitions.get_mut(&span.partition) else { continue };
            if let Some(entry) = queue.iter_mut().find(|entry| entry.span == span) {
                entry.settled = true;
            }
            let mut end = None;
            while queue.front().is_some_and(|entry| entry.settled) {
                end = queue.pop_front().map(|entry| entry.span.end);
            }
            ready.extend(end.map(|end| (span.partition, end)));
        }
        ready
    }

    /// True if nothing of the partition waits for a proof.
    pub fn is_settled(&self, partition: &Partition) -> bool {
        self.partitions.get(partition).is_none_or(VecDeque::is_empty)
    }

    /// True if nothing at all waits.
    pub fn is_all_settled(&self) -> bool {
        self.partitions.values().all(VecDeque::is_empty)
    }

    /// Forgets a partition that was revoked or lost: later proofs of it commit nothing.
    pub fn drop_partition(&mut self, partition: &Partition) {
        self.partitions.remove(partition);
    }
}
