//! Deliveries again, late, cut anywhere, and after deletes.

use serde_json::json;
use settle_core::sink::Outcome;
use settle_engine::config::target::{Deletes, Target};

use crate::database::{Database, Shown, declared, row, soft};
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

fn target() -> Target {
    declared("t", &[("id", "bigint"), ("v", "text")])
}

fn visible(database: &Database, target: &Target) -> Vec<Shown> {
    let mut rows = database.all("t");
    if target.deletes == Some(Deletes::Soft) {
        rows.retain(|row| row["_is_deleted"].as_deref() == Some("f"));
    }
    rows.iter()
        .map(|row| row.iter().filter(|(n, _)| !n.starts_with('_')).map(|(n, v)| (n.clone(), v.clone())).collect())
        .collect()
}

#[test]
fn every_cut_of_a_log_ends_alike_and_every_replay_changes_nothing() {
    let log = lives();
    let database = Database::new();
    for target in [target(), soft(target())] {
        let every = if target.deletes == Some(Deletes::Soft) { 3 } else { 1 };
        for cut in every_cut(&log.records).into_iter().step_by(every) {
            let mut sink = database.sink(target.clone(), &log.records);
            for batch in &cut {
                database.apply(&mut sink, batch).unwrap();
            }
            let end = database.all("t");
            assert_eq!(visible(&database, &target), [row(&[("id", "1"), ("v", "c")])]);
            for from in 0..log.records.len() {
                let outcome = database.apply(&mut sink, &batch(&log.records[from..])).unwrap();
                assert_eq!(outcome.applied, 0, "from {from}");
            }
            assert_eq!(database.all("t"), end);
            database.run("DROP TABLE t; DROP TABLE IF EXISTS t__tombstones");
        }
    }
}

#[test]
fn a_record_from_before_a_delete_does_not_bring_the_row_back() {
    let log = lives();
    for target in [target(), soft(target())] {
        let database = Database::new();
        database.apply_all(&target, &log.records, 1);
        for old in &log.records[..5] {
            let outcome = database.apply_all(&target, std::slice::from_ref(old), 1);
            assert_eq!(outcome, Outcome { applied: 0, stale: 1 });
            assert_eq!(visible(&database, &target), [row(&[("id", "1"), ("v", "c")])]);
        }
    }
}

#[test]
fn a_hard_delete_leaves_its_version_and_a_newer_row_takes_it_away() {
    let log = lives();
    let database = Database::new();
    database.apply_all(&target(), &log.records[..3], 1);
    assert_eq!(database.count("t"), 0);
    let version = row(&[("id", "1"), ("_version_hi", "30"), ("_version_lo", &((1_i64 << 62) + 30).to_string())]);
    let mut tombstones = database.all("t__tombstones");
    assert!(tombstones[0].remove("_written_ms").unwrap().is_some());
    assert_eq!(tombstones, [version]);
    database.apply_all(&target(), &log.records[4..5], 1);
    assert_eq!((database.count("t"), database.count("t__tombstones")), (1, 0));
}

#[test]
fn a_soft_delete_keeps_the_row_and_marks_it() {
    let log = lives();
    let database = Database::new();
    let soft = soft(target());
    database.apply_all(&soft, &log.records[..3], 1);
    let rows = database.all("t");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["v"].as_deref(), Some("b"), "the values that it had last");
    assert_eq!((rows[0]["_op"].as_deref(), rows[0]["_is_deleted"].as_deref()), (Some("d"), Some("t")));
    database.apply_all(&soft, &log.records[4..5], 1);
    assert_eq!(database.all("t")[0]["_is_deleted"].as_deref(), Some("f"));
}

#[test]
fn a_delete_of_a_row_never_seen_refuses_what_is_older() {
    let log = lives();
    for target in [target(), soft(target())] {
        let database = Database::new();
        let outcome = database.apply_all(&target, &log.records[2..3], 1);
        assert_eq!(outcome, Outcome { applied: 1, stale: 0 });
        assert_eq!(visible(&database, &target), []);
        let late = database.apply_all(&target, &log.records[..2], 1);
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
    assert_eq!(database.apply(&mut sink, &new).unwrap(), Outcome { applied: 1, stale: 0 });
    assert_eq!(database.apply(&mut sink, &old).unwrap(), Outcome { applied: 0, stale: 1 });
    assert_eq!(database.apply(&mut sink, &new).unwrap(), Outcome { applied: 0, stale: 1 });
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "b")])]);
}
