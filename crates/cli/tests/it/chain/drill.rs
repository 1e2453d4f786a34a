//! The order of events, the same for both kinds of source.

use std::collections::BTreeMap;
use std::time::Duration;

use settle::compare::TextTable;
use settle::simulate::Table;
use settle_testkit::kafka;
use settle_testkit::services::is_full;
use tokio::time::timeout;

use super::connector::Connector;
use super::contents::{Reading, differences, in_clickhouse, in_sqlite};
use super::end::End;
use super::history::Log;
use super::leftovers::Leftovers;
use super::pipeline::{Instance, IntoClickHouse, IntoSqlite, TABLES};
use super::source::Source;
use super::traffic::Traffic;
use super::turn;
use crate::child::until;

/// Keys of a table that a failure tells of.
const SHOWN: usize = 5;
/// How often a connector is told to take a snapshot, and how long it may take to.
const TOLD: usize = 3;
const PATIENCE: Duration = Duration::from_secs(45);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn from_postgres_killed_everywhere_both_destinations_are_the_source() {
    let _turn = turn().await;
    drill(Source::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn from_mariadb_killed_everywhere_both_destinations_are_the_source() {
    let _turn = turn().await;
    drill(Source::mariadb().await).await;
}

async fn drill(source: Source) {
    let mut leftovers = Leftovers::default();
    for table in TABLES {
        let topic = source.topic(table);
        // Settle wants its topics to be there.
        kafka::create_topic(&topic, 3, &[]).await;
        leftovers.topics.push(topic);
    }
    let mut sqlite = IntoSqlite::new(&source);
    let mut clickhouse = IntoClickHouse::new(&source).await;
    leftovers.databases.push(clickhouse.database.database().to_owned());
    let mut connector = Connector::of(&source).await;
    let traffic = Traffic::start(&source).await;

    // The first snapshot is taken while others write.
    traffic.until_more(50).await;
    connector.register(&TABLES);
    sqlite.instance.start();
    clickhouse.one.start();
    sqlite.until_more(300).await;
    sqlite.instance.kill();
    sqlite.instance.start();
    let orders = source.topic(Table::Orders);
    until("changes behind the snapshot", async || Log::read(&orders).await.streamed(), |changes| *changes > 0).await;
    source.truncate(Table::OrderItems).await;
    clickhouse.until_more(&source, 300).await;
    clickhouse.one.kill();
    clickhouse.one.start();

    // The connector dies between two chunks.
    connector.snapshot("incremental", &TABLES);
    until("chunks of the incremental snapshot", async || source.chunks().await, |chunks| *chunks >= 3).await;
    connector.kill();
    // It must hold partitions, so that some are taken from it.
    clickhouse.one.until_said("partitions assigned").await;
    clickhouse.two.start();
    connector.restart().await;
    clickhouse.two.until_said("partitions assigned").await;
    sqlite.until_more(200).await;
    sqlite.instance.kill();
    sqlite.instance.start();

    blocking_snapshot(&mut connector, &orders).await;
    connector.kill();
    sqlite.instance.kill();
    sqlite.instance.start();
    connector.restart().await;
    sqlite.until_more(200).await;
    source.truncate(Table::OrderItems).await;
    clickhouse.two.leave();
    sqlite.kill_before_a_commit().await;
    clickhouse.until_more(&source, 100).await;

    traffic.stop(if is_full() { 6_000 } else { 1_000 }).await;
    let end = End::mark(&source).await;
    end.until_settled(&sqlite.group, || drop(sqlite.instance.assert_runs())).await;
    end.until_settled(&clickhouse.group, || drop(clickhouse.one.assert_runs())).await;
    sqlite.instance.leave();
    clickhouse.one.leave();

    assert!(Log::read(&orders).await.incremental() > 0, "an incremental snapshot read orders while others wrote");
    compare(&source, &sqlite, &clickhouse).await;
    assert_reports(&sqlite, &clickhouse);
    for instance in [&sqlite.instance, &clickhouse.one] {
        prove(instance, "2");
    }
}

/// Waits for a blocking snapshot and changes behind it. A connector that takes none when it is told to is
/// started anew and told again, as its operator would.
async fn blocking_snapshot(connector: &mut Connector, orders: &str) {
    for _ in 0..TOLD {
        connector.snapshot("blocking", &TABLES);
        let taken = async || Log::read(orders).await.blocking();
        let taken =
            until("a blocking snapshot and changes behind it", taken, |(read, behind)| *read > 0 && *behind > 0);
        if timeout(PATIENCE, taken).await.is_ok() {
            return;
        }
        connector.kill();
        connector.restart().await;
    }
    panic!("no blocking snapshot though it was signalled {TOLD} times; the connector says:\n{}", connector.log());
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
        for (place, reading) in
            [("the view of ClickHouse", Reading::Current), ("ClickHouse with FINAL", Reading::Final)]
        {
            places.push((place, in_clickhouse(&clickhouse.database, table, &columns, reading).await));
        }
        told += &unlike(source, table, &expected, &places).await;
    }
    assert!(told.is_empty(), "a destination is not the source:\n{told}");
}

/// Where the destinations' tables differ from the source's, and what the log says of it; nothing if they are alike.
pub async fn unlike(source: &Source, table: Table, expected: &TextTable, places: &[(&str, TextTable)]) -> String {
    let (mut told, mut known) = (String::new(), BTreeMap::new());
    for (place, actual) in places {
        let found = differences(expected, actual);
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
    told
}

/// `settle prove` as the pipeline of an instance says it.
pub fn prove(instance: &Instance, times: &str) {
    let proved = instance.stage.settle(&["prove", "--times", times]).output().unwrap();
    let said = [proved.stdout, proved.stderr].concat();
    assert!(proved.status.success(), "prove: {}: {}", proved.status, String::from_utf8_lossy(&said));
}

/// What the log says of some keys, and where it is kept.
async fn history(source: &Source, table: Table, keys: BTreeMap<Vec<String>, Vec<String>>) -> String {
    let log = Log::read(&source.topic(table)).await;
    let mut told = format!("  the log of {}:\n", table.name());
    for (key, columns) in keys {
        let named: Vec<(&str, &str)> = table.key().iter().copied().zip(key.iter().map(String::as_str)).collect();
        told += &format!("  {named:?}\n{}", log.of_key(&named, &columns));
    }
    told
}
