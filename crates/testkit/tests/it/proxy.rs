//! Every fault does what it says: to the client, and to the server behind.

use settle_testkit::clickhouse::Client;
use settle_testkit::proxy::{Counters, Fault, Plan, Proxy};

const INSERT: &str = "INSERT INTO t FORMAT TSV";

struct Setup {
    proxy: Proxy,
    through: Client,
    direct: Client,
}

impl Setup {
    async fn new() -> Self {
        let direct = Client::with_fresh_database("proxy").await;
        direct.query("CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n").await;
        let (proxy, address) = Proxy::before_clickhouse().await;
        let through = Client::at(address, direct.database());
        Self { proxy, through, direct }
    }

    async fn rows(&self) -> u64 {
        self.direct.number("SELECT count() FROM t").await
    }
}

#[tokio::test]
async fn requests_and_errors_pass_unchanged() {
    let setup = Setup::new().await;
    let numbers: String = (0..100_000).map(|n| format!("{n}\n")).collect();
    setup.through.insert(INSERT, numbers.into_bytes()).await.unwrap();
    assert_eq!(setup.through.number("SELECT count() FROM t").await, 100_000);
    let failure = setup.through.try_query("SELEKT").await.unwrap_err();
    assert_eq!(failure.code, Some(62));
    let expected = Counters { connections: 3, requests: 3, passed: 3, ..Counters::default() };
    assert_eq!(setup.proxy.counters(), expected);
}

#[tokio::test]
async fn a_lost_reply_is_executed_once_and_seen_by_nobody() {
    let setup = Setup::new().await;
    setup.proxy.plan(Plan::new(Fault::LoseReply).containing("INSERT").times(1));
    assert_eq!(setup.through.number("SELECT count() FROM t").await, 0);
    let failure = setup.through.insert(INSERT, b"1\n".to_vec()).await.unwrap_err();
    assert_eq!((failure.status, setup.rows().await), (0, 1), "{failure}");
    setup.through.insert(INSERT, b"2\n".to_vec()).await.unwrap();
    assert_eq!(setup.rows().await, 2);
    let counters = setup.proxy.counters();
    assert_eq!((counters.replies_lost, counters.passed), (1, 2));
}

#[tokio::test]
async fn a_cut_request_is_not_executed() {
    let setup = Setup::new().await;
    setup.proxy.plan(Plan::new(Fault::CutRequest).times(1));
    setup.through.insert(INSERT, b"1\n2\n3\n4\n".to_vec()).await.unwrap_err();
    assert_eq!((setup.rows().await, setup.proxy.counters().requests_cut), (0, 1));
}

#[tokio::test]
async fn a_hanging_request_goes_on_when_released() {
    let setup = Setup::new().await;
    setup.proxy.plan(Plan::new(Fault::Hang));
    let through = setup.through.clone();
    let held = tokio::spawn(async move { through.insert(INSERT, b"1\n".to_vec()).await });
    setup.proxy.wait_until(|counters| counters.hung == 1).await;
    assert_eq!(setup.rows().await, 0);
    setup.proxy.pass();
    held.await.unwrap().unwrap();
    assert_eq!(setup.rows().await, 1);
}

#[tokio::test]
async fn connections_are_refused_and_taken_again_on_the_same_port() {
    let setup = Setup::new().await;
    for _ in 0..3 {
        setup.proxy.refuse().await;
        let failure = setup.through.try_query("SELECT 1").await.unwrap_err();
        assert!(failure.text.contains("ConnectionRefused"), "{failure}");
        setup.proxy.pass();
        assert_eq!(setup.through.query("SELECT 1").await, "1\n");
    }
    assert_eq!(setup.proxy.counters().passed, 3);
}

#[tokio::test]
async fn an_open_connection_ends_when_refusing_begins() {
    let setup = Setup::new().await;
    setup.proxy.plan(Plan::new(Fault::Hang));
    let through = setup.through.clone();
    let held = tokio::spawn(async move { through.try_query("SELECT 1").await });
    setup.proxy.wait_until(|counters| counters.hung == 1).await;
    setup.proxy.refuse().await;
    assert_eq!(held.await.unwrap().unwrap_err().status, 0);
}

#[tokio::test]
async fn an_answer_of_the_proxy_never_reaches_the_server() {
    let setup = Setup::new().await;
    let body = "Code: 252. DB::Exception: Too many parts".to_owned();
    let fault = Fault::Answer { status: 500, code: Some(252), body: body.clone() };
    setup.proxy.plan(Plan::new(fault).times(2));
    for _ in 0..2 {
        let failure = setup.through.insert(INSERT, b"1\n".to_vec()).await.unwrap_err();
        assert_eq!((failure.status, failure.code, failure.text), (500, Some(252), body.clone()));
    }
    assert_eq!(setup.rows().await, 0);
    setup.through.insert(INSERT, b"1\n".to_vec()).await.unwrap();
    assert_eq!((setup.rows().await, setup.proxy.counters().answered), (1, 2));
}
