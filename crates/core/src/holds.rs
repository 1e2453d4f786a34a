//! Rows whose last values are in a dead letter: what stands on them must not be applied.
//!
//! A change may leave out columns that the source did not send (TOAST); they keep the value that
//! the destination has. After a dead letter of the row that value may be the wrong one, and
//! nobody would see it. So a change that leaves columns out follows the dead letter, until a
//! change that carries every column, or a delete, makes the row right again.
//!
//! Invariant: a hold is known wherever its row is written next, so it is recorded in the
//! destination with the offsets that it goes with. A retry of its dead letters lifts it there, beside
//! whoever writes the row: before a change follows, what is recorded is asked for again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::batch::Batch;
use crate::change::Change;
use crate::dead_letter::DeadLetter;
use crate::key::Key;
use crate::position::{Offset, Partition, Place};

/// Marks the first half of a key change: the row goes on under another key.
const NEW_KEY: &str = "__debezium.newkey";

/// The dead letters that a row's hold stands for, by offset in the row's partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The first: changes behind it that leave columns out follow it.
    pub first: Offset,
    /// The last: a whole row behind it ends the hold.
    pub last: Offset,
}

/// A row that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Partition of its records.
    pub partition: Partition,
    /// Its key.
    pub key: Key,
    /// Since when.
    pub held: Held,
}

/// What a batch changes about a hold: to be recorded with its spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldNote {
    /// Partition of the row's records.
    pub partition: Partition,
    /// The row's key.
    pub key: Key,
    /// What is so from now on.
    pub now: HoldState,
}

/// Whether a row is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// It is: recorded before or not, it stands for these dead letters.
    Held(Held),
    /// The row at this offset is whole: holds whose last dead letter is before it are over.
    Lifted(Offset),
}

/// The holds of the partitions that are written here, and what changed since it was last noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    rows: HashMap<Partition, HashMap<Key, Held>>,
    notes: BTreeMap<(Partition, Key), HoldState>,
    /// Nothing is noted.
    unnoted: bool,
}

impl Holds {
    /// Holds that are known here alone: a replay beside the pipeline skips what the pipeline set
    /// aside, and must not hold rows that were released since.
    pub fn unnoted() -> Self {
        Self { unnoted: true, ..Self::default() }
    }

    /// True if no row is held.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes on what the destination recorded of these partitions, instead of what was known.
    pub fn open<'a>(&mut self, partitions: impl Iterator<Item = &'a Partition>, recorded: Vec<Hold>) {
        for partition in partitions {
            self.rows.remove(partition);
        }
        for Hold { partition, key, held } in recorded {
            self.rows.entry(partition).or_default().insert(key, held);
        }
    }

    /// Holds the row of a dead letter, where its key could be read.
    pub fn set(&mut self, letter: &DeadLetter) {
        if let Some(key) = &letter.key {
            self.hold(&letter.record.partition, key, letter.record.offset);
        }
    }

    /// The dead letter that the change follows, and is held as; none where it may be applied. One
    /// that makes its row whole ends the hold of it. Fed in order of delivery.
    pub fn holds_back(&mut self, change: &Change) -> Option<Place> {
        if self.is_empty() {
            return None;
        }
        let Place { partition, offset } = change.place();
        let own = self.of(&partition, &change.key);
        let old = self.old_key_held(change);
        // Nearly every change: its columns are not read.
        if own.is_none() && old.is_none() {
            return None;
        }
        if change.is_whole() {
            // The row under its new key may leave out what is in the dead letter, too.
            let moves = change.is_delete() && change.record.header(NEW_KEY).is_some();
            if own.is_some_and(|held| held.last < offset) && !moves {
                self.lift(change);
            }
            return None;
        }
        let own = own.filter(|held| held.first < offset);
        let follows = own.map(|held| Place { partition: partition.clone(), offset: held.first }).or(old)?;
        self.hold(&partition, &change.key, offset);
        Some(follows)
    }

    /// The held rows of which changes of the batch leave columns out: before those follow, it is to be asked
    /// whether the destination still has the holds. Not rows that go on under another key in the batch: a
    /// dead letter that was applied behind the end of the old one has left its values nowhere.
    pub fn in_question(&self, batch: &Batch) -> BTreeSet<(Partition, Key)> {
        let mut rows = BTreeSet::new();
        if self.is_empty() || self.unnoted {
            return rows;
        }
        for Change { record, key, .. } in batch.changes.iter().filter(|change| self.stands_on_a_letter(change)) {
            rows.insert((record.partition.clone(), key.clone()));
        }
        for old in batch.changes.iter().filter_map(|change| change.old_key.as_ref()) {
            rows.retain(|(_, key)| key != old);
        }
        rows
    }

    /// Ends the holds of these rows that the destination has not recorded any more: what was in their dead
    /// letters is in it. To be called only while it has been told of every hold: between two batches.
    pub fn end_lifted(&mut self, rows: BTreeSet<(Partition, Key)>, recorded: &[Hold]) {
        for (partition, key) in rows {
            if recorded.iter().all(|hold| hold.partition != partition || hold.key != key) {
                self.remove(&partition, &key);
            }
        }
    }

    /// Another instance has these partitions: what it holds of them is its own, and nothing is noted.
    pub fn forget(&mut self, partitions: &[Partition]) {
        self.rows.retain(|partition, _| !partitions.contains(partition));
        self.notes.retain(|(partition, _), _| !partitions.contains(partition));
    }

    /// The row's dead letters up to `last` were applied after all: what the destination holds is right
    /// again, unless there are later ones.
    pub fn release(&mut self, partition: &Partition, key: &Key, last: Offset) {
        if self.of(partition, key).is_none_or(|held| held.last > last) {
            return;
        }
        self.remove(partition, key);
        // A letter that came in meanwhile is behind it, and keeps its hold.
        self.notes.insert((partition.clone(), key.clone()), HoldState::Lifted(last + 1));
    }

    /// The dead letters that a row is held for.
    pub fn of(&self, partition: &Partition, key: &Key) -> Option<Held> {
        self.rows.get(partition).and_then(|rows| rows.get(key)).copied()
    }

    /// What changed since the last time.
    pub fn take_notes(&mut self) -> Vec<HoldNote> {
        let note = |((partition, key), now)| HoldNote { partition, key, now };
        let notes = std::mem::take(&mut self.notes);
        if self.unnoted { Vec::new() } else { notes.into_iter().map(note).collect() }
    }

    fn hold(&mut self, partition: &Partition, key: &Key, offset: Offset) {
        let rows = self.rows.entry(partition.clone()).or_default();
        let held = rows.entry(key.clone()).or_insert(Held { first: offset, last: offset });
        *held = Held { first: held.first.min(offset), last: held.last.max(offset) };
        self.notes.insert((partition.clone(), key.clone()), HoldState::Held(*held));
    }

    fn lift(&mut self, change: &Change) {
        let partition = &change.record.partition;
        self.remove(partition, &change.key);
        let lifted = HoldState::Lifted(change.record.offset);
        self.notes.insert((partition.clone(), change.key.clone()), lifted);
    }

    fn stands_on_a_letter(&self, change: &Change) -> bool {
        let held = self.of(&change.record.partition, &change.key);
        held.is_some_and(|held| held.first < change.record.offset) && !change.is_whole()
    }

    fn remove(&mut self, partition: &Partition, key: &Key) {
        let Some(rows) = self.rows.get_mut(partition) else { return };
        rows.remove(key);
        if rows.is_empty() {
            self.rows.remove(partition);
        }
    }

    /// The row had another key before, whose records may lie in any partition.
    fn old_key_held(&self, change: &Change) -> Option<Place> {
        let Place { partition, offset } = change.place();
        let old = change.old_key.as_ref()?;
        let held = self.rows.iter().filter(|(other, _)| other.topic == partition.topic);
        let mut held = held.filter_map(|(other, rows)| Some((other, rows.get(old)?)));
        held.find(|(other, held)| **other != partition || held.first < offset)
            .map(|(other, held)| Place { partition: other.clone(), offset: held.first })
    }
}

#[cfg(test)]
mod tests;
