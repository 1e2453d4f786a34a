use std::sync::Arc;

use super::*;
use crate::change::Op;
use crate::lane::{Lane, LoneTombstones};
use crate::record::Record;
use crate::sample::{Placed, Sample, mariadb, postgres, tombstone};
use crate::schema::{Field, RowSchema, SourceType};
use crate::tally::Tally;

const UNSENT: &str = r#""__debezium_unavailable_value""#;

/// What a lane makes of one record.
fn event(record: Record) -> Event {
    let mut lane = Lane::new(record.partition.clone(), record.offset, &[], LoneTombstones::Skip);
    lane.feed(record).unwrap().event
}

/// Folds records in the order given; partition 0, offsets from 0.
fn fold(samples: impl IntoIterator<Item = Sample>) -> Result<Batch, Refusal> {
    let mut fold = Fold::new(Limits::default());
    for (sample, offset) in samples.into_iter().zip(0..) {
        push(&mut fold, sample.at(0, offset))?;
    }
    Ok(fold.cut())
}

fn push(fold: &mut Fold, record: Record) -> Result<(), Refusal> {
    let (partition, offset) = (record.partition.clone(), record.offset);
    fold.push(&partition, offset, event(record), None, 0)
}

fn streamed(op: &str, at: u64) -> Sample {
    postgres(op, (Some(at), at), Some(at))
}

/// Survivors as `op offset row`.
fn survivors(batch: &Batch) -> Vec<String> {
    let row = |row: crate::batch::Row<'_>| {
        let columns = row.columns();
        let columns: Vec<_> = columns.iter().map(|c| format!("{}={}", c.name, c.json)).collect();
        format!("{} {} {}", row.change().op.letter(), row.change().record.offset, columns.join(","))
    };
    batch.tables().flat_map(|table| table.rows().map(row).collect::<Vec<_>>()).collect()
}

#[test]
fn the_greatest_version_of_a_key_survives_wherever_it_stands() {
    let batch = fold([
        streamed("c", 10).row(r#"{"id":1,"v":"a"}"#),
        streamed("u", 30).row(r#"{"id":1,"v":"c"}"#),
        streamed("u", 20).row(r#"{"id":1,"v":"b"}"#),
        streamed("c", 40).id(2),
        streamed("d", 41).id(2),
        streamed("u", 39).id(2),
    ])
    .unwrap();
    assert_eq!(survivors(&batch), [r#"u 1 id=1,v="c""#, "d 4 "]);
    assert_eq!(batch.tally(), Tally { read: 6, superseded: 4, ..Tally::default() });
    assert_eq!(batch.row_count(), 2);
}

#[test]
fn survivors_come_in_the_order_of_their_delivery() {
    // A replaced row: the old holder of a unique value goes before the new one comes.
    let batch = fold([
        streamed("u", 10).id(1),
        streamed("u", 20).id(2),
        streamed("d", 30).id(2),
        streamed("c", 40).id(1),
        streamed("c", 50).id(3),
    ])
    .unwrap();
    assert_eq!(survivors(&batch), ["d 2 ", "c 3 id=1", "c 4 id=3"]);
}

#[test]
fn tables_and_keys_do_not_mix() {
    let batch = fold([streamed("c", 10), streamed("c", 5).table("u"), streamed("c", 5).id(2)]).unwrap();
    let tables: Vec<_> = batch.tables().map(|table| (table.table.to_string(), table.rows().len())).collect();
    assert_eq!(tables, [("public.t".to_owned(), 2), ("public.u".to_owned(), 1)]);
}

#[test]
fn a_change_sent_again_is_one_change() {
    let update = streamed("u", 10).row(r#"{"id":1,"v":"a"}"#);
    let batch = fold([update.clone(), update]).unwrap();
    assert_eq!(survivors(&batch), [r#"u 0 id=1,v="a""#]);
    assert_eq!(batch.tally(), Tally { read: 2, superseded: 1, ..Tally::default() });
}

#[test]
fn equal_positions_with_other_content_are_refused_and_leave_the_batch_as_it_was() {
    let mut fold = Fold::new(Limits::default());
    push(&mut fold, streamed("u", 10).row(r#"{"id":1,"v":"a"}"#).at(0, 4)).unwrap();
    let before = (fold.batch.tally, fold.batch.bytes, fold.batch.spans.clone());
    for other in [
        streamed("u", 10).row(r#"{"id":1,"v":"b"}"#),
        streamed("u", 10).row(r#"{"id":1}"#),
        streamed("c", 10).row(r#"{"id":1,"v":"a"}"#),
        streamed("d", 10),
    ] {
        let refusal = push(&mut fold, other.at(0, 5)).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "record t:0:5: two records of one key have the same position but differ (t:0:4 is the other); see \
             GUARANTEES.md, \"positions that repeat\": on MariaDB 11.4+ set binlog_legacy_event_pos=1, on MySQL set \
             binlog_transaction_compression=OFF"
        );
        assert_eq!((fold.batch.tally, fold.batch.bytes, fold.batch.spans.clone()), before);
    }
    let batch = fold.cut();
    assert_eq!(survivors(&batch), [r#"u 4 id=1,v="a""#]);
}

#[test]
fn envelope_times_and_unsent_values_are_no_other_content() {
    let sent = streamed("u", 10).row(r#"{"id":1,"body":"long","n":2}"#);
    let unsent = streamed("u", 10).row(&format!(r#"{{"id":1,"body":{UNSENT},"n":2}}"#));
    for pair in [[sent.clone(), unsent.clone()], [unsent.clone(), sent.clone()]] {
        assert_eq!(fold(pair).unwrap().tally().superseded, 1);
    }
    let mut later = sent.clone().at(0, 1);
    let text = sent.envelope().replace(r#""ts_ms":8"#, r#""ts_ms":9"#).replace(r#""ts_ms":7"#, r#""ts_ms":6"#);
    later.payload = Some(text.into());
    let mut fold = Fold::new(Limits::default());
    push(&mut fold, sent.at(0, 0)).unwrap();
    push(&mut fold, later).unwrap();
    assert_eq!(fold.cut().tally().superseded, 1);
}

#[test]
fn rows_read_at_one_position_may_differ_except_in_a_full_snapshot() {
    let a = r#"{"id":1,"v":"a"}"#;
    let b = r#"{"id":1,"v":"b"}"#;
    // MariaDB: a blocking snapshot reads rows that are newer than the position it states.
    let read = mariadb("r", 1, 400, 0);
    let batch = fold([read.clone().row(a), read.row(b)]).unwrap();
    assert_eq!(survivors(&batch), [r#"r 0 id=1,v="a""#], "equal is a no-op");
    // PostgreSQL, incremental snapshot.
    let read = postgres("r", (Some(400), 500), None);
    assert!(fold([read.clone().row(a), read.row(b)]).is_ok());
    // PostgreSQL, full snapshot: one position, one database snapshot.
    let read = postgres("r", (None, 400), Some(400));
    let refusal = fold([read.clone().row(a), read.row(b)]).unwrap_err();
    assert!(matches!(refusal.reason, Reason::EqualVersionOtherContent { .. }));
    // Streamed changes have a position each.
    let change = mariadb("u", 1, 400, 0);
    assert!(fold([change.clone().row(a), change.row(b)]).is_err());
}

#[test]
fn one_row_that_may_differ_is_enough_in_either_order() {
    let full = postgres("r", (None, 400), Some(400)).row(r#"{"id":1,"v":"a"}"#);
    let incremental = postgres("r", (Some(400), 400), None).row(r#"{"id":1,"v":"b"}"#);
    assert!(fold([full.clone(), incremental.clone()]).is_ok());
    assert!(fold([incremental, full]).is_ok());
}

fn with_body(op: &str, at: u64, body: &str) -> Sample {
    streamed(op, at).row(&format!(r#"{{"id":1,"body":{body},"at":{at}}}"#))
}

#[test]
fn an_unsent_value_is_filled_along_the_chain_of_changes_before_it() {
    let batch = fold([with_body("c", 10, r#""A""#), with_body("u", 20, UNSENT), with_body("u", 30, UNSENT)]).unwrap();
    assert_eq!(survivors(&batch), [r#"u 2 id=1,body="A",at=30"#]);
    let batch = fold([with_body("c", 10, r#""A""#), with_body("u", 20, r#""B""#), with_body("u", 30, UNSENT)]).unwrap();
    assert_eq!(survivors(&batch), [r#"u 2 id=1,body="B",at=30"#]);
    let batch = fold([with_body("c", 10, "null"), with_body("u", 20, UNSENT)]).unwrap();
    assert_eq!(survivors(&batch), ["u 1 id=1,body=null,at=20"], "null is a value");
}

#[test]
fn an_unsent_value_is_never_filled_from_a_lower_version_that_came_later() {
    let batch = fold([with_body("u", 20, UNSENT), with_body("c", 10, r#""A""#)]).unwrap();
    assert_eq!(survivors(&batch), [format!("u 0 id=1,body={UNSENT},at=20")]);
    // Nor through a chain: the lower one is not what the next change stood on.
    let batch = fold([with_body("u", 20, UNSENT), with_body("c", 10, r#""A""#), with_body("u", 30, UNSENT)]).unwrap();
    assert_eq!(survivors(&batch), [format!("u 2 id=1,body={UNSENT},at=30")]);
}

#[test]
fn an_unsent_value_is_not_filled_across_a_delete() {
    // A key change into a key that was deleted before comes without its unsent values. Nothing of
    // the deleted row is its own.
    let batch = fold([with_body("c", 10, r#""old""#), streamed("d", 20), with_body("c", 30, UNSENT)]).unwrap();
    assert_eq!(survivors(&batch), [format!("c 2 id=1,body={UNSENT},at=30")]);
    let batch = fold([
        with_body("c", 10, r#""old""#),
        streamed("d", 20),
        with_body("c", 30, r#""new""#),
        with_body("u", 40, UNSENT),
    ])
    .unwrap();
    assert_eq!(survivors(&batch), [r#"u 3 id=1,body="new",at=40"#]);
}

#[test]
fn an_unsent_value_is_not_filled_across_a_truncate_in_either_order() {
    let truncate = || postgres("t", (Some(20), 20), Some(20)).key(None).row("null");
    let (old, moved) = (with_body("c", 10, r#""old""#), with_body("c", 30, UNSENT));
    for samples in [[old.clone(), truncate(), moved.clone()], [old.clone(), moved.clone(), truncate()]] {
        let batch = fold(samples).unwrap();
        assert!(survivors(&batch)[0].contains(UNSENT), "{:?}", survivors(&batch));
        assert_eq!(batch.truncates().len(), 1);
    }
    // Rows on one side of it are filled as ever.
    let batch = fold([old.clone(), with_body("u", 15, UNSENT), truncate()]).unwrap();
    assert!(survivors(&batch)[0].contains(r#"body="old""#));
    let batch = fold([truncate(), with_body("c", 25, r#""new""#), moved]).unwrap();
    assert!(survivors(&batch)[0].contains(r#"body="new""#));
}

/// A full snapshot lifted the rows, and not the truncate, which came on another partition.
#[test]
fn an_unsent_value_is_not_filled_across_a_truncate_that_no_floor_lifted() {
    let lifted = |op, lsn: u64, body: &str| {
        postgres(op, (Some(100), lsn), Some(lsn)).row(&format!(r#"{{"id":1,"body":{body}}}"#))
    };
    let truncate = postgres("t", (Some(40), 50), Some(50)).key(None).row("null");
    let batch = fold([lifted("c", 45, r#""old""#), truncate.clone(), lifted("u", 60, UNSENT)]).unwrap();
    assert!(survivors(&batch)[0].contains(UNSENT), "{:?}", survivors(&batch));
    let batch = fold([lifted("c", 55, r#""new""#), truncate, lifted("u", 60, UNSENT)]).unwrap();
    assert!(survivors(&batch)[0].contains(r#"body="new""#), "{:?}", survivors(&batch));
}

/// A change as a lane with a Connect schema makes it.
fn with_schema(at: u64, schema: Option<&Arc<RowSchema>>) -> Event {
    let Event::Change(mut change) = event(streamed("c", at).id(at).record()) else { unreachable!() };
    change.schema = schema.cloned();
    Event::Change(change)
}

fn schema(names: &[&str]) -> Arc<RowSchema> {
    let field = |name: &&str| Field { name: (*name).to_owned(), source_type: SourceType::Text, optional: true };
    Arc::new(RowSchema { fields: names.iter().map(field).collect() })
}

#[test]
fn a_batch_holds_one_connect_schema_per_table() {
    let (one, again, other) = (schema(&["a"]), schema(&["a"]), schema(&["a", "b"]));
    let partition = Partition::new("t", 0);
    let mut fold = Fold::new(Limits::default());
    assert!(!fold.must_cut_before(&with_schema(1, Some(&one))));
    fold.push(&partition, 0, with_schema(1, Some(&one)), None, 0).unwrap();
    assert!(!fold.must_cut_before(&with_schema(2, Some(&one))));
    assert!(!fold.must_cut_before(&with_schema(2, Some(&again))), "lanes parse the same schema on their own");
    assert!(fold.must_cut_before(&with_schema(2, Some(&other))));
    assert!(fold.must_cut_before(&with_schema(2, None)), "its values would be read with a schema that is not theirs");
    assert!(!fold.must_cut_before(&Event::Control(crate::change::Control::Heartbeat)));
    drop(fold.cut());
    assert!(!fold.must_cut_before(&with_schema(2, Some(&other))));
    fold.push(&partition, 1, with_schema(1, None), None, 0).unwrap();
    assert!(fold.must_cut_before(&with_schema(2, Some(&one))));
}

#[test]
fn batches_are_full_by_records_and_by_bytes() {
    let limits = Limits { max_rows: 3, max_bytes: usize::MAX, max_age_ms: 50 };
    let mut fold = Fold::new(limits);
    assert_eq!((fold.is_empty(), fold.due_at_ms()), (true, None));
    push(&mut fold, streamed("c", 1).at(0, 0)).unwrap();
    fold.push(&Partition::new("t", 0), 1, event(tombstone(1).at(0, 1)), None, 30).unwrap();
    assert!(!fold.is_full());
    push(&mut fold, streamed("u", 2).at(0, 2)).unwrap();
    assert!(fold.is_full(), "superseded and control records count");
    assert_eq!(fold.due_at_ms(), Some(50), "its age is that of its first record");
    let batch = fold.cut();
    assert_eq!(batch.tally(), Tally { read: 3, superseded: 1, control: 1, ..Tally::default() });
    assert_eq!((fold.is_empty(), fold.is_full(), fold.due_at_ms()), (true, false, None));

    let record = streamed("c", 1).at(0, 0);
    let mut fold = Fold::new(Limits { max_rows: usize::MAX, max_bytes: 2 * record.size(), max_age_ms: u64::MAX });
    fold.push(&Partition::new("t", 0), 0, event(record), None, 30).unwrap();
    assert!(!fold.is_full());
    assert_eq!(fold.due_at_ms(), Some(u64::MAX), "no age at all");
    push(&mut fold, streamed("u", 2).at(0, 1)).unwrap();
    assert!(fold.is_full(), "superseded records are held, too");
}

#[test]
fn spans_cover_what_was_read_of_each_partition() {
    let mut fold = Fold::new(Limits::default());
    let (p0, p1) = (Partition::new("t", 0), Partition::new("t", 1));
    push(&mut fold, streamed("c", 1).at(0, 5)).unwrap();
    push(&mut fold, streamed("c", 2).at(1, 0)).unwrap();
    fold.push(&p0, 9, event(tombstone(1).at(0, 9)), None, 0).unwrap();
    fold.pass(&p1, 1, 4, 0);
    fold.pass(&p0, 10, 10, 0);
    let span = |partition: &Partition, start, end| Span { partition: partition.clone(), start, end };
    let batch = fold.cut();
    assert_eq!(batch.spans(), [span(&p0, 5, 10), span(&p1, 0, 4)]);
    fold.pass(&p1, 4, 6, 0);
    assert!(!fold.is_empty(), "markers alone have to be committed, too");
    assert_eq!(fold.cut().spans(), [span(&p1, 4, 6)]);
}

#[test]
fn floors_travel_with_the_rows_that_raised_them() {
    let record = postgres("r", (None, 400), Some(400)).at(2, 7);
    let mut lane = Lane::new(record.partition.clone(), 0, &[], LoneTombstones::Refuse);
    let fed = lane.feed(record).unwrap();
    let floor = fed.floor.clone().unwrap();
    assert_eq!((floor.offset, floor.commit), (7, 400));
    let mut fold = Fold::new(Limits::default());
    fold.push(lane.partition(), 7, fed.event, fed.floor, 0).unwrap();
    assert_eq!(fold.cut().floors(), [(lane.partition().clone(), floor)]);
    assert!(fold.cut().floors().is_empty());
}

#[test]
fn ops_have_the_letters_of_the_log() {
    let letters: Vec<_> = [Op::Create, Op::Update, Op::Delete, Op::Read].map(Op::letter).into();
    assert_eq!(letters, ["c", "u", "d", "r"]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "invariant spans_in_order is broken")]
fn a_record_that_goes_back_is_a_bug() {
    let mut fold = Fold::new(Limits::default());
    push(&mut fold, streamed("c", 1).at(0, 5)).unwrap();
    push(&mut fold, streamed("c", 2).at(0, 5)).unwrap();
}
