//! Positions of a binlog that repeat.
//!
//! MariaDB 11.4 and later without `binlog_legacy_event_pos=1`, and MySQL with
//! `binlog_transaction_compression=ON`, give one position to several events, whose rows then count
//! from 0 again: which change of a key is the newer cannot be told. Where positions are sound, the
//! row number rises within one position. What else it may do: the two halves of a key change share
//! a row, and a connector that was killed sends records again.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use bytes::Bytes;

use crate::change::Op;
use crate::key::Key;
use crate::new_log::RUN_ID;
use crate::record::Record;

/// Rows of one position that are remembered; an event with more in one partition is not looked at
/// beyond them.
const REMEMBERED_ROWS: usize = 100_000;

/// A streamed change of a binlog.
pub(crate) struct Streamed<'a> {
    pub(crate) record: &'a Record,
    pub(crate) file: u64,
    pub(crate) pos: u64,
    pub(crate) row: u64,
    pub(crate) op: Op,
    pub(crate) key: &'a Key,
    /// Where the row stands in the payload.
    pub(crate) after: &'a Range<usize>,
    /// True if it is the second half of a key change.
    pub(crate) has_old_key: bool,
}

/// The rows of the position reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowOrder {
    last: Option<Last>,
    /// Rows before the last one, as digests. Empty for nearly every position: an event has one row.
    seen: HashSet<u64>,
    /// Reading began within this position: it may have rows that were not seen.
    in_part: bool,
}

/// The record before. Only where another of its position follows is anything made of it.
#[derive(Clone, Debug)]
struct Last {
    file: u64,
    pos: u64,
    row: u64,
    op: Op,
    key: Key,
    payload: Option<Bytes>,
    after: Range<usize>,
    run: Vec<u8>,
}

impl RowOrder {
    /// Reading begins where records lie before, so perhaps within a position.
    pub(crate) fn within_the_log() -> Self {
        Self { in_part: true, ..Self::default() }
    }

    /// Takes the next streamed change. False if its position was given to another event before.
    pub(crate) fn take(&mut self, next: &Streamed<'_>) -> bool {
        let run = next.record.header(RUN_ID).unwrap_or_default();
        let Some(last) = &mut self.last else {
            self.last = Some(Last::of(next, run.to_vec()));
            return true;
        };
        let mut sound = true;
        if (last.file, last.pos) != (next.file, next.pos) || *last.run != *run {
            self.seen.clear();
            self.in_part = false;
        } else if !self.in_part && self.seen.len() < REMEMBERED_ROWS {
            self.seen.insert(last.digest());
            let rises = next.row > last.row;
            let other_half = next.row == last.row && next.has_old_key && last.op == Op::Delete && next.op != Op::Delete;
            sound = rises || other_half || self.seen.contains(&digest_of(next));
        }
        let mut buffer = std::mem::take(&mut last.run);
        if *buffer != *run {
            buffer.clear();
            buffer.extend_from_slice(run);
        }
        *last = Last::of(next, buffer);
        sound
    }
}

impl Last {
    fn of(next: &Streamed<'_>, run: Vec<u8>) -> Self {
        Self {
            file: next.file,
            pos: next.pos,
            row: next.row,
            op: next.op,
            key: next.key.clone(),
            payload: next.record.payload.clone(),
            after: next.after.clone(),
            run,
        }
    }

    fn digest(&self) -> u64 {
        digest(self.row, self.op, &self.key, self.payload.as_deref(), &self.after)
    }
}

fn digest_of(next: &Streamed<'_>) -> u64 {
    digest(next.row, next.op, next.key, next.record.payload.as_deref(), next.after)
}

fn digest(row: u64, op: Op, key: &Key, payload: Option<&[u8]>, after: &Range<usize>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (row, op, key).hash(&mut hasher);
    payload.unwrap_or_default().get(after.clone()).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use crate::lane::{Lane, LoneTombstones};
    use crate::position::{Offset, Partition};
    use crate::refusal::{Class, Reason};
    use crate::sample::{Placed, Sample, mariadb, postgres, tombstone};

    /// A streamed row of key `id` and value `v`.
    fn row(op: &str, pos: u64, row: u64, id: u64, v: u64) -> Sample {
        let sample = mariadb(op, 1, pos, row).id(id);
        if op == "d" { sample } else { sample.row(&format!(r#"{{"id":{id},"v":{v}}}"#)) }
    }

    /// Reads a log that begins at `start` and gives the offset that is refused, counted from there.
    fn read_from(start: Offset, log: &[Sample]) -> Result<(), Offset> {
        let mut lane = Lane::new(Partition::new("t", 0), start, &[], LoneTombstones::Refuse);
        for (sample, offset) in log.iter().zip(start..) {
            if let Err(refusal) = lane.feed(sample.clone().at(0, offset)) {
                assert!(matches!(refusal.reason, Reason::PositionRepeats { .. }), "{refusal}");
                assert_eq!(refusal.reason.class(), Class::Contract);
                return Err(offset - start);
            }
        }
        Ok(())
    }

    fn read(log: &[Sample]) -> Result<(), Offset> {
        read_from(0, log)
    }

    #[test]
    fn a_position_of_two_events_is_refused_whatever_their_keys() {
        assert_eq!(read(&[row("c", 400, 0, 1, 1), row("c", 400, 0, 2, 1)]), Err(1));
        assert_eq!(read(&[row("c", 400, 0, 1, 1), row("c", 400, 1, 2, 1), row("u", 400, 0, 1, 2)]), Err(2));
        assert_eq!(read(&[row("c", 400, 0, 1, 1), row("d", 400, 0, 1, 0)]), Err(1), "a delete is no half of an insert");
        assert_eq!(read(&[row("d", 400, 0, 1, 0), row("c", 400, 0, 1, 1)]), Err(1), "no key change");
        let mut lane = Lane::new(Partition::new("t", 0), 0, &[], LoneTombstones::Refuse);
        lane.feed(row("c", 400, 0, 1, 1).at(0, 0)).unwrap();
        assert_eq!(
            lane.feed(row("c", 400, 0, 2, 1).at(0, 1)).unwrap_err().to_string(),
            "record t:0:1: binlog file 1 position 400 row 0 belongs to another event as well, so which change is the newer \
             cannot be told; on MariaDB 11.4+ set binlog_legacy_event_pos=1, on MySQL set \
             binlog_transaction_compression=OFF, and take a new snapshot (GUARANTEES.md, \"positions that repeat\")"
        );
    }

    #[test]
    fn rows_of_one_event_rise_in_any_partition_of_it() {
        assert_eq!(read(&[row("c", 400, 0, 1, 1), row("c", 400, 1, 2, 1), row("c", 400, 5, 3, 1)]), Ok(()));
        assert_eq!(read(&[row("c", 400, 3, 1, 1), row("c", 500, 0, 2, 1), row("c", 600, 0, 3, 1)]), Ok(()));
    }

    #[test]
    fn both_halves_of_a_key_change_share_a_row() {
        let pair = [row("d", 400, 1, 1, 0), row("c", 400, 1, 2, 1).header("__debezium.oldkey", r#"{"id":1}"#)];
        assert_eq!(read(&pair), Ok(()));
        assert_eq!(read(&[&pair[..], &pair].concat()), Ok(()), "and may be sent again");
        let event = [&[row("u", 400, 0, 9, 1)][..], &pair, &[row("u", 400, 2, 8, 1)]].concat();
        assert_eq!(read(&event), Ok(()));
        assert_eq!(read(&[&event[..], &pair[1..]].concat()), Ok(()), "seen before");
        assert_eq!(read(&[&pair[1..], &pair[1..]].concat()), Ok(()));
    }

    #[test]
    fn the_same_sent_again_is_no_other_event() {
        let event = [row("c", 400, 0, 1, 1), row("c", 400, 1, 2, 1), row("c", 400, 4, 3, 1)];
        for from in 0..3 {
            let again = [&event[..], &event[from..], &event, &[row("c", 500, 0, 1, 1)]].concat();
            assert_eq!(read(&again), Ok(()), "from row {from}");
        }
        assert_eq!(read(&[&event[..], &[row("c", 400, 1, 2, 7)]].concat()), Err(3), "another value");
        assert_eq!(read(&[&event[..], &[row("c", 400, 2, 2, 1)]].concat()), Err(3), "another row");
        // Another run of the connector, or a position that went back: everything comes again.
        let run = |id: &str, sample: Sample| sample.run(id);
        let log = [run("a", event[0].clone()), run("b", row("c", 400, 0, 2, 1))];
        assert_eq!(read(&log), Ok(()));
        assert_eq!(read(&[row("c", 400, 0, 1, 1), row("c", 300, 0, 5, 1), row("c", 400, 0, 1, 1)]), Ok(()));
    }

    #[test]
    fn a_start_within_an_event_waits_for_the_next_position() {
        // The row before was read by another run.
        assert_eq!(read_from(7, &[row("c", 400, 1, 2, 1), row("c", 400, 0, 1, 1)]), Ok(()));
        assert_eq!(read_from(7, &[row("c", 400, 1, 2, 1), row("c", 500, 0, 1, 1), row("c", 500, 0, 2, 1)]), Err(2));
    }

    #[test]
    fn a_start_behind_a_delete_within_an_event_waits_too() {
        let mut lane = Lane::new(Partition::new("t", 0), 7, &[], LoneTombstones::Refuse);
        lane.feed(tombstone(1).at(0, 7)).unwrap();
        lane.feed(row("c", 400, 1, 2, 1).at(0, 8)).unwrap();
        // A killed connector sends the event again, with the delete that another run had read.
        lane.feed(row("d", 400, 0, 1, 0).at(0, 9)).unwrap();
    }

    #[test]
    fn rows_read_by_a_snapshot_and_postgresql_are_not_looked_at() {
        assert_eq!(read(&[row("r", 400, 0, 1, 1), row("r", 400, 0, 2, 1), row("c", 400, 0, 3, 1)]), Ok(()));
        let change = |id| postgres("u", (Some(100), 90), Some(90)).id(id);
        assert_eq!(read(&[change(1), change(2)]), Ok(()));
    }
}
