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
    assert_eq!(told, [("b", "2"), ("c", "null"), ("a", "1")], "the last value of each, and none of an earlier life");
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
