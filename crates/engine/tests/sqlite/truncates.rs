//! A truncate is a floor: what is older is gone, whenever it comes.

use serde_json::json;
use settle_core::sink::Outcome;

use crate::database::{Database, apply, apply_all, row, soft, target};
use crate::log::{Log, batch};

/// Rows on partitions 0 and 1, a truncate on 2, a row behind it.
fn log() -> Log {
    let mut log = Log::of("t");
    log.add(0, "c", 10, &json!({"id": 1, "v": "old"}), &[]);
    log.add(1, "c", 20, &json!({"id": 2, "v": "old"}), &[]);
    log.add(1, "d", 25, &json!({"id": 2}), &[]);
    log.truncate(2, 30);
    log.add(0, "c", 40, &json!({"id": 1, "v": "new"}), &[]);
    log
}

#[test]
fn every_order_of_the_partitions_ends_alike() {
    let log = log();
    for order in [[0, 1, 2, 3, 4], [3, 0, 1, 2, 4], [0, 3, 1, 4, 2], [0, 4, 3, 1, 2], [3, 0, 4, 1, 2], [0, 1, 4, 3, 2]]
    {
        for size in [1, 2, 3, 5] {
            for target in [target(), soft()] {
                let records: Vec<_> = order.iter().map(|&i| log.records[i].clone()).collect();
                let database = Database::new();
                apply_all(&database, &target, &records, size);
                assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "new")])], "{order:?} by {size}");
                let again = apply_all(&database, &target, &records, size);
                assert_eq!(again.applied, 0);
                assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "new")])]);
            }
        }
    }
}

#[test]
fn rows_below_a_truncate_of_their_own_batch_are_counted_as_stale() {
    let log = log();
    let database = Database::new();
    let mut sink = database.sink(target(), &log.records);
    assert_eq!(apply(&mut sink, &batch(&log.records)).unwrap(), Outcome { applied: 1, stale: 1 });
}

#[test]
fn tombstones_below_the_floor_go_since_the_floor_does_their_work() {
    let log = log();
    let database = Database::new();
    apply_all(&database, &target(), &log.records[..3], 1);
    assert_eq!(database.count("t__tombstones"), 1);
    apply_all(&database, &target(), &log.records[3..4], 1);
    assert_eq!((database.count("t"), database.count("t__tombstones")), (0, 0));
    assert_eq!(apply_all(&database, &target(), &log.records[..3], 1), Outcome { applied: 0, stale: 3 });
    assert_eq!((database.count("t"), database.count("t__tombstones")), (0, 0));
}

#[test]
fn the_greatest_truncate_holds_and_an_older_one_changes_nothing() {
    let mut log = Log::of("t");
    log.truncate(0, 50);
    log.truncate(1, 30);
    log.add(0, "c", 40, &json!({"id": 1, "v": "between"}), &[]);
    let database = Database::new();
    assert_eq!(apply_all(&database, &target(), &log.records, 1), Outcome { applied: 0, stale: 1 });
    assert_eq!(database.one::<i64>("SELECT hi FROM settle_meta WHERE kind = 'truncate'"), 50);
}

#[test]
fn a_truncate_that_was_recorded_without_its_order_holds_as_it_did_and_gets_it_with_the_next() {
    let mut log = Log::of("t");
    log.add(0, "c", 10, &json!({"id": 1, "v": "old"}), &[]);
    log.add(0, "c", 40, &json!({"id": 2, "v": "new"}), &[]);
    log.truncate(1, 30);
    let database = Database::new();
    apply_all(&database, &target(), &log.records[1..2], 1);
    let (hi, lo) = (30, 1i64 << 62 | 30);
    database.run(&format!("INSERT INTO settle_meta (kind, subject, hi, lo) VALUES ('truncate', 't', {hi}, {lo})"));
    assert_eq!(apply_all(&database, &target(), &log.records[..1], 1), Outcome { applied: 0, stale: 1 });
    apply_all(&database, &target(), &log.records[2..], 1);
    assert_eq!(apply_all(&database, &target(), &log.records[..1], 1), Outcome { applied: 0, stale: 1 });
    assert_eq!(database.rows("t"), [row(&[("id", "2"), ("v", "new")])]);
    let kept = "SELECT count(*) FROM settle_meta WHERE kind = 'truncate' AND at = 1 AND hi = 30";
    assert_eq!(
        (database.one::<i64>(kept), database.one::<i64>("SELECT count(*) FROM settle_meta WHERE kind = 'truncate'")),
        (1, 1)
    );
}

#[test]
fn a_row_at_the_floor_is_not_below_it() {
    let mut log = Log::of("t");
    log.truncate(0, 30);
    log.add(1, "c", 30, &json!({"id": 1, "v": "at"}), &[]);
    for order in [[0, 1], [1, 0]] {
        let records: Vec<_> = order.iter().map(|&i| log.records[i].clone()).collect();
        let database = Database::new();
        assert_eq!(apply_all(&database, &target(), &records, 1), Outcome { applied: 1, stale: 0 });
        assert_eq!(database.count("t"), 1);
    }
}

#[test]
fn a_truncate_of_a_table_by_another_spelling_is_the_same_floor() {
    let log = log();
    let database = Database::new();
    apply_all(&database, &target(), &log.records[3..4], 1);
    database.run("CREATE TABLE T (id INTEGER PRIMARY KEY, v TEXT)");
    assert_eq!(apply_all(&database, &target(), &log.records[..1], 1), Outcome { applied: 0, stale: 1 });
    assert_eq!(apply_all(&database, &target(), &log.records[4..], 1), Outcome { applied: 1, stale: 0 });
}
