//! Tombstones that are old are purged where that is asked for, and no others.

use std::time::Duration;

use serde_json::json;
use settle_core::sink::Outcome;
use settle_engine::config::target::Target;
use settle_engine::sinks::postgres;

use crate::database::{Database, META, declared};
use crate::log::{Log, batch};

const DAY_MS: i64 = 86_400_000;
/// Tables that had tombstones purged.
const HORIZONS: &str = "SELECT count(*) FROM settle_meta WHERE kind = 'tombstones' AND hi > 0";

fn keeping() -> Target {
    declared("t", &[("id", "bigint"), ("v", "text")])
}

fn purging() -> Target {
    Target { tombstone_retention: Some(Duration::from_secs(45 * 86_400)), ..keeping() }
}

fn age(database: &Database, id: i64, days: i64) {
    let ms = days * DAY_MS;
    database.run(&format!("UPDATE t__tombstones SET _written_ms = _written_ms - {ms} WHERE id = {id}"));
}

fn buried(database: &Database) -> Vec<String> {
    let rows = database.select("SELECT id FROM t__tombstones ORDER BY id");
    rows.into_iter().map(|row| row["id"].clone().unwrap()).collect()
}

#[test]
fn an_old_tombstone_is_purged_and_a_young_one_goes_on_to_refuse_what_is_older() {
    let (log, database) = (Log::of_deletes(), Database::new());
    database.apply_all(&purging(), &log.records[..4], 4);
    assert_eq!((buried(&database), database.one(HORIZONS).as_str()), (vec!["1".to_owned(), "2".to_owned()], "0"));
    age(&database, 1, 46);
    age(&database, 2, 44);
    database.apply_all(&purging(), &log.records[4..5], 1);
    assert_eq!((buried(&database), database.one(HORIZONS).as_str()), (vec!["2".to_owned()], "1"));
    let late = database.apply_all(&purging(), &log.records[2..3], 1);
    assert_eq!((late, database.count("t")), (Outcome { applied: 0, stale: 1 }, 1));
    let indexes = "SELECT count(*) FROM pg_indexes WHERE tablename = 't__tombstones' AND schemaname = current_schema()";
    assert_eq!(database.one(indexes), "2", "the key's, and one by age, made once");
}

#[test]
fn nothing_is_purged_by_default() {
    let (log, database) = (Log::of_deletes(), Database::new());
    database.apply_all(&keeping(), &log.records[..4], 4);
    age(&database, 1, 40_000);
    database.apply_all(&keeping(), &log.records[4..], 1);
    assert_eq!(buried(&database), ["1", "2"]);
}

#[test]
fn a_tombstone_of_a_row_that_is_deleted_again_is_young() {
    let (log, database) = (Log::of_deletes(), Database::new());
    database.apply_all(&purging(), &log.records[..2], 2);
    age(&database, 1, 46);
    let again = Log::from("t", &[("d", 90, json!({"id": 1}))]);
    database.apply_all(&keeping(), &again.records, 1);
    database.apply_all(&purging(), &log.records[4..5], 1);
    assert_eq!(buried(&database), ["1"]);
}

#[test]
fn tombstones_of_before_are_dated_when_they_are_first_looked_at() {
    let (log, database) = (Log::of_deletes(), Database::new());
    database.apply_all(&keeping(), &log.records[..4], 4);
    database.run("ALTER TABLE t__tombstones DROP COLUMN _written_ms");
    database.apply_all(&purging(), &log.records[4..5], 1);
    assert_eq!(buried(&database), ["1", "2"]);
    assert_eq!(database.one("SELECT count(*) FROM t__tombstones WHERE _written_ms IS NULL"), "0");
    age(&database, 2, 46);
    database.apply_all(&purging(), &log.records[5..6], 1);
    assert_eq!(buried(&database), ["1"]);
}

#[test]
fn more_than_a_piece_goes_with_the_batches_that_follow() {
    let (log, database) = (Log::of_deletes(), Database::new());
    database.apply_all(&purging(), &log.records[..2], 2);
    database.run(
        "INSERT INTO t__tombstones (id, _version_hi, _version_lo, _written_ms) SELECT n, 1, 1, 1 FROM \
         generate_series(100, 7099) n",
    );
    let mut sink = database.sink(purging(), &log.records);
    database.apply(&mut sink, &batch(&log.records[4..5])).unwrap();
    assert_eq!(database.count("t__tombstones"), 2_001);
    database.apply(&mut sink, &batch(&log.records[5..6])).unwrap();
    assert_eq!(database.count("t__tombstones"), 1);
}

#[test]
fn one_that_another_writes_is_passed_by() {
    let (log, database) = (Log::of_deletes(), Database::new());
    database.apply_all(&purging(), &log.records[..4], 4);
    age(&database, 1, 46);
    age(&database, 2, 46);
    database.run("BEGIN; SELECT 1 FROM t__tombstones WHERE id = 1 FOR UPDATE");
    database.apply_all(&purging(), &log.records[4..5], 1);
    database.run("COMMIT");
    assert_eq!(buried(&database), ["1"]);
}

#[test]
fn a_table_made_by_hand_needs_the_column_only_to_be_purged() {
    let (log, database) = (Log::of_deletes(), Database::new());
    database.run(&format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text, {META}); CREATE TABLE t__tombstones (id bigint PRIMARY KEY, \
         _version_hi bigint NOT NULL, _version_lo bigint NOT NULL)"
    ));
    let by_hand = |target| Target { create: false, ..target };
    database.apply_all(&by_hand(keeping()), &log.records[..4], 2);
    assert_eq!(buried(&database), ["1", "2"]);
    let refused = |database: &Database| {
        let mut sink = database.sink(by_hand(purging()), &log.records);
        database.apply(&mut sink, &batch(&log.records[4..5])).unwrap_err().to_string()
    };
    let told = refused(&database);
    let add = "ALTER TABLE \"t__tombstones\" ADD COLUMN IF NOT EXISTS \"_written_ms\" bigint";
    assert!(told.contains("by which [sink] tombstone_retention goes") && told.contains(add), "{told}");
    database.run("ALTER TABLE t__tombstones ADD COLUMN _written_ms text");
    assert!(refused(&database).contains("make it bigint"));
    database.run(&format!("ALTER TABLE t__tombstones DROP COLUMN _written_ms; {add}"));
    database.apply_all(&by_hand(purging()), &log.records[4..5], 1);
    assert_eq!(database.one("SELECT count(*) FROM t__tombstones WHERE _written_ms IS NULL"), "0");
    let primary_alone =
        "SELECT count(*) FROM pg_indexes WHERE tablename = 't__tombstones' AND schemaname = current_schema()";
    assert_eq!(database.one(primary_alone), "1", "what is made by hand is the user's");
}

#[test]
fn the_ddl_has_the_column_and_the_index() {
    let (log, database) = (Log::of_deletes(), Database::new());
    let all = batch(&log.records);
    let ddl =
        |target: &Target| postgres::create_table_ddl(target, &database.schema, all.tables().next().unwrap()).unwrap();
    assert_eq!(ddl(&keeping()).len(), 2);
    let statements = ddl(&purging());
    assert!(statements[1].contains("  \"_written_ms\" bigint,\n  PRIMARY KEY"), "{}", statements[1]);
    statements.iter().for_each(|sql| database.run(sql));
    database.apply_all(&purging(), &log.records, 6);
    let indexes = "SELECT count(*) FROM pg_indexes WHERE tablename = 't__tombstones' AND schemaname = current_schema()";
    assert_eq!(database.one(indexes), "2");
}
