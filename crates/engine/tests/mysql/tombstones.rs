//! Tombstones that are old are purged where that is asked for, and no others.

use std::time::Duration;

use serde_json::json;
use settle_core::sink::Outcome;
use settle_engine::config::target::Target;

use crate::database::{Database, apply, apply_all, with_columns};
use crate::log::{Log, batch};

const DAY_MS: i64 = 86_400_000;
/// Tables that had tombstones purged.
const HORIZONS: &str = "SELECT count(*) FROM settle_meta WHERE kind = 'tombstones' AND hi > 0";

fn keeping() -> Target {
    with_columns("t", &[("id", "BIGINT"), ("v", "TEXT")])
}

fn purging() -> Target {
    Target { tombstone_retention: Some(Duration::from_secs(45 * 86_400)), ..keeping() }
}

async fn age(database: &Database, id: i64, days: i64) {
    let ms = days * DAY_MS;
    database.run(&format!("UPDATE t__tombstones SET _written_ms = _written_ms - {ms} WHERE id = {id}")).await;
}

async fn buried(database: &Database) -> String {
    database.one("SELECT GROUP_CONCAT(id ORDER BY id) FROM t__tombstones").await
}

async fn undated(database: &Database) -> String {
    database.one("SELECT COUNT(*) FROM t__tombstones WHERE _written_ms IS NULL").await
}

async fn is_indexed(database: &Database) -> bool {
    database.ddl_of("t__tombstones").await.contains("KEY `by_age` (`_written_ms`)")
}

#[tokio::test]
async fn an_old_tombstone_is_purged_and_a_young_one_goes_on_to_refuse_what_is_older() {
    let (log, database) = (Log::of_deletes(), Database::new().await);
    apply_all(&database, &purging(), &log.records[..4], 4).await;
    assert_eq!((buried(&database).await.as_str(), database.one(HORIZONS).await.as_str()), ("1,2", "0"));
    age(&database, 1, 46).await;
    age(&database, 2, 44).await;
    apply_all(&database, &purging(), &log.records[4..5], 1).await;
    assert_eq!((buried(&database).await.as_str(), database.one(HORIZONS).await.as_str()), ("2", "1"));
    assert!(is_indexed(&database).await);
    let late = apply_all(&database, &purging(), &log.records[2..3], 1).await;
    assert_eq!((late, database.count("t").await.as_str()), (Outcome { applied: 0, stale: 1 }, "1"));
}

#[tokio::test]
async fn nothing_is_purged_by_default() {
    let (log, database) = (Log::of_deletes(), Database::new().await);
    apply_all(&database, &keeping(), &log.records[..4], 4).await;
    age(&database, 1, 20_000).await;
    apply_all(&database, &keeping(), &log.records[4..], 1).await;
    assert_eq!(buried(&database).await, "1,2");
    assert!(!is_indexed(&database).await);
}

#[tokio::test]
async fn a_tombstone_of_a_row_that_is_deleted_again_is_young() {
    let (log, database) = (Log::of_deletes(), Database::new().await);
    apply_all(&database, &purging(), &log.records[..2], 2).await;
    age(&database, 1, 46).await;
    apply_all(&database, &keeping(), &Log::from("t", &[("d", 90, json!({"id": 1}))]).records, 1).await;
    apply_all(&database, &purging(), &log.records[4..5], 1).await;
    assert_eq!(buried(&database).await, "1");
}

#[tokio::test]
async fn tombstones_of_before_are_dated_when_they_are_first_looked_at() {
    let (log, database) = (Log::of_deletes(), Database::new().await);
    apply_all(&database, &keeping(), &log.records[..4], 4).await;
    database.run("ALTER TABLE t__tombstones DROP COLUMN _written_ms").await;
    apply_all(&database, &purging(), &log.records[4..5], 1).await;
    assert_eq!((buried(&database).await.as_str(), undated(&database).await.as_str()), ("1,2", "0"));
    age(&database, 2, 46).await;
    apply_all(&database, &purging(), &log.records[5..6], 1).await;
    assert_eq!(buried(&database).await, "1");
}

#[tokio::test]
async fn more_than_a_piece_goes_with_the_batches_that_follow() {
    let (log, database) = (Log::of_deletes(), Database::new().await);
    apply_all(&database, &purging(), &log.records[..2], 2).await;
    let rows: Vec<String> = (100..7_100).map(|id| format!("({id}, 1, 1, 1)")).collect();
    database.run(&format!("INSERT INTO t__tombstones VALUES {}", rows.join(", "))).await;
    let mut sink = database.sink(purging(), &log.records).await;
    apply(&mut sink, &batch(&log.records[4..5])).await.unwrap();
    assert_eq!(database.count("t__tombstones").await, "2001");
    apply(&mut sink, &batch(&log.records[5..6])).await.unwrap();
    assert_eq!(database.count("t__tombstones").await, "1");
}

#[tokio::test]
async fn a_table_made_by_hand_needs_the_column_only_to_be_purged() {
    let (log, database) = (Log::of_deletes(), Database::new().await);
    apply_all(&database, &keeping(), &log.records[..2], 1).await;
    database.run("ALTER TABLE t__tombstones DROP COLUMN _written_ms").await;
    let by_hand = |target| Target { create: false, ..target };
    apply_all(&database, &by_hand(keeping()), &log.records[2..4], 2).await;
    assert_eq!(buried(&database).await, "1,2");
    let refused = async || {
        let mut sink = database.sink(by_hand(purging()), &log.records).await;
        apply(&mut sink, &batch(&log.records[4..5])).await.unwrap_err().to_string()
    };
    let add = "ALTER TABLE `t__tombstones` ADD COLUMN `_written_ms` BIGINT NULL";
    let told = refused().await;
    assert!(told.contains("by which [sink] tombstone_retention goes") && told.contains(add), "{told}");
    database.run("ALTER TABLE t__tombstones ADD COLUMN _written_ms TEXT").await;
    assert!(refused().await.contains("make it BIGINT NULL"));
    database.run("ALTER TABLE t__tombstones DROP COLUMN _written_ms").await;
    database.run(add).await;
    apply_all(&database, &by_hand(purging()), &log.records[4..5], 1).await;
    assert_eq!(undated(&database).await, "0");
    assert!(!is_indexed(&database).await, "what is made by hand is the user's");
}

#[tokio::test]
async fn the_ddl_has_the_column_and_the_index() {
    let (log, database) = (Log::of_deletes(), Database::new().await);
    database.make(&purging(), &log.records).await;
    assert!(is_indexed(&database).await);
    apply_all(&database, &purging(), &log.records, 6).await;
    assert_eq!((buried(&database).await.as_str(), undated(&database).await.as_str()), ("1,2", "0"));
}
