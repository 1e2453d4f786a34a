//! Killed and revoked in the middle: the next run goes on, and every row is as at the source.

use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use settle::compare::differences;

use crate::child::{Running, until};
use crate::ends::{self, SHORT_SESSION, SQLITE};
use crate::live::Live;
use crate::shop::{Shop, shop};
use crate::stage::read_sqlite;

fn killed_topic() -> Shop {
    shop("pg-connector-killed", "kl.public.t")
}

/// The same pipeline into SQLite, which knows what it has had before.
fn into_sqlite(live: &Live, batch: &str) {
    let source = ends::kafka(&live.group(), &[&live.topic]);
    live.stage.configure(&format!("{source}instance = \"one\"\n{SHORT_SESSION}{SQLITE}[batch]\n{batch}\n"));
}

/// Records of the group that the database has: the sum of its next-to-read offsets.
fn in_database(live: &Live) -> i64 {
    Connection::open(live.stage.path("shop.db"))
        .and_then(|connection| {
            connection.query_row("SELECT coalesce(sum(next_offset), 0) FROM settle_positions", [], |row| row.get(0))
        })
        .unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_ten_times_into_sqlite_nothing_is_lost_or_doubled() {
    let live = Live::of(killed_topic(), &killed_topic().lines(), "").await;
    // Small batches: a fast machine must not reach the end of the topic before the last kill.
    into_sqlite(&live, "max_rows = 20");
    let end: i64 = live.ends().await.iter().sum();
    let mut rng = StdRng::seed_from_u64(11);
    let mut redelivered = 0;
    for kill in 0..10 {
        let start = in_database(&live);
        let mut run = Running::start(&live.stage, &[]);
        let more = 100 + rng.random_range(0..100);
        until("progress", async || in_database(&live), |now| *now > start + more || *now == end).await;
        if kill < 2 {
            // Twice for certain: stopped when the rows are durable and the offset is not yet committed.
            for _ in 0..500 {
                run.signal(Signal::SIGSTOP);
                if in_database(&live) > live.committed().await.iter().sum() || run.has_ended() {
                    break;
                }
                run.signal(Signal::SIGCONT);
            }
        }
        run.kill();
        redelivered += live.stage.run(&["--until-end", "--max-messages", "60"]).redelivered;
    }
    live.stage.run(&["--until-end"]);
    assert!(redelivered > 0, "the kills hit between the write and the commit");
    let shop = live.shop;
    let table = read_sqlite(&live.stage.path("shop.db"), shop.name(), shop.key);
    assert_eq!(differences(&shop.expected(), &table, &shop.carried()), [""; 0]);
    assert_eq!(live.committed().await, live.ends().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_ten_times_into_clickhouse_nothing_is_lost_or_doubled() {
    let live = Live::of(killed_topic(), &killed_topic().lines(), "max_rows = 1000").await;
    let mut rng = StdRng::seed_from_u64(13);
    for _ in 0..10 {
        let mut run = Running::start(&live.stage, &[]);
        let before: i64 = live.committed().await.iter().sum();
        let moved = async || live.committed().await.iter().sum::<i64>();
        let end: i64 = live.ends().await.iter().sum();
        let more = rng.random_range(0..2_000);
        until("progress", moved, |now| *now > before + more || *now == end).await;
        assert!(!run.has_ended(), "an unbounded run goes on");
        run.kill();
    }
    live.stage.run(&["--until-end"]);
    live.assert_equals_source("ten kills").await;
    assert_eq!(live.committed().await, live.ends().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoke_in_the_middle_of_a_batch_drains_it_first() {
    let shop = shop("pg-hazards", "shop.public.customers");
    let open_batch = "max_rows = 100000\nmax_age_ms = 600000";
    let live = Live::of(shop, &shop.lines(), open_batch).await;
    let first = Running::start(&live.stage, &[]);
    // The first instance reads everything into one open batch and commits nothing.
    first.until_said("caught up with the log").await;
    assert_eq!(live.committed().await, [0, 0, 0]);
    let second = Running::start(&live.stage, &[]);
    // When the second joins, partitions are taken from the first: their part of the batch must be
    // durable and committed before.
    until("the revoked partitions are drained", async || live.committed().await, |c| c.iter().sum::<i64>() > 0).await;
    second.signal(Signal::SIGTERM);
    let (status, _) = second.wait();
    assert_eq!(status.code(), Some(130));
    first.signal(Signal::SIGTERM);
    let (status, report) = first.wait();
    assert_eq!(status.code(), Some(130));
    assert!(report.revoked > 0, "{report:?}");
    assert_eq!(report.unsettled, 0, "a first signal drains");
    live.stage.run(&["--until-end"]);
    live.assert_equals_source("a revoke in the middle of a batch").await;
    assert_eq!(live.committed().await, live.ends().await);
}
