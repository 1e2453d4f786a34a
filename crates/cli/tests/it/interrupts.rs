//! Ctrl-C, once and again, where a destination waits.

use nix::sys::signal::Signal;
use rusqlite::Connection;

use crate::child::Running;
use crate::shop::shop;
use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_ctrl_c_while_sqlite_waits_for_a_lock_ends_the_run_without_a_panic() {
    let (shop, stage) = (shop("pg-hazards", "shop.public.customers"), Stage::new());
    stage.capture_into_sqlite(&shop, &shop.lines(), 100);
    let text = std::fs::read_to_string(stage.path("settle.toml")).unwrap();
    stage.write("settle.toml", &text.replace("[batch]", "busy_timeout_ms = 3000\n[batch]"));
    let other = Connection::open(stage.path("shop.db")).unwrap();
    other.pragma_update(None, "journal_mode", "WAL").unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();

    let run = Running::start(&stage, &[]);
    run.until_said("started").await;
    run.signal(Signal::SIGINT);
    run.until_said("asked to stop").await;
    run.signal(Signal::SIGTERM);
    let (status, report, logs) = run.wait_with_logs();
    assert_eq!((status.code(), report.read), (Some(130), 0), "{logs}");
    assert!(!logs.contains("panicked"), "{logs}");

    drop(other);
    stage.run(&["--until-end"]);
    stage.assert_sqlite_equals_source(&shop, "after a run that was broken off");
}
