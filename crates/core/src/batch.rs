//! What a sink applies at once: rows of several tables and partitions, folded per key.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{Change, Op, TableName, Truncate};
use crate::columns::{Column, Columns};
use crate::dead_letter::DeadLetter;
use crate::holds::HoldNote;
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
        let mut from = self.batch.fills[self.index];
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
            from = self.batch.fills[index];
        }
        found
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
    /// The change before `index` of the same row, which had another key if `index` is the second
    /// half of a key change. A delete ends a row: what comes after it is another.
    fn before(&self, index: usize) -> Before<'_> {
        let change = &self.changes[index];
        let Some(old) = &change.old_key else {
            return match (self.fills[index], change.op) {
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
mod tests {
    use super::*;
    use crate::fold::{Fold, Limits};
    use crate::lane::{Lane, LoneTombstones};
    use crate::position::Partition;
    use crate::record::{Header, Record};
    use crate::sample::Placed;

    const MASKED: &str = "__debezium_unavailable_value";

    /// Partition, op, key, body, record position, key before.
    type Step = (i32, &'static str, u32, &'static str, u64, Option<u32>);

    fn folded(steps: &[Step]) -> Batch {
        let mut fold = Fold::new(Limits::default());
        let mut lanes: Vec<Lane> =
            (0..2).map(|n| Lane::new(Partition::new("t", n), 0, &[], LoneTombstones::Refuse)).collect();
        for &(partition, op, id, body, lsn, old) in steps {
            let lane = &mut lanes[usize::try_from(partition).unwrap()];
            let after = if op == "d" { "null".into() } else { format!(r#"{{"id":{id},"body":"{body}"}}"#) };
            let payload = format!(
                r#"{{"op":"{op}","before":null,"after":{after},"source":{{"connector":"postgresql","name":"s","db":"d","schema":"public","table":"t","ts_ms":0,"lsn":{lsn},"sequence":"[\"{lsn}\",\"{lsn}\"]"}}}}"#
            );
            let header = |old: u32| Header {
                name: "__debezium.oldkey".into(),
                value: Some(format!("{{\"id\":{old}}}").into_bytes().into()),
            };
            let record = Record {
                partition: lane.partition().clone(),
                offset: lane.next(),
                timestamp_ms: None,
                key: Some(format!("{{\"id\":{id}}}").into_bytes().into()),
                payload: Some(payload.into_bytes().into()),
                headers: old.map(header).into_iter().collect(),
            };
            let (partition, offset) = (record.partition.clone(), record.offset);
            let fed = lane.feed(record).unwrap();
            fold.push(&partition, offset, fed.event, fed.floor, 0).unwrap();
        }
        fold.cut()
    }

    fn row(batch: &Batch, id: u32) -> Row<'_> {
        let key = Key::parse(&format!("{{\"id\":{id}}}"), None).unwrap();
        batch.tables().flat_map(|t| t.rows().collect::<Vec<_>>()).find(|r| *r.key() == key).unwrap()
    }

    fn body(row: Row<'_>) -> &str {
        row.columns().get("body", 1).unwrap().json
    }

    fn id_of(kept: Kept<'_>) -> Option<&str> {
        match kept {
            Kept::Row { key, .. } | Kept::OtherHalf { key, .. } => key.get("id"),
            Kept::Nowhere => None,
        }
    }

    #[test]
    fn a_value_that_was_not_sent_comes_from_the_change_before_it() {
        let batch = folded(&[(0, "c", 1, "A", 10, None), (0, "u", 1, MASKED, 20, None), (0, "u", 1, MASKED, 30, None)]);
        assert_eq!(body(row(&batch, 1)), "\"A\"");
        let batch = folded(&[(0, "u", 1, MASKED, 20, None)]);
        let row = row(&batch, 1);
        assert!(matches!(row.kept(), Kept::Row { key, .. } if key == row.key()));
    }

    #[test]
    fn what_a_record_leaves_out_comes_from_the_changes_before_it() {
        let mut fold = Fold::new(Limits::default());
        let mut lane = Lane::new(Partition::new("t", 0), 0, &[], LoneTombstones::Refuse);
        for (offset, (op, row)) in (0_i64..).zip([
            ("c", r#"{"id":1,"gone":0}"#),
            ("d", r#"{"id":1}"#),
            ("c", r#"{"id":1,"a":1,"b":1}"#),
            ("u", r#"{"b":2,"id":1,"c":null}"#),
            ("u", r#"{"id":1,"c":"__debezium_unavailable_value"}"#),
            ("u", r#"{"id":1}"#),
        ]) {
            let lsn = u64::try_from(offset).unwrap() + 10;
            let fed = lane.feed(crate::sample::postgres(op, (Some(lsn), lsn), Some(lsn)).id(1).row(row).at(0, offset));
            let fed = fed.unwrap();
            fold.push(lane.partition(), offset, fed.event, fed.floor, 0).unwrap();
        }
        let batch = fold.cut();
        let left_out = row(&batch, 1).left_out();
        let told: Vec<(&str, &str)> = left_out.iter().map(|column| (&*column.name, column.json)).collect();
        assert_eq!(
            told,
            [("b", "2"), ("c", "null"), ("a", "1")],
            "the last value of each, and none of an earlier life"
        );
    }

    #[test]
    fn a_value_never_comes_from_a_row_that_had_the_key_before_a_delete() {
        let batch =
            folded(&[(0, "c", 1, "other life", 10, None), (0, "d", 1, "", 20, None), (0, "c", 1, MASKED, 30, None)]);
        assert!(row(&batch, 1).columns().get("body", 1).unwrap().is_unavailable());
        assert_eq!(row(&batch, 1).kept(), Kept::Nowhere);
    }

    #[test]
    fn after_a_key_change_the_value_comes_from_the_row_under_its_old_key() {
        for order in [[0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 2, 1], [2, 0, 3, 1]] {
            let steps: [Step; 4] = [
                (1, "c", 2, "other row", 5, None),
                (1, "d", 2, "", 8, None),
                (0, "u", 1, "B", 10, None),
                (0, "d", 1, "", 20, None),
            ];
            let mut steps: Vec<Step> = order.iter().map(|&i| steps[i]).collect();
            steps.push((1, "c", 2, MASKED, 20, Some(1)));
            // The create may come from its partition before the other partition's records.
            for at in [4, 2] {
                let mut moved = steps.clone();
                let create = moved.pop().unwrap();
                let after_own = moved.iter().position(|s| s.1 == "d" && s.2 == 2).unwrap() + 1;
                moved.insert(at.max(after_own).min(4), create);
                assert_eq!(body(row(&folded(&moved), 2)), "\"B\"", "{moved:?}");
            }
        }
    }

    #[test]
    fn two_key_changes_in_one_batch_lead_back_to_the_first_key() {
        let steps = [
            (0, "d", 1, "", 20, None),
            (0, "c", 2, MASKED, 20, Some(1)),
            (0, "u", 2, MASKED, 25, None),
            (0, "d", 2, "", 30, None),
            (0, "c", 3, MASKED, 30, Some(2)),
        ];
        let batch = folded(&steps);
        assert!(matches!(row(&batch, 3).kept(), Kept::Row { .. }));
        assert_eq!(id_of(row(&batch, 3).kept()), Some("1"));
    }

    #[test]
    fn a_change_that_comes_again_stands_on_what_the_destination_made_of_it() {
        let batch = folded(&[(0, "u", 1, MASKED, 20, None), (0, "u", 1, MASKED, 30, None)]);
        let row = row(&batch, 1);
        assert_eq!((row.kept(), row.again()), (Kept::Row { key: row.key(), below: row.version() }, vec![]));
    }

    #[test]
    fn a_key_change_that_comes_again_stands_on_the_row_that_it_made() {
        let steps = [
            (0, "u", 1, MASKED, 10, None),
            (0, "d", 1, "", 20, None),
            (0, "c", 2, MASKED, 20, Some(1)),
            (0, "u", 2, MASKED, 25, None),
            (0, "d", 2, "", 30, None),
            (0, "c", 3, MASKED, 30, Some(2)),
            (0, "u", 3, MASKED, 40, None),
        ];
        let batch = folded(&steps);
        let last = row(&batch, 3);
        let version = |at: usize| batch.changes[at].version;
        let again: Vec<_> = last.again().iter().map(|a| (a.key.get("id"), a.from, a.below)).collect();
        assert_eq!(again, [(Some("3"), version(5), version(6)), (Some("2"), version(2), version(4))]);
        let Kept::Row { key, below } = last.kept() else { panic!("{:?}", last.kept()) };
        assert_eq!((key.get("id"), below), (Some("1"), version(1)));
        // Without the deletes, too: the row that a key change made is as certain.
        let batch = folded(&[steps[2], steps[3]]);
        let row = row(&batch, 2);
        assert!(matches!(row.kept(), Kept::OtherHalf { .. }));
        assert!(row.again()[0].holds(batch.changes[0].version) && !row.again()[0].holds(row.version()));
    }

    #[test]
    fn a_key_change_whose_delete_was_not_read_is_told_apart() {
        let batch = folded(&[(0, "u", 1, "B", 10, None), (1, "c", 2, MASKED, 20, Some(1))]);
        assert!(row(&batch, 2).columns().get("body", 1).unwrap().is_unavailable());
        assert!(matches!(row(&batch, 2).kept(), Kept::OtherHalf { .. }));
        assert_eq!(id_of(row(&batch, 2).kept()), Some("1"));
    }
}
