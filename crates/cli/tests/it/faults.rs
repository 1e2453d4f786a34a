//! Write first, commit second: whatever happens between Settle and ClickHouse, the group's offset
//! does not move before the rows are durable, and nothing is missing or doubled afterwards.

use settle_testkit::proxy::{Fault, Plan, Proxy};

use crate::child::Running;
use crate::live::Live;
use crate::shop::shop;

const ROWS: &str = "ArrowStream";

async fn behind_a_proxy() -> (Live, Proxy) {
    let shop = shop("pg-hazards", "shop.public.orders");
    let live = Live::of(shop, &shop.lines(), "max_rows = 4").await;
    let (proxy, address) = Proxy::before_clickhouse().await;
    live.configure(&address.url, "max_rows = 4");
    (live, proxy)
}

/// Lets the run end, then checks that nothing is missing or doubled.
async fn heals(live: &Live, proxy: &Proxy, run: Running) -> crate::stage::Report {
    assert_eq!(live.committed().await, [0, 0, 0], "no offset moves before its rows are durable");
    proxy.pass();
    let (status, report) = run.wait();
    assert!(status.success(), "{status}");
    assert_eq!(live.committed().await, live.ends().await);
    live.assert_equals_source("after it healed").await;
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_write_moves_no_offset() {
    let (live, proxy) = behind_a_proxy().await;
    let body = "Code: 241. DB::Exception: Memory limit (total) exceeded: would use 3.1 GiB. (MEMORY_LIMIT_EXCEEDED)"
        .to_owned();
    proxy.plan(Plan::new(Fault::Answer { status: 500, code: Some(241), body }).containing(ROWS));
    let run = Running::start(&live.stage, &["--until-end"]);
    proxy.wait_until(|counters| counters.answered >= 3).await;
    let report = heals(&live, &proxy, run).await;
    assert!(report.retries >= 3);
    assert_eq!(live.physical_rows().await, report.applied, "a rejected block was never written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_hangs_moves_no_offset() {
    let (live, proxy) = behind_a_proxy().await;
    proxy.plan(Plan::new(Fault::Hang).containing(ROWS));
    let run = Running::start(&live.stage, &["--until-end"]);
    proxy.wait_until(|counters| counters.hung >= 1).await;
    heals(&live, &proxy, run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_that_refuses_connections_moves_no_offset() {
    let (live, proxy) = behind_a_proxy().await;
    proxy.plan(Plan::new(Fault::Hang).containing(ROWS));
    let run = Running::start(&live.stage, &["--until-end"]);
    proxy.wait_until(|counters| counters.hung >= 1).await;
    proxy.refuse().await;
    heals(&live, &proxy, run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_reply_is_lost_is_repeated_and_changes_nothing() {
    let (live, proxy) = behind_a_proxy().await;
    proxy.plan(Plan::new(Fault::LoseReply).containing(ROWS));
    let run = Running::start(&live.stage, &["--until-end"]);
    let lost = proxy.wait_until(|counters| counters.replies_lost >= 2).await.replies_lost;
    let report = heals(&live, &proxy, run).await;
    assert!(report.retries >= lost);
    assert_eq!(report.redelivered, 0, "the batch was repeated, its records were not read again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_cut_in_its_body_is_repeated() {
    let (live, proxy) = behind_a_proxy().await;
    proxy.plan(Plan::new(Fault::CutRequest).containing(ROWS));
    let run = Running::start(&live.stage, &["--until-end"]);
    proxy.wait_until(|counters| counters.requests_cut >= 2).await;
    heals(&live, &proxy, run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_that_stays_away_ends_a_bounded_run_with_its_own_code() {
    let (live, proxy) = behind_a_proxy().await;
    proxy.refuse().await;
    let output = live.stage.output(&["--until-end", "--deadline", "1s"]);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(live.committed().await, [0, 0, 0]);
}
