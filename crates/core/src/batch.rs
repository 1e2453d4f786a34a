//! What a sink applies at once: rows of several tables and partitions, folded per key.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{Change, TableName, Truncate};
use crate::columns::Columns;
use crate::key::Key;
use crate::position::{Partition, Span};
use crate::schema::RowSchema;
use crate::tally::Tally;
use crate::version::{Floor, Version};

/// A folded batch. Every change is kept until the batch is durable (a failing row may need the one
/// before it); the survivors are what is written.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) changes: Vec<Change>,
    /// Beside each change: the change in this batch that its unavailable columns come from.
    pub(crate) fills: Vec<Option<usize>>,
    pub(crate) tables: BTreeMap<Arc<TableName>, Vec<usize>>,
    pub(crate) truncates: Vec<Truncate>,
    pub(crate) floors: Vec<(Partition, Floor)>,
    pub(crate) spans: Vec<Span>,
    pub(crate) tally: Tally,
    pub(crate) bytes: usize,
}

impl Batch {
    /// The tables with surviving rows, in order of name.
    pub fn tables(&self) -> impl Iterator<Item = TableRows<'_>> {
        self.tables.iter().map(|(table, survivors)| TableRows { batch: self, table, survivors })
    }

    /// Truncates, in order of delivery. They are floors: a row of the batch below one is gone too.
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

    /// Topic of the rows. Several topics into one table are refused before.
    pub fn topic(&self) -> &'a Arc<str> {
        &self.batch.changes[self.survivors[0]].record.partition.topic
    }
}

/// One surviving change.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    batch: &'a Batch,
    index: usize,
}

impl<'a> Row<'a> {
    /// The change itself.
    pub fn change(&self) -> &'a Change {
        &self.batch.changes[self.index]
    }

    /// Primary key.
    pub fn key(&self) -> &'a Key {
        &self.change().key
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.change().version
    }

    /// True for a delete.
    pub fn is_delete(&self) -> bool {
        self.change().is_delete()
    }

    /// The columns that the record carries. An unavailable one is filled from the change before it
    /// in this batch, if that has it; what stays unavailable keeps the destination's value.
    pub fn columns(&self) -> Columns<'a> {
        let mut columns = self.change().columns();
        let mut index = self.index;
        loop {
            let missing: Vec<usize> =
                columns.iter().enumerate().filter(|(_, c)| c.is_unavailable()).map(|(i, _)| i).collect();
            let Some(from) = self.batch.fills[index].filter(|_| !missing.is_empty()) else {
                return columns;
            };
            let source = self.batch.changes[from].columns();
            for i in missing {
                let name = columns.iter().nth(i).map(|c| c.name.to_string()).unwrap_or_default();
                if let Some(column) = source.get(&name, i) {
                    columns.fill(i, column.json);
                }
            }
            index = from;
        }
    }
}
