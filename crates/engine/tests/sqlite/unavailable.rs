//! Values that PostgreSQL did not send (TOAST): the stored one is kept, per row and column.

use serde_json::{Value, json};
use settle_core::sink::{FailureKind, Outcome};
use settle_engine::config::target::{Evolution, TableRule, Target};

use crate::database::{Database, apply, apply_all, row, soft, target, with_rule};
use crate::log::{Log, UNSENT, batch, every_cut};

/// The reported case: a whole life before the one that counts.
fn log() -> Log {
    Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "n": 1, "txt": "REAL", "b": "x"})),
            ("u", 20, json!({"id": 1, "n": 2, "txt": UNSENT, "b": "y"})),
            ("d", 30, json!({"id": 1})),
            ("c", 50, json!({"id": 1, "n": 5, "txt": "REAL2", "b": "z"})),
            ("u", 60, json!({"id": 1, "n": 6, "txt": UNSENT, "b": UNSENT})),
        ],
    )
}

fn end() -> [crate::database::Shown; 1] {
    [row(&[("id", "1"), ("n", "6"), ("txt", "REAL2"), ("b", "z")])]
}

#[test]
fn every_cut_keeps_the_value_of_the_rows_own_life() {
    for target in [target(), soft()] {
        for cut in every_cut(&log().records) {
            let database = Database::new();
            let mut sink = database.sink(target.clone(), &log().records);
            for batch in &cut {
                apply(&mut sink, batch).unwrap();
            }
            assert_eq!(database.rows("t"), end());
            assert_eq!(apply_all(&database, &target, &log().records, 2).applied, 0);
            assert_eq!(database.rows("t"), end());
        }
    }
}

#[test]
fn every_form_of_the_marker_keeps_the_value() {
    for (stored, unsent) in [
        (json!("text"), json!(UNSENT)),
        (json!(["a", "b"]), json!([UNSENT])),
        (json!("AP8Q"), json!("X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")),
    ] {
        let log = Log::from(
            "t",
            &[("c", 10, json!({"id": 1, "v": stored, "n": 1})), ("u", 20, json!({"id": 1, "v": unsent, "n": 2}))],
        );
        let database = Database::new();
        apply_all(&database, &target(), &log.records[..1], 1);
        let before = database.rows("t")[0]["v"].clone();
        apply_all(&database, &target(), &log.records[1..], 1);
        let after = &database.rows("t")[0];
        assert_eq!((&after["v"], after["n"].as_deref()), (&before, Some("2")));
    }
}

#[test]
fn without_a_stored_value_the_run_stops_and_says_the_cure() {
    let log = log();
    for target in [target(), soft()] {
        let database = Database::new();
        let mut sink = database.sink(target, &log.records);
        let error = apply(&mut sink, &batch(&log.records[4..])).unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            error.to_string(),
            "write to \"t\": record s.public.t:0:4 does not carry \"b\", \"txt\" (__debezium_unavailable_value) and the \
             table has no earlier row with a value; set REPLICA IDENTITY FULL on public.t at the source, take a new \
             snapshot of it, and start a new group at its rows"
        );
        assert_eq!(database.one::<i64>("SELECT count(*) FROM sqlite_schema WHERE name = 't'"), 0, "rolled back");
    }
}

/// The row of the deleted life is still in the table, marked: its values are not the new row's.
#[test]
fn values_of_a_row_marked_deleted_are_not_kept() {
    let log = log();
    let database = Database::new();
    apply_all(&database, &soft(), &log.records[..3], 1);
    let mut sink = database.sink(soft(), &log.records);
    let error = apply(&mut sink, &batch(&log.records[4..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
}

#[test]
fn a_column_that_is_not_written_needs_no_value() {
    let unsent: Value = json!({"id": 1, "n": 6, "txt": UNSENT, "b": "z"});
    let log = Log::from("t", &[("u", 60, unsent)]);
    let database = Database::new();
    let rule = TableRule { exclude: vec!["txt".into()], ..TableRule::default() };
    let outcome = apply_all(&database, &with_rule("t", rule), &log.records, 1);
    assert_eq!(outcome, Outcome { applied: 1, stale: 0 });
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("n", "6"), ("b", "z")])]);
}

#[test]
fn a_column_that_the_table_lacks_has_no_value_to_keep() {
    let log =
        Log::from("t", &[("c", 10, json!({"id": 1, "n": 1})), ("u", 20, json!({"id": 1, "n": 2, "txt": UNSENT}))]);
    for (evolution, ends) in [(Evolution::Add, None), (Evolution::Refuse, None), (Evolution::Ignore, Some("2"))] {
        let database = Database::new();
        let target = Target { evolution, ..target() };
        apply_all(&database, &target, &log.records[..1], 1);
        let mut sink = database.sink(target, &log.records);
        let result = apply(&mut sink, &batch(&log.records[1..]));
        match ends {
            None => assert_eq!(result.unwrap_err().kind, FailureKind::Contract),
            Some(n) => {
                result.unwrap();
                assert_eq!(database.rows("t"), [row(&[("id", "1"), ("n", n)])]);
            }
        }
    }
}
