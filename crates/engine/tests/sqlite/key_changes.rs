//! A row that changes its key: a delete and a create, on partitions of their own.

use serde_json::json;
use settle_core::sink::FailureKind;

use crate::database::{Database, apply, apply_all, row, soft, target};
use crate::log::{Log, UNSENT, batch};

/// Row 1 with a body becomes row 2; `body` is what the create carries of it.
fn moving(body: &str) -> Log {
    let mut log = Log::of("t");
    log.add(0, "c", 10, &json!({"id": 1, "n": 1, "body": "long"}), &[]);
    log.add(0, "d", 20, &json!({"id": 1}), &[("__debezium.newkey", json!({"id": 2}))]);
    log.add(1, "c", 20, &json!({"id": 2, "n": 2, "body": body}), &[("__debezium.oldkey", json!({"id": 1}))]);
    log
}

/// The old row is gone, or its partition has not been read up to the key change: then its value
/// may be an older one. Nothing is guessed.
#[test]
fn without_its_other_half_a_value_that_was_not_sent_is_refused() {
    let log = moving(UNSENT);
    for (before, target) in [(&log.records[..2], target()), (&log.records[..1], target()), (&log.records[..2], soft())]
    {
        let database = Database::new();
        apply_all(&database, &target, before, 1);
        let state = (database.all("t"), database.count("settle_meta"));
        let mut sink = database.sink(target, &log.records);
        let error = apply(&mut sink, &batch(&log.records[2..])).unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            error.to_string(),
            "write to \"t\": record s.public.t:1:0 does not carry \"body\" (__debezium_unavailable_value) and the row \
             changed its key, and its values under the old key are gone or not known to be the last; set REPLICA \
             IDENTITY FULL on public.t at the source, take a new snapshot of it, and start a new group at its rows"
        );
        assert_eq!((database.all("t"), database.count("settle_meta")), state);
    }
}

/// Why the other half is asked for: here the old row's partition still holds a newer body.
#[test]
fn a_value_of_the_old_row_that_is_not_the_last_is_not_taken() {
    let mut log = Log::of("t");
    log.add(0, "c", 10, &json!({"id": 1, "n": 1, "body": "first"}), &[]);
    log.add(0, "u", 15, &json!({"id": 1, "n": 1, "body": "last"}), &[]);
    log.add(0, "d", 20, &json!({"id": 1}), &[("__debezium.newkey", json!({"id": 2}))]);
    log.add(1, "c", 20, &json!({"id": 2, "n": 2, "body": UNSENT}), &[("__debezium.oldkey", json!({"id": 1}))]);
    let database = Database::new();
    apply_all(&database, &target(), &log.records[..1], 1);
    let mut sink = database.sink(target(), &log.records);
    let early = [log.records[3].clone()];
    assert_eq!(apply(&mut sink, &batch(&early)).unwrap_err().kind, FailureKind::Contract);
    // With the rest of the old row's partition in the batch it is the last one, wherever the create stands.
    for at in 0..3 {
        let database = Database::new();
        apply_all(&database, &target(), &log.records[..1], 1);
        let mut rest = log.records[1..3].to_vec();
        rest.insert(at, log.records[3].clone());
        apply_all(&database, &target(), &rest, 3);
        assert_eq!(database.rows("t"), [row(&[("id", "2"), ("n", "2"), ("body", "last")])]);
    }
}

#[test]
fn an_insert_without_a_value_and_without_an_old_key_is_refused() {
    // Some transform dropped the header; a row of another life has the key in the table.
    let log =
        Log::from("t", &[("c", 10, json!({"id": 1, "body": "other"})), ("c", 20, json!({"id": 1, "body": UNSENT}))]);
    let database = Database::new();
    apply_all(&database, &target(), &log.records[..1], 1);
    let mut sink = database.sink(target(), &log.records);
    let error = apply(&mut sink, &batch(&log.records[1..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(error.context.contains("it is an insert that does not say which row it was before"), "{error}");
}

/// A row marked deleted keeps its columns, but not those of changes that its delete overtook in a batch.
#[test]
fn an_older_value_of_a_row_marked_deleted_is_not_taken_for_its_last() {
    let mut log = Log::of("t");
    log.add(0, "c", 10, &json!({"id": 1, "n": 1, "body": "first"}), &[]);
    log.add(0, "u", 15, &json!({"id": 1, "n": 1, "body": "last"}), &[]);
    log.add(0, "d", 20, &json!({"id": 1}), &[("__debezium.newkey", json!({"id": 2}))]);
    log.add(1, "c", 20, &json!({"id": 2, "n": 2, "body": UNSENT}), &[("__debezium.oldkey", json!({"id": 1}))]);
    for target in [target(), soft()] {
        let database = Database::new();
        apply_all(&database, &target, &log.records[..1], 1);
        apply_all(&database, &target, &log.records[1..3], 2);
        let mut sink = database.sink(target, &log.records);
        let error = apply(&mut sink, &batch(&log.records[3..])).unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert!(database.rows("t").iter().all(|row| row["id"].as_deref() != Some("2")));
    }
}
