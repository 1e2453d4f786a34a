//! The order of events, the same for both kinds of source.

use std::path::Path;
use std::time::Duration;

use settle::compare::TextTable;
use settle::simulate::{Hazards, Table};
use settle_testkit::connect::Worker;
use settle_testkit::kafka;
use settle_testkit::services::is_full;

use super::contents::{Reading, differences, in_clickhouse, in_sqlite};
use super::history::Log;
use super::pipeline::{IntoClickHouse, IntoSqlite, TABLES};
use super::source::{Snapshot, Source};
use super::traffic::Traffic;
use crate::child::until;

/// Keys of a table that a failure tells of.
const SHOWN: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn from_postgres_killed_everywhere_both_destinations_are_the_source() {
    drill(Source::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn from_mariadb_killed_everywhere_both_destinations_are_the_source() {
    drill(Source::mariadb().await).await;
}

async fn drill(source: Source) {
    // Settle wants its topics to be there.
    for table in TABLES {
        kafka::create_topic(&source.topic(table), 3, &[]).await;
    }
    let mut sqlite = IntoSqlite::new(&source);
    let mut clickhouse = IntoClickHouse::new(&source).await;
    let mut worker = Worker::start().await;
    let traffic = Traffic::start(&source, 4, Hazards::default()).await;

    // The first snapshot is taken while others write.
    traffic.until_more(50).await;
    worker.client().register(source.prefix(), &source.connector()).await;
    sqlite.instance.start();
    clickhouse.one.start();
    sqlite.until_more(300).await;
    sqlite.instance.kill();
    sqlite.instance.start();
    clickhouse.until_more(&source, 300).await;
    clickhouse.one.kill();
    clickhouse.one.start();

    // The connector dies between two chunks.
    source.signal(Snapshot::Incremental, &TABLES).await;
    until("chunks of the incremental snapshot", async || source.chunks().await, |chunks| *chunks >= 3).await;
    worker.kill();
    clickhouse.two.start();
    worker.restart().await;
    clickhouse.two.until_said("partitions assigned").await;
    sqlite.until_more(200).await;
    sqlite.instance.kill();
    sqlite.instance.start();

    source.signal(Snapshot::Blocking, &TABLES).await;
    let orders = source.topic(Table::Orders);
    let taken = async || Log::read(&orders).await.blocking();
    until("a blocking snapshot and changes behind it", taken, |(read, behind)| *read > 0 && *behind > 0).await;
    worker.kill();
    sqlite.instance.kill();
    sqlite.instance.start();
    worker.restart().await;
    sqlite.until_more(200).await;
    clickhouse.two.leave();
    sqlite.kill_before_a_commit(&source).await;
    clickhouse.until_more(&source, 100).await;

    let written = traffic.stop(Duration::from_secs(if is_full() { 60 } else { 20 })).await;
    source.mark(&TABLES).await;
    sqlite.until_marked().await;
    clickhouse.until_marked().await;
    sqlite.instance.leave();
    clickhouse.one.leave();

    let log = Log::read(&orders).await;
    assert!(log.incremental() > 0, "an incremental snapshot read orders while others wrote");
    compare(&source, &sqlite, &clickhouse).await;
    assert_reports(&sqlite, &clickhouse);
    eprintln!("{written}");
}

/// What the runs that ended in order say of themselves; those that were killed could say nothing.
fn assert_reports(sqlite: &IntoSqlite, clickhouse: &IntoClickHouse) {
    let instances = [&sqlite.instance, &clickhouse.one, &clickhouse.two];
    assert!(instances.iter().map(|instance| instance.kills()).sum::<u64>() >= 5);
    let reports = || instances.iter().flat_map(|instance| instance.reports());
    let all: Vec<_> = reports().collect();
    assert!(reports().map(|report| report.redelivered).sum::<u64>() > 0, "{all:#?}");
    assert!(reports().map(|report| report.revoked).sum::<u64>() > 0, "{all:#?}");
    assert_eq!(reports().map(|report| report.dead_lettered).sum::<u64>(), 0, "{all:#?}");
}

/// Compares every table with the source; panics with what differs and what the log says of it.
async fn compare(source: &Source, sqlite: &IntoSqlite, clickhouse: &IntoClickHouse) {
    let mut found = Vec::new();
    for table in TABLES {
        let columns = source.columns(table).await;
        let expected = source.table(table, &columns).await;
        let mut wrong = tell(source, table, "SQLite", &expected, &in_sqlite(&sqlite.path(), table, &columns)).await;
        if clickhouse.tables().contains(&table) {
            for reading in [Reading::Current, Reading::Final] {
                let actual = in_clickhouse(&clickhouse.database, table, &columns, reading).await;
                wrong.extend(tell(source, table, &format!("ClickHouse ({reading:?})"), &expected, &actual).await);
            }
        }
        assert!(expected.rows.len() > 64, "{} has rows beside the marks", table.name());
        found.extend(wrong);
    }
    assert!(found.is_empty(), "the destination is not the source:\n{}", found.join("\n"));
}

/// What differs in one table, with the history of the first keys.
async fn tell(source: &Source, table: Table, place: &str, expected: &TextTable, actual: &TextTable) -> Vec<String> {
    let found = differences(expected, actual);
    if found.is_empty() {
        return Vec::new();
    }
    let log = Log::read(&source.topic(table)).await;
    let kept = log.keep(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("chain"));
    let mut told = vec![format!(
        "{place}: {}: {} of {} rows differ (the log: {})",
        table.name(),
        found.len(),
        expected.rows.len(),
        kept.display()
    )];
    for difference in found.iter().take(SHOWN) {
        let key: Vec<(&str, &str)> =
            table.key().iter().copied().zip(difference.key.iter().map(String::as_str)).collect();
        told.push(format!("  {key:?}: {}\n{}", difference.what, log.of_key(&key)));
    }
    told
}
