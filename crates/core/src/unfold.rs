//! A batch that holds a poison row, taken apart until that row is alone.
//!
//! The unit is a row's changes in the batch: they are folded anew without the one that the
//! destination refused, so that the last good one is applied. Rows are halved, so that a poison row
//! among n costs about log n writes; where the destination names the record, none.
//!
//! Invariants: every change ends applied, superseded, stale or as a dead letter, once. The spans of
//! pieces are empty, for a destination that fences: only what is left, with the spans, proves
//! anything, and it is applied last.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::batch::Batch;
use crate::causes::chain;
use crate::change::{Change, TableName};
use crate::dead_letter::{DeadLetter, ErrorClass};
use crate::fold::refold;
use crate::holds::Holds;
use crate::invariant::{self, TALLY_BALANCES};
use crate::key::Key;
use crate::position::{Partition, Place};
use crate::refusal::Refusal;
use crate::sink::{FailureKind, Outcome, SinkError};

/// The changes of one row, or of rows that cannot be told apart, in order of delivery.
type Unit = Vec<Change>;

/// A batch that is applied in pieces.
#[derive(Debug)]
pub struct Pieces<'h> {
    holds: &'h mut Holds,
    rest: Batch,
    /// The next piece last.
    todo: Vec<Vec<Unit>>,
    letters: Vec<DeadLetter>,
}

/// A batch as it may go to the destination.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and gone at once")]
pub enum Ready<'h> {
    /// Whole, once its dead letters are safe.
    Whole(Vec<DeadLetter>, Box<Batch>),
    /// In pieces: changes of it follow dead letters.
    Pieces(Pieces<'h>),
}

/// Makes the batch ready: rows of its dead letters are held, and changes that must not be applied
/// behind those, or behind earlier ones, are dead letters too.
pub fn prepare(mut batch: Box<Batch>, holds: &mut Holds) -> Ready<'_> {
    let mut letters = std::mem::take(&mut batch.dead);
    letters.sort_by_cached_key(|letter| letter.record.place());
    letters.iter().for_each(|letter| holds.set(letter));
    let followers: HashMap<usize, Place> = if holds.is_empty() {
        HashMap::new()
    } else {
        let changes = batch.changes.iter().enumerate();
        changes.filter_map(|(at, change)| Some((at, holds.holds_back(change)?))).collect()
    };
    if followers.is_empty() {
        batch.holds.extend(holds.take_notes());
        return Ready::Whole(letters, batch);
    }
    let mut kept = Vec::with_capacity(batch.changes.len());
    let mut pieces = Pieces { letters, ..Pieces::of(*batch, holds) };
    for (at, change) in pieces.take_changes().into_iter().enumerate() {
        match followers.get(&at) {
            Some(place) => pieces.bury_follower(change, place),
            None => kept.push(change),
        }
    }
    pieces.push(units(kept));
    Ready::Pieces(pieces)
}

impl<'h> Pieces<'h> {
    /// Takes a batch apart in which the destination refused a row.
    pub fn of_refused(mut batch: Batch, holds: &'h mut Holds, error: &SinkError) -> Self {
        let piece = Batch {
            changes: std::mem::take(&mut batch.changes),
            tables: std::mem::take(&mut batch.tables),
            ..Batch::default()
        };
        let mut pieces = Self::of(batch, holds);
        pieces.refused(piece, error);
        pieces
    }

    fn of(mut rest: Batch, holds: &'h mut Holds) -> Self {
        rest.earlier.clear();
        rest.tables.clear();
        rest.tally.superseded = 0;
        Self { holds, rest, todo: Vec::new(), letters: Vec::new() }
    }

    fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.rest.changes)
    }

    /// The next piece to apply; none when all are.
    pub fn next_piece(&mut self) -> Result<Option<Batch>, Refusal> {
        while let Some(units) = self.todo.pop() {
            let mut kept = Vec::new();
            for change in units.into_iter().flatten() {
                match self.holds.holds_back(&change) {
                    None => kept.push(change),
                    Some(place) => self.bury_follower(change, &place),
                }
            }
            if !kept.is_empty() {
                return refold(&self.rest, kept).map(Some);
            }
        }
        Ok(None)
    }

    /// The piece is durable.
    pub fn applied(&mut self, piece: &Batch, outcome: Outcome) {
        self.rest.tally.superseded += piece.tally.superseded;
        self.rest.tally.applied += outcome.applied;
        self.rest.tally.stale += outcome.stale;
    }

    /// A row of the piece, or of the whole batch, was refused.
    pub fn refused(&mut self, piece: Batch, error: &SinkError) {
        let alone = match piece.tables.values().flatten().collect::<Vec<_>>().as_slice() {
            [survivor] => Some(piece.changes[**survivor].place()),
            _ => None,
        };
        let mut units = units(piece.changes);
        match error.place.clone().or(alone).and_then(|place| remove(&mut units, &place)) {
            Some((at, poison)) => {
                let letter = DeadLetter::of_change(poison, class_of(error), chain(error));
                self.holds.set(&letter);
                self.bury(letter);
                // Rows before it were most likely written without complaint, and need not be again.
                let behind = units.split_off(at);
                self.push(behind);
                self.push(units);
            }
            None if units.len() == 1 && self.bury_dependents(&mut units[0], error) => self.push(units),
            None => {
                let (first, second) = halved(units);
                self.push(second);
                self.push(first);
            }
        }
    }

    /// Another instance has these partitions. What was not applied of them, and their dead letters,
    /// are its own now; `piece` was refused for that, and what is left of it comes again. What was
    /// applied before keeps its place.
    pub fn withdraw(&mut self, piece: Option<Batch>, partitions: &[Partition]) {
        self.holds.forget(partitions);
        self.rest.let_go(partitions);
        if let Some(piece) = piece {
            self.push(units(piece.changes));
        }
        let mut gone = 0;
        for unit in self.todo.iter_mut().flatten() {
            let before = unit.len();
            unit.retain(|change| !partitions.contains(&change.record.partition));
            gone += (before - unit.len()) as u64;
        }
        for units in &mut self.todo {
            units.retain(|unit| !unit.is_empty());
        }
        let letters = self.letters.len();
        self.letters.retain(|letter| !partitions.contains(&letter.record.partition));
        let letters = (letters - self.letters.len()) as u64;
        self.rest.tally.dead_lettered -= letters;
        self.rest.tally.read -= gone + letters;
    }

    /// Asks the destination whether the partitions are still ours.
    pub fn asking(&self) -> Batch {
        self.rest.asking()
    }

    /// Dead letters so far.
    pub fn dead_letters(&self) -> &[DeadLetter] {
        &self.letters
    }

    /// The dead letters in order of partition and offset, and what is left of the batch: its spans,
    /// and the counts of all of it. To be applied when the dead letters are safe.
    pub fn finish(self) -> (Vec<DeadLetter>, Batch) {
        let Self { holds, mut rest, mut letters, .. } = self;
        rest.holds.extend(holds.take_notes());
        letters.sort_by_cached_key(|letter| letter.record.place());
        let tally = rest.tally;
        invariant::check(&TALLY_BALANCES, tally.balances());
        (letters, rest)
    }

    fn push(&mut self, mut units: Vec<Unit>) {
        units.retain(|unit| !unit.is_empty());
        if !units.is_empty() {
            self.todo.push(units);
        }
    }

    /// Takes out of a unit that must be told apart what would not be found any more then: a row that
    /// came from another key and was not sent whole has its values in that one's changes, and the last
    /// of them may never be written. True if there was any.
    fn bury_dependents(&mut self, unit: &mut Unit, error: &SinkError) -> bool {
        let keys: HashSet<(Arc<TableName>, Key)> =
            unit.iter().map(|change| (change.table.clone(), change.key.clone())).collect();
        let needs = |change: &Change| {
            let old = change.old_key.clone().filter(|_| !change.is_whole());
            old.is_some_and(|old| keys.contains(&(change.table.clone(), old)))
        };
        let (dependents, kept): (Unit, Unit) = std::mem::take(unit).into_iter().partition(needs);
        // A delete writes no value. Where nothing else is left, the one that was taken out was refused.
        let is_certain = dependents.len() == 1 && ends_in_deletes(&kept);
        let class = if is_certain { class_of(error) } else { ErrorClass::FollowsADeadLetter };
        let any = !dependents.is_empty();
        for change in dependents {
            let text = match class {
                ErrorClass::FollowsADeadLetter => refused_together(&change, error),
                _ => chain(error),
            };
            let letter = DeadLetter::of_change(change, class, text);
            self.holds.set(&letter);
            self.bury(letter);
        }
        *unit = kept;
        any
    }

    fn bury_follower(&mut self, change: Change, place: &Place) {
        let error = follows(&change, place);
        self.bury(DeadLetter::of_change(change, ErrorClass::FollowsADeadLetter, error));
    }

    fn bury(&mut self, letter: DeadLetter) {
        self.rest.tally.dead_lettered += 1;
        self.letters.push(letter);
    }
}

/// The changes by row, in the order of each row's last change. A row that came from another key
/// and was not sent whole needs that one beside it: its delete takes the values away.
fn units(changes: Vec<Change>) -> Vec<Unit> {
    type Row = (Arc<TableName>, Key);
    let mut groups: Vec<usize> = Vec::new();
    let mut rows: HashMap<Row, usize> = HashMap::new();
    let mut of_row = |groups: &mut Vec<usize>, row: Row| {
        *rows.entry(row).or_insert_with(|| {
            groups.push(groups.len());
            groups.len() - 1
        })
    };
    let mut members = Vec::with_capacity(changes.len());
    for change in &changes {
        let own = of_row(&mut groups, (change.table.clone(), change.key.clone()));
        members.push(own);
        if let Some(old) = change.old_key.as_ref().filter(|_| !change.is_whole()) {
            let old = of_row(&mut groups, (change.table.clone(), old.clone()));
            let (own, old) = (root(&groups, own), root(&groups, old));
            groups[own.max(old)] = own.min(old);
        }
    }
    let mut units: HashMap<usize, (usize, Unit)> = HashMap::new();
    for (index, (change, member)) in changes.into_iter().zip(members).enumerate() {
        let (last, unit) = units.entry(root(&groups, member)).or_default();
        *last = index;
        unit.push(change);
    }
    let mut units: Vec<(usize, Unit)> = units.into_values().collect();
    units.sort_unstable_by_key(|(last, _)| *last);
    units.into_iter().map(|(_, unit)| unit).collect()
}

/// The group that a group was joined to.
fn root(groups: &[usize], mut group: usize) -> usize {
    while groups[group] != group {
        group = groups[group];
    }
    group
}

/// Takes the change at `place` out, and says where its unit stands.
fn remove(units: &mut Vec<Unit>, place: &Place) -> Option<(usize, Change)> {
    let is_there = |change: &Change| change.record.offset == place.offset && change.record.partition == place.partition;
    let at = units.iter().position(|unit| unit.iter().any(is_there))?;
    let change = units[at].iter().position(is_there)?;
    let change = units[at].remove(change);
    units.retain(|unit| !unit.is_empty());
    Some((at, change))
}

/// Two halves. Of one unit, its rows: they are told apart at last, whatever they need of each other.
fn halved(mut units: Vec<Unit>) -> (Vec<Unit>, Vec<Unit>) {
    if units.len() == 1 {
        units = apart(units.remove(0));
    }
    let second = units.split_off(units.len() / 2);
    (units, second)
}

fn apart(unit: Unit) -> Vec<Unit> {
    let mut keys = HashSet::new();
    let order: Vec<(Arc<TableName>, Key)> = unit
        .iter()
        .map(|change| (change.table.clone(), change.key.clone()))
        .filter(|row| keys.insert(row.clone()))
        .collect();
    let mut rows: Vec<Unit> = order.iter().map(|_| Unit::new()).collect();
    for change in unit {
        let row = order.iter().position(|(table, key)| *table == change.table && *key == change.key);
        if let Some(row) = row.and_then(|row| rows.get_mut(row)) {
            row.push(change);
        }
    }
    rows
}

/// True if the last version of each of these rows is a delete.
fn ends_in_deletes(unit: &Unit) -> bool {
    let mut last: HashMap<(&TableName, &Key), &Change> = HashMap::new();
    for change in unit {
        let known = last.entry((&change.table, &change.key)).or_insert(change);
        if known.version < change.version {
            *known = change;
        }
    }
    last.values().all(|change| change.is_delete())
}

fn class_of(error: &SinkError) -> ErrorClass {
    if error.kind == FailureKind::Constraint { ErrorClass::Constraint } else { ErrorClass::Value }
}

fn refused_together(change: &Change, error: &SinkError) -> String {
    format!(
        "record {}: its row came from another key without columns that the source did not send, and was refused \
         together with the changes that have them ({}); which of them was at fault is not known",
        change.place(),
        chain(error)
    )
}

fn follows(change: &Change, place: &Place) -> String {
    format!(
        "record {}: it leaves out columns whose values the source did not send, and those may be in the dead letter \
         {place} of its row; a later record that carries the whole row is applied, or retry that dead letter first",
        change.place()
    )
}

#[cfg(test)]
mod tests;
