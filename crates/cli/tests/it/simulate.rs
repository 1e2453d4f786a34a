//! Shop traffic on real servers: what a seed leaves behind, how it goes on, how it ends.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use settle::database::Session;
use settle::simulate::{self, Hazard, Hazards, Kind, Options, Report, SimulateError, Table};
use settle_engine::shutdown;
use settle_testkit::{mariadb, postgres};
use tokio::sync::watch;

use crate::stage::Stage;

async fn run(options: &Options) -> Report {
    let (_stopper, shutdown) = shutdown::channel();
    simulate::run(options, watch::channel(Report::default()).0, shutdown).await.unwrap()
}

/// One writer, everything on, a fixed number of transactions.
fn one_writer(url: &str, seed: u64, transactions: u64) -> Options {
    let mut options = Options::new(url).unwrap();
    options.writers = 1;
    options.seed = seed;
    options.transactions = Some(transactions);
    options.hazards = Hazards::parse("all").unwrap();
    options
}

/// Every table, ordered, as text.
async fn tables(url: &str) -> Vec<(Table, Vec<Vec<Option<String>>>)> {
    let mut session = Session::open(&Options::new(url).unwrap().address).await.unwrap();
    let mut all = Vec::new();
    for table in Table::all(true) {
        let columns: Vec<String> = table
            .columns()
            .map(|column| match column {
                // Bytes are no text.
                "picture" if url.starts_with("mysql") => "hex(picture)".to_owned(),
                column => column.to_owned(),
            })
            .collect();
        let order: Vec<String> = (1..=columns.len()).map(|at| at.to_string()).collect();
        let sql = format!("SELECT {} FROM {} ORDER BY {}", columns.join(", "), table.name(), order.join(", "));
        all.push((table, session.rows(&sql).await.unwrap()));
    }
    session.close().await;
    all
}

async fn assert_same_seed_same_tables(first: &str, second: &str, third: &str) {
    let reports = [run(&one_writer(first, 42, 1_500)).await, run(&one_writer(second, 42, 1_500)).await];
    for report in &reports {
        assert_eq!((report.transactions(), report.skipped, report.retried), (1_500, 0, 0), "{report}");
        assert!(report.rolled_back > 0 && report.kinds.contains_key(&Kind::LongOpen), "{report}");
    }
    let [first, second] = [tables(first).await, tables(second).await];
    for ((table, rows), (_, others)) in first.iter().zip(&second) {
        assert_eq!(rows, others, "{}", table.name());
        assert!(*table == Table::Signal || !rows.is_empty(), "{} is empty", table.name());
    }
    run(&one_writer(third, 43, 1_500)).await;
    assert_ne!(first, tables(third).await);
}

#[tokio::test]
async fn the_same_seed_and_one_writer_leave_the_same_tables_in_postgres() {
    let [a, b, c] = [
        postgres::Database::create("sim").await,
        postgres::Database::create("sim").await,
        postgres::Database::create("sim").await,
    ];
    assert_same_seed_same_tables(&a.url(), &b.url(), &c.url()).await;
}

#[tokio::test]
async fn the_same_seed_and_one_writer_leave_the_same_tables_in_mariadb() {
    let [a, b, c] = [
        mariadb::Database::create("sim").await,
        mariadb::Database::create("sim").await,
        mariadb::Database::create("sim").await,
    ];
    assert_same_seed_same_tables(&a.url(), &b.url(), &c.url()).await;
}

#[tokio::test]
async fn a_second_simulation_goes_on_with_the_rows_of_the_first() {
    let database = postgres::Database::create("sim").await;
    run(&one_writer(&database.url(), 1, 300)).await;
    let before = database.rows("SELECT max(customer_id) FROM customers").await;
    let report = run(&one_writer(&database.url(), 2, 300)).await;
    assert_eq!((report.skipped, report.retried), (0, 0), "no key is used twice: {report}");
    assert_ne!(database.rows("SELECT max(customer_id) FROM customers").await, before);
}

#[tokio::test]
async fn many_writers_share_the_transactions_and_lose_none() {
    let database = mariadb::Database::create("sim").await;
    let mut options = Options::new(&database.url()).unwrap();
    options.writers = 6;
    options.transactions = Some(1_201);
    options.hazards = Hazards::default().with(Hazard::Truncate);
    let report = run(&options).await;
    assert_eq!(report.transactions(), 1_201, "{report}");
    assert!(report.kinds.contains_key(&Kind::SetTimestamp) && report.kinds.contains_key(&Kind::Replace), "{report}");
}

#[tokio::test]
async fn a_transaction_that_meets_another_one_is_tried_again() {
    let database = postgres::Database::create("sim").await;
    let mut options = Options::new(&database.url()).unwrap();
    options.writers = 1;
    options.transactions = Some(200);
    options.hazards = Hazards::none().with(Hazard::HotKey);
    simulate::prepare(&options).await.unwrap();
    let other = database.connect().await;
    other.batch_execute("BEGIN; UPDATE customers SET credit = 0 WHERE customer_id = 1").await.unwrap();

    let (show, mut watch) = watch::channel(Report::default());
    let (_stopper, shutdown) = shutdown::channel();
    let running = tokio::spawn(async move { simulate::run(&options, show, shutdown).await });
    let met = watch.wait_for(|report| report.retried > 0);
    tokio::time::timeout(Duration::from_secs(60), met).await.expect("a lock is waited for").unwrap();
    other.batch_execute("ROLLBACK").await.unwrap();
    let report = running.await.unwrap().unwrap();
    assert_eq!((report.transactions(), report.skipped), (200, 0), "{report}");
}

#[tokio::test]
async fn a_simulation_without_an_end_stops_when_it_is_asked_to_and_leaves_nothing_open() {
    let database = postgres::Database::create("sim").await;
    let options = Options::new(&database.url()).unwrap();
    let (show, mut watch) = watch::channel(Report::default());
    let (stopper, shutdown) = shutdown::channel();
    let running = tokio::spawn(async move { simulate::run(&options, show, shutdown).await });
    watch.wait_for(|report| report.kinds.contains_key(&Kind::LongOpen)).await.unwrap();
    stopper.ask();
    let report = running.await.unwrap().unwrap();
    assert!(report.committed > 0);
    let open = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
                AND state LIKE 'idle in transaction%'";
    assert!(database.rows(open).await.is_empty());
}

#[tokio::test]
async fn a_table_of_somebody_else_is_left_alone() {
    let database = postgres::Database::create("sim").await;
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, total numeric)").await;
    let options = Options::new(&database.url()).unwrap();
    let refused = simulate::prepare(&options).await.unwrap_err();
    assert!(matches!(refused, SimulateError::ForeignTable("orders")), "{refused}");
    assert!(database.rows("SELECT * FROM orders").await.is_empty());
}

#[tokio::test]
async fn the_command_prints_a_summary_ends_cleanly_on_ctrl_c_and_hides_the_password() {
    let database = mariadb::Database::create("sim").await;
    let stage = Stage::new();
    let url = database.url();
    let ended =
        stage.settle(&["simulate", "--url", &url, "--transactions", "50", "--report", "json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert!(ended.status.success() && report["committed"].as_u64() > Some(0), "{ended:?}");

    let rows = async || database.rows("SELECT count(*) FROM customers WHERE customer_id >= 40000000").await;
    // The simulation before this one left some.
    let before = rows().await;
    let child = stage
        .settle(&["simulate", "--url", &url, "--rate", "50"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    crate::child::until("traffic of the fourth writer", rows, |rows| *rows != before).await;
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stdout).contains("committed"), "{ended:?}");

    let away = url.replace(&format!(":{}/", database.port()), ":1/");
    let ended = stage.settle(&["simulate", "--url", &away]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{said}");
    assert!(said.contains("connecting to mysql://") && !said.contains(database.password()), "{said}");
}
