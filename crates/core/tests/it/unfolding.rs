//! A poison row costs its row nothing but itself: whatever is poison, however the log is cut, and
//! whether or not the destination names the record, what is there is true.

mod destination;
mod log;

use std::collections::BTreeMap;

use proptest::prelude::*;
use settle_core::batch::Batch;
use settle_core::dead_letter::{DeadLetter, ErrorClass};
use settle_core::fold::{Fold, Limits};
use settle_core::holds::{Hold, Holds};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::Partition;
use settle_core::record::Record;
use settle_core::sink::Durable;
use settle_core::tally::Tally;
use settle_core::unfold::{Pieces, Ready, prepare};

use self::destination::{BAD, Destination};
use self::log::{Log, MASKED, acts, key};
use crate::support::sample::{Placed, postgres};

/// A run as the engine drives it, cut where it is told.
struct Run<'a> {
    destination: &'a mut Destination,
    letters: &'a mut Vec<DeadLetter>,
    lanes: BTreeMap<Partition, Lane>,
    holds: Holds,
    fold: Fold,
    tally: Tally,
}

impl<'a> Run<'a> {
    fn start(destination: &'a mut Destination, letters: &'a mut Vec<DeadLetter>) -> Self {
        let mut holds = Holds::default();
        let recorded: Vec<Hold> = destination.holds.values().cloned().collect();
        holds.open((0..2).map(partition).collect::<Vec<_>>().iter(), recorded);
        let limits = Limits { max_rows: usize::MAX, max_bytes: usize::MAX, max_age_ms: u64::MAX };
        let (lanes, fold, tally) = (BTreeMap::new(), Fold::new(limits), Tally::default());
        Self { destination, letters, lanes, holds, fold, tally }
    }

    fn feed(&mut self, record: &Record) {
        let (at, offset) = (record.partition.clone(), record.offset);
        let new = || Lane::new(at.clone(), offset, &[], LoneTombstones::Skip);
        match self.lanes.entry(at.clone()).or_insert_with(new).take_in(record.clone()) {
            Ok(fed) => self.fold.push(&at, offset, fed.event, fed.floor, 0).unwrap(),
            Err(refused) => self.fold.push_dead(refused.into_dead_letter(true).unwrap(), 0),
        }
    }

    /// Settles what is gathered; with a crash before the end, nothing of it is committed.
    fn cut(&mut self, crash: bool) {
        if self.fold.is_empty() {
            return;
        }
        let mut pieces = match prepare(Box::new(self.fold.cut()), &mut self.holds) {
            Ready::Pieces(pieces) => pieces,
            Ready::Whole(letters, batch) => {
                self.letters.extend(letters);
                match self.destination.apply(&batch) {
                    Ok(proof) => return count(&mut self.tally, &batch, proof),
                    Err(error) => Pieces::of_refused(*batch, &mut self.holds, &error),
                }
            }
        };
        while let Some(piece) = pieces.next_piece().unwrap() {
            assert!(piece.spans().iter().all(|span| span.start == span.end), "a piece proves nothing");
            match self.destination.apply(&piece) {
                Ok(proof) => pieces.applied(&piece, proof.outcome),
                Err(error) => pieces.refused(piece, &error),
            }
        }
        let (letters, rest) = pieces.finish();
        assert!(letters.is_sorted_by_key(|letter| letter.record.place()));
        self.letters.extend(letters);
        if !crash {
            let proof = self.destination.apply(&rest).unwrap();
            count(&mut self.tally, &rest, proof);
        }
    }
}

fn count(tally: &mut Tally, batch: &Batch, proof: Durable) {
    let mut of_batch = batch.tally();
    of_batch.applied += proof.outcome.applied;
    of_batch.stale += proof.outcome.stale;
    assert!(of_batch.balances(), "{of_batch:?}");
    tally.add(&of_batch);
}

fn partition(number: i32) -> Partition {
    Partition::new("t", number)
}

fn check_all(log: &Log, destination: &Destination, letters: &[DeadLetter]) -> Result<(), TestCaseError> {
    for (key, stored) in &destination.rows {
        if let Err(wrong) = log.check(key, stored) {
            prop_assert!(false, "{wrong}");
        }
    }
    for letter in letters {
        let place = letter.record.place();
        let id_at = letter.version.map(|version| version.lo() & !(1 << 62));
        let garbage = log.garbage.contains(&place);
        prop_assert_eq!(garbage, letter.class == ErrorClass::NotJson, "{}", &place);
        if letter.class == ErrorClass::Value {
            let id: u64 = letter.key.as_ref().unwrap().get("id").unwrap().parse().unwrap();
            let row = log.truth[&(id, id_at.unwrap())].clone();
            let is_bad = row.is_some_and(|(n, body)| n == BAD || body == BAD);
            prop_assert!(is_bad, "{} was sound, and refused: {}", place, letter.error);
        }
    }
    // The last word on a row, where it is whole and sound, has been heard.
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    log.truth.keys().for_each(|(id, at)| {
        last.insert(*id, *at);
    });
    for record in &log.records {
        if log.garbage.contains(&record.place()) {
            continue;
        }
        let payload = std::str::from_utf8(record.payload.as_deref().unwrap()).unwrap();
        let (id, at) = {
            let mut lane = Lane::new(record.partition.clone(), record.offset, &[], LoneTombstones::Skip);
            let settle_core::change::Event::Change(change) = lane.feed(record.clone()).unwrap().event else {
                continue;
            };
            (change.key.get("id").unwrap().parse::<u64>().unwrap(), change.version.lo() & !(1 << 62))
        };
        if last[&id] == at && !payload.contains(MASKED) && !payload.contains(BAD) {
            let stored = destination.rows.get(&key(id));
            let heard = stored.is_some_and(|stored| stored.version.lo() & !(1 << 62) == at);
            prop_assert!(heard, "row {id} at {at} is not applied: {stored:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn what_is_in_the_destination_is_true_whatever_is_poison(
        acts in acts(),
        cuts in prop::collection::vec((1..12usize, prop::bool::weighted(0.2)), 1..8),
        names_records in any::<bool>(),
    ) {
        let log = Log::of(&acts);
        let mut destination = Destination { names_records, ..Destination::default() };
        let mut letters = Vec::new();
        let mut cuts = cuts.iter().cycle();
        // A crash starts a new run where the destination stands; the last one goes to the end.
        for last in [false, false, false, true] {
            let from = destination.offsets.clone();
            let behind = |record: &&Record| from.get(&record.partition).is_none_or(|next| record.offset >= *next);
            let mut run = Run::start(&mut destination, &mut letters);
            let &(mut left, mut crash) = cuts.next().unwrap();
            let mut crashed = false;
            for record in log.records.iter().filter(behind) {
                run.feed(record);
                left -= 1;
                if left == 0 {
                    run.cut(crash && !last);
                    if crash && !last {
                        crashed = true;
                        break;
                    }
                    (left, crash) = *cuts.next().unwrap();
                }
            }
            if !crashed {
                run.cut(false);
            }
        }
        check_all(&log, &destination, &letters)?;
        // All of it again, as another group: nothing changes for the worse.
        let mut run = Run::start(&mut destination, &mut letters);
        log.records.iter().for_each(|record| run.feed(record));
        run.cut(false);
        prop_assert_eq!(run.tally.read, log.records.len() as u64);
        check_all(&log, &destination, &letters)?;
    }
}

fn thousand(poison: &[u64]) -> Vec<Record> {
    let row = |at: u64| {
        let n = if poison.contains(&at) { BAD.to_owned() } else { at.to_string() };
        let sample = postgres("c", (Some(at), at), Some(at)).id(at).row(&format!(r#"{{"id":{at},"n":{n}}}"#));
        sample.at(0, i64::try_from(at).unwrap())
    };
    (0..1_024).map(row).collect()
}

#[test]
fn one_poison_row_of_a_thousand_is_found_in_the_logarithm_of_writes() {
    for (names_records, at_most) in [(true, 4), (false, 2 * 10 + 2)] {
        for poison in [0, 1, 511, 1_000, 1_023] {
            let (mut destination, mut letters) = (Destination { names_records, ..Destination::default() }, Vec::new());
            let mut run = Run::start(&mut destination, &mut letters);
            thousand(&[poison]).iter().for_each(|record| run.feed(record));
            run.cut(false);
            assert_eq!(run.tally, Tally { read: 1_024, applied: 1_023, dead_lettered: 1, ..Tally::default() });
            assert!(destination.calls <= at_most, "{} writes for record {poison}", destination.calls);
            assert_eq!(letters.len(), 1);
            assert_eq!(letters[0].record.offset, i64::try_from(poison).unwrap());
        }
    }
}

#[test]
fn a_batch_without_poison_is_written_once() {
    let (mut destination, mut letters) = (Destination::default(), Vec::new());
    let mut run = Run::start(&mut destination, &mut letters);
    thousand(&[]).iter().for_each(|record| run.feed(record));
    run.cut(false);
    assert_eq!((destination.calls, letters.len()), (1, 0));
}

#[test]
fn the_last_good_record_of_a_row_is_applied_when_those_after_it_are_poison() {
    for names_records in [true, false] {
        let (mut destination, mut letters) = (Destination { names_records, ..Destination::default() }, Vec::new());
        let mut run = Run::start(&mut destination, &mut letters);
        let row = |at: u64, n: &str| {
            let op = if at == 1 { "c" } else { "u" };
            let json = format!(r#"{{"id":1,"n":{n}}}"#);
            postgres(op, (Some(at), at), Some(at)).row(&json).at(0, i64::try_from(at).unwrap())
        };
        for record in [row(1, BAD), row(2, "2"), row(3, BAD), row(4, "4"), row(5, BAD), row(6, BAD)] {
            run.feed(&record);
        }
        run.cut(false);
        // Record 1 and 3 were overtaken in their batch: nobody would have seen them.
        assert_eq!(run.tally, Tally { read: 6, applied: 1, superseded: 3, dead_lettered: 2, ..Tally::default() });
        assert_eq!(destination.rows[&key(1)].columns["n"], "4");
        assert_eq!(letters.iter().map(|letter| letter.record.offset).collect::<Vec<_>>(), [5, 6]);
    }
}
