use super::*;
use crate::change::Op;
use crate::sample::{Placed, mariadb, postgres, record, tombstone};

fn lane(lone_tombstones: LoneTombstones) -> Lane {
    Lane::new(Partition::new("t", 0), 0, &[], lone_tombstones)
}

fn strict() -> Lane {
    lane(LoneTombstones::Refuse)
}

fn change(fed: Fed) -> Change {
    match fed.event {
        Event::Change(change) => *change,
        other => panic!("{other:?}"),
    }
}

fn control(fed: &Fed) -> Control {
    match &fed.event {
        Event::Control(control) => *control,
        other => panic!("{other:?}"),
    }
}

/// The whole message of a refusal.
fn message(fed: Result<Fed, Refusal>) -> String {
    fed.unwrap_err().to_string()
}

#[test]
fn a_row_event_becomes_a_versioned_change() {
    let mut lane = strict();
    let sample = postgres("u", (Some(100), 90), Some(90)).id(7).row(r#"{"id":7,"v":"a"}"#);
    let record = sample.header("__debezium.oldkey", r#"{"id":6}"#).at(0, 3);
    let change = change(lane.feed(record.clone()).unwrap());
    assert_eq!(lane.next(), 4);
    assert_eq!((change.table.to_string(), change.lineage.to_string()), ("public.t".into(), "s/d".into()));
    assert_eq!((change.key.to_string(), change.op), (r#"{"id":7}"#.into(), Op::Update));
    assert_eq!(change.version.to_string(), "0/100/1/90");
    assert_eq!((change.after_json(), change.source_ts_ms), (r#"{"id":7,"v":"a"}"#, Some(7)));
    assert_eq!(change.old_key.clone().map(|key| key.to_string()), Some(r#"{"id":6}"#.into()));
    assert!(!change.may_tie && !change.is_delete() && change.schema.is_none());
    assert_eq!(change.record, record, "the original is kept");
}

#[test]
fn the_row_is_found_in_a_wrapped_record_and_in_a_delete() {
    let schema = r#"{"type":"struct","fields":[{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":true,"field":"after"}],"optional":false}"#;
    let wrap = |payload: &str| format!(r#"{{"schema":{schema},"payload":{payload}}}"#);
    let key = r#"{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false},"payload":{"id":1}}"#;
    let envelope = postgres("c", (Some(100), 90), Some(90)).row(r#"{"id": 1 , "v":"ü"}"#).envelope();
    let mut lane = strict();
    let created = change(lane.feed(record(Some(key), Some(&wrap(&envelope))).at(0, 0)).unwrap());
    assert_eq!(created.after_json(), r#"{"id": 1 , "v":"ü"}"#);
    assert_eq!(created.key.to_string(), r#"{"id":1}"#);
    assert_eq!(created.schema.as_ref().unwrap().fields.len(), 1);
    let envelope = postgres("d", (Some(100), 95), Some(95)).before(r#"{"id":1,"v":""}"#).envelope();
    let deleted = change(lane.feed(record(Some(key), Some(&wrap(&envelope))).at(0, 1)).unwrap());
    assert_eq!((deleted.after_json(), deleted.columns().len()), ("", 0), "a delete's `before` is not the row");
    assert!(deleted.is_delete());
    assert_eq!(control(&lane.feed(record(Some(key), None).at(0, 2)).unwrap()), Control::Tombstone);
}

#[test]
fn keys_that_are_no_identity_are_refused_by_what_is_missing() {
    let with_key = |key: Option<&str>| {
        let sample = postgres("u", (Some(100), 90), Some(90)).key(key);
        message(strict().feed(sample.at(0, 3)))
    };
    let missing = "record t:0:3: the record has no message key; set `message.key.columns` in the connector";
    assert_eq!(with_key(None), missing);
    assert_eq!(with_key(Some("null")), missing);
    assert_eq!(with_key(Some(r#"{"schema":{"type":"struct"},"payload":null}"#)), missing);
    assert_eq!(
        with_key(Some("{}")),
        "record t:0:3: the message key has no fields; set `message.key.columns` in the connector"
    );
    assert_eq!(
        with_key(Some(r#"{"tenant":null,"id":5}"#)),
        "record t:0:3: key field \"tenant\" is null; make the replica identity of the table cover every key column"
    );
    assert_eq!(
        with_key(Some(r#"{"id":"__debezium_unavailable_value"}"#)),
        "record t:0:3: key field \"id\" was not sent by the source (unavailable value); set REPLICA IDENTITY FULL on \
         the table"
    );
    for (key, found) in [
        (r#""4111 1111 1111 1111""#, "a string"),
        ("4111111111111111", "a number"),
        ("[1]", "an array"),
        ("true", "true or false"),
        ("not json", "no JSON"),
        (r#"{"id":1} x"#, "no JSON"),
        (r#"{"id":1"#, "no JSON"),
        ("", "no JSON"),
    ] {
        assert_eq!(
            with_key(Some(key)),
            format!(
                "record t:0:3: the message key is not a JSON object (found {found}); use the JSON converter with a struct key"
            )
        );
    }
    let mut record = postgres("u", (Some(100), 90), Some(90)).at(0, 3);
    record.key = Some(vec![0, 0, 0, 0, 3, 2].into());
    assert!(message(strict().feed(record)).contains("(found no JSON)"));
    let mut record = postgres("u", (Some(100), 90), Some(90)).at(0, 3);
    record.key = Some(vec![b'"', 0xff, b'"'].into());
    assert!(message(strict().feed(record)).contains("(found no JSON)"));
}

#[test]
fn keys_with_their_fields_in_another_order_are_one_key() {
    // https://github.com/databricks/iceberg-kafka-connect/issues/318
    let mut lane = strict();
    let row = |lsn, key| postgres("u", (Some(lsn), lsn), Some(lsn)).key(Some(key));
    let a = change(lane.feed(row(1, r#"{"a":"x|y","b":"z"}"#).at(0, 0)).unwrap());
    let b = change(lane.feed(row(2, r#"{"b":"z","a":"x|y"}"#).at(0, 1)).unwrap());
    let c = change(lane.feed(row(3, r#"{"b":"x|y","a":"z"}"#).at(0, 2)).unwrap());
    assert_eq!(a.key, b.key);
    assert_ne!(a.key, c.key);
}

#[test]
fn a_tombstone_behind_its_delete_is_control() {
    let mut lane = strict();
    lane.feed(postgres("d", (Some(100), 90), Some(90)).id(1).at(0, 0)).unwrap();
    lane.feed(postgres("d", (Some(100), 91), Some(91)).id(2).at(0, 1)).unwrap();
    assert_eq!(control(&lane.feed(tombstone(1).at(0, 2)).unwrap()), Control::Tombstone);
    assert_eq!(control(&lane.feed(tombstone(2).at(0, 5)).unwrap()), Control::Tombstone);
    // Sent again by a connector that crashed in between.
    assert_eq!(control(&lane.feed(tombstone(2).at(0, 6)).unwrap()), Control::Tombstone);
}

#[test]
fn a_tombstone_behind_a_delete_whose_key_is_none_is_control() {
    // The handed case B60: its delete is refused by name; the tombstone says nothing more.
    for key in [r#"{"tenant":null,"id":5}"#, "not json", "[1]"] {
        let mut lane = strict();
        let delete = postgres("d", (Some(100), 90), Some(90)).key(Some(key));
        assert!(message(lane.feed(delete.at(0, 0))).contains("key"));
        assert_eq!(control(&lane.feed(record(Some(key), None).at(0, 1)).unwrap()), Control::Tombstone, "{key}");
        // Read by a run that was started behind the delete.
        let mut later = Lane::new(Partition::new("t", 0), 1, &[], LoneTombstones::Refuse);
        assert_eq!(control(&later.feed(record(Some(key), None).at(0, 1)).unwrap()), Control::Tombstone, "{key}");
        // Alone, it is refused as any other record with such a key.
        assert!(strict().feed(record(Some(key), None).at(0, 0)).is_err(), "{key}");
    }
}

#[test]
fn a_lone_tombstone_is_refused_or_skipped_as_told() {
    let lone = "record t:0:4: a tombstone alone: it carries no position, so it cannot delete by itself; set \
                `version.fallback = \"kafka-offset\"` if deletes come as tombstones only";
    let feed = |mut lane: Lane| {
        lane.feed(postgres("d", (Some(100), 90), Some(90)).id(1).at(0, 3)).unwrap();
        lane.feed(tombstone(9).at(0, 4))
    };
    assert_eq!(message(feed(strict())), lone);
    assert_eq!(control(&feed(lane(LoneTombstones::Skip)).unwrap()), Control::Tombstone);
    // A first record at the start of the log has nothing before it.
    assert!(strict().feed(tombstone(1).at(0, 0)).is_err());
    // Neither key nor value: an empty record, whatever is told.
    assert_eq!(control(&strict().feed(record(None, None).at(0, 0)).unwrap()), Control::Empty);
}

#[test]
fn a_tombstone_is_accepted_where_a_run_resumes_behind_its_delete() {
    let resumed = |start, offset| {
        let mut lane = Lane::new(Partition::new("t", 0), start, &[], LoneTombstones::Refuse);
        lane.feed(tombstone(1).at(0, offset)).map(|fed| control(&fed)).map_err(|refusal| (refusal, lane.next()))
    };
    assert_eq!(resumed(8, 8), Ok(Control::Tombstone));
    assert_eq!(resumed(8, 11), Ok(Control::Tombstone), "what lies between are markers or compacted records");
    assert_eq!(resumed(0, 11), Ok(Control::Tombstone), "what lay before it was cut off by retention");
    let mut lane = Lane::new(Partition::new("t", 0), 8, &[], LoneTombstones::Refuse);
    lane.feed(postgres("u", (Some(100), 90), Some(90)).id(2).at(0, 8)).unwrap();
    assert!(lane.feed(tombstone(1).at(0, 9)).is_err(), "only the first record");
}

#[test]
fn a_tombstone_behind_a_refused_delete_is_no_second_failure() {
    // The delete is dealt with by the failure policy; its tombstone says nothing new.
    let mut lane = strict();
    let mut broken = postgres("d", (Some(100), 90), Some(90)).id(1).at(0, 0);
    broken.payload = Some("{\"op\":".into());
    assert!(lane.feed(broken).is_err());
    assert_eq!(control(&lane.feed(tombstone(1).at(0, 1)).unwrap()), Control::Tombstone);
    let too_large = postgres("d", (Some(1 << 60), 90), Some(90)).id(2).at(0, 2);
    assert!(lane.feed(too_large).is_err());
    assert_eq!(control(&lane.feed(tombstone(2).at(0, 3)).unwrap()), Control::Tombstone);
    assert!(lane.feed(tombstone(3).at(0, 4)).is_err());
}

#[test]
fn a_signal_that_is_deleted_leaves_a_tombstone_that_is_control() {
    let key = r#"{"id":"x-open"}"#;
    for delete in [postgres("d", (Some(100), 90), Some(90)), mariadb("d", 1, 400, 0)] {
        let delete = delete.table("debezium_signal").key(Some(key));
        let delete = delete.before(r#"{"id":"x-open","type":"snapshot-window-open","data":null}"#);
        let mut lane = strict();
        assert_eq!(control(&lane.feed(delete.at(0, 0)).unwrap()), Control::Signal);
        assert_eq!(control(&lane.feed(record(Some(key), None).at(0, 1)).unwrap()), Control::Tombstone);
    }
}

#[test]
fn offsets_that_go_back_are_refused_and_the_lane_stays() {
    let mut lane = strict();
    let row = |offset| postgres("u", (Some(100), 90), Some(90)).at(0, offset);
    lane.feed(row(5)).unwrap();
    let back = lane.feed(row(5)).unwrap_err();
    assert_eq!(
        back.to_string(),
        "record t:0:5: offset 5 after 5: the log is not in offset order; sort the capture by partition and offset"
    );
    assert_eq!(back.reason.class(), crate::refusal::Class::Contract);
    assert_eq!(lane.next(), 6);
    lane.pass(9);
    lane.pass(7);
    assert_eq!(lane.next(), 9);
    assert!(lane.feed(row(8)).is_err());
    lane.feed(row(9)).unwrap();
    lane.feed(row(Offset::MAX)).unwrap();
    assert_eq!(lane.next(), Offset::MAX);
}

#[test]
fn a_refused_record_is_passed() {
    let mut lane = strict();
    assert!(lane.feed(record(Some(r#"{"id":1}"#), Some("no json")).at(0, 0)).is_err());
    assert_eq!(lane.next(), 1);
    lane.feed(postgres("u", (Some(100), 90), Some(90)).at(0, 1)).unwrap();
}

#[test]
fn each_lane_keeps_the_floors_of_its_partition_and_of_each_lineage() {
    let snapshot = |server| postgres("r", (None, 1000), Some(1000)).server(server);
    let update = |server| postgres("u", (Some(900), 950), Some(950)).server(server);
    let version = |lane: &mut Lane, record: Record| change(lane.feed(record).unwrap()).version.to_string();
    let (mut zero, mut one) = (strict(), Lane::new(Partition::new("t", 1), 0, &[], LoneTombstones::Refuse));
    let floor = zero.feed(snapshot("a").at(0, 0)).unwrap().floor.unwrap();
    assert_eq!((floor.lineage.to_string(), floor.offset, floor.commit), ("a/d".into(), 0, 1000));
    assert_eq!(version(&mut zero, update("a").at(0, 1)), "0/1000/1/950");
    assert_eq!(version(&mut zero, update("b").at(0, 2)), "0/900/1/950", "another server");
    assert_eq!(version(&mut zero, update("a").at(0, 3)), "0/1000/1/950", "and back");
    assert_eq!(version(&mut one, update("a").at(1, 0)), "0/900/1/950", "another partition");
    let mut later = Lane::new(Partition::new("t", 0), 1, &[floor], LoneTombstones::Refuse);
    assert_eq!(version(&mut later, update("a").at(0, 1)), "0/1000/1/950", "a start behind it, with what was recorded");
}

#[test]
fn only_rows_read_by_a_snapshot_may_tie_and_full_ones_of_postgresql_may_not() {
    let may_tie = |sample: crate::sample::Sample| change(strict().feed(sample.at(0, 0)).unwrap()).may_tie;
    assert!(may_tie(mariadb("r", 1, 400, 0)));
    assert!(may_tie(postgres("r", (Some(400), 500), None)));
    assert!(!may_tie(postgres("r", (None, 500), Some(500))));
    assert!(!may_tie(postgres("u", (Some(400), 500), Some(500))));
    assert!(!may_tie(mariadb("u", 1, 400, 0)));
}

#[test]
fn a_truncate_has_a_version_and_needs_no_key() {
    for (sample, version) in
        [(postgres("t", (Some(100), 90), Some(90)), "0/100/1/90"), (mariadb("t", 1, 400, 0), "0/4294967696/1/0")]
    {
        let fed = strict().feed(sample.key(None).row("null").at(0, 0)).unwrap();
        let Event::Truncate(truncate) = fed.event else { panic!("{fed:?}") };
        assert_eq!(truncate.version.to_string(), version);
    }
}

#[test]
fn an_old_key_that_is_not_readable_is_none() {
    for header in ["", "null", "[1]", r#"{"id":null}"#, "x"] {
        let sample = postgres("c", (Some(100), 90), Some(90)).header("__debezium.oldkey", header);
        assert_eq!(change(strict().feed(sample.at(0, 0)).unwrap()).old_key, None, "{header}");
    }
}

#[test]
fn a_full_snapshot_behind_streamed_changes_is_reported_at_its_first_row() {
    fn told(lane: &mut Lane, sample: crate::sample::Sample) -> bool {
        lane.feed(sample.at(0, lane.next())).unwrap().full.begins
    }
    let mut lane = strict();
    let snapshot = |lsn: u64, word: &str| postgres("r", (None, lsn), Some(lsn)).snapshot(word);
    let change = |lsn: u64| postgres("u", (Some(lsn), lsn), Some(lsn));
    assert!(!told(&mut lane, snapshot(100, "first")), "the initial one");
    assert!(!told(&mut lane, change(110)));
    assert!(!told(&mut lane, postgres("r", (Some(110), 120), None).snapshot("incremental")), "it hides nothing");
    assert!(!told(&mut lane, snapshot(130, "true").table("other")), "another table's");
    assert!(told(&mut lane, snapshot(130, "true")));
    assert!(!told(&mut lane, snapshot(130, "last")));
    assert!(!told(&mut lane, mariadb("r", 1, 400, 0).snapshot("first").server("m").table("m")));
    assert!(!told(&mut lane, mariadb("u", 1, 400, 0).server("m").table("m")));
    assert!(!told(&mut lane, mariadb("r", 1, 500, 0).snapshot("incremental").server("m").table("m")));
    // Only a task that has read nothing of the binlog names no server: `tests/it/ghosts.rs`.
    assert!(!told(&mut lane, mariadb("r", 1, 600, 0).snapshot("last").server("m").table("m")));
    // A run that goes on behind streamed changes knows of them.
    let standing = lane.standing(crate::position::TopicId::of_first_line("t", b""), lane.next(), 1);
    let past = Past { marks: &standing.marks, ..Past::default() };
    let mut later = Lane::behind(Partition::new("t", 0), lane.next(), past, LoneTombstones::Refuse);
    assert!(told(&mut later, snapshot(200, "true")));
}
