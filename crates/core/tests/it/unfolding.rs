//! A poison row costs its row nothing but itself: whatever is poison, however the log is cut, and
//! whether or not the destination names the record, what is there is true.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use settle_core::batch::{Batch, Kept, Row};
use settle_core::dead_letter::{DeadLetter, ErrorClass};
use settle_core::fold::{Fold, Limits};
use settle_core::holds::{Hold, HoldState, Holds};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::{Offset, Partition, Place};
use settle_core::record::Record;
use settle_core::sink::{Durable, FailureKind, Outcome, SinkError};
use settle_core::tally::Tally;
use settle_core::unfold::{Pieces, Ready, prepare};
use settle_core::version::Version;

use crate::support::sample::{Placed, postgres};

const MASKED: &str = "\"__debezium_unavailable_value\"";
/// No column of the destination holds it.
const BAD: &str = "\"bad\"";
/// Stands where a strict destination had stopped: it never had the value.
const HOLE: &str = "hole";

type Columns = BTreeMap<String, String>;

#[derive(Clone, Debug)]
struct Stored {
    version: Version,
    is_deleted: bool,
    columns: Columns,
}

/// Keeps deleted rows, marked, and refuses rows with a value that it cannot hold.
#[derive(Clone, Debug, Default)]
struct Destination {
    rows: BTreeMap<String, Stored>,
    holds: BTreeMap<(Partition, String), Hold>,
    offsets: BTreeMap<Partition, Offset>,
    names_records: bool,
    calls: usize,
}

impl Destination {
    #[expect(clippy::disallowed_methods, reason = "stands for a sink")]
    fn apply(&mut self, batch: &Batch) -> Result<Durable, SinkError> {
        self.calls += 1;
        let before = self.rows.clone();
        let mut outcome = Outcome::default();
        for row in batch.tables().flat_map(|table| table.rows().collect::<Vec<_>>()) {
            let columns = columns(&before, row);
            if columns.values().any(|json| json == BAD) {
                self.rows = before;
                let error = SinkError::new(FailureKind::Row, "write", "out of range");
                return Err(if self.names_records { error.at(row.change().place()) } else { error });
            }
            let key = row.key().to_string();
            if self.rows.get(&key).is_some_and(|stored| stored.version >= row.version()) {
                outcome.stale += 1;
                continue;
            }
            outcome.applied += 1;
            let columns = if row.is_delete() {
                // The other half of a key change may look for them. What the batch says of the row
                // may be of another life than what is stored.
                let said: Columns =
                    row.left_out().into_iter().map(|c| (c.name.to_string(), c.json.to_owned())).collect();
                let stored = self.rows.get(&key).filter(|stored| !stored.is_deleted && said.is_empty());
                stored.map_or(said, |stored| stored.columns.clone())
            } else {
                columns
            };
            self.rows.insert(key, Stored { version: row.version(), is_deleted: row.is_delete(), columns });
        }
        for note in batch.holds() {
            let at = (note.partition.clone(), note.key.to_string());
            match note.now {
                HoldState::Held(held) => {
                    let hold = Hold { partition: note.partition.clone(), key: note.key.clone(), held };
                    self.holds.insert(at, hold);
                }
                HoldState::Lifted(by) => {
                    if self.holds.get(&at).is_some_and(|hold| hold.held.last < by) {
                        self.holds.remove(&at);
                    }
                }
            }
        }
        for span in batch.spans() {
            let next = self.offsets.entry(span.partition.clone()).or_default();
            *next = span.end.max(*next);
        }
        Ok(Durable::mint(batch, outcome))
    }
}

/// The row as it would be written.
fn columns(stored: &BTreeMap<String, Stored>, row: Row<'_>) -> Columns {
    let kept = |name: &str| {
        let known = match row.kept() {
            Kept::Row { key, below } => stored.get(&key.to_string()).filter(|s| s.version < below && !s.is_deleted),
            Kept::OtherHalf { key, version } => {
                stored.get(&key.to_string()).filter(|s| s.is_deleted && s.version.lo() == version.lo())
            }
            Kept::Nowhere => None,
        };
        known.and_then(|s| s.columns.get(name)).cloned().unwrap_or_else(|| HOLE.to_owned())
    };
    let columns = row.columns();
    let value = |c: &settle_core::columns::Column<'_>| {
        (c.name.to_string(), if c.is_unavailable() { kept(&c.name) } else { c.json.to_owned() })
    };
    columns.iter().map(value).collect()
}

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

/// What happens to a row at the source. Its columns: `n` is always sent, `body` only where it changes.
#[derive(Clone, Debug)]
enum Act {
    /// Inserted, or updated; with another body, or with one that stays and is not sent.
    Write {
        id: u64,
        n_bad: bool,
        body: Option<bool>,
    },
    /// Sent whole though nothing changed, as with REPLICA IDENTITY FULL for once.
    Whole {
        id: u64,
    },
    Delete {
        id: u64,
    },
    /// Another key; the body is not sent.
    Rename {
        id: u64,
        to: u64,
    },
    /// Something that is no change event, under the row's key.
    Garbage {
        id: u64,
    },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let id = || 0..5u64;
    let rarely = || prop::bool::weighted(0.12);
    let act = prop_oneof![
        12 => (id(), rarely(), prop::option::weighted(0.5, rarely()))
            .prop_map(|(id, n_bad, body)| Act::Write { id, n_bad, body }),
        2 => id().prop_map(|id| Act::Whole { id }),
        2 => id().prop_map(|id| Act::Delete { id }),
        2 => (id(), id()).prop_map(|(id, to)| Act::Rename { id, to }),
        1 => id().prop_map(|id| Act::Garbage { id }),
    ];
    prop::collection::vec(act, 0..50)
}

/// The log, and what is true: each row as it was at each of its versions.
#[derive(Default)]
struct Log {
    records: Vec<Record>,
    next: [Offset; 2],
    at: u64,
    rows: BTreeMap<u64, (String, String)>,
    truth: BTreeMap<(u64, u64), Option<(String, String)>>,
    garbage: BTreeSet<Place>,
}

impl Log {
    fn of(acts: &[Act]) -> Self {
        let mut log = Self { at: 100, ..Self::default() };
        acts.iter().for_each(|act| log.act(act));
        log
    }

    fn act(&mut self, act: &Act) {
        self.at += 1;
        match *act {
            Act::Write { id, n_bad, body } => {
                let n = if n_bad { BAD.to_owned() } else { self.at.to_string() };
                let value = |bad: bool, at: u64| if bad { BAD.to_owned() } else { format!("\"b{at}\"") };
                match (self.rows.get(&id).cloned(), body) {
                    (None, body) => self.write("c", id, (n, value(body == Some(true), self.at)), true),
                    (Some(_), Some(bad)) => self.write("u", id, (n, value(bad, self.at)), true),
                    (Some((_, body)), None) => self.write("u", id, (n, body), false),
                }
            }
            Act::Whole { id } => {
                if let Some(row) = self.rows.get(&id).cloned() {
                    self.write("u", id, row, true);
                }
            }
            Act::Delete { id } => {
                if self.rows.remove(&id).is_some() {
                    self.delete(id, None);
                }
            }
            Act::Rename { id, to } => {
                if id != to
                    && !self.rows.contains_key(&to)
                    && let Some(row) = self.rows.remove(&id)
                {
                    self.delete(id, Some(to));
                    self.rows.insert(to, row.clone());
                    self.truth.insert((to, self.at), Some(row.clone()));
                    let json = format!(r#"{{"id":{to},"n":{},"body":{MASKED}}}"#, row.0);
                    let sample = self.sample("c").id(to).row(&json);
                    self.put(to, &sample.header("__debezium.oldkey", &key(id)));
                }
            }
            Act::Garbage { id } => {
                let mut record = self.sample("u").id(id).record();
                record.payload = Some("{\"op\":".into());
                let place = self.place(id, record);
                self.garbage.insert(place);
            }
        }
    }

    fn write(&mut self, op: &str, id: u64, row: (String, String), whole: bool) {
        let body = if whole { row.1.as_str() } else { MASKED };
        let json = format!(r#"{{"id":{id},"n":{},"body":{body}}}"#, row.0);
        let sample = self.sample(op).id(id).row(&json);
        self.put(id, &sample);
        self.truth.insert((id, self.at), Some(row.clone()));
        self.rows.insert(id, row);
    }

    fn delete(&mut self, id: u64, to: Option<u64>) {
        let sample = self.sample("d").id(id);
        let sample = match to {
            Some(to) => sample.header("__debezium.newkey", &key(to)),
            None => sample,
        };
        self.put(id, &sample);
        self.truth.insert((id, self.at), None);
    }

    fn sample(&self, op: &str) -> crate::support::sample::Sample {
        postgres(op, (Some(self.at), self.at), Some(self.at))
    }

    fn put(&mut self, id: u64, sample: &crate::support::sample::Sample) {
        self.place(id, sample.record());
    }

    fn place(&mut self, id: u64, record: Record) -> Place {
        let number = usize::try_from(id % 2).unwrap();
        let record = record.at(i32::try_from(number).unwrap(), self.next[number]);
        self.next[number] += 1;
        let place = record.place();
        self.records.push(record);
        place
    }

    /// Whether this is the row as it was at that version, as far as the destination had its values.
    fn check(&self, key: &str, stored: &Stored) -> Result<(), String> {
        let id: u64 = key.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        let at = stored.version.lo() & !(1 << 62);
        let truth = self.truth.get(&(id, at)).ok_or_else(|| format!("{key} has no version {at}"))?;
        let Some((n, body)) = truth else {
            return if stored.is_deleted { Ok(()) } else { Err(format!("{key} was deleted at {at}")) };
        };
        let same = |name: &str, true_json: &str| {
            let json = stored.columns.get(name).map_or("", String::as_str);
            json == true_json || json == HOLE
        };
        if !stored.is_deleted && same("n", n) && same("body", body) {
            return Ok(());
        }
        Err(format!("{key} at {at} is {stored:?}, and was ({n}, {body})"))
    }
}

fn key(id: u64) -> String {
    format!("{{\"id\":{id}}}")
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
