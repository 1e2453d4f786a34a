//! What a sink applies at once: rows of several tables and partitions, folded per key.

mod row;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{Change, TableName, Truncate};
use crate::dead_letter::DeadLetter;
use crate::holds::HoldNote;
use crate::position::{Partition, Span};
use crate::schema::RowSchema;
use crate::tally::Tally;
use crate::version::Floor;

pub use row::{Again, Kept, Row};

/// A folded batch. Every change is kept until the batch is durable (a failing row may need the one
/// before it); the survivors are what is written.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) changes: Vec<Change>,
    /// Beside each change: the change of its key in this batch that it superseded.
    pub(crate) earlier: Vec<Option<usize>>,
    pub(crate) tables: BTreeMap<Arc<TableName>, Vec<usize>>,
    pub(crate) truncates: Vec<Truncate>,
    pub(crate) floors: Vec<(Partition, Floor)>,
    pub(crate) spans: Vec<Span>,
    /// Beside each span: its control records.
    pub(crate) controls: Vec<u64>,
    pub(crate) dead: Vec<DeadLetter>,
    pub(crate) holds: Vec<HoldNote>,
    pub(crate) tally: Tally,
    pub(crate) bytes: usize,
}

impl Batch {
    /// The same rows, proving nothing of the log: for records that are applied beside the run that
    /// reads their partitions.
    #[must_use]
    pub fn without_spans(mut self) -> Self {
        self.spans.clear();
        self.controls.clear();
        self
    }

    /// Nothing but notes of holds.
    pub fn of_notes(holds: Vec<HoldNote>) -> Self {
        Self { holds, ..Self::default() }
    }

    /// The tables with surviving rows, in order of name.
    pub fn tables(&self) -> impl Iterator<Item = TableRows<'_>> {
        self.tables.iter().map(|(table, survivors)| TableRows { batch: self, table, survivors })
    }

    /// Truncates, in order of delivery. A row of the batch that one empties is gone, too.
    pub fn truncates(&self) -> &[Truncate] {
        &self.truncates
    }

    /// Floors that full-snapshot rows of this batch raised: recorded before or with its rows.
    pub fn floors(&self) -> &[(Partition, Floor)] {
        &self.floors
    }

    /// What it covers of each partition.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Rows that are held from now on, or not any more: recorded with its spans, in this order.
    pub fn holds(&self) -> &[HoldNote] {
        &self.holds
    }

    /// Records of it that could not be read, in order of delivery.
    pub fn dead_letters(&self) -> &[DeadLetter] {
        &self.dead
    }

    /// Records read into it, and those that already have their place: superseded, control, truncates.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Rows that would be written.
    pub fn row_count(&self) -> usize {
        self.tables.values().map(Vec::len).sum()
    }

    /// Bytes of the records held.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// True if nothing was read into it: no span to settle.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

/// The surviving rows of one table. All carry the same Connect schema, or none.
#[derive(Clone, Copy)]
pub struct TableRows<'a> {
    batch: &'a Batch,
    /// Source table.
    pub table: &'a Arc<TableName>,
    survivors: &'a [usize],
}

impl<'a> TableRows<'a> {
    /// Rows, one a key, in order of delivery of the surviving change.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'a>> + use<'a> {
        let batch = self.batch;
        self.survivors.iter().map(move |&index| Row { batch, index })
    }

    /// The Connect schema, where the records carried one (a delete's key-only record counts too).
    pub fn schema(&self) -> Option<&'a Arc<RowSchema>> {
        self.survivors.iter().find_map(|&index| self.batch.changes[index].schema.as_ref())
    }

    /// True if a row of the batch came from another key.
    pub fn has_key_changes(&self) -> bool {
        self.batch.changes.iter().any(|change| change.old_key.is_some() && change.table == *self.table)
    }

    /// Topic of the rows. Several topics into one table are refused before.
    pub fn topic(&self) -> &'a Arc<str> {
        &self.batch.changes[self.survivors[0]].record.partition.topic
    }
}
