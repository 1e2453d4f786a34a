use super::*;
use crate::change::Event;
use crate::lane::{Lane, LoneTombstones};
use crate::sample::{Placed, Sample, postgres};

const MASKED: &str = r#"{"id":1,"n":1,"body":"__debezium_unavailable_value"}"#;
const WHOLE: &str = r#"{"id":1,"n":1,"body":"b"}"#;

fn change(sample: Sample, number: i32, offset: Offset) -> Change {
    let record = sample.at(number, offset);
    let mut lane = Lane::new(record.partition.clone(), record.offset, &[], LoneTombstones::Skip);
    match lane.feed(record).unwrap().event {
        Event::Change(change) => *change,
        other => panic!("{other:?}"),
    }
}

fn update(row: &str, offset: Offset) -> Change {
    let at = 100 + offset.unsigned_abs();
    change(postgres("u", (Some(at), at), Some(at)).row(row), 0, offset)
}

fn delete(offset: Offset, new_key: Option<&str>) -> Change {
    let at = 100 + offset.unsigned_abs();
    let sample = postgres("d", (Some(at), at), Some(at));
    change(new_key.map_or(sample.clone(), |key| sample.header(NEW_KEY, key)), 0, offset)
}

fn holds_of(offsets: &[Offset]) -> Holds {
    let mut holds = Holds::default();
    for &offset in offsets {
        let (class, error) = (crate::dead_letter::ErrorClass::Value, String::new());
        holds.set(&DeadLetter::of_change(update(WHOLE, offset), class, error));
    }
    holds
}

fn follows(holds: &mut Holds, change: &Change) -> Option<Offset> {
    holds.holds_back(change).map(|place| place.offset)
}

fn notes(holds: &mut Holds) -> Vec<HoldState> {
    holds.take_notes().into_iter().map(|note| note.now).collect()
}

#[test]
fn what_leaves_columns_out_follows_until_the_row_is_whole_again() {
    let mut holds = holds_of(&[5]);
    assert_eq!(notes(&mut holds), [HoldState::Held(Held { first: 5, last: 5 })]);
    assert_eq!(follows(&mut holds, &update(MASKED, 6)), Some(5));
    assert_eq!(follows(&mut holds, &update(MASKED, 7)), Some(5));
    assert_eq!(follows(&mut holds, &update(WHOLE, 8)), None);
    assert_eq!(follows(&mut holds, &update(MASKED, 9)), None);
    assert_eq!(notes(&mut holds), [HoldState::Lifted(8)]);
    assert!(holds.is_empty());
}

#[test]
fn what_was_before_the_dead_letter_neither_follows_nor_lifts() {
    let mut holds = holds_of(&[5, 9]);
    for early in [update(MASKED, 4), update(WHOLE, 4)] {
        assert_eq!(follows(&mut holds, &early), None);
    }
    // Between two of them the row is whole for a while; a later run may start there.
    assert_eq!(follows(&mut holds, &update(MASKED, 6)), Some(5));
    assert_eq!(follows(&mut holds, &update(WHOLE, 7)), None);
    assert_eq!(follows(&mut holds, &update(MASKED, 10)), Some(5));
    assert_eq!(notes(&mut holds), [HoldState::Held(Held { first: 5, last: 10 })]);
}

#[test]
fn a_delete_ends_a_hold_unless_the_row_goes_on_under_another_key() {
    let mut holds = holds_of(&[5]);
    assert_eq!(follows(&mut holds, &delete(6, None)), None);
    assert!(holds.is_empty());

    let mut holds = holds_of(&[5]);
    assert_eq!(follows(&mut holds, &delete(6, Some(r#"{"id":2}"#))), None);
    let moved = |row: &str, number| {
        let sample = postgres("c", (Some(106), 106), Some(106)).id(2).row(row);
        change(sample.header("__debezium.oldkey", r#"{"id":1}"#), number, 3)
    };
    assert_eq!(follows(&mut holds, &moved(r#"{"id":2,"n":1,"body":"b"}"#, 1)), None, "it carries all of it");
    let masked = MASKED.replace("\"id\":1", "\"id\":2");
    assert_eq!(follows(&mut holds, &moved(&masked, 1)), Some(5), "in another partition");
    let update = change(postgres("u", (Some(107), 107), Some(107)).id(2).row(&masked), 1, 4);
    assert_eq!(follows(&mut holds, &update), Some(3), "and what stands on the new row");
}

#[test]
fn other_rows_and_partitions_are_not_held() {
    let mut holds = holds_of(&[5]);
    let of_another =
        change(postgres("u", (Some(106), 106), Some(106)).id(2).row(&MASKED.replace("\"id\":1", "\"id\":2")), 0, 6);
    assert_eq!(follows(&mut holds, &of_another), None);
    let elsewhere = change(postgres("u", (Some(106), 106), Some(106)).row(MASKED), 1, 6);
    assert_eq!(follows(&mut holds, &elsewhere), None);
}

#[test]
fn a_partition_that_is_opened_again_has_the_holds_that_the_destination_recorded() {
    let mut holds = holds_of(&[5]);
    let partition = Partition::new("t", 0);
    holds.open([&partition].into_iter(), Vec::new());
    assert!(holds.is_empty(), "another instance has lifted it");
    let (key, held) = (update(WHOLE, 0).key, Held { first: 3, last: 7 });
    holds.open([&partition].into_iter(), vec![Hold { partition: partition.clone(), key, held }]);
    assert_eq!(follows(&mut holds, &update(MASKED, 8)), Some(3));
}

#[test]
fn a_release_does_not_lift_the_hold_of_a_letter_that_it_does_not_know() {
    let (partition, key) = (Partition::new("t", 0), update(WHOLE, 0).key);
    let mut holds = holds_of(&[5, 7]);
    holds.take_notes();
    holds.release(&partition, &key, 5);
    assert_eq!(holds.of(&partition, &key), Some(Held { first: 5, last: 7 }));
    assert_eq!(holds.take_notes(), []);
    holds.release(&partition, &key, 7);
    assert!(holds.is_empty());
    // One that comes in while this is on its way to the destination is behind it.
    assert_eq!(holds.take_notes()[0].now, HoldState::Lifted(8));
}

fn batch(changes: Vec<Change>) -> Batch {
    Batch { changes, ..Batch::default() }
}

#[test]
fn rows_that_would_follow_are_in_question() {
    let mut holds = holds_of(&[5]);
    let in_question = |holds: &Holds, changes| holds.in_question(&batch(changes)).len();
    assert_eq!(in_question(&holds, vec![update(WHOLE, 6), update(MASKED, 7)]), 1);
    for nothing in [update(MASKED, 4), update(WHOLE, 6), delete(6, None)] {
        assert_eq!(in_question(&holds, vec![nothing]), 0);
    }
    holds.unnoted = true;
    assert_eq!(in_question(&holds, vec![update(MASKED, 7)]), 0, "nobody was told of it");
}

#[test]
fn a_row_that_goes_on_under_another_key_is_not_in_question() {
    let holds = holds_of(&[5]);
    let masked = MASKED.replace("\"id\":1", "\"id\":2");
    let moved =
        postgres("c", (Some(107), 107), Some(107)).id(2).row(&masked).header("__debezium.oldkey", r#"{"id":1}"#);
    let moved = change(moved, 0, 8);
    assert_eq!(holds.in_question(&batch(vec![moved.clone()])), BTreeSet::new());
    let moves = vec![update(MASKED, 6), delete(7, Some(r#"{"id":2}"#)), moved];
    assert_eq!(holds.in_question(&batch(moves)), BTreeSet::new());
}

#[test]
fn a_hold_ends_where_the_destination_has_it_no_more() {
    let mut holds = holds_of(&[5]);
    let (partition, key) = (Partition::new("t", 0), update(WHOLE, 0).key);
    holds.take_notes();
    let rows = holds.in_question(&batch(vec![update(MASKED, 7)]));
    let grown = Hold { partition: partition.clone(), key: key.clone(), held: Held { first: 6, last: 6 } };
    holds.end_lifted(rows.clone(), &[grown]);
    assert_eq!(holds.of(&partition, &key), Some(Held { first: 5, last: 5 }));
    let of_another = Hold { partition: Partition::new("t", 1), key, held: Held { first: 5, last: 5 } };
    holds.end_lifted(rows, &[of_another]);
    assert!(holds.is_empty());
    assert_eq!(holds.take_notes(), [], "the destination knows");
}
