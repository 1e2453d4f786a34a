//! A surviving row, with what its record did not carry: taken from the changes before it in the batch, or
//! told where the destination holds it.

use super::Batch;
use crate::change::{Change, Op};
use crate::columns::{Column, Columns};
use crate::key::Key;
use crate::version::Version;

/// One surviving change.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub(super) batch: &'a Batch,
    pub(super) index: usize,
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
    /// in this batch, if that has it; what stays unavailable is looked for where [`Row::kept`] says.
    pub fn columns(&self) -> Columns<'a> {
        let mut columns = self.change().columns();
        let mut index = self.index;
        loop {
            let missing: Vec<usize> =
                columns.iter().enumerate().filter(|(_, c)| c.is_unavailable()).map(|(i, _)| i).collect();
            if missing.is_empty() {
                return columns;
            }
            let (Before::SameKey(from) | Before::OldKey { from, .. }) = self.batch.before(index) else {
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

    /// Columns that the record leaves out and an earlier change of the row in this batch carries,
    /// each with its last value. A destination that keeps what a record leaves out takes them from
    /// here, so that it ends as if the changes came one by one.
    pub fn left_out(&self) -> Vec<Column<'a>> {
        let mut found: Vec<Column<'a>> = Vec::new();
        let mut from = self.batch.same_row(self.index);
        if from.is_none() {
            return found;
        }
        let own = self.change().columns();
        while let Some(index) = from {
            let columns = self.batch.changes[index].columns();
            for (at, column) in columns.iter().enumerate().filter(|(_, column)| !column.is_unavailable()) {
                if own.get(&column.name, at).is_none() && !found.iter().any(|known| known.name == column.name) {
                    found.push(column.clone());
                }
            }
            from = self.batch.same_row(index);
        }
        found
    }

    /// The version of the delete in this batch that ended the row which had the key before this one. A
    /// destination that keeps what a record leaves out must not keep it of that row, so whatever it has under
    /// the key from before this version goes first.
    pub fn follows_delete(&self) -> Option<Version> {
        let mut index = self.index;
        loop {
            index = self.batch.earlier[index]?;
            let change = &self.batch.changes[index];
            if change.is_delete() {
                return Some(change.version);
            }
        }
    }

    /// Where the destination, as it is before this batch, holds the columns that stay unavailable, unless
    /// it has a row of [`Row::again`].
    pub fn kept(&self) -> Kept<'a> {
        self.stands_on().1
    }

    /// The rows that key changes of this batch made before, where it brings them again: the destination
    /// has applied them, so it has nothing under the keys that [`Row::kept`] leads back to. The first that
    /// it has, and that is not deleted, holds the columns that stay unavailable.
    pub fn again(&self) -> Vec<Again<'a>> {
        self.stands_on().0
    }

    fn stands_on(&self) -> (Vec<Again<'a>>, Kept<'a>) {
        let mut again = Vec::new();
        let (mut index, mut key, mut below) = (self.index, self.key(), self.version());
        loop {
            let from = self.batch.changes[index].version;
            match self.batch.before(index) {
                Before::SameKey(earlier) => index = earlier,
                Before::OldKey { from: earlier, key: old, below: end } => {
                    again.push(Again { key, from, below });
                    (index, key, below) = (earlier, old, end);
                }
                // Any change of this key in the batch may have been applied before.
                Before::Kept(Kept::Row { key: own, .. }) if own == key => return (again, Kept::Row { key, below }),
                Before::Kept(kept) => {
                    again.push(Again { key, from, below });
                    return (again, kept);
                }
            }
        }
    }
}

/// A row that a change of this batch made, and that the destination has already if the change was applied
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again<'a> {
    /// Its key.
    pub key: &'a Key,
    /// The version of the change that made it.
    pub from: Version,
    /// The version at which it ended, or which is to be written.
    pub below: Version,
}

impl Again<'_> {
    /// True if a row of this version under the key is this row.
    pub fn holds(&self, version: Version) -> bool {
        (self.from..self.below).contains(&version)
    }
}

/// Where the destination holds values that a record did not carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept<'a> {
    /// In the row of this key, below this version. It may be as new as a change of this batch, which then
    /// comes again.
    Row {
        /// The row's own key, or the key it had before.
        key: &'a Key,
        /// The row must be older than this.
        below: Version,
    },
    /// The row came from this key, but the delete of that key is not in this batch: whether the
    /// destination has all of its changes is not known. What a row that this key change marked deleted
    /// still holds need not be the last either.
    OtherHalf {
        /// The key before the change.
        key: &'a Key,
        /// The create's version: its record position is the delete's.
        version: Version,
    },
    /// Nowhere: an insert that does not say which row it was before.
    Nowhere,
}

/// What stood before a change of a row.
enum Before<'a> {
    SameKey(usize),
    /// A change under another key, whose row ended at this version.
    OldKey {
        from: usize,
        key: &'a Key,
        below: Version,
    },
    Kept(Kept<'a>),
}

impl Batch {
    /// The change before `index` of the same row under the same key. A delete ends a row: what comes after
    /// it is another, which has nothing of the old one.
    fn same_row(&self, index: usize) -> Option<usize> {
        self.earlier[index].filter(|&earlier| !self.changes[earlier].is_delete())
    }

    /// The change before `index` of the same row, which had another key if `index` is the second
    /// half of a key change.
    fn before(&self, index: usize) -> Before<'_> {
        let change = &self.changes[index];
        let Some(old) = &change.old_key else {
            return match (self.same_row(index), change.op) {
                (Some(from), _) => Before::SameKey(from),
                (None, Op::Create) => Before::Kept(Kept::Nowhere),
                (None, _) => Before::Kept(Kept::Row { key: &change.key, below: change.version }),
            };
        };
        // The halves share the record position; the commit position may differ by the floors of
        // their partitions.
        let of_old = || self.changes.iter().enumerate().filter(|(_, c)| c.table == change.table && c.key == *old);
        let delete = of_old().find(|(_, c)| c.is_delete() && c.version.lo() == change.version.lo());
        let other_half = Before::Kept(Kept::OtherHalf { key: old, version: change.version });
        let Some((_, delete)) = delete else { return other_half };
        match of_old().filter(|(_, c)| c.version < delete.version).max_by_key(|(_, c)| c.version) {
            Some((_, earlier)) if earlier.is_delete() => other_half,
            Some((from, _)) => Before::OldKey { from, key: old, below: delete.version },
            None => Before::Kept(Kept::Row { key: old, below: delete.version }),
        }
    }
}

#[cfg(test)]
mod tests;
