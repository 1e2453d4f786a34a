//! Other writers, refused rows, lost files: a batch is whole or nothing.

use serde_json::json;
use settle_core::sink::{Effect, FailureKind, Guarantee, Outcome, Sink};

use crate::database::{Database, apply, apply_all, row, soft, target, wait};
use crate::log::{Log, batch};

fn log() -> Log {
    let mut log = Log::from("t", &[("c", 20, json!({"id": 1, "v": "a"})), ("c", 30, json!({"id": 2, "v": "b"}))]);
    log.snapshot(1, 10, &json!({"id": 3, "v": "read"}));
    log.add(0, "d", 40, &json!({"id": 1}), &[]);
    log
}

#[test]
fn a_lock_of_another_writer_is_waited_for_and_then_said() {
    let log = log();
    let database = Database::new();
    let mut sink = database.sink(target(), &log.records);
    let other = database.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert_eq!((error.kind, error.effect), (FailureKind::Overloaded, Effect::None));
    assert_eq!(
        error.to_string(),
        format!(
            "apply a batch to {}: another connection holds the database's write lock; it is tried again until the lock \
             is free",
            database.path().display()
        )
    );
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(apply(&mut sink, &batch(&log.records)).unwrap(), Outcome { applied: 3, stale: 0 });
}

#[test]
fn a_reader_holds_up_nothing_and_sees_whole_batches() {
    let log = log();
    let database = Database::new();
    let mut sink = database.sink(target(), &log.records);
    apply(&mut sink, &batch(&log.records[..2])).unwrap();
    let reader = database.other();
    reader.execute_batch("BEGIN").unwrap();
    let seen = || reader.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(seen(), 2);
    apply(&mut sink, &batch(&log.records[2..])).unwrap();
    assert_eq!(seen(), 2);
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!((seen(), sink.guarantee()), (2, Guarantee::Atomic));
    assert_eq!(database.count("t__tombstones"), 1);
}

/// The process dies before COMMIT: another one finds nothing of the batch, and applies it.
#[test]
fn what_was_written_before_a_commit_that_never_came_is_gone() {
    let log = log();
    let database = Database::new();
    apply_all(&database, &target(), &log.records[..1], 1);
    let before = database.all("t");
    let dying = database.other();
    dying.execute_batch("BEGIN IMMEDIATE; DELETE FROM t; DELETE FROM settle_meta; DROP TABLE t__tombstones").unwrap();
    drop(dying);
    assert_eq!(database.all("t"), before);
    assert_eq!(apply_all(&database, &target(), &log.records, 10), Outcome { applied: 3, stale: 0 });
}

#[test]
fn a_row_that_is_refused_takes_its_whole_batch_with_it() {
    let log = log();
    let database = Database::new();
    database.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT CHECK (v <> 'read'))");
    let mut sink = database.sink(target(), &log.records);
    let error = apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert_eq!((error.kind, error.effect), (FailureKind::Constraint, Effect::None));
    assert_eq!(error.to_string(), "write to \"t\": record s.public.t:1:0: CHECK constraint failed: v <> 'read'");
    assert_eq!(database.count("t"), 0);
    let left = "SELECT count(*) FROM settle_meta WHERE kind <> 'scheme'";
    assert_eq!(database.one::<i64>(left), 0, "neither floor nor claim");
    assert_eq!(database.one::<i64>("SELECT count(*) FROM sqlite_schema WHERE name = 't__tombstones'"), 0);
    // The connection goes on with other rows, and with all of them once the cause is gone.
    assert_eq!(apply(&mut sink, &batch(&log.records[..2])).unwrap(), Outcome { applied: 2, stale: 0 });
    database.run("PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, '''read''', '''none''') WHERE name = 't'; PRAGMA schema_version = 99");
    assert_eq!(apply(&mut sink, &batch(&log.records)).unwrap(), Outcome { applied: 2, stale: 1 });
    assert_eq!(database.one::<i64>("SELECT count(*) FROM settle_meta WHERE kind = 'floor'"), 1);
}

#[test]
fn a_batch_of_several_tables_is_one_transaction() {
    let mut records = log().records;
    records.extend(Log::from("u", &[("c", 50, json!({"id": 1, "v": "bad"}))]).records);
    let database = Database::new();
    database.run("CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT CHECK (v <> 'bad'))");
    let mut sink = database.sink(target(), &records);
    let error = apply(&mut sink, &batch(&records)).unwrap_err();
    assert_eq!(error.kind, FailureKind::Constraint);
    assert_eq!(database.one::<i64>("SELECT count(*) FROM sqlite_schema WHERE name = 't'"), 0);
    records.truncate(4);
    assert_eq!(apply(&mut sink, &batch(&records)).unwrap(), Outcome { applied: 3, stale: 0 });
}

#[test]
fn a_file_that_was_replaced_or_removed_stops_the_run_before_its_offsets_are_committed() {
    let log = log();
    for replace in [true, false] {
        let database = Database::new();
        let mut sink = database.sink(target(), &log.records);
        apply(&mut sink, &batch(&log.records[..1])).unwrap();
        let elsewhere = database.path().with_extension("moved");
        std::fs::rename(database.path(), &elsewhere).unwrap();
        if replace {
            std::fs::copy(&elsewhere, database.path()).unwrap();
        }
        let error = apply(&mut sink, &batch(&log.records)).unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert!(error.context.starts_with("the database file was removed or replaced during the run"), "{error}");
    }
}

#[test]
fn a_schema_that_others_changed_between_two_batches_is_read_again() {
    let log = log();
    let database = Database::new();
    let mut sink = database.sink(target(), &log.records);
    apply(&mut sink, &batch(&log.records[..1])).unwrap();
    database.run("ALTER TABLE t RENAME COLUMN v TO w");
    apply(&mut sink, &batch(&log.records[1..2])).unwrap();
    assert_eq!(database.rows("t")[1], row_with_null("w", &[("id", "2"), ("v", "b")]));
}

fn row_with_null(null: &str, columns: &[(&str, &str)]) -> crate::database::Shown {
    let mut row = row(columns);
    row.insert(null.to_owned(), None);
    row
}

#[test]
fn a_sink_works_on_a_runtime_of_many_threads_and_holds_none_of_its_tasks() {
    let log = log();
    let database = Database::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut sink = database.sink(soft(), &log.records);
    let batch = batch(&log.records);
    let proof = runtime.block_on(async { sink.apply(&batch).await.unwrap() });
    assert_eq!(proof.outcome, Outcome { applied: 3, stale: 0 });
    let proof = wait(sink.apply(&batch)).unwrap();
    assert_eq!(proof.outcome, Outcome { applied: 0, stale: 3 });
}

/// Where a row is at fault it is looked for, and set aside: it must not be one then.
#[test]
fn what_is_refused_beside_the_rows_is_no_rows_fault() {
    for table in ["settle_positions", "settle_meta"] {
        let log = log();
        let database = Database::new();
        let mut sink = database.sink(target(), &log.records);
        database.run(&format!("CREATE TRIGGER torn BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'torn'); END"));
        assert_eq!(apply(&mut sink, &batch(&log.records)).unwrap_err().kind, FailureKind::Contract, "{table}");
    }
}
