//! Connections that break, locks of others, tables that change under a run: a batch is whole or nothing.

use mysql_async::prelude::Queryable;
use serde_json::json;
use settle_core::sink::{Effect, FailureKind, Outcome, Sink};
use settle_engine::sinks::mysql::MySqlConfig;
use settle_testkit::proxy::WireProxy;

use crate::database::{Database, META, apply, apply_all, parts, row, target};
use crate::log::{Log, batch};

fn log() -> Log {
    let mut log = Log::from("t", &[("c", 20, json!({"id": 1, "v": "a"})), ("c", 30, json!({"id": 2, "v": "b"}))]);
    log.snapshot(1, 10, &json!({"id": 3, "v": "read"}));
    log.add(0, "d", 40, &json!({"id": 1}), &[]);
    log
}

async fn database() -> Database {
    let database = Database::new().await;
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT, {META})")).await;
    database
}

#[tokio::test]
async fn a_connection_that_the_server_ended_is_replaced_when_it_is_needed() {
    let (database, log) = (database().await, log());
    let mut sink = database.sink(target(), &log.records).await;
    apply(&mut sink, &batch(&log.records[..1])).await.unwrap();
    let ids = "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()";
    for id in database.inner.rows(ids).await {
        database.run(&format!("KILL {}", id[0].as_deref().unwrap())).await;
    }
    let error = apply(&mut sink, &batch(&log.records[1..])).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (FailureKind::Unreachable, Effect::None), "{error}");
    assert_eq!(apply(&mut sink, &batch(&log.records[1..])).await.unwrap(), Outcome { applied: 3, stale: 0 });
}

#[tokio::test]
async fn a_lock_of_another_session_is_waited_for_and_then_said() {
    let (database, log) = (database().await, log());
    let config = MySqlConfig { lock_timeout_ms: 1000, ..database.config() };
    let (mut sink, _) = database.open(config, target(), &log.records).await.unwrap();
    apply(&mut sink, &batch(&log.records[..1])).await.unwrap();
    let mut other = database.inner.connect().await;
    for statement in ["START TRANSACTION", "SELECT * FROM t WHERE id = 1 FOR UPDATE"] {
        other.query_drop(statement).await.unwrap();
    }
    let error = apply(&mut sink, &batch(&log.records)).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (FailureKind::Overloaded, Effect::None));
    assert!(error.to_string().contains("another session holds a lock on these rows or this table"), "{error}");
    assert_eq!(database.count("t").await, "1", "nothing of it is left");
    other.query_drop("ROLLBACK").await.unwrap();
    other.disconnect().await.unwrap();
    assert_eq!(apply(&mut sink, &batch(&log.records)).await.unwrap(), Outcome { applied: 3, stale: 0 });
}

/// What is awaited is dropped half-way: the transaction goes with its connection.
#[tokio::test]
async fn a_batch_that_nobody_waits_for_any_more_leaves_nothing() {
    let (database, log) = (database().await, log());
    let config = MySqlConfig { lock_timeout_ms: 60_000, ..database.config() };
    let (mut sink, _) = database.open(config, target(), &log.records).await.unwrap();
    apply(&mut sink, &batch(&log.records[..1])).await.unwrap();
    let mut other = database.inner.connect().await;
    for statement in ["START TRANSACTION", "SELECT * FROM t WHERE id = 1 FOR UPDATE"] {
        other.query_drop(statement).await.unwrap();
    }
    let waiting = batch(&log.records);
    tokio::select! {
        biased;
        _ = sink.apply(&waiting) => panic!("it waits for the lock"),
        () = async { while database.inner.waiting().await == 0 {} } => {}
    }
    other.query_drop("ROLLBACK").await.unwrap();
    other.disconnect().await.unwrap();
    assert_eq!(database.count("t").await, "1");
    assert_eq!(apply(&mut sink, &waiting).await.unwrap(), Outcome { applied: 3, stale: 0 });
}

#[tokio::test]
async fn a_server_that_is_away_is_said_to_be_away_and_holds_up_nothing_later() {
    let (database, log) = (database().await, log());
    let proxy = WireProxy::before(&format!("{}:{}", database.inner.host(), database.inner.port())).await;
    let mut config = database.config();
    let url = database.inner.url().replace(
        &format!("{}:{}", database.inner.host(), database.inner.port()),
        &format!("127.0.0.1:{}", proxy.address().port()),
    );
    config.address = settle_engine::sinks::mysql::Address::parse(&url, std::path::Path::new("")).unwrap();
    let (mut sink, _) = database.open(config, target(), &log.records).await.unwrap();
    proxy.refuse().await;
    for _ in 0..2 {
        let error = apply(&mut sink, &batch(&log.records)).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (FailureKind::Unreachable, Effect::None), "{error}");
        assert!(!format!("{error:?}").contains(database.inner.password()), "{error:?}");
    }
    proxy.pass();
    assert_eq!(apply(&mut sink, &batch(&log.records)).await.unwrap(), Outcome { applied: 3, stale: 0 });
}

/// As behind a proxy whose server is gone: the connection stands, and nothing comes.
#[tokio::test]
async fn a_server_that_falls_silent_before_a_table_is_looked_at_is_given_up() {
    let (database, log) = (database().await, log());
    let upstream = format!("{}:{}", database.inner.host(), database.inner.port());
    let proxy = WireProxy::before(&upstream).await;
    let url = database.inner.url().replace(&upstream, &proxy.address().to_string());
    let mut config = database.config();
    config.address = settle_engine::sinks::mysql::Address::parse(&url, std::path::Path::new("")).unwrap();
    config.request_timeout_ms = 1_000;
    let (mut sink, _) = database.open(config, target(), &log.records).await.unwrap();
    proxy.lose_reply("", "an answer that never comes");
    let records = batch(&log.records);
    let applied = tokio::time::timeout(std::time::Duration::from_secs(60), apply(&mut sink, &records));
    let error = applied.await.expect("it is given up").unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
    drop(sink);
    proxy.pass();
}

#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let database = database().await;
    let url = database.inner.url().replace(database.inner.password(), "s3cret");
    let mut config = database.config();
    config.address = settle_engine::sinks::mysql::Address::parse(&url, std::path::Path::new("")).unwrap();
    let error = database.open(config, target(), &log().records).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied);
    assert!(error.to_string().contains("Access denied") && !format!("{error:?}").contains("s3cret"), "{error:?}");
}

/// DDL of others between two batches, of which the sink hears nothing.
#[tokio::test]
async fn a_table_that_others_alter_between_two_batches_is_looked_at_again() {
    let (database, log) = (database().await, log());
    let mut sink = database.sink(target(), &log.records).await;
    apply(&mut sink, &batch(&log.records[..1])).await.unwrap();
    // A narrower column takes no value that it would round.
    database.run("ALTER TABLE t ADD COLUMN d DECIMAL(10,2)").await;
    let priced = |at: u64| Log::from("t", &[("u", at, json!({"id": 1, "v": "a", "d": "1.25"}))]);
    apply(&mut sink, &batch(&priced(50).records)).await.unwrap();
    database.run("ALTER TABLE t MODIFY COLUMN d DECIMAL(10,1)").await;
    let error = apply(&mut sink, &batch(&priced(60).records)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Row, "{error}");
    // Renamed: its values have no place, and none is guessed.
    database.run("ALTER TABLE t RENAME COLUMN v TO w").await;
    let error = apply(&mut sink, &batch(&log.records[1..2])).await.unwrap_err();
    assert!(error.context.contains("carries a column \"v\" that the table lacks"), "{error}");
    database.run("ALTER TABLE t RENAME COLUMN w TO v").await;
    assert_eq!(apply(&mut sink, &batch(&log.records[1..2])).await.unwrap(), Outcome { applied: 1, stale: 0 });
    // Another unique index: refused as it would be at the start.
    database.run("ALTER TABLE t ADD COLUMN u INT UNIQUE").await;
    let error = apply(&mut sink, &batch(&log.records[2..3])).await.unwrap_err();
    assert!(error.kind == FailureKind::Contract && error.context.contains("unique over `u`"), "{error}");
}

#[tokio::test]
async fn a_batch_of_several_tables_is_one_transaction() {
    let database = database().await;
    database.run(&format!("CREATE TABLE u (id BIGINT PRIMARY KEY, v VARCHAR(3), {META})")).await;
    let mut records = log().records;
    records.extend(Log::from("u", &[("c", 50, json!({"id": 1, "v": "long"}))]).records);
    let mut sink = database.sink(target(), &records).await;
    let error = apply(&mut sink, &batch(&records)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Row);
    for table in ["t", "u", "t__tombstones"] {
        assert_eq!(database.count(table).await, "0", "{table}");
    }
    let kinds =
        "SELECT GROUP_CONCAT(kind ORDER BY kind) FROM settle_meta WHERE kind IN ('floor', 'truncate', 'scheme')";
    assert_eq!(database.one(kinds).await, "scheme", "no floor is left of it");
    assert_eq!(database.one("SELECT SUM(next_offset) FROM settle_positions").await, "0");
    records.pop();
    assert_eq!(apply(&mut sink, &batch(&records)).await.unwrap(), Outcome { applied: 3, stale: 0 });
}

/// Whose defaults would round, cut, fold or shift what is written.
#[tokio::test]
async fn nothing_depends_on_the_settings_of_the_server() {
    let database = database().await;
    database.run("ALTER TABLE t ADD COLUMN at TIMESTAMP(3) NULL, ADD COLUMN n TINYINT").await;
    let log = Log::from("t", &[("c", 10, json!({"id": 0, "v": "it's \\ 'quoted'", "at": "2024-02-29T23:59:59.5Z"}))]);
    apply_all(&database, &target(), &log.records, 1).await;
    let shown = "SELECT CONCAT_WS('|', id, v, CONVERT_TZ(at, @@time_zone, '+00:00')) FROM t";
    assert_eq!(database.one(shown).await, "0|it's \\ 'quoted'|2024-02-29 23:59:59.500");
    let large = Log::from("t", &[("c", 20, json!({"id": 1, "n": 1000}))]);
    let mut sink = database.sink(target(), &large.records).await;
    assert_eq!(apply(&mut sink, &batch(&large.records)).await.unwrap_err().kind, FailureKind::Row);
}

/// Where a statement is prepared once and the table altered, it still sees what is there.
#[tokio::test]
async fn partitions_that_are_added_later_are_opened_over_the_same_connection() {
    let (database, log) = (database().await, log());
    let mut sink = database.sink(target(), &log.records[..1]).await;
    apply(&mut sink, &batch(&log.records[..1])).await.unwrap();
    let later = Log::from("u", &[("c", 50, json!({"id": 1, "v": "x"}))]);
    database.run(&format!("CREATE TABLE u (id BIGINT PRIMARY KEY, v TEXT, {META})")).await;
    sink.open(&parts(&later.records)).await.unwrap();
    apply(&mut sink, &batch(&later.records)).await.unwrap();
    assert_eq!(database.rows("u").await, [row(&[("id", "1"), ("v", "x")])]);
    assert_eq!(apply(&mut sink, &batch(&log.records[1..2])).await.unwrap().applied, 1);
}

/// Tried again, the batch would fail in the same way for ever.
#[tokio::test]
async fn a_run_stops_where_a_table_of_settles_own_is_gone() {
    for table in ["settle_meta", "settle_positions"] {
        let (database, log) = (database().await, log());
        let mut sink = database.sink(target(), &log.records).await;
        apply(&mut sink, &batch(&log.records[..1])).await.unwrap();
        database.run(&format!("DROP TABLE {table}")).await;
        let error = apply(&mut sink, &batch(&log.records[1..])).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract, "{error}");
        assert!(error.context.contains(&format!(".{table}' doesn't exist; ")), "{error}");
        assert!(error.context.contains("restore it from a backup"), "{error}");
        assert_eq!(database.count("t").await, "1", "nothing of the batch is left");
    }
}
