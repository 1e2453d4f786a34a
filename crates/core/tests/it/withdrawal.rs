//! Partitions that another instance has leave no trace in what is applied without them, wherever
//! on its way to the destination a batch is when that is found out.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use settle_core::batch::Batch;
use settle_core::dead_letter::DeadLetter;
use settle_core::fold::{Fold, Limits};
use settle_core::holds::Holds;
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::{Offset, Partition, Place};
use settle_core::record::Record;
use settle_core::refusal::Refusal;
use settle_core::sink::{FailureKind, Outcome, SinkError};
use settle_core::tally::Tally;
use settle_core::unfold::{Pieces, Ready, prepare};
use settle_core::version::Version;

use crate::support::sample::{Placed, postgres, record, tombstone};

const PARTITIONS: i32 = 3;
/// No column of the destination holds it.
const BAD: &str = "\"bad\"";

fn partition(number: i32) -> Partition {
    Partition::new("t", number)
}

/// What a partition holds next. Versions are small, so that they tie, rise and fall.
#[derive(Clone, Copy, Debug)]
enum What {
    Write {
        id: u64,
        at: u64,
        n: u64,
    },
    Delete {
        id: u64,
        at: u64,
    },
    Snapshot {
        id: u64,
        at: u64,
    },
    Truncate {
        at: u64,
    },
    Tombstone {
        id: u64,
    },
    Heartbeat,
    /// Of a row, and of none.
    Garbage {
        id: Option<u64>,
    },
    Marker,
}

fn what() -> impl Strategy<Value = What> {
    let id = || 0..4u64;
    let at = || 100..112u64;
    prop_oneof![
        8 => (id(), at(), 0..2u64).prop_map(|(id, at, n)| What::Write { id, at, n }),
        2 => (id(), at()).prop_map(|(id, at)| What::Delete { id, at }),
        2 => (id(), at()).prop_map(|(id, at)| What::Snapshot { id, at }),
        1 => at().prop_map(|at| What::Truncate { at }),
        1 => id().prop_map(|id| What::Tombstone { id }),
        1 => Just(What::Heartbeat),
        1 => prop::option::of(id()).prop_map(|id| What::Garbage { id }),
        1 => Just(What::Marker),
    ]
}

fn record_of(what: What, number: i32, offset: Offset) -> Option<Record> {
    let streamed = |op: &str, at: u64| postgres(op, (Some(at), at), Some(at));
    let record = match what {
        What::Write { id, at, n } => streamed("u", at).id(id).row(&format!(r#"{{"id":{id},"n":{n}}}"#)).record(),
        What::Delete { id, at } => streamed("d", at).id(id).record(),
        What::Snapshot { id, at } => postgres("r", (None, at), Some(at)).id(id).record(),
        What::Truncate { at } => streamed("t", at).key(None).row("null").record(),
        What::Tombstone { id } => tombstone(id),
        What::Heartbeat => record(Some(r#"{"serverName":"s"}"#), Some(r#"{"ts_ms":1}"#)),
        What::Garbage { id } => record(id.map(|id| format!(r#"{{"id":{id}}}"#)).as_deref(), Some("{\"op\":")),
        What::Marker => return None,
    };
    Some(record.at(number, offset))
}

/// One batch of all that these partitions hold.
fn folded(log: &[(i32, What)], of: &dyn Fn(i32) -> bool) -> Result<Batch, Refusal> {
    let mut fold = Fold::new(Limits { max_rows: usize::MAX, ..Limits::default() });
    let mut lanes: BTreeMap<i32, Lane> =
        (0..PARTITIONS).map(|number| (number, Lane::new(partition(number), 0, &[], LoneTombstones::Skip))).collect();
    for &(number, what) in log.iter().filter(|(number, _)| of(*number)) {
        let lane = lanes.get_mut(&number).unwrap();
        let (at, offset) = (lane.partition().clone(), lane.next());
        match record_of(what, number, offset) {
            None => {
                lane.pass(offset + 1);
                fold.pass(&at, offset, offset + 1, 0);
            }
            Some(record) => match lane.take_in(record) {
                Ok(fed) => fold.push(&at, offset, fed.event, fed.floor, 0)?,
                Err(refused) => {
                    // Versions that fall are taken for a new log, which ends a run.
                    if let Ok(letter) = refused.into_dead_letter(true) {
                        fold.push_dead(letter, 0);
                    }
                }
            },
        }
    }
    Ok(fold.cut())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn what_is_left_is_the_batch_that_never_had_the_partitions(
        log in prop::collection::vec((0..PARTITIONS, what()), 0..60),
        gone in prop::collection::btree_set(0..PARTITIONS, 0..3),
    ) {
        let partitions: Vec<Partition> = gone.iter().copied().map(partition).collect();
        let all = || folded(&log, &|_| true);
        let (Ok(mut batch), never_had) = (all(), folded(&log, &|number| !gone.contains(&number))) else {
            return Ok(());
        };
        // Before anything was done with it.
        let left = batch.withdraw(&partitions).map(|()| batch);
        prop_assert_eq!(format!("{left:?}"), format!("{never_had:?}"));
        // When its dead letters were taken out, and its holds noted.
        let Ok(never_had) = never_had else { return Ok(()) };
        let (mut holds, mut of_others) = (Holds::default(), Holds::default());
        let Ready::Whole(letters, mut batch) = prepare(Box::new(all().unwrap()), &mut holds) else { panic!() };
        let Ready::Whole(others, never_had) = prepare(Box::new(never_had), &mut of_others) else { panic!() };
        let letters = batch.withdraw_with(letters, &partitions).unwrap();
        holds.forget(&partitions);
        prop_assert_eq!(letters, others);
        prop_assert_eq!(format!("{batch:?}"), format!("{never_had:?}"));
        prop_assert_eq!(holds, of_others);
    }
}

/// Keeps rows, refuses what it cannot hold, and fences a partition from some call on.
#[derive(Default)]
struct Destination {
    rows: BTreeMap<String, (Version, String)>,
    /// How far each partition is there.
    next: BTreeMap<Partition, Offset>,
    calls: usize,
    fences: Option<(usize, Partition)>,
    names_records: bool,
}

impl Destination {
    fn apply(&mut self, batch: &Batch) -> Result<Outcome, SinkError> {
        self.calls += 1;
        if let Some((from, partition)) = &self.fences
            && self.calls >= *from
            && batch.spans().iter().any(|span| span.partition == *partition)
        {
            return Err(SinkError::fenced("write", vec![partition.clone()]));
        }
        let rows: Vec<_> = batch.tables().flat_map(|table| table.rows().collect::<Vec<_>>()).collect();
        if let Some(row) = rows.iter().find(|row| row.change().after_json().contains(BAD)) {
            let error = SinkError::new(FailureKind::Row, "write", "out of range");
            return Err(if self.names_records { error.at(row.change().place()) } else { error });
        }
        let mut outcome = Outcome::default();
        for row in rows {
            let key = row.key().to_string();
            if self.rows.get(&key).is_some_and(|(version, _)| *version >= row.version()) {
                outcome.stale += 1;
            } else {
                outcome.applied += 1;
                self.rows.insert(key, (row.version(), row.change().after_json().to_owned()));
            }
        }
        for span in batch.spans() {
            let next = self.next.entry(span.partition.clone()).or_default();
            *next = span.end.max(*next);
        }
        Ok(outcome)
    }

    /// Settles the batch as a run does: its dead letters, and its counts.
    fn settle(&mut self, batch: Batch) -> (Vec<DeadLetter>, Tally) {
        let mut holds = Holds::default();
        let mut written = Vec::new();
        let mut pieces = match prepare(Box::new(batch), &mut holds) {
            Ready::Pieces(pieces) => pieces,
            Ready::Whole(mut letters, mut batch) => {
                while let Err(error) = self.apply(&batch.asking()) {
                    letters = batch.withdraw_with(letters, &error.fenced).unwrap();
                    holds.forget(&error.fenced);
                }
                written.extend(letters);
                loop {
                    match self.apply(&batch) {
                        Ok(outcome) => return (written, counted(&batch, outcome)),
                        Err(error) if error.kind == FailureKind::Fenced => {
                            batch.withdraw(&error.fenced).unwrap();
                            holds.forget(&error.fenced);
                        }
                        Err(error) => break Pieces::of_refused(*batch, &mut holds, &error),
                    }
                }
            }
        };
        while let Some(piece) = pieces.next_piece().unwrap() {
            match self.apply(&piece) {
                Ok(outcome) => pieces.applied(&piece, outcome),
                Err(error) if error.kind == FailureKind::Fenced => pieces.withdraw(Some(piece), &error.fenced),
                Err(error) => pieces.refused(piece, &error),
            }
        }
        while let Err(error) = self.apply(&pieces.asking()) {
            pieces.withdraw(None, &error.fenced);
        }
        let (letters, mut rest) = pieces.finish();
        written.extend(letters);
        loop {
            match self.apply(&rest) {
                Ok(outcome) => return (written, counted(&rest, outcome)),
                Err(error) => rest.withdraw(&error.fenced).unwrap(),
            }
        }
    }

    /// The rows of a partition: each key lies in one.
    fn rows_of(&self, number: u64) -> BTreeMap<&String, &(Version, String)> {
        let is_here = |key: &str| {
            let id: u64 = key.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
            id % 2 == number
        };
        self.rows.iter().filter(|(key, _)| is_here(key)).collect()
    }
}

fn counted(batch: &Batch, outcome: Outcome) -> Tally {
    let mut tally = batch.tally();
    tally.applied += outcome.applied;
    tally.stale += outcome.stale;
    tally
}

fn of_partition(letters: &[DeadLetter], number: i32) -> Vec<Place> {
    letters.iter().map(|letter| letter.record.place()).filter(|place| place.partition.number == number).collect()
}

#[derive(Clone, Copy, Debug)]
enum Row {
    Good,
    Bad,
    Garbage,
    Heartbeat,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_fence_that_is_met_at_any_write_takes_nothing_from_the_other_partitions(
        rows in prop::collection::vec((0..6u64, prop_oneof![6 => Just(Row::Good), 2 => Just(Row::Bad), 1 => Just(Row::Garbage), 1 => Just(Row::Heartbeat)]), 1..40),
        from in 1..12usize,
        names_records in any::<bool>(),
    ) {
        let batch = || {
            let mut fold = Fold::new(Limits { max_rows: usize::MAX, ..Limits::default() });
            let mut lanes = [0, 1].map(|number| Lane::new(partition(number), 0, &[], LoneTombstones::Skip));
            for (&(id, row), at) in rows.iter().zip(100..) {
                let number = i32::try_from(id % 2).unwrap();
                let lane = &mut lanes[usize::try_from(number).unwrap()];
                let n = if matches!(row, Row::Bad) { BAD.to_owned() } else { at.to_string() };
                let sample = postgres("u", (Some(at), at), Some(at)).id(id).row(&format!(r#"{{"id":{id},"n":{n}}}"#));
                let mut record = if matches!(row, Row::Heartbeat) {
                    record(Some(r#"{"serverName":"s"}"#), Some(r#"{"ts_ms":1}"#)).at(number, lane.next())
                } else {
                    sample.at(number, lane.next())
                };
                if matches!(row, Row::Garbage) {
                    record.payload = Some("{\"op\":".into());
                }
                let (at, offset) = (record.partition.clone(), record.offset);
                match lane.take_in(record) {
                    Ok(fed) => fold.push(&at, offset, fed.event, fed.floor, 0).unwrap(),
                    Err(refused) => fold.push_dead(refused.into_dead_letter(true).unwrap(), 0),
                }
            }
            fold.cut()
        };
        let mut whole = Destination { names_records, ..Destination::default() };
        let (all_letters, _) = whole.settle(batch());
        let mut fenced = Destination { names_records, fences: Some((from, partition(1))), ..Destination::default() };
        let (letters, tally) = fenced.settle(batch());

        prop_assert!(tally.balances(), "{tally:?}");
        prop_assert_eq!(fenced.rows_of(0), whole.rows_of(0));
        prop_assert_eq!(fenced.next.get(&partition(0)), whole.next.get(&partition(0)));
        prop_assert_eq!(of_partition(&letters, 0), of_partition(&all_letters, 0));
        // Nothing of the other one was acknowledged, and nothing of it is there that is not true.
        if fenced.calls >= from {
            let acknowledged = fenced.next.get(&partition(1)).is_some_and(|next| *next > 0);
            prop_assert!(!acknowledged, "{:?}", fenced.next);
        } else {
            prop_assert_eq!(&fenced.rows, &whole.rows);
        }
        let places: BTreeSet<Place> = letters.iter().map(|letter| letter.record.place()).collect();
        prop_assert_eq!(places.len(), letters.len(), "a dead letter once");
    }
}
