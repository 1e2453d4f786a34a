//! A test's database is its own, and is gone after it, also when the test failed or a slot of it is in use.

use settle_testkit::connect::{Config, Connector};
use settle_testkit::kafka::unique;
use settle_testkit::{mariadb, postgres};

fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}

#[tokio::test]
async fn postgres_gives_rows_as_text_and_decodes_logically() {
    let database = postgres::Database::create("rows").await;
    database.execute("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, NULL), (2, 'b')").await;
    let rows = database.rows("SELECT * FROM t ORDER BY id").await;
    assert_eq!(rows, [vec![Some("1".to_owned()), None], some(&["2", "b"])]);
    assert_eq!(database.rows("SHOW wal_level").await, [some(&["logical"])]);
    assert!(database.url().ends_with(&format!(":{}/{}", database.port(), database.name())));
}

#[tokio::test]
async fn mariadb_gives_rows_as_text_and_logs_whole_rows() {
    let database = mariadb::Database::create("rows").await;
    database.execute("CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, NULL), (2, 'b')").await;
    let rows = database.rows("SELECT * FROM t ORDER BY id").await;
    assert_eq!(rows, [vec![Some("1".to_owned()), None], some(&["2", "b"])]);
    let settings = database.rows("SELECT @@log_bin, @@binlog_format, @@binlog_row_image").await;
    assert_eq!(settings, [some(&["1", "ROW", "FULL"])]);
    assert!(database.url().ends_with(&format!(":{}/{}", database.port(), database.name())));
}

#[tokio::test]
async fn a_database_goes_with_its_slots_while_a_connector_still_runs() {
    let (database, prefix) = (postgres::Database::create("busy").await, unique("busy"));
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    let _connector = Connector::start(&prefix, &Config::postgres(&database, &prefix)).await;
    let other = postgres::Database::create("other").await;
    let slots = format!("SELECT active FROM pg_replication_slots WHERE slot_name = '{prefix}'");
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while other.rows(&slots).await != [some(&["t"])] {
        assert!(tokio::time::Instant::now() < deadline, "the connector does not use its slot");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }

    let name = database.name().to_owned();
    drop(database);
    assert!(other.rows(&slots).await.is_empty());
    assert!(other.rows(&format!("SELECT 1 FROM pg_database WHERE datname = '{name}'")).await.is_empty());
}

#[tokio::test]
async fn a_database_goes_when_its_test_fails() {
    let (in_postgres, in_mariadb) =
        (postgres::Database::create("failing").await, mariadb::Database::create("failing").await);
    let names = (in_postgres.name().to_owned(), in_mariadb.name().to_owned());
    let failing = tokio::spawn(async move {
        let _held = (in_postgres, in_mariadb);
        panic!("on purpose");
    });
    assert!(failing.await.is_err());

    let other = postgres::Database::create("other").await;
    assert!(other.rows(&format!("SELECT 1 FROM pg_database WHERE datname = '{}'", names.0)).await.is_empty());
    let other = mariadb::Database::create("other").await;
    let known = format!("SELECT 1 FROM information_schema.schemata WHERE schema_name = '{}'", names.1);
    assert!(other.rows(&known).await.is_empty());
}
