//! A row that changes its key: a delete and a create, on partitions of their own.

use serde_json::{Value, json};
use settle_core::sink::{FailureKind, Outcome};

use crate::database::{Database, apply, apply_all, row, soft, target};
use crate::log::{Log, UNSENT, batch, batches};

/// Row 1 with a body becomes row 2; `body` is what the create carries of it.
fn moving(body: &str) -> Log {
    let mut log = Log::of("t");
    log.add(0, "c", 10, &json!({"id": 1, "n": 1, "body": "long"}), &[]);
    log.add(0, "d", 20, &json!({"id": 1}), &[("__debezium.newkey", json!({"id": 2}))]);
    log.add(1, "c", 20, &json!({"id": 2, "n": 2, "body": body}), &[("__debezium.oldkey", json!({"id": 1}))]);
    log
}

fn moved() -> Vec<crate::database::Shown> {
    vec![row(&[("id", "2"), ("n", "2"), ("body", "long")])]
}

#[test]
fn the_halves_may_come_in_either_order() {
    let log = moving("long");
    for order in [[0, 1, 2], [0, 2, 1], [2, 0, 1]] {
        for size in [1, 2, 3] {
            let records: Vec<_> = order.iter().map(|&i| log.records[i].clone()).collect();
            let database = Database::new();
            apply_all(&database, &target(), &records, size);
            assert_eq!(database.rows("t"), moved(), "{order:?} in batches of {size}");
        }
    }
}

#[test]
fn a_value_that_was_not_sent_is_taken_from_the_row_under_its_old_key() {
    let log = moving(UNSENT);
    for target in [target(), soft()] {
        // Both halves in one batch, in either order, the row stored before.
        for order in [[1, 2], [2, 1]] {
            let database = Database::new();
            apply_all(&database, &target, &log.records[..1], 1);
            let halves: Vec<_> = order.iter().map(|&i| log.records[i].clone()).collect();
            assert_eq!(apply_all(&database, &target, &halves, 2), Outcome { applied: 2, stale: 0 });
            let rows: Vec<_> = database.rows("t").into_iter().filter(|row| row["id"].as_deref() == Some("2")).collect();
            assert_eq!(rows, moved());
            assert_eq!(apply_all(&database, &target, &halves, 2), Outcome { applied: 0, stale: 2 }, "again");
        }
        // All in one batch.
        let database = Database::new();
        apply_all(&database, &target, &log.records, 3);
        let rows: Vec<_> = database.rows("t").into_iter().filter(|row| row["id"].as_deref() == Some("2")).collect();
        assert_eq!(rows, moved());
    }
}

/// A connector that was killed sends its last records again, and goes on with new ones.
#[test]
fn records_that_come_again_with_newer_ones_stand_on_what_was_made_of_them() {
    let mut log = Log::of("t");
    log.add(0, "c", 5, &json!({"id": 1, "n": 0, "body": "long"}), &[]);
    log.add(0, "u", 10, &json!({"id": 1, "n": 1, "body": UNSENT}), &[]);
    log.add(0, "d", 20, &json!({"id": 1}), &[("__debezium.newkey", json!({"id": 2}))]);
    log.add(1, "c", 20, &json!({"id": 2, "n": 2, "body": UNSENT}), &[("__debezium.oldkey", json!({"id": 1}))]);
    log.add(1, "u", 30, &json!({"id": 2, "n": 3, "body": UNSENT}), &[]);
    for target in [target(), soft()] {
        // What was applied, in batches, and where the log begins again.
        for (before, again) in [(&[2][..], 1), (&[1, 4], 1), (&[1, 4], 2), (&[1, 4], 3), (&[4], 1)] {
            let database = Database::new();
            let mut from = 0;
            for &to in before {
                apply_all(&database, &target, &log.records[from..to], 9);
                from = to;
            }
            apply_all(&database, &target, &log.records[again..], 9);
            let rows: Vec<_> = database.rows("t").into_iter().filter(|row| row["id"].as_deref() == Some("2")).collect();
            assert_eq!(rows, [row(&[("id", "2"), ("n", "3"), ("body", "long")])], "{before:?}, again from {again}");
        }
    }
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

/// The old key was taken by another row since: a replay finds that one in the table.
#[test]
fn a_value_of_the_next_row_under_the_old_key_is_not_taken() {
    let log = moving(UNSENT);
    let mut later = Log::of("t");
    later.add(0, "c", 30, &json!({"id": 1, "n": 9, "body": "another row"}), &[]);
    let database = Database::new();
    apply_all(&database, &target(), &later.records, 1);
    let mut sink = database.sink(target(), &log.records);
    assert_eq!(apply(&mut sink, &batch(&log.records[1..])).unwrap_err().kind, FailureKind::Contract);
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("n", "9"), ("body", "another row")])]);
}

/// `UPDATE t SET id = id + 1`, in which row 2 makes room for row 1.
#[test]
fn rows_that_take_each_others_keys_keep_their_own_values() {
    let mut log = Log::of("t");
    let old = |id: u32| [("__debezium.oldkey", json!({"id": id}))];
    let unsent = |id: u32| -> Value { json!({"id": id, "n": id, "body": UNSENT}) };
    log.add(0, "c", 10, &json!({"id": 1, "n": 1, "body": "one"}), &[]);
    log.add(0, "c", 11, &json!({"id": 2, "n": 2, "body": "two"}), &[]);
    log.add(0, "d", 20, &json!({"id": 2}), &[]);
    log.add(0, "c", 20, &unsent(3), &old(2));
    log.add(0, "d", 21, &json!({"id": 1}), &[]);
    log.add(0, "c", 21, &unsent(2), &old(1));
    let end = [row(&[("id", "2"), ("n", "2"), ("body", "one")]), row(&[("id", "3"), ("n", "3"), ("body", "two")])];
    for stored in [0, 1, 2] {
        let database = Database::new();
        if stored > 0 {
            apply_all(&database, &target(), &log.records[..stored], 1);
        }
        let mut sink = database.sink(target(), &log.records);
        for batch in batches(&log.records[stored..], 10, &[]) {
            apply(&mut sink, &batch).unwrap();
        }
        assert_eq!(database.rows("t"), end, "{stored} rows stored before");
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
