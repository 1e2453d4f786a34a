//! Tables that are gone are not made anew without what was in them.

use serde_json::json;
use settle_core::sink::FailureKind;

use crate::database::{Database, META, apply, target};
use crate::log::{Log, batch};

fn log() -> Log {
    Log::from(
        "t",
        &[("c", 10, json!({"id": 1, "v": 1})), ("u", 20, json!({"id": 1, "v": 2})), ("d", 30, json!({"id": 1}))],
    )
}

#[tokio::test]
async fn a_table_that_is_dropped_under_a_run_is_not_made_anew() {
    let (database, log) = (Database::new().await, log());
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, {META})")).await;
    let mut sink = database.sink(target(), &log.records).await;
    apply(&mut sink, &batch(&log.records[..1])).await.unwrap();
    database.run("RENAME TABLE t TO kept").await;
    // What was known of it does not hold any more: it is looked at anew.
    let error = apply(&mut sink, &batch(&log.records[1..2])).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Conflict, "{error}");
    let error = apply(&mut sink, &batch(&log.records[1..2])).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert!(error.context.starts_with("it was dropped while the run wrote to it"), "{error}");
    database.run("RENAME TABLE kept TO t").await;
    apply(&mut sink, &batch(&log.records[1..2])).await.unwrap();
}

#[tokio::test]
async fn lost_tombstones_are_missed_and_those_made_by_hand_are_taken() {
    let (database, log) = (Database::new().await, log());
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, {META})")).await;
    let mut sink = database.sink(target(), &log.records).await;
    apply(&mut sink, &batch(&log.records)).await.unwrap();
    database.run("DROP TABLE t__tombstones").await;
    let mut sink = database.sink(target(), &log.records).await;
    let error = apply(&mut sink, &batch(&log.records[..1])).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert!(error.context.contains("a late record could bring a deleted row back"), "{error}");
    assert_eq!(database.count("t").await, "0");
    database.run("CREATE TABLE t__tombstones (id BIGINT PRIMARY KEY, _version_hi BIGINT NOT NULL, _version_lo BIGINT NOT NULL)").await;
    apply(&mut sink, &batch(&log.records)).await.unwrap();
    assert_eq!(database.count("t__tombstones").await, "1");
}
