//! A truncate is recorded, the view is right at once, `FINAL` once the rows are deleted.

use settle_core::sink::{FailureKind, Outcome};
use settle_engine::config::{TableRule, Target};
use settle_engine::sinks::clickhouse::ClickHouse;
use settle_testkit::proxy::{Fault, Plan, Proxy};

use crate::records::{Event, Log, batch, event, truncate};
use crate::stage::{Stage, apply, creating, declaring, staged};

const COLUMNS: &[(&str, &str)] = &[("id", "Int64"), ("v", "Nullable(String)")];
const PENDING: &str = "SELECT count() FROM settle_meta FINAL WHERE kind = 'pending-delete'";

fn row(op: &'static str, lsn: u64, id: u32, v: &str) -> Event {
    let key = format!(r#"{{"id":{id}}}"#);
    let after = if op == "d" { String::new() } else { format!(r#"{{"id":{id},"v":"{v}"}}"#) };
    event(op, lsn, &key, &after)
}

/// Rows on partitions 0 and 1, a truncate on 2, a row behind it.
fn log() -> [Event; 5] {
    [
        row("c", 10, 1, "old"),
        row("c", 20, 2, "old").on(1),
        row("d", 25, 2, "").on(1),
        truncate(30).on(2),
        row("c", 40, 1, "new"),
    ]
}

/// Rows that a snapshot lifted on partition 0, a truncate behind an older commit on 1, a row behind it.
fn lifted_rows() -> [Event; 4] {
    [
        row("r", 100, 1, "read").of_full_snapshot(),
        row("c", 104, 2, "lifted"),
        truncate(105).after_commit(95).on(1),
        row("c", 110, 3, "new"),
    ]
}

/// A connector that lost its offsets takes a snapshot at 200, and sends the truncate at 150 again.
fn lifted_truncate() -> [Event; 4] {
    [
        truncate(150).on(1),
        row("c", 160, 1, "behind"),
        row("r", 200, 2, "read").of_full_snapshot().on(1),
        truncate(150).on(1),
    ]
}

/// Applies the events in this order in batches of `size`, with a sink of its own.
async fn apply_all(stage: &Stage, target: &Target, events: &[Event], order: &[usize], size: usize) -> Outcome {
    let mut sink = stage.sink(target.clone()).await;
    let mut log = Log::default();
    let ordered: Vec<Event> = order.iter().map(|&at| events[at].clone()).collect();
    let mut sum = Outcome::default();
    for events in ordered.chunks(size) {
        let outcome = apply(&mut sink, &log.batch(events)).await.unwrap();
        sum.applied += outcome.applied;
        sum.stale += outcome.stale;
    }
    sum
}

async fn clear(stage: &Stage) {
    for statement in ["DROP TABLE IF EXISTS t", "DROP VIEW IF EXISTS t_current", "TRUNCATE TABLE IF EXISTS settle_meta"]
    {
        stage.run(statement).await;
    }
}

async fn ends(stage: &Stage, rows: &[&str], what: &str) {
    assert_eq!(stage.rows("SELECT id, v FROM t_current ORDER BY id").await, rows, "{what}: the view");
    assert_eq!(stage.rows("SELECT id, v FROM t FINAL ORDER BY id").await, rows, "{what}: FINAL");
}

#[tokio::test]
async fn every_order_of_the_partitions_ends_alike() {
    staged(async |stage| {
        let orders =
            [[0, 1, 2, 3, 4], [3, 0, 1, 2, 4], [0, 3, 1, 4, 2], [0, 4, 3, 1, 2], [3, 0, 4, 1, 2], [0, 1, 4, 3, 2]];
        for order in orders {
            for size in [1, 2, 5] {
                clear(stage).await;
                let target = declaring(COLUMNS);
                apply_all(stage, &target, &log(), &order, size).await;
                ends(stage, &["1\tnew"], &format!("{order:?} by {size}")).await;
                apply_all(stage, &target, &log(), &order, size).await;
                ends(stage, &["1\tnew"], &format!("{order:?} by {size}, again")).await;
                assert_eq!(stage.rows("SELECT count() FROM settle_meta WHERE kind LIKE 'truncate%'").await, ["1"]);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn rows_that_a_snapshot_lifted_do_not_survive_a_truncate_that_it_did_not() {
    staged(async |stage| {
        for order in [[0, 1, 2, 3], [2, 0, 1, 3], [0, 1, 3, 2], [0, 2, 1, 3]] {
            for size in [1, 4] {
                clear(stage).await;
                apply_all(stage, &declaring(COLUMNS), &lifted_rows(), &order, size).await;
                ends(stage, &["3\tnew"], &format!("{order:?} by {size}")).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_truncate_that_a_snapshot_lifted_does_not_wipe_the_rows_behind_it() {
    staged(async |stage| {
        for order in [[0, 1, 2, 3], [0, 2, 3, 1], [1, 0, 2, 3]] {
            for size in [1, 4] {
                clear(stage).await;
                apply_all(stage, &declaring(COLUMNS), &lifted_truncate(), &order, size).await;
                ends(stage, &["1\tbehind", "2\tread"], &format!("{order:?} by {size}")).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn rows_that_a_truncate_empties_are_counted_as_stale() {
    staged(async |stage| {
        let mut sink = stage.sink(declaring(COLUMNS)).await;
        let outcome = apply(&mut sink, &batch(&log())).await.unwrap();
        assert_eq!(outcome, Outcome { applied: 1, stale: 1 });
        assert_eq!(stage.rows("SELECT count() FROM t").await, ["1"], "they are not written");
    })
    .await;
}

/// The truncate is recorded first, and the DELETE fails.
#[tokio::test]
async fn the_view_is_right_before_anything_is_deleted() {
    staged(async |stage| {
        let (proxy, address) = Proxy::before_clickhouse().await;
        let mut log = Log::default();
        let mut sink = stage.sink_at(&address, declaring(COLUMNS)).await;
        apply(&mut sink, &log.batch(&[row("c", 10, 1, "a"), row("c", 20, 2, "b").on(1)])).await.unwrap();
        let emptied = log.batch(&[truncate(30).on(2)]);
        let body = "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED) (version 26.9.2.1)\n";
        let full = Fault::Answer { status: 500, code: Some(241), body: body.into() };
        proxy.plan(Plan::new(full).containing("ALTER TABLE"));
        let error = apply(&mut sink, &emptied).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Overloaded);
        assert!(stage.message(&error).starts_with("truncating `shop`.`t`: the server refused"), "{error}");
        assert_eq!(stage.rows("SELECT * FROM t_current").await, Vec::<String>::new());
        assert_eq!(stage.rows("SELECT count() FROM t FINAL").await, ["2"]);
        proxy.pass();
        // Another process goes on.
        let mut next = stage.sink_at(&address, declaring(COLUMNS)).await;
        apply(&mut next, &emptied).await.unwrap();
        assert_eq!(stage.rows("SELECT count() FROM t FINAL").await, ["0"]);
        assert_eq!(stage.rows(PENDING).await, ["1"], "rows from before it may still come");
    })
    .await;
}

/// The view is made anew by an instance that has not read of the truncate.
#[tokio::test]
async fn the_view_stays_right_when_another_instance_makes_it_anew() {
    staged(async |stage| {
        let (proxy, address) = Proxy::before_clickhouse().await;
        let mut log = Log::default();
        let mut other = stage.sink_at(&address, declaring(COLUMNS)).await;
        apply(&mut other, &log.batch(&[row("c", 10, 1, "a"), row("c", 20, 2, "b")])).await.unwrap();
        let wider = log.batch(&[event("c", 40, r#"{"id":3}"#, r#"{"id":3,"v":"c","more":1}"#)]);
        let emptied = log.batch(&[truncate(30).on(2)]);
        // It has read the truncates, and is about to add a column.
        proxy.plan(Plan::new(Fault::Hang).containing("ADD COLUMN"));
        let widening = apply(&mut other, &wider);
        let truncating = async {
            proxy.wait_until(|counters| counters.hung == 1).await;
            apply(&mut stage.sink(declaring(COLUMNS)).await, &emptied).await.unwrap();
            // Written behind the DELETE by one who died.
            let version = 20u128 << 64 | 20;
            stage
                .run(&format!("INSERT INTO t (id, v, _op, _version) VALUES (2, 'b', 'c', toUInt128('{version}'))"))
                .await;
            proxy.plan(Plan::new(Fault::Hang).containing("ArrowStream"));
            proxy.wait_until(|counters| counters.hung == 2).await;
            assert_eq!(stage.rows("SELECT id, v, more FROM t_current").await, Vec::<String>::new());
            proxy.pass();
        };
        let (written, ()) = tokio::join!(widening, truncating);
        written.unwrap();
        assert_eq!(stage.rows("SELECT id, v, more FROM t_current").await, ["3\tc\t1"]);
        assert_eq!(stage.rows("SELECT count() FROM t").await, ["1"], "and its own DELETE found the row");
    })
    .await;
}

/// One instance has read rows, and holds them in its hand while another truncates.
#[tokio::test]
async fn rows_that_arrive_behind_the_delete_are_deleted_by_the_one_who_wrote_them() {
    staged(async |stage| {
        let (proxy, address) = Proxy::before_clickhouse().await;
        let mut log = Log::default();
        let mut slow = stage.sink_at(&address, declaring(COLUMNS)).await;
        apply(&mut slow, &log.batch(&[row("c", 10, 1, "a")])).await.unwrap();
        let late = log.batch(&[row("c", 20, 2, "b")]);
        let emptied = log.batch(&[truncate(30).on(2)]);
        proxy.plan(Plan::new(Fault::Hang).containing("ArrowStream"));
        let writing = apply(&mut slow, &late);
        let truncating = async {
            proxy.wait_until(|counters| counters.hung == 1).await;
            let mut other = stage.sink(declaring(COLUMNS)).await;
            apply(&mut other, &emptied).await.unwrap();
            assert_eq!(stage.rows("SELECT count() FROM t").await, ["0"]);
            proxy.pass();
        };
        let (written, ()) = tokio::join!(writing, truncating);
        assert_eq!(written.unwrap(), Outcome { applied: 1, stale: 0 });
        assert_eq!(stage.rows("SELECT count() FROM t").await, ["0"]);
    })
    .await;
}

/// Rows that a writer left which died behind its insert.
#[tokio::test]
async fn a_pending_delete_is_repeated_until_everything_has_passed_the_truncate() {
    staged(async |stage| {
        let mut log = Log::default();
        let mut sink = stage.sink(declaring(COLUMNS)).await;
        let old = log.batch(&[row("c", 10, 1, "old")]);
        apply(&mut sink, &old).await.unwrap();
        apply(&mut sink, &log.batch(&[truncate(30).on(2)])).await.unwrap();
        let left =
            format!("INSERT INTO t (id, v, _op, _version) VALUES (7, 'left', 'c', toUInt128('{}'))", 20u128 << 64 | 20);
        let physical = async || stage.rows("SELECT count() FROM t").await[0].clone();
        // A batch that brings rows from before the truncate tells that such rows may be there.
        stage.run(&left).await;
        assert_eq!(stage.rows("SELECT * FROM t_current").await, Vec::<String>::new(), "the view hides them");
        apply(&mut sink, &old).await.unwrap();
        assert_eq!(physical().await, "0");
        // A process that opens the table.
        stage.run(&left).await;
        apply(&mut sink, &log.batch(&[row("c", 50, 2, "new")])).await.unwrap();
        assert_eq!(physical().await, "2", "this one has repeated it");
        let mut next = stage.sink(declaring(COLUMNS)).await;
        apply(&mut next, &log.batch(&[row("c", 60, 3, "new")])).await.unwrap();
        assert_eq!(physical().await, "2");
        // The last time.
        stage.run(&left).await;
        assert_eq!(next.finish_pending(|_, version| version.lo() < 30).await.unwrap(), 0);
        assert_eq!((physical().await, stage.rows(PENDING).await), ("3".into(), vec!["1".into()]));
        assert_eq!(next.finish_pending(|topic, _| topic == crate::stage::topic_id()).await.unwrap(), 1);
        assert_eq!((physical().await, stage.rows(PENDING).await), ("2".into(), vec!["0".into()]));
        // The truncate that comes again is an old one.
        apply_all(stage, &declaring(COLUMNS), &self::log(), &[3], 1).await;
        assert_eq!(stage.rows("SELECT id FROM t FINAL ORDER BY id").await, ["2", "3"]);
    })
    .await;
}

#[tokio::test]
async fn a_truncate_of_a_table_that_is_made_later_holds() {
    staged(async |stage| {
        let events = log();
        apply_all(stage, &declaring(COLUMNS), &events, &[3], 1).await;
        assert_eq!(stage.rows("EXISTS TABLE t").await, ["0"]);
        assert_eq!(apply_all(stage, &declaring(COLUMNS), &events, &[0, 1], 2).await, Outcome { applied: 0, stale: 2 });
        apply_all(stage, &declaring(COLUMNS), &events, &[4], 1).await;
        ends(stage, &["1\tnew"], "the row behind it").await;
    })
    .await;
}

#[tokio::test]
async fn a_table_without_versions_is_not_emptied() {
    staged(async |stage| {
        stage.run("CREATE TABLE t (id Int64, v String) ENGINE = MergeTree ORDER BY id").await;
        stage.run("INSERT INTO t VALUES (1, 'precious')").await;
        let mut sink = stage.sink(creating()).await;
        let error = apply(&mut sink, &batch(&[truncate(30)])).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            stage.message(&error),
            "truncating `shop`.`t`: the table lacks the column in which settle keeps the version of each row; `settle check` \
             says how to move its rows into one that has it"
        );
        assert_eq!(stage.rows("SELECT v FROM t").await, ["precious"]);
    })
    .await;
}

#[tokio::test]
async fn another_sources_truncate_is_refused_and_not_recorded() {
    staged(async |stage| {
        let mut sink = stage.sink(declaring(COLUMNS)).await;
        apply(&mut sink, &batch(&[row("c", 10, 1, "a")])).await.unwrap();
        let mut other: ClickHouse = stage.sink(declaring(COLUMNS)).await;
        let error = apply(&mut other, &batch(&[truncate(99).of_database("blog")])).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert!(error.context.contains("which is filled from public.t of srv/shop"), "{error}");
        assert_eq!(stage.rows("SELECT v FROM t_current").await, ["a"]);
        assert_eq!(stage.rows(PENDING).await, ["0"]);
    })
    .await;
}

#[tokio::test]
async fn a_reader_with_other_settings_and_a_renamed_version_sees_the_same() {
    staged(async |stage| {
        let mut target = declaring(COLUMNS);
        target.meta.version = "we`ird v".into();
        target
            .tables
            .insert("public.t".into(), TableRule { name: Some("it's".into()), ..target.tables["public.t"].clone() });
        let mut log = Log::default();
        let mut sink = stage.sink(target).await;
        apply(&mut sink, &log.batch(&[row("c", 10, 1, "old")])).await.unwrap();
        let read = "SELECT v FROM `it's_current` SETTINGS aggregate_functions_null_for_empty = 1";
        assert_eq!(stage.rows(read).await, ["old"]);
        apply(&mut sink, &log.batch(&[truncate(30), row("c", 40, 1, "new")])).await.unwrap();
        assert_eq!(stage.rows(read).await, ["new"]);
        assert_eq!(stage.rows("SELECT v FROM `it's`").await, ["new"]);
    })
    .await;
}
