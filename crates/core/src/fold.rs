//! Gathers events into a batch: per key the greatest version survives, deletes included.
//!
//! Folding never changes the result for any cut of the batches: it makes the same comparisons
//! that the destination's guard would make one by one.

use std::collections::HashMap;
use std::sync::Arc;

use crate::batch::Batch;
use crate::change::{Change, Event, TableName};
use crate::columns::is_unavailable;
use crate::key::Key;
use crate::position::{Offset, Partition, Span};
use crate::refusal::{Reason, Refusal};
use crate::version::Floor;

/// When a batch is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records, superseded ones included.
    pub max_rows: usize,
    /// Bytes of the records held.
    pub max_bytes: usize,
    /// Age of its first record, milliseconds.
    pub max_age_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_rows: 10_000, max_bytes: 16 << 20, max_age_ms: 1_000 }
    }
}

/// The batch being gathered.
#[derive(Debug)]
pub struct Fold {
    limits: Limits,
    batch: Batch,
    /// Index of the survivor in the batch's changes, per table and key.
    latest: HashMap<(Arc<TableName>, Key), usize>,
    opened_at_ms: Option<u64>,
}

impl Fold {
    /// An empty batch that is cut at `limits`.
    pub fn new(limits: Limits) -> Self {
        Self { limits, batch: Batch::default(), latest: HashMap::new(), opened_at_ms: None }
    }

    /// True if `event` must not join what is gathered: its table's Connect schema is another.
    pub fn must_cut_before(&self, event: &Event) -> bool {
        let Event::Change(change) = event else { return false };
        let (Some(schema), Some(rows)) = (&change.schema, self.batch.tables.get(&change.table)) else {
            return false;
        };
        // Rows of a table share their schema by pointer; another pointer with equal content is a
        // rare cut too many, never a wrong one.
        rows.iter()
            .filter_map(|&i| self.batch.changes[i].schema.as_ref())
            .next()
            .is_some_and(|known| !Arc::ptr_eq(known, schema))
    }

    /// Takes the event read at `offset`, which is the next of its partition.
    pub fn push(
        &mut self,
        partition: &Partition,
        offset: Offset,
        event: Event,
        floor: Option<Floor>,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        match event {
            Event::Change(change) => self.take(*change)?,
            Event::Truncate(truncate) => {
                self.batch.tally.truncates += 1;
                self.batch.bytes += truncate.record.size();
                self.batch.truncates.push(*truncate);
            }
            Event::Control(_) => self.batch.tally.control += 1,
        }
        self.batch.tally.read += 1;
        self.batch.floors.extend(floor.map(|floor| (partition.clone(), floor)));
        self.cover(partition, offset, offset + 1, now_ms);
        Ok(())
    }

    /// Marks `[.., end)` of the partition as read though nothing came: the log ends in markers.
    pub fn pass(&mut self, partition: &Partition, start: Offset, end: Offset, now_ms: u64) {
        if end > start {
            self.cover(partition, start, end, now_ms);
        }
    }

    /// True if the batch is full.
    pub fn is_full(&self) -> bool {
        self.batch.tally.read >= self.limits.max_rows as u64 || self.batch.bytes >= self.limits.max_bytes
    }

    /// True if nothing is gathered.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// When the gathered batch reaches its age, in the caller's milliseconds.
    pub fn due_at_ms(&self) -> Option<u64> {
        self.opened_at_ms.map(|at| at + self.limits.max_age_ms)
    }

    /// Takes the batch out.
    pub fn cut(&mut self) -> Batch {
        self.latest.clear();
        self.opened_at_ms = None;
        std::mem::take(&mut self.batch)
    }

    fn cover(&mut self, partition: &Partition, start: Offset, end: Offset, now_ms: u64) {
        self.opened_at_ms.get_or_insert(now_ms);
        match self.batch.spans.iter_mut().find(|span| span.partition == *partition) {
            Some(span) => span.end = end,
            None => self.batch.spans.push(Span { partition: partition.clone(), start, end }),
        }
    }

    fn take(&mut self, change: Change) -> Result<(), Refusal> {
        let index = self.batch.changes.len();
        let id = (change.table.clone(), change.key.clone());
        let known = self.latest.get(&id).copied();
        let fill = match known {
            None => None,
            Some(known) => {
                let survivor = &self.batch.changes[known];
                self.batch.tally.superseded += 1;
                if change.version < survivor.version {
                    return self.keep(change, None);
                }
                if change.version == survivor.version {
                    if !change.may_tie && !same_content(&change, survivor) {
                        let reason = Reason::EqualVersionOtherContent { other: survivor.place() };
                        return Err(Refusal { place: change.place(), reason });
                    }
                    return self.keep(change, None);
                }
                // A delete ends the row: what follows it is another, which has nothing of the old one.
                (!survivor.is_delete()).then_some(known)
            }
        };
        self.latest.insert(id, index);
        let rows = self.batch.tables.entry(change.table.clone()).or_default();
        match known.and_then(|known| rows.iter().position(|&i| i == known)) {
            Some(at) => rows[at] = index,
            None => rows.push(index),
        }
        self.keep(change, fill)
    }

    #[expect(clippy::unnecessary_wraps, reason = "every way out of `take` has one type")]
    fn keep(&mut self, change: Change, fill: Option<usize>) -> Result<(), Refusal> {
        self.batch.bytes += change.record.size();
        self.batch.changes.push(change);
        self.batch.fills.push(fill);
        Ok(())
    }
}

/// Whether two records of one key and version say the same: `op` and row as received, where an
/// unavailable value equals anything.
fn same_content(a: &Change, b: &Change) -> bool {
    if a.op != b.op {
        return false;
    }
    if a.after_json() == b.after_json() {
        return true;
    }
    let (left, right) = (a.columns(), b.columns());
    left.len() == right.len()
        && left.iter().enumerate().all(|(i, l)| {
            right.get(&l.name, i).is_some_and(|r| l.json == r.json || is_unavailable(l.json) || is_unavailable(r.json))
        })
}
