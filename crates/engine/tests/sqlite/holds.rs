//! Rows that are held behind a dead letter: kept with the offsets that they go with.

use serde_json::json;
use settle_core::batch::Batch;
use settle_core::holds::{Held, Hold, HoldNote, HoldState};
use settle_core::key::Key;
use settle_core::position::Partition;

use crate::database::{Database, apply, target};
use crate::log::Log;

const HOSTILE: &str = r#"{"a\"b":"x\\y'","n":-0.10}"#;

fn note(number: i32, key: &str, now: HoldState) -> HoldNote {
    HoldNote { partition: Partition::new("s.public.t", number), key: Key::parse(key, None).unwrap(), now }
}

fn held(first: i64, last: i64) -> HoldState {
    HoldState::Held(Held { first, last })
}

/// A database that two partitions were opened in, and what it says after these notes.
fn told(database: &Database, notes: Vec<HoldNote>) -> Vec<(i32, String, Held)> {
    let log = Log::from("t", &[("c", 10, json!({"id": 1}))]);
    let other = settle_core::record::Record { partition: Partition::new("s.public.t", 1), ..log.records[0].clone() };
    let records = [log.records[0].clone(), other];
    let (mut sink, _) = database.open(target(), &records).unwrap();
    apply(&mut sink, &Batch::of_notes(notes)).unwrap();
    let (_, places) = database.open(target(), &records).unwrap();
    let mut holds: Vec<_> =
        places.holds.into_iter().map(|Hold { partition, key, held }| (partition.number, key.to_json(), held)).collect();
    holds.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    holds
}

#[test]
fn a_hold_is_kept_until_a_whole_row_behind_all_of_its_dead_letters() {
    let database = Database::new();
    let one = r#"{"id":1}"#;
    let all = told(&database, vec![note(0, one, held(5, 5)), note(1, one, held(2, 9)), note(0, HOSTILE, held(7, 7))]);
    let is = |number, key: &str, first, last| (number, key.to_owned(), Held { first, last });
    assert_eq!(all, [is(0, HOSTILE, 7, 7), is(0, one, 5, 5), is(1, one, 2, 9)]);
    // Grown, whichever end is told.
    let all = told(&database, vec![note(0, one, held(6, 8)), note(1, one, held(1, 1))]);
    assert_eq!(all, [is(0, HOSTILE, 7, 7), is(0, one, 5, 8), is(1, one, 1, 9)]);
    // A replay that has not come to the last of them lifts nothing.
    let all = told(&database, vec![note(0, one, HoldState::Lifted(8)), note(0, HOSTILE, HoldState::Lifted(8))]);
    assert_eq!(all, [is(0, one, 5, 8), is(1, one, 1, 9)]);
    let lifted_and_set = vec![note(0, one, HoldState::Lifted(9)), note(0, one, held(11, 11))];
    assert_eq!(told(&database, lifted_and_set), [is(0, one, 11, 11), is(1, one, 1, 9)]);
}

#[test]
fn holds_are_of_the_partitions_and_the_topic_asked_for() {
    let database = Database::new();
    told(&database, vec![note(0, r#"{"id":1}"#, held(5, 5)), note(1, r#"{"id":1}"#, held(5, 5))]);
    let log = Log::from("t", &[("c", 10, json!({"id": 1}))]);
    assert_eq!(database.open(target(), &log.records).unwrap().1.holds.len(), 1);
    let other = Log::from("u", &[("c", 10, json!({"id": 1}))]);
    assert_eq!(database.open(target(), &other.records).unwrap().1.holds, []);
}
