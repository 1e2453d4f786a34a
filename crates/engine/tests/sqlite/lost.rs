//! Tables that are gone are not made anew without what was in them.

use serde_json::json;
use settle_core::sink::FailureKind;

use crate::database::{Database, apply, target};
use crate::log::{Log, batch};

fn log() -> Log {
    Log::from(
        "t",
        &[("c", 10, json!({"id": 1, "v": 1})), ("u", 20, json!({"id": 1, "v": 2})), ("d", 30, json!({"id": 1}))],
    )
}

#[test]
fn a_table_that_is_dropped_under_a_run_is_not_made_anew() {
    let (database, log) = (Database::new(), log());
    let mut sink = database.sink(target(), &log.records);
    apply(&mut sink, &batch(&log.records[..1])).unwrap();
    database.run("ALTER TABLE t RENAME TO kept");
    let error = apply(&mut sink, &batch(&log.records[1..2])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert!(error.context.starts_with("it was dropped while the run wrote to it"), "{error}");
    database.run("ALTER TABLE kept RENAME TO t");
    apply(&mut sink, &batch(&log.records[1..2])).unwrap();
}

#[test]
fn lost_tombstones_are_missed_and_those_made_by_hand_are_taken() {
    let (database, log) = (Database::new(), log());
    let mut sink = database.sink(target(), &log.records);
    apply(&mut sink, &batch(&log.records)).unwrap();
    database.run("DROP TABLE t__tombstones");
    let mut sink = database.sink(target(), &log.records);
    let error = apply(&mut sink, &batch(&log.records[..1])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert!(error.context.contains("a late record could bring a deleted row back"), "{error}");
    assert_eq!(database.count("t"), 0);
    database.run("CREATE TABLE t__tombstones (id INTEGER NOT NULL PRIMARY KEY, _version_hi INTEGER NOT NULL, _version_lo INTEGER NOT NULL)");
    apply(&mut sink, &batch(&log.records)).unwrap();
    assert_eq!(database.count("t__tombstones"), 1);
}
