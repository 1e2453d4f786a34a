//! The order of events, the same for both kinds of source.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

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
    let mut told = String::new();
    for table in TABLES {
        let columns = source.columns(table).await;
        let expected = source.table(table, &columns).await;
        assert!(expected.rows.len() > 64, "{} has rows beside the marks", table.name());
        let mut places = vec![("SQLite", in_sqlite(&sqlite.path(), table, &columns))];
        if clickhouse.tables().contains(&table) {
            let read = async |reading| in_clickhouse(&clickhouse.database, table, &columns, reading).await;
            places.push(("the view of ClickHouse", read(Reading::Current).await));
            places.push(("ClickHouse with FINAL", read(Reading::Final).await));
        }
        let mut known = BTreeMap::new();
        for (place, actual) in &places {
            let found = differences(&expected, actual);
            if !found.is_empty() {
                let (name, rows) = (table.name(), expected.rows.len());
                told += &format!("{place}: {name}: {} differences, {rows} rows at the source\n", found.len());
            }
            for difference in found.into_iter().take(SHOWN) {
                told += &format!("  {:?}: {}\n", difference.key, difference.what);
                known.entry(difference.key).or_insert(difference.columns);
            }
        }
        if !known.is_empty() {
            told += &history(source, table, known).await;
        }
    }
    assert!(told.is_empty(), "a destination is not the source:\n{told}");
}

/// What the log says of some keys, and where it is kept.
async fn history(source: &Source, table: Table, keys: BTreeMap<Vec<String>, Vec<String>>) -> String {
    let log = Log::read(&source.topic(table)).await;
    let kept = log.keep(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("chain"));
    let mut told = format!("  the log of {}, all of it in {}:\n", table.name(), kept.display());
    for (key, columns) in keys {
        let named: Vec<(&str, &str)> = table.key().iter().copied().zip(key.iter().map(String::as_str)).collect();
        told += &format!("  {named:?}\n{}", log.of_key(&named, &columns));
    }
    told
}
