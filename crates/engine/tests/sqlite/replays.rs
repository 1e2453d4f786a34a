//! Deliveries again, late, cut anywhere, and after deletes.

use serde_json::json;
use settle_core::sink::Outcome;
use settle_engine::config::target::{Deletes, Target};

use crate::database::{Database, apply, apply_all, row, soft, target};
use crate::log::{Log, batch, every_cut};

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

fn visible(database: &Database, target: &Target) -> Vec<crate::database::Shown> {
    let mut rows = database.all("t");
    if target.deletes == Some(Deletes::Soft) {
        rows.retain(|row| row["_is_deleted"].as_deref() == Some("0"));
    }
    rows.iter()
        .map(|row| row.iter().filter(|(n, _)| !n.starts_with('_')).map(|(n, v)| (n.clone(), v.clone())).collect())
        .collect()
}

#[test]
fn every_cut_of_a_log_ends_alike_and_every_replay_changes_nothing() {
    let log = lives();
    for target in [target(), soft()] {
        for cut in every_cut(&log.records) {
            let database = Database::new();
            let mut sink = database.sink(target.clone(), &log.records);
            for batch in &cut {
                apply(&mut sink, batch).unwrap();
            }
            let end =
                (database.all("t"), database.one::<i64>("SELECT sum(hi + lo) FROM settle_meta WHERE kind <> 'table'"));
            assert_eq!(visible(&database, &target), [row(&[("id", "1"), ("v", "c")])]);
            for from in 0..log.records.len() {
                for size in [1, 2, 6] {
                    let replayed = apply_all(&database, &target, &log.records[from..], size);
                    assert_eq!(replayed.applied, 0, "from {from} in batches of {size}");
                    assert_eq!(database.all("t"), end.0);
                }
            }
        }
    }
}

#[test]
fn a_record_from_before_a_delete_does_not_bring_the_row_back() {
    let log = lives();
    for target in [target(), soft()] {
        let database = Database::new();
        apply_all(&database, &target, &log.records, 1);
        for old in &log.records[..5] {
            let outcome = apply_all(&database, &target, std::slice::from_ref(old), 1);
            assert_eq!(outcome, Outcome { applied: 0, stale: 1 });
            assert_eq!(visible(&database, &target), [row(&[("id", "1"), ("v", "c")])]);
        }
    }
}

#[test]
fn a_hard_delete_leaves_its_version_and_a_newer_row_takes_it_away() {
    let log = lives();
    let database = Database::new();
    apply_all(&database, &target(), &log.records[..3], 1);
    assert_eq!(database.count("t"), 0);
    let version = row(&[("id", "1"), ("_version_hi", "30"), ("_version_lo", &((1_i64 << 62) + 30).to_string())]);
    assert_eq!(database.all("t__tombstones"), [version]);
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

#[test]
fn a_delete_of_a_row_never_seen_refuses_what_is_older() {
    let log = lives();
    for target in [target(), soft()] {
        let database = Database::new();
        let outcome = apply_all(&database, &target, &log.records[2..3], 1);
        assert_eq!(outcome, Outcome { applied: 1, stale: 0 });
        assert_eq!(visible(&database, &target), []);
        let late = apply_all(&database, &target, &log.records[..2], 1);
        assert_eq!(late, Outcome { applied: 0, stale: 2 });
        assert_eq!(visible(&database, &target), []);
    }
}

#[test]
fn an_older_row_and_an_equal_one_are_stale() {
    let log = lives();
    let database = Database::new();
    let mut sink = database.sink(target(), &log.records);
    let (old, new) = (batch(&log.records[..1]), batch(&log.records[1..2]));
    assert_eq!(apply(&mut sink, &new).unwrap(), Outcome { applied: 1, stale: 0 });
    assert_eq!(apply(&mut sink, &old).unwrap(), Outcome { applied: 0, stale: 1 });
    assert_eq!(apply(&mut sink, &new).unwrap(), Outcome { applied: 0, stale: 1 });
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "b")])]);
}

#[test]
fn versions_above_32_bits_and_their_halves_are_compared_as_one_number() {
    let (low, high) = (5_u64 << 40, (5_u64 << 40) + 1);
    let mut log = Log::of("t");
    log.add(0, "c", high, &json!({"id": 1, "v": "high"}), &[]);
    log.add(0, "u", low, &json!({"id": 1, "v": "low"}), &[]);
    let database = Database::new();
    apply_all(&database, &target(), &log.records, 1);
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "high")])]);
}

/// The reply to a COMMIT is lost: the same batch comes again, from a new process.
#[test]
fn a_batch_whose_outcome_was_not_heard_is_applied_again_without_effect() {
    let log = lives();
    let whole = batch(&log.records);
    let database = Database::new();
    let mut sink = database.sink(target(), &log.records);
    let first = apply(&mut sink, &whole).unwrap();
    assert_eq!(first, Outcome { applied: 2, stale: 0 });
    let end = database.all("t");
    drop(sink);
    let mut sink = database.sink(target(), &log.records);
    assert_eq!(apply(&mut sink, &whole).unwrap(), Outcome { applied: 0, stale: 2 });
    assert_eq!(database.all("t"), end);
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
