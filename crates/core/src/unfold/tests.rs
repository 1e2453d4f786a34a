use super::*;
use crate::fold::{Fold, Limits};
use crate::lane::{Lane, LoneTombstones};
use crate::position::Partition;
use crate::sample::{Placed, Sample, postgres};

const MASKED: &str = r#"{"id":9,"body":"__debezium_unavailable_value"}"#;

fn streamed(op: &str, at: u64) -> Sample {
    postgres(op, (Some(at), at), Some(at))
}

fn fold(samples: impl IntoIterator<Item = Sample>) -> Batch {
    let mut fold = Fold::new(Limits::default());
    let mut lane = Lane::new(Partition::new("t", 0), 0, &[], LoneTombstones::Skip);
    for (sample, offset) in samples.into_iter().zip(0..) {
        let fed = lane.feed(sample.at(0, offset)).unwrap();
        fold.push(lane.partition(), offset, fed.event, fed.floor, 0).unwrap();
    }
    fold.cut()
}

/// Offsets of the changes of a piece.
fn offsets(piece: &Batch) -> Vec<i64> {
    piece.changes.iter().map(|change| change.record.offset).collect()
}

/// Every piece that is applied, while records at these offsets are refused without being named.
fn pieces(batch: Batch, poison: &[i64]) -> (Vec<Vec<i64>>, Vec<i64>, Batch) {
    let refusal = || SinkError::new(FailureKind::Constraint, "write", "no");
    let refuses = |piece: &Batch| {
        let mut rows = piece.tables().flat_map(|table| table.rows().collect::<Vec<_>>());
        rows.any(|row| poison.contains(&row.change().record.offset))
    };
    let mut holds = Holds::default();
    let mut pieces = Pieces::of_refused(batch, &mut holds, &refusal());
    let mut applied = Vec::new();
    while let Some(piece) = pieces.next_piece().unwrap() {
        if refuses(&piece) {
            pieces.refused(piece, &refusal());
        } else {
            applied.push(offsets(&piece));
            pieces.applied(&piece, Outcome { applied: piece.row_count() as u64, stale: 0 });
        }
    }
    let (letters, rest) = pieces.finish();
    // A row that came from another key is taken out before the two are told apart.
    let known = |class| matches!(class, ErrorClass::Constraint | ErrorClass::FollowsADeadLetter);
    assert!(letters.iter().all(|letter| known(letter.class) && letter.version.is_some()));
    (applied, letters.iter().map(|letter| letter.record.offset).collect(), rest)
}

#[test]
fn rows_are_halved_and_each_change_is_applied_once() {
    let batch = fold((0..8).map(|id| streamed("c", 10 + id).id(id)));
    let (applied, dead, rest) = pieces(batch, &[5]);
    assert_eq!(applied, [vec![0, 1, 2, 3], vec![4], vec![6, 7]]);
    assert_eq!(dead, [5]);
    assert_eq!(rest.spans().iter().map(|span| (span.start, span.end)).collect::<Vec<_>>(), [(0, 8)]);
    assert_eq!((rest.row_count(), rest.tally().applied, rest.tally().dead_lettered), (0, 7, 1));
}

#[test]
fn changes_of_one_row_stay_together() {
    let rows = [1, 2, 1, 3, 2, 1, 4];
    let batch = fold(rows.iter().zip(10..).map(|(id, at)| streamed("u", at).id(*id)));
    let (applied, dead, rest) = pieces(batch, &[5]);
    // Without record 5, record 2 is what row 1 says last.
    assert_eq!(applied, [vec![3, 1, 4], vec![0, 2], vec![6]]);
    assert_eq!(dead, [5]);
    assert_eq!((rest.tally().applied, rest.tally().superseded, rest.tally().dead_lettered), (4, 2, 1));
}

#[test]
fn a_row_that_changed_its_key_is_not_parted_from_the_values_that_it_needs() {
    // Its delete would take them away before the create is written.
    let mut samples = vec![streamed("u", 10).row(r#"{"id":1,"body":"b"}"#)];
    samples.push(streamed("d", 20).header("__debezium.newkey", r#"{"id":9}"#));
    samples.extend((30..36).map(|at| streamed("c", at).id(at)));
    samples.push(streamed("c", 20).id(9).row(MASKED).header("__debezium.oldkey", r#"{"id":1}"#));
    let (applied, dead, _) = pieces(fold(samples.clone()), &[4]);
    assert_eq!(dead, [4]);
    let with_create: Vec<_> = applied.iter().filter(|piece| piece.contains(&8)).collect();
    assert!(matches!(with_create.as_slice(), [piece] if piece.contains(&0) && piece.contains(&1)), "{applied:?}");
    // One that was sent whole needs nothing.
    let whole = samples.pop().unwrap().row(r#"{"id":9,"body":"b"}"#);
    samples.push(whole);
    let (applied, _, _) = pieces(fold(samples), &[4]);
    let with_create = applied.iter().find(|piece| piece.contains(&8)).unwrap();
    assert!(!with_create.contains(&1), "{applied:?}");
}

#[test]
fn of_rows_that_need_each_other_the_poison_one_is_still_found() {
    let samples = [
        streamed("u", 10).row(r#"{"id":1,"body":"b"}"#),
        streamed("d", 20).header("__debezium.newkey", r#"{"id":9}"#),
        streamed("c", 20).id(9).row(MASKED).header("__debezium.oldkey", r#"{"id":1}"#),
    ];
    let (applied, dead, rest) = pieces(fold(samples), &[2]);
    assert_eq!((applied, dead), (vec![vec![0, 1]], vec![2]));
    assert!(rest.tally().balances());
}

#[test]
fn a_row_that_needs_a_poison_one_goes_with_it_rather_than_stand_on_an_older_value() {
    let samples = [
        streamed("u", 10).row(r#"{"id":1,"body":"b"}"#),
        streamed("d", 20).header("__debezium.newkey", r#"{"id":9}"#),
        streamed("c", 20).id(9).row(MASKED).header("__debezium.oldkey", r#"{"id":1}"#),
        // The old key is another row's by now, and that one is poison.
        streamed("c", 30).row(r#"{"id":1,"body":"bad"}"#),
    ];
    let refusal = SinkError::new(FailureKind::Constraint, "write", "no");
    let mut holds = Holds::default();
    let mut pieces = Pieces::of_refused(fold(samples), &mut holds, &refusal);
    let piece = pieces.next_piece().unwrap().unwrap();
    assert_eq!(offsets(&piece), [0, 1, 3]);
    pieces.refused(piece, &refusal);
    let piece = pieces.next_piece().unwrap().unwrap();
    assert_eq!(offsets(&piece), [0, 1]);
    pieces.applied(&piece, Outcome { applied: 1, stale: 0 });
    assert!(pieces.next_piece().unwrap().is_none());
    let (letters, rest) = pieces.finish();
    let told: Vec<_> = letters.iter().map(|letter| (letter.record.offset, letter.class)).collect();
    assert_eq!(told, [(2, ErrorClass::FollowsADeadLetter), (3, ErrorClass::Constraint)]);
    assert!(letters[0].error.contains("refused together with the changes that have them (write: no)"));
    assert!(rest.tally().balances());
}

#[test]
fn a_refusal_of_another_record_than_those_in_the_piece_halves_it() {
    let batch = fold((0..2).map(|id| streamed("c", 10 + id).id(id)));
    let mut holds = Holds::default();
    let elsewhere = Place { partition: Partition::new("t", 7), offset: 0 };
    let error = SinkError::new(FailureKind::Row, "write", "no").at(elsewhere);
    let mut pieces = Pieces::of_refused(batch, &mut holds, &error);
    assert_eq!(offsets(&pieces.next_piece().unwrap().unwrap()), [0]);
}

#[test]
fn truncates_and_floors_go_with_every_piece() {
    let mut samples: Vec<Sample> = (0..4).map(|id| postgres("r", (None, 400), Some(400)).id(id)).collect();
    samples.push(postgres("t", (Some(500), 500), Some(500)).key(None).row("null"));
    let batch = fold(samples);
    let mut holds = Holds::default();
    let error = SinkError::new(FailureKind::Row, "write", "no");
    let mut pieces = Pieces::of_refused(batch, &mut holds, &error);
    while let Some(piece) = pieces.next_piece().unwrap() {
        assert_eq!((piece.floors().len(), piece.truncates().len(), piece.spans().len()), (1, 1, 1));
        assert!(piece.spans().iter().all(|span| span.start == span.end), "it proves nothing");
        pieces.applied(&piece, Outcome { applied: piece.row_count() as u64, stale: 0 });
    }
    let (_, rest) = pieces.finish();
    assert_eq!((rest.floors().len(), rest.truncates().len(), rest.spans().len()), (1, 1, 1));
    assert!(rest.tally().balances());
}
