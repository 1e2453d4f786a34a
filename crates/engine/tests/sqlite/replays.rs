//! What deletes leave behind, and what a record does not carry.

use serde_json::json;
use settle_core::sink::Outcome;

use crate::database::{Database, apply_all, row, soft, target};
use crate::log::Log;

fn lives() -> Log {
    Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "v": "a"})),
            ("u", 20, json!({"id": 1, "v": "b"})),
            ("d", 30, json!({"id": 1})),
            ("c", 40, json!({"id": 2, "v": "x"})),
            ("c", 50, json!({"id": 1, "v": "c"})),
            ("d", 60, json!({"id": 2})),
        ],
    )
}

#[test]
fn a_hard_delete_leaves_its_version_and_a_newer_row_takes_it_away() {
    let log = lives();
    let database = Database::new();
    apply_all(&database, &target(), &log.records[..3], 1);
    assert_eq!(database.count("t"), 0);
    let version = row(&[("id", "1"), ("_version_hi", "30"), ("_version_lo", &((1_i64 << 62) + 30).to_string())]);
    let mut tombstones = database.all("t__tombstones");
    assert!(tombstones[0].remove("_written_ms").unwrap().is_some());
    assert_eq!(tombstones, [version]);
    apply_all(&database, &target(), &log.records[4..5], 1);
    assert_eq!((database.count("t"), database.count("t__tombstones")), (1, 0));
}

#[test]
fn a_soft_delete_keeps_the_row_and_marks_it() {
    let log = lives();
    let database = Database::new();
    apply_all(&database, &soft(), &log.records[..3], 1);
    let rows = database.all("t");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["v"].as_deref(), Some("b"), "the values that it had last");
    assert_eq!((rows[0]["_op"].as_deref(), rows[0]["_is_deleted"].as_deref()), (Some("d"), Some("1")));
    apply_all(&database, &soft(), &log.records[4..5], 1);
    assert_eq!(database.all("t")[0]["_is_deleted"].as_deref(), Some("0"));
}

/// The other mode was used before: what it left is respected.
#[test]
fn a_change_of_the_delete_mode_brings_nothing_back() {
    let log = lives();
    for (before, after) in [(target(), soft()), (soft(), target())] {
        let database = Database::new();
        // Both tables have every column of Settle, as a user would add it for the other mode.
        apply_all(&database, &before, &log.records[..3], 1);
        if before.deletes.is_none() {
            database.run("ALTER TABLE t ADD COLUMN \"_is_deleted\" INTEGER NOT NULL DEFAULT 0");
        }
        let late = apply_all(&database, &after, &log.records[..3], 1);
        assert_eq!(late, Outcome { applied: 0, stale: 3 });
        let again = apply_all(&database, &after, &log.records[4..5], 1);
        assert_eq!(again, Outcome { applied: 1, stale: 0 });
        let rows = database.all("t");
        assert_eq!((rows.len(), rows[0]["v"].as_deref(), rows[0]["_is_deleted"].as_deref()), (1, Some("c"), Some("0")));
        assert_eq!(apply_all(&database, &after, &log.records[..4], 1).applied, 1, "row 2 alone is new");
    }
}

#[test]
fn what_a_record_does_not_carry_keeps_its_value() {
    let log = Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "a": "A", "b": "B"})),
            ("u", 20, json!({"id": 1, "a": "A2"})),
            ("c", 30, json!({"id": 2, "a": "X"})),
        ],
    );
    let database = Database::new();
    database.run(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT DEFAULT 'def', \"_op\" TEXT, \"_source_ts_ms\" INTEGER,
         \"_version_hi\" INTEGER NOT NULL DEFAULT 0, \"_version_lo\" INTEGER NOT NULL DEFAULT 0)",
    );
    apply_all(&database, &target(), &log.records, 1);
    assert_eq!(
        database.rows("t"),
        [row(&[("id", "1"), ("a", "A2"), ("b", "B")]), row(&[("id", "2"), ("a", "X"), ("b", "def")])]
    );
}
