//! Two processes of one group on one file: who opened a partition last writes it.

use serde_json::json;
use settle_core::sink::{Effect, FailureKind, Outcome};
use settle_engine::sinks::sqlite::{Sqlite, SqliteConfig};

use crate::database::{Database, apply, placed, soft, target, wait};
use crate::log::{Log, batch};

/// Two partitions; key 1 is of partition 0.
fn log() -> Log {
    let mut log = Log::of("t");
    log.snapshot(0, 10, &json!({"id": 1, "v": "read"}));
    log.add(1, "c", 20, &json!({"id": 2, "v": "other"}), &[]);
    log.add(0, "u", 30, &json!({"id": 1, "v": "last"}), &[]);
    log.add(0, "d", 40, &json!({"id": 1}), &[]);
    log
}

fn everything(database: &Database, tables: &[&str]) -> Vec<Vec<crate::database::Shown>> {
    tables.iter().chain(&["settle_meta", "settle_positions"]).map(|table| database.all(table)).collect()
}

/// A process that was stopped while its partitions moved to another one, which deleted the row that
/// it was about to write.
#[test]
fn a_process_that_wakes_after_another_took_its_partitions_writes_nothing() {
    for (target, tables) in [(target(), &["t", "t__tombstones"][..]), (soft(), &["t"])] {
        let log = log();
        let database = Database::new();
        let mut asleep = database.sink(target.clone(), &log.records);
        apply(&mut asleep, &batch(&log.records[..2])).unwrap();
        let mut heir = database.sink(target, &log.records);
        apply(&mut heir, &batch(&log.records)).unwrap();
        // The tombstone is gone, as after its retention: only the fence knows that the row is.
        tables.iter().for_each(|table| database.run(&format!("DELETE FROM {table} WHERE id = 1")));
        let before = everything(&database, tables);
        let mut late = Log::of("t");
        late.snapshot(0, 50, &json!({"id": 3, "v": "late"}));
        late.truncate(0, 60);
        for records in [&log.records[2..3], &log.records[3..], &log.records[..], &late.records[..]] {
            let error = apply(&mut asleep, &batch(records)).unwrap_err();
            assert_eq!((error.kind, error.effect), (FailureKind::Fenced, Effect::None));
            assert_eq!(*error.fenced, records_partitions(records));
            assert_eq!(everything(&database, tables), before);
        }
        let error = apply(&mut asleep, &batch(&log.records[2..3])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "apply a batch: another instance of the group has taken s.public.t:0",
            "and says which"
        );
        assert_eq!(apply(&mut heir, &batch(&log.records[1..2])).unwrap(), Outcome { applied: 0, stale: 1 });
    }
}

fn records_partitions(records: &[settle_core::record::Record]) -> Vec<settle_core::position::Partition> {
    let mut partitions: Vec<_> = records.iter().map(|record| record.partition.clone()).collect();
    partitions.sort();
    partitions.dedup();
    partitions
}

#[test]
fn only_the_partitions_that_were_taken_are_named_and_the_others_go_on() {
    let log = log();
    let database = Database::new();
    let mut first = database.sink(target(), &log.records);
    let mut second = database.sink(target(), &log.records[1..2]);
    let error = apply(&mut first, &batch(&log.records)).unwrap_err();
    assert_eq!(*error.fenced, [log.records[1].partition.clone()]);
    assert_eq!(apply(&mut first, &batch(&log.records[..1])).unwrap(), Outcome { applied: 1, stale: 0 });
    assert_eq!(apply(&mut second, &batch(&log.records[1..2])).unwrap(), Outcome { applied: 1, stale: 0 });
    // It comes back to the first, which opens it anew.
    wait(settle_core::sink::Sink::open(&mut first, &[placed(log.records[1].partition.clone())])).unwrap();
    assert_eq!(apply(&mut first, &batch(&log.records)).unwrap(), Outcome { applied: 1, stale: 1 });
    assert_eq!(apply(&mut second, &batch(&log.records[1..2])).unwrap_err().kind, FailureKind::Fenced);
}

#[test]
fn groups_do_not_fence_each_other_and_neither_does_what_is_applied_beside_a_run() {
    let log = log();
    let database = Database::new();
    let mut run = database.sink(target(), &log.records);
    let config = SqliteConfig { group: "another".to_owned(), ..database.config() };
    let mut other = Sqlite::new(config, target()).unwrap();
    let parts = records_partitions(&log.records).into_iter().map(placed).collect::<Vec<_>>();
    wait(settle_core::sink::Sink::open(&mut other, &parts)).unwrap();
    apply(&mut run, &batch(&log.records[..2])).unwrap();
    assert_eq!(apply(&mut other, &batch(&log.records[..2])).unwrap(), Outcome { applied: 0, stale: 2 });
    // A second one of the group: records that prove nothing pass, and move nothing.
    let heir = database.sink(target(), &log.records);
    let beside = batch(&log.records[2..3]).without_spans();
    let positions = database.all("settle_positions");
    assert_eq!(wait(settle_core::sink::Sink::apply(&mut run, &beside)).unwrap().outcome.applied, 1);
    assert_eq!(database.all("settle_positions"), positions);
    drop(heir);
}

/// The refused open of a file that is locked must not fence, nor be taken for one that did.
#[test]
fn an_open_that_failed_holds_nothing() {
    let log = log();
    let database = Database::new();
    let mut first = database.sink(target(), &log.records);
    let other = database.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(database.open(target(), &log.records).map(|_| ()).unwrap_err().kind, FailureKind::Overloaded);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(apply(&mut first, &batch(&log.records)).unwrap(), Outcome { applied: 2, stale: 0 });
}

#[test]
fn a_database_from_before_generations_goes_on_where_it_was() {
    let log = log();
    let database = Database::new();
    let mut sink = database.sink(target(), &log.records);
    apply(&mut sink, &batch(&log.records[..2])).unwrap();
    drop(sink);
    database.run("ALTER TABLE settle_positions DROP COLUMN generation");
    let (mut sink, places) = database.open(target(), &log.records).unwrap();
    let mut applied: Vec<_> = places.applied.iter().map(|(part, next)| (part.partition.number, *next)).collect();
    applied.sort_unstable();
    assert_eq!(applied, [(0, 1), (1, 1)]);
    assert_eq!(apply(&mut sink, &batch(&log.records)).unwrap(), Outcome { applied: 1, stale: 1 });
    assert_eq!(database.one::<i64>("SELECT sum(next_offset) FROM settle_positions"), 4);
}
