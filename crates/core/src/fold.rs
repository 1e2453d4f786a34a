//! Gathers events into a batch: per key the greatest version survives, deletes included.
//!
//! Folding never changes the result for any cut of the batches: it makes the same comparisons
//! that the destination's guard would make one by one. Every step costs the same however hot a key
//! is: a survivor knows its row.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::batch::Batch;
use crate::change::{Change, Event, TableName};
use crate::columns::is_unavailable;
use crate::dead_letter::DeadLetter;
use crate::invariant::{self, ONE_SURVIVOR_PER_KEY, SPANS_IN_ORDER, TALLY_BALANCES};
use crate::key::Key;
use crate::position::{Offset, Partition, Place, Span};
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
    /// The survivor of each table and key.
    latest: HashMap<(Arc<TableName>, Key), Survivor>,
    /// Index of the span that grew last.
    last_span: usize,
    opened_at_ms: Option<u64>,
}

/// Where a surviving change stands.
#[derive(Clone, Copy, Debug)]
struct Survivor {
    /// Index in the batch's changes.
    change: usize,
    /// Index in the rows of its table.
    row: usize,
}

impl Fold {
    /// An empty batch that is cut at `limits`.
    pub fn new(limits: Limits) -> Self {
        Self { limits, batch: Batch::default(), latest: HashMap::new(), last_span: 0, opened_at_ms: None }
    }

    /// True if `event` must not join what is gathered: its table's Connect schema is another, or
    /// one has a schema and the other none.
    pub fn must_cut_before(&self, event: &Event) -> bool {
        let Event::Change(change) = event else { return false };
        let Some(&first) = self.batch.tables.get(&change.table).and_then(|rows| rows.first()) else {
            return false;
        };
        match (&self.batch.changes[first].schema, &change.schema) {
            // Lanes parse the same schema on their own, so pointers differ between partitions.
            (Some(known), Some(schema)) => !Arc::ptr_eq(known, schema) && known != schema,
            (None, None) => false,
            _ => true,
        }
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
        let is_control = matches!(event, Event::Control(_));
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
        self.cover(partition, offset, offset.saturating_add(1), now_ms);
        if is_control && let Some(controls) = self.batch.controls.get_mut(self.last_span) {
            *controls += 1;
        }
        Ok(())
    }

    /// Takes a record that could not be read: it has its place among the dead letters.
    pub fn push_dead(&mut self, letter: DeadLetter, now_ms: u64) {
        let Place { partition, offset } = letter.record.place();
        self.batch.tally.read += 1;
        self.batch.tally.dead_lettered += 1;
        self.batch.bytes += letter.record.size();
        self.batch.dead.push(letter);
        self.cover(&partition, offset, offset.saturating_add(1), now_ms);
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
        self.opened_at_ms.map(|at| at.saturating_add(self.limits.max_age_ms))
    }

    /// Takes the batch out.
    pub fn cut(&mut self) -> Batch {
        let mut batch = std::mem::take(&mut self.batch);
        // Rows were replaced in place. The order of delivery is the one in which unique values of
        // the source are free before they are taken again.
        batch.tables.values_mut().for_each(|rows| rows.sort_unstable());
        let rows = batch.row_count();
        invariant::check(&ONE_SURVIVOR_PER_KEY, rows == self.latest.len());
        let tally = batch.tally;
        invariant::check(&TALLY_BALANCES, tally.read == tally.placed() + rows as u64);
        part_at_truncates(&mut batch);
        self.latest.clear();
        self.opened_at_ms = None;
        batch
    }

    fn cover(&mut self, partition: &Partition, start: Offset, end: Offset, now_ms: u64) {
        self.opened_at_ms.get_or_insert(now_ms);
        let spans = &mut self.batch.spans;
        // Records come in stretches of a partition.
        if spans.get(self.last_span).is_none_or(|span| span.partition != *partition) {
            self.last_span = spans.iter().position(|span| span.partition == *partition).unwrap_or(spans.len());
        }
        match spans.get_mut(self.last_span) {
            Some(span) => {
                invariant::check(&SPANS_IN_ORDER, span.end <= start);
                span.end = span.end.max(end);
            }
            None => {
                spans.push(Span { partition: partition.clone(), start, end });
                self.batch.controls.push(0);
            }
        }
    }

    fn take(&mut self, change: Change) -> Result<(), Refusal> {
        let index = self.batch.changes.len();
        let earlier = match self.latest.entry((change.table.clone(), change.key.clone())) {
            Entry::Vacant(vacant) => {
                let rows = self.batch.tables.entry(change.table.clone()).or_default();
                vacant.insert(Survivor { change: index, row: rows.len() });
                rows.push(index);
                None
            }
            Entry::Occupied(mut known) => {
                let survivor = &self.batch.changes[known.get().change];
                let earlier = match change.version.cmp(&survivor.version) {
                    Ordering::Less => None,
                    Ordering::Equal => {
                        if !change.may_tie && !survivor.may_tie && !same_content(&change, survivor) {
                            let reason = Reason::EqualVersionOtherContent { other: survivor.place() };
                            return Err(Refusal { place: change.place(), reason });
                        }
                        None
                    }
                    Ordering::Greater => {
                        let Survivor { change: before, row } = *known.get();
                        if let Some(rows) = self.batch.tables.get_mut(&change.table) {
                            rows[row] = index;
                        }
                        known.get_mut().change = index;
                        Some(before)
                    }
                };
                self.batch.tally.superseded += 1;
                earlier
            }
        };
        self.batch.bytes += change.record.size();
        self.batch.changes.push(change);
        self.batch.earlier.push(earlier);
        Ok(())
    }
}

/// Folds some changes of a batch anew, in this order, beside its truncates and floors. Its spans
/// are proven by what is left of the batch: here they are empty.
pub(crate) fn refold(rest: &Batch, changes: Vec<Change>) -> Result<Batch, Refusal> {
    let mut batch = rest.asking();
    batch.floors.clone_from(&rest.floors);
    batch.truncates.clone_from(&rest.truncates);
    batch.tally.read = changes.len() as u64;
    fold_into(batch, changes)
}

/// Folds changes, in this order, into a batch that has none. Its tally counts them as read already.
pub(crate) fn fold_into(batch: Batch, changes: Vec<Change>) -> Result<Batch, Refusal> {
    let mut fold = Fold { batch, ..Fold::new(Limits::default()) };
    for change in changes {
        fold.take(change)?;
    }
    Ok(fold.cut())
}

/// A truncate ends what a change may stand on: a row behind it is none that was before it. It may
/// have come on another partition, before or after both.
fn part_at_truncates(batch: &mut Batch) {
    for truncate in &batch.truncates {
        for (change, earlier) in batch.changes.iter().zip(&mut batch.earlier) {
            let Some(from) = *earlier else { continue };
            let cut = truncate.cut();
            let across = cut.empties(batch.changes[from].version) && !cut.empties(change.version);
            if across && change.table == truncate.table {
                *earlier = None;
            }
        }
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

#[cfg(test)]
mod tests;
