//! The surviving rows of one table, read once, and sorted by the columns that they carry.
//!
//! Rows that carry the same columns form one block. A column that a record does not carry is left
//! out of its block, so the server's default applies; it is never sent as NULL.

use std::collections::HashSet;

use settle_core::batch::{Row, TableRows};
use settle_core::columns::{Column, Columns};
use settle_core::schema::{Inferred, infer};
use settle_core::sink::{FailureKind, SinkError};
use settle_core::truncate::Cuts;

use super::column_type::ColumnType;
use super::definition::{inferred_type, meta_clash, two_into_one, type_of};
use super::destination::Known;
use super::names::identifier;
use super::naming::Naming;
use crate::config::Evolution;

/// A row with its columns, read from the record.
pub(crate) struct Read<'a> {
    pub(crate) row: Row<'a>,
    pub(crate) columns: Columns<'a>,
    /// Index of its shape; none for a delete.
    pub(crate) shape: Option<usize>,
}

/// The column names of a record, in its order.
pub(crate) struct Shape {
    pub(crate) names: Vec<Box<str>>,
    /// Beside each name: where it is written in the table.
    pub(crate) slots: Vec<Slot>,
}

/// What becomes of one column of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Written to the table's column of this index.
    Column(usize),
    /// Written from the key.
    Key,
    /// Not written: excluded by the user, computed by the server, left out by `evolution`, or NULL
    /// in every row while the table lacks it.
    Left,
    /// The table lacks it, and a row has a value.
    Missing,
    /// The table lacks it, and no row has a value: where it was not sent, none is stored.
    Lost,
}

/// All rows of a table in a batch.
pub(crate) struct Rows<'a> {
    pub(crate) read: Vec<Read<'a>>,
    pub(crate) shapes: Vec<Shape>,
}

impl<'a> Rows<'a> {
    /// Reads every row once.
    pub(crate) fn read(rows: &TableRows<'a>) -> Result<Self, SinkError> {
        let mut read = Vec::with_capacity(rows.rows().len());
        let mut shapes: Vec<Shape> = Vec::new();
        let mut last = 0;
        for row in rows.rows() {
            let columns = row.columns();
            let same = |shape: &Shape| {
                shape.names.len() == columns.len()
                    && shape.names.iter().zip(columns.iter()).all(|(n, c)| **n == *c.name)
            };
            let shape = if row.is_delete() {
                None
            } else if shapes.get(last).is_some_and(same) {
                Some(last)
            } else {
                Some(match shapes.iter().position(same) {
                    Some(known) => known,
                    None => {
                        shapes.push(Shape::of(&columns, &row)?);
                        shapes.len() - 1
                    }
                })
            };
            last = shape.unwrap_or(last);
            read.push(Read { row, columns, shape });
        }
        Ok(Self { read, shapes })
    }

    /// Takes out the rows that a truncate empties. Returns how many.
    pub(crate) fn drop_emptied(&mut self, cuts: Cuts) -> u64 {
        self.drop_those(&|row| cuts.empties(row.version()))
    }

    /// Takes out rows. Returns how many.
    pub(crate) fn drop_those(&mut self, are_gone: &(dyn Fn(&Row<'_>) -> bool + Sync)) -> u64 {
        let before = self.read.len();
        self.read.retain(|read| !are_gone(&read.row));
        (before - self.read.len()) as u64
    }

    /// Says of every shape where its columns go, and which columns the table lacks, with the types
    /// they would have.
    pub(crate) fn place(
        &mut self,
        known: &Known,
        naming: &Naming<'_>,
        rows: &TableRows<'_>,
        evolution: Evolution,
    ) -> Result<Vec<(String, String)>, SinkError> {
        let mut missing: Vec<(String, String)> = Vec::new();
        for index in 0..self.shapes.len() {
            let mut slots = Vec::with_capacity(self.shapes[index].names.len());
            for (position, name) in self.shapes[index].names.iter().enumerate() {
                let is_key = known.key.iter().any(|(key, _)| **key == **name);
                let Some(target) = naming.target(name, is_key).filter(|_| !is_key) else {
                    slots.push(if is_key { Slot::Key } else { Slot::Left });
                    continue;
                };
                if naming.is_meta(target) {
                    return Err(refused(known, meta_clash(naming, target)));
                }
                let slot = match known.table.index_of(target) {
                    Some(at) if known.table.columns[at].is_written => Slot::Column(at),
                    Some(_) => Slot::Left,
                    None if known.is_ignored(target) => Slot::Left,
                    None => match declared_or(naming, target, || self.type_seen(position, name, rows))? {
                        Some(text) => {
                            if !missing.iter().any(|(column, _)| column == target) {
                                missing.push((target.to_owned(), text));
                            }
                            Slot::Missing
                        }
                        None if !self.is_unsent(name, position) => Slot::Left,
                        None if evolution == Evolution::Add => Slot::Lost,
                        None => {
                            missing.push((target.to_owned(), ColumnType::nullable_text("String")));
                            Slot::Missing
                        }
                    },
                };
                if let Slot::Column(at) = slot
                    && (slots.contains(&slot) || known.key.iter().any(|(_, key)| *key == at))
                {
                    let column = &known.table.columns[at].name;
                    return Err(refused(known, two_into_one(naming, column)));
                }
                slots.push(slot);
            }
            self.shapes[index].slots = slots;
        }
        Ok(missing)
    }

    /// The type of a column that the table lacks: from the Connect schema, or from the values of
    /// this batch; none where all are NULL.
    fn type_seen(&self, position: usize, name: &str, rows: &TableRows<'_>) -> Result<Option<String>, SinkError> {
        let values = self
            .read
            .iter()
            .filter_map(|read| read.columns.get(name, position))
            .filter(|column| column.json != "null" && !column.is_unavailable());
        if let Some(schema) = rows.schema()
            && let Some(field) = schema.field(name, position)
        {
            if values.count() == 0 {
                return Ok(None);
            }
            return type_of(&field.source_type, true).map(Some).ok_or_else(|| {
                let context = format!(
                    "column {} has source type {}, for which there is no ClickHouse type; exclude it in [tables.\"{}\"], or \
                     add it to the table by hand",
                    identifier(name),
                    field.source_type,
                    rows.table
                );
                SinkError::new(FailureKind::Contract, format!("adding a column for {}", rows.table), context)
            });
        }
        let inferred = values.filter_map(|column| infer(column.json)).reduce(Inferred::or);
        Ok(inferred.map(|inferred| ColumnType::nullable_text(inferred_type(inferred))))
    }

    /// A column that is about to be added, and one of the table that its records do not carry: it
    /// may be the same under another name. A column with a default of its own is none of the
    /// source's.
    pub(crate) fn looks_renamed<'k>(&self, known: &'k Known, naming: &Naming<'_>) -> Option<(&'k str, &str)> {
        self.shapes.iter().find_map(|shape| {
            let new = shape.slots.iter().position(|slot| *slot == Slot::Missing)?;
            let (_, old) = known.table.columns.iter().enumerate().find(|(index, column)| {
                let is_carried = shape.slots.contains(&Slot::Column(*index));
                let is_key = known.key.iter().any(|(_, key)| key == index);
                column.is_written && !column.has_default && !is_carried && !is_key && !naming.is_meta(&column.name)
            })?;
            Some((old.name.as_str(), &*shape.names[new]))
        })
    }

    fn is_unsent(&self, name: &str, position: usize) -> bool {
        self.read.iter().filter_map(|read| read.columns.get(name, position)).any(Column::is_unavailable)
    }

    /// The columns of a row that its record did not carry and that the table has, or lost: place in
    /// the record, and where they go.
    pub(crate) fn unsent(&self, row: usize) -> impl Iterator<Item = (usize, Slot)> + use<'_, 'a> {
        let read = &self.read[row];
        let slots = read.shape.map_or(&[][..], |shape| &self.shapes[shape].slots);
        let unsent =
            slots.iter().zip(read.columns.iter()).enumerate().filter(|(_, (_, column))| column.is_unavailable());
        unsent
            .map(|(position, (slot, _))| (position, *slot))
            .filter(|(_, slot)| !matches!(slot, Slot::Left | Slot::Key))
    }

    /// The rows that lack a column which the table has not: what is added now holds no value of theirs.
    pub(crate) fn lost(&self) -> HashSet<usize> {
        let is_lost = |row: &usize| self.unsent(*row).any(|(_, slot)| matches!(slot, Slot::Missing | Slot::Lost));
        (0..self.read.len()).filter(is_lost).collect()
    }

    /// The rows that carry all that is written, and those that do not.
    pub(crate) fn whole_and_not(&self) -> (Vec<usize>, Vec<usize>) {
        (0..self.read.len()).partition(|row| self.unsent(*row).next().is_none())
    }

    /// These rows as blocks: those that carry the same columns of the table, and the deletes.
    pub(crate) fn blocks(&self, rows: &[usize]) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        for &row in rows {
            let (columns, deletes) = self.written(row);
            match blocks.iter_mut().find(|block| block.columns == columns && block.deletes == deletes) {
                Some(block) => block.rows.push(row),
                None => blocks.push(Block { columns, deletes, rows: vec![row] }),
            }
        }
        blocks
    }

    /// These rows as blocks that keep their order.
    pub(crate) fn blocks_in_order(&self, rows: &[usize]) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        for &row in rows {
            let (columns, deletes) = self.written(row);
            match blocks.last_mut() {
                Some(block) if block.columns == columns => block.rows.push(row),
                _ => blocks.push(Block { columns, deletes, rows: vec![row] }),
            }
        }
        blocks
    }

    fn written(&self, row: usize) -> (Vec<usize>, bool) {
        let read = &self.read[row];
        (read.shape.map(|shape| self.shapes[shape].written()).unwrap_or_default(), read.row.is_delete())
    }
}

/// Rows that go into one insert.
#[derive(Debug)]
pub(crate) struct Block {
    /// Indexes of the table's columns beside key and added columns, ascending.
    pub(crate) columns: Vec<usize>,
    deletes: bool,
    /// Indexes of the rows.
    pub(crate) rows: Vec<usize>,
}

impl Shape {
    fn of(columns: &Columns<'_>, row: &Row<'_>) -> Result<Self, SinkError> {
        let names: Vec<Box<str>> = columns.iter().map(|column| Box::from(&*column.name)).collect();
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                let context = format!("record {} has the column {} twice", row.change().place(), identifier(name));
                let operation = format!("reading rows of {}", row.change().table);
                return Err(SinkError::new(FailureKind::Row, operation, context).at(row.change().place()));
            }
        }
        Ok(Self { slots: vec![Slot::Left; names.len()], names })
    }

    fn written(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self
            .slots
            .iter()
            .filter_map(|slot| match slot {
                Slot::Column(at) => Some(*at),
                _ => None,
            })
            .collect();
        columns.sort_unstable();
        columns
    }
}

/// The type that the configuration declares for a column of the target, or else the one that is seen.
fn declared_or(
    naming: &Naming<'_>,
    target: &str,
    seen: impl FnOnce() -> Result<Option<String>, SinkError>,
) -> Result<Option<String>, SinkError> {
    match naming.declared().find(|(name, _)| *name == target) {
        Some((_, declared)) => Ok(Some(declared.to_owned())),
        None => seen(),
    }
}

fn refused(known: &Known, context: String) -> SinkError {
    SinkError::new(FailureKind::Contract, format!("preparing rows for {}", known.table.name), context)
}
