//! Tombstones that are old are purged where that is asked for, and no others.

use std::time::Duration;

use serde_json::json;
use settle_core::sink::Outcome;
use settle_engine::config::target::Target;
use settle_engine::sinks::sqlite;

use crate::database::{Database, apply, apply_all, target};
use crate::log::{Log, batch};

const DAY_MS: i64 = 86_400_000;

fn purging() -> Target {
    Target { tombstone_retention: Some(Duration::from_secs(45 * 86_400)), ..target() }
}

fn age(database: &Database, id: i64, days: i64) {
    let ms = days * DAY_MS;
    database.run(&format!("UPDATE t__tombstones SET _written_ms = _written_ms - {ms} WHERE id = {id}"));
}

fn buried(database: &Database) -> String {
    database.one("SELECT coalesce(group_concat(id), '') FROM (SELECT id FROM t__tombstones ORDER BY id)")
}

fn indexes(database: &Database) -> i64 {
    database.one(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = 't__tombstones'",
    )
}

#[test]
fn an_old_tombstone_is_purged_and_a_young_one_goes_on_to_refuse_what_is_older() {
    let (log, database) = (Log::of_deletes(), Database::new());
    apply_all(&database, &purging(), &log.records[..4], 4);
    assert_eq!(buried(&database), "1,2");
    age(&database, 1, 46);
    age(&database, 2, 44);
    apply_all(&database, &purging(), &log.records[4..5], 1);
    assert_eq!((buried(&database).as_str(), indexes(&database)), ("2", 1));
    let late = apply_all(&database, &purging(), &log.records[2..3], 1);
    assert_eq!((late, database.count("t")), (Outcome { applied: 0, stale: 1 }, 1));
}

#[test]
fn nothing_is_purged_by_default() {
    let (log, database) = (Log::of_deletes(), Database::new());
    apply_all(&database, &target(), &log.records[..4], 4);
    age(&database, 1, 20_000);
    apply_all(&database, &target(), &log.records[4..], 1);
    assert_eq!((buried(&database).as_str(), indexes(&database)), ("1,2", 0));
}

#[test]
fn a_tombstone_of_a_row_that_is_deleted_again_is_young() {
    let (log, database) = (Log::of_deletes(), Database::new());
    apply_all(&database, &purging(), &log.records[..2], 2);
    age(&database, 1, 46);
    apply_all(&database, &target(), &Log::from("t", &[("d", 90, json!({"id": 1}))]).records, 1);
    apply_all(&database, &purging(), &log.records[4..5], 1);
    assert_eq!(buried(&database), "1");
}

#[test]
fn tombstones_of_before_are_dated_when_they_are_first_looked_at() {
    let (log, database) = (Log::of_deletes(), Database::new());
    apply_all(&database, &target(), &log.records[..4], 4);
    database.run("ALTER TABLE t__tombstones DROP COLUMN _written_ms");
    apply_all(&database, &target(), &log.records[1..2], 1);
    assert_eq!(database.all("t__tombstones")[0].len(), 3, "the column is added where it is of use");
    apply_all(&database, &purging(), &log.records[4..5], 1);
    assert_eq!(buried(&database), "1,2");
    assert_eq!(database.one::<i64>("SELECT count(*) FROM t__tombstones WHERE _written_ms IS NULL"), 0);
    age(&database, 2, 46);
    apply_all(&database, &purging(), &log.records[5..6], 1);
    assert_eq!(buried(&database), "1");
}

#[test]
fn more_than_a_piece_goes_with_the_batches_that_follow() {
    let (log, database) = (Log::of_deletes(), Database::new());
    apply_all(&database, &purging(), &log.records[..2], 2);
    database.run(
        "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 7099) INSERT INTO t__tombstones \
         SELECT i, 1, 1, 1 FROM n",
    );
    let mut sink = database.sink(purging(), &log.records);
    apply(&mut sink, &batch(&log.records[4..5])).unwrap();
    assert_eq!(database.count("t__tombstones"), 2_001);
    apply(&mut sink, &batch(&log.records[5..6])).unwrap();
    assert_eq!(database.count("t__tombstones"), 1);
}

#[test]
fn a_table_made_by_hand_needs_the_column_only_to_be_purged() {
    let (log, database) = (Log::of_deletes(), Database::new());
    apply_all(&database, &target(), &log.records[..2], 1);
    database.run("ALTER TABLE t__tombstones DROP COLUMN _written_ms");
    let by_hand = |target| Target { create: false, ..target };
    apply_all(&database, &by_hand(target()), &log.records[2..4], 2);
    assert_eq!(buried(&database), "1,2");
    let refused = || {
        let mut sink = database.sink(by_hand(purging()), &log.records);
        apply(&mut sink, &batch(&log.records[4..5])).unwrap_err().to_string()
    };
    let add = "ALTER TABLE \"t__tombstones\" ADD COLUMN \"_written_ms\" INTEGER";
    let told = refused();
    assert!(told.contains("by which [sink] tombstone_retention goes") && told.contains(add), "{told}");
    database.run("ALTER TABLE t__tombstones ADD COLUMN _written_ms TEXT");
    assert!(refused().contains("make it INTEGER"));
    database.run(&format!("ALTER TABLE t__tombstones DROP COLUMN _written_ms; {add}"));
    apply_all(&database, &by_hand(purging()), &log.records[4..5], 1);
    assert_eq!(database.one::<i64>("SELECT count(*) FROM t__tombstones WHERE _written_ms IS NULL"), 0);
    assert_eq!(indexes(&database), 0, "what is made by hand is the user's");
}

#[test]
fn the_ddl_has_the_column_and_the_index() {
    let (log, database) = (Log::of_deletes(), Database::new());
    let all = batch(&log.records);
    let statements = sqlite::create_table_ddl(&purging(), all.tables().next().unwrap()).unwrap();
    statements.iter().for_each(|sql| database.run(sql));
    apply_all(&database, &purging(), &log.records, 6);
    assert_eq!((buried(&database).as_str(), indexes(&database)), ("1,2", 1));
    assert_eq!(sqlite::create_table_ddl(&target(), all.tables().next().unwrap()).unwrap().len(), 2);
}
