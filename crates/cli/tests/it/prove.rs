//! `settle prove`: agrees where the destination is what the log says, and names the keys where not.

use std::path::Path;
use std::process::Output;

use rusqlite::Connection;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use settle_testkit::kafka;
use settle_testkit::proxy::{Fault, Plan, Proxy};

use crate::child::{Running, until};
use crate::ends::SQLITE;
use crate::live::{Live, produce};
use crate::shop::{Shop, shop};
use crate::stage::{self, Stage};

/// A stage with a capture that was settled into SQLite.
fn settled(shop: &Shop) -> Stage {
    let stage = Stage::new();
    stage.capture_into_sqlite(shop, &shop.lines(), 100);
    stage.run(&["--until-end"]);
    stage
}

fn customers() -> Shop {
    shop("pg-hazards", "shop.public.customers")
}

/// What `settle` printed, with its exit code; panics if it said something on standard error.
fn said(stage: &Stage, args: &[&str]) -> (i32, String) {
    let output: Output = stage.settle(args).arg("--log-format").arg("json").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let errors: Vec<&str> = errors.lines().filter(|line| !line.starts_with('{')).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn change(stage: &Stage, sql: &str) {
    let changed = Connection::open(stage.path("shop.db")).unwrap().execute(sql, []).unwrap();
    assert!(changed > 0, "{sql}");
}

/// Files of the stage's folder.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    names.sort();
    names
}

fn groups(stage: &Stage) -> Vec<String> {
    let connection = Connection::open(stage.path("shop.db")).unwrap();
    let mut select = connection.prepare("SELECT DISTINCT consumer_group FROM settle_positions").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Scratch names and the like change with every run.
fn steady(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(at) = text.find("applied anew to ") {
        let end = at + text[at..].find(".db").unwrap() + 3;
        text.replace_range(at + 16..end, "SCRATCH");
    }
    text
}

#[test]
fn a_good_run_agrees_and_a_proof_leaves_nothing_behind() {
    let stage = settled(&customers());
    let before = files(&stage.path(""));
    let (code, text) = said(&stage, &["prove"]);
    insta::assert_snapshot!(text);
    assert_eq!(code, 0);
    assert_eq!(files(&stage.path("")), before, "no offsets file of a group that was made for it");
    assert_eq!(groups(&stage), ["g"], "no place of such a group");
    let (code, text) = said(&stage, &["prove", "--fresh"]);
    insta::assert_snapshot!("fresh", steady(&text));
    assert_eq!(code, 0);
    assert_eq!(files(&stage.path("")), before);
}

#[test]
fn every_shop_topic_agrees_by_a_replay_and_anew() {
    for shop in crate::shop::SHOPS {
        let stage = settled(shop);
        for args in [&["prove", "--times", "1"][..], &["prove", "--fresh"]] {
            let (code, text) = said(&stage, args);
            assert_eq!(code, 0, "{} {args:?}: {text}", shop.topic);
        }
    }
}

#[test]
fn a_lost_row_is_brought_back_by_the_first_replay_which_says_so() {
    let stage = settled(&customers());
    change(&stage, "DELETE FROM customers WHERE customer_id = 10");
    let (code, text) = said(&stage, &["prove"]);
    insta::assert_snapshot!(text);
    assert_eq!(code, 5, "the destination was not what the log says");
    assert_eq!(said(&stage, &["prove"]).0, 0, "now it is");
}

#[test]
fn a_row_that_was_changed_by_hand_is_seen_by_fresh_and_by_no_replay() {
    let stage = settled(&customers());
    change(&stage, "UPDATE customers SET city = 'Elsewhere' WHERE customer_id IN (4, 10)");
    change(&stage, "INSERT INTO customers (customer_id, name, _version_hi, _version_lo) VALUES (9999, 'x', 1, 1)");
    change(&stage, "DELETE FROM customers WHERE customer_id = 20");
    let (code, text) = said(&stage, &["prove", "--fresh"]);
    insta::assert_snapshot!(steady(&text));
    assert_eq!(code, 5);
    assert_eq!(said(&stage, &["prove", "--times", "1"]).0, 5, "the lost row is brought back");
    let (code, text) = said(&stage, &["prove", "--times", "1"]);
    assert_eq!(code, 0, "an equal version is no reason to write: {text}");
    assert!(text.contains("settle prove --fresh"), "{text}");
    assert_eq!(said(&stage, &["prove", "--fresh"]).0, 5);
}

#[test]
fn what_the_pipeline_has_not_settled_yet_is_no_part_of_the_proof() {
    let shop = customers();
    let stage = Stage::new();
    stage.capture_into_sqlite(&shop, &shop.lines(), 7);
    stage.run(&["--max-messages", "60"]);
    let (code, text) = said(&stage, &["prove", "--times", "1"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("records behind what group g has settled are not part of it"), "{text}");
    assert_eq!(said(&stage, &["prove", "--fresh"]).0, 0);
    assert_eq!(stage.run(&["--until-end"]).read, shop.lines().len() as u64 - 60, "the pipeline's place has not moved");
    stage.assert_sqlite_equals_source(&shop, "after proofs in the middle");
}

#[test]
fn standard_input_is_refused_with_what_to_do() {
    let stage = Stage::new();
    stage.configure(&["[source]\nkind = \"stdin\"\n", SQLITE].concat());
    let output = stage.settle(&["prove"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_cannot_be_applied_is_skipped_and_holds_no_row() {
    let shop = shop("pg-hazards", "shop.public.documents");
    let mut lines = shop.lines();
    let (op, poison) = (r#"\"op\":\""#, r#"\"op\":\"?\",\"was\":\""#);
    // The first event of a row that later events leave a column out of: set aside by the pipeline,
    // and so are those.
    let masked = lines.iter().position(|line| line.contains("__debezium_unavailable_value")).unwrap();
    let key = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["key"].clone();
    let of_row = key(&lines[masked]);
    let first = lines.iter_mut().find(|line| key(line) == of_row && line.contains(op)).unwrap();
    *first = first.replacen(op, poison, 1);
    let stage = Stage::new();
    stage.capture_into_sqlite(&shop, &lines, 100);
    let config = std::fs::read_to_string(stage.path("settle.toml")).unwrap();
    stage.write("settle.toml", &format!("{config}[dlq]\npath = \"dead.jsonl\"\nmax_ratio = 1.0\n"));
    let report = stage.run(&["--until-end"]);
    assert!(report.dead_lettered > 0, "{report:?}");
    // As after `settle dlq retry`: released.
    let connection = Connection::open(stage.path("shop.db")).unwrap();
    connection.execute("DELETE FROM settle_meta WHERE kind = 'held'", []).unwrap();
    let letters = std::fs::read(stage.path("dead.jsonl")).unwrap();
    let (code, text) = said(&stage, &["prove"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(&format!("{} not applicable, skipped", report.dead_lettered)), "{text}");
    let held: i64 =
        connection.query_row("SELECT count(*) FROM settle_meta WHERE kind = 'held'", [], |row| row.get(0)).unwrap();
    assert_eq!(held, 0, "a row that was released is not held again");
    assert_eq!(std::fs::read(stage.path("dead.jsonl")).unwrap(), letters, "a proof sets nothing aside");
    assert_eq!(said(&stage, &["prove", "--fresh"]).0, 0);
}

/// A recorded topic, settled into ClickHouse.
async fn settled_live() -> Live {
    let shop = customers();
    let live = Live::of(shop, &shop.lines(), "").await;
    live.stage.run(&["--until-end"]);
    live
}

async fn assert_no_trace(live: &Live) {
    let groups = kafka::groups(&live.group()).await;
    assert_eq!(groups, [live.group()], "no group that was made for a proof");
    let prefix = format!("{}__prove", live.database.database());
    let databases = live.database.rows("SELECT name FROM system.databases").await;
    assert!(!databases.iter().any(|row| row[0].starts_with(&prefix)), "no scratch database");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_kafka_and_clickhouse_a_good_run_agrees_and_a_proof_leaves_nothing_behind() {
    let live = settled_live().await;
    let committed = live.committed().await;
    let (code, text) = said(&live.stage, &["prove"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(text.matches(" agrees\n").count(), 2, "{text}");
    assert!(text.contains("16 rows written") && text.contains("proved: 2 replays"), "{text}");
    let (code, text) = said(&live.stage, &["prove", "--fresh"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("proved: every row compared is as the log says"), "{text}");
    assert_eq!(live.committed().await, committed);
    assert_no_trace(&live).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shop_topic_in_clickhouse_agrees_by_a_replay_and_anew() {
    for shop in crate::shop::SHOPS {
        let live = Live::of(*shop, &shop.lines(), "").await;
        live.stage.run(&["--until-end"]);
        for args in [&["prove", "--times", "1"][..], &["prove", "--fresh"]] {
            let (code, text) = said(&live.stage, args);
            assert_eq!(code, 0, "{} {args:?}: {text}", shop.topic);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_clickhouse_a_replay_mends_what_was_changed_by_hand_and_fresh_finds_what_was_added() {
    let live = settled_live().await;
    let now = "SETTINGS mutations_sync = 2";
    live.database.query(&format!("ALTER TABLE customers UPDATE city = 'Elsewhere' WHERE customer_id = 4 {now}")).await;
    live.database.query(&format!("ALTER TABLE customers DELETE WHERE customer_id = 10 {now}")).await;
    live.database.query("INSERT INTO customers (customer_id, name, _version) VALUES (9999, 'x', 1)").await;
    let (code, text) = said(&live.stage, &["prove", "--fresh"]);
    assert_eq!(code, 5, "{text}");
    let named = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("  {"));
        let mut named: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
        named.sort();
        named
    };
    assert_eq!(
        named(&text),
        [
            r#"{"customer_id":10}: not in the destination, but by the log"#,
            r#"{"customer_id":4}: the same version, but other columns than by the log"#,
            r#"{"customer_id":9999}: in the destination, but not by the log"#,
        ]
    );
    let (code, text) = said(&live.stage, &["prove"]);
    assert_eq!(code, 5, "{text}");
    assert_eq!(
        named(&text),
        [
            r#"{"customer_id":10}: the replay brought its row back; the destination had lost it"#,
            r#"{"customer_id":4}: the replay wrote other columns at the same version; the row had been changed by something else"#,
        ]
    );
    assert_eq!(said(&live.stage, &["prove"]).0, 0, "what a replay mends is mended");
    let (code, text) = said(&live.stage, &["prove", "--fresh"]);
    assert_eq!((code, named(&text).len()), (5, 1), "{text}");
    assert_no_trace(&live).await;
}

/// `settle prove` beside the test.
fn proving(live: &Live, args: &[&str]) -> std::process::Child {
    let mut all = vec!["prove"];
    all.extend(args);
    let piped = std::process::Stdio::piped;
    live.stage.settle(&all).stdout(piped()).stderr(piped()).spawn().unwrap()
}

async fn ended(proof: std::process::Child) -> (i32, String) {
    let output = tokio::task::spawn_blocking(|| proof.wait_with_output().unwrap()).await.unwrap();
    stage::said(&output)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_live_run_changes_meanwhile_is_left_out() {
    let shop = shop("pg-hazards", "shop.public.orders");
    let lines = shop.lines();
    let parts: Vec<&[String]> = lines.chunks(lines.len().div_ceil(3)).collect();
    let live = Live::of(shop, parts[0], "max_age_ms = 50").await;
    let run = Running::start(&live.stage, &[]);
    let settled = async || (live.committed().await, live.ends().await);
    until("the first part is settled", settled, |(committed, ends)| committed == ends).await;

    let (proxy, address) = Proxy::before_clickhouse().await;
    live.configure(&address.url, "");
    for (args, part) in [(&["--times", "1"][..], parts[1]), (&["--fresh"], parts[2])] {
        let hung = proxy.counters().hung;
        proxy.plan(Plan::new(Fault::Hang).containing("ArrowStream"));
        let proof = proving(&live, args);
        // The ends are fixed, the first look is taken, and nothing of the replay is applied.
        proxy.wait_until(|counters| counters.hung > hung).await;
        produce(part, &live.topic).await;
        until("the run settles the next part", settled, |(committed, ends)| committed == ends).await;
        proxy.pass();
        let (code, text) = ended(proof).await;
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("of which the log has records behind the replayed ones"), "{text}");
    }
    run.signal(Signal::SIGTERM);
    run.wait();
    live.assert_equals_source("proofs beside a run").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_is_broken_off_leaves_nothing_behind() {
    let live = settled_live().await;
    let (proxy, address) = Proxy::before_clickhouse().await;
    live.configure(&address.url, "");
    for args in [&["--times", "1"][..], &["--fresh"]] {
        let hung = proxy.counters().hung;
        proxy.plan(Plan::new(Fault::Hang).containing("ArrowStream"));
        let proof = proving(&live, args);
        proxy.wait_until(|counters| counters.hung > hung).await;
        assert_eq!(kafka::groups(&format!("{}.prove", live.group())).await.len(), 1);
        // The first request drains, the second one does not wait for that.
        let pid = Pid::from_raw(proof.id().try_into().unwrap());
        kill(pid, Signal::SIGINT).unwrap();
        kill(pid, Signal::SIGTERM).unwrap();
        let (code, text) = ended(proof).await;
        assert_eq!(code, 130, "{text}");
        proxy.pass();
        assert_no_trace(&live).await;
    }
    live.assert_equals_source("two proofs that were broken off").await;
}

/// The tables of a SQLite database.
fn tables(stage: &Stage) -> Vec<String> {
    let connection = Connection::open(stage.path("shop.db")).unwrap();
    let mut select = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn where_nothing_was_ever_applied_there_is_nothing_to_prove_and_nothing_is_made() {
    let shop = customers();
    let refused = |stage: &Stage, args: &[&str], told: &str| {
        let before = files(&stage.path(""));
        let (code, text) = stage.said(args);
        assert_eq!(code, 5, "{args:?}: {text}");
        assert!(text.contains(told), "{args:?}: {text}");
        assert_eq!(files(&stage.path("")), before, "{args:?}");
    };
    for args in [&["prove", "--times", "1"][..], &["prove", "--fresh"]] {
        let stage = Stage::new();
        stage.capture_into_sqlite(&shop, &shop.lines(), 100);
        refused(&stage, args, "nothing to prove: the group g has no offset");
        // Another database is there, which is not ours.
        Connection::open(stage.path("shop.db")).unwrap().execute_batch("CREATE TABLE mine (a)").unwrap();
        refused(&stage, args, "nothing to prove: the group g has no offset");
        assert_eq!(tables(&stage), ["mine"]);
        // The pipeline ran, and its destination is gone.
        std::fs::remove_file(stage.path("shop.db")).unwrap();
        stage.run(&["--until-end"]);
        std::fs::remove_file(stage.path("shop.db")).unwrap();
        refused(&stage, args, "holds nothing of any run, though the group g has offsets");
    }
    let stage = settled(&shop);
    Connection::open(stage.path("shop.db")).unwrap().execute_batch("DROP TABLE customers").unwrap();
    let before = tables(&stage);
    refused(&stage, &["prove"], "look at table customers: the destination has no such table");
    assert_eq!(tables(&stage), before);
    assert_eq!(groups(&stage), ["g"], "no place of a group of the proof");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_clickhouse_too_a_proof_of_nothing_makes_nothing() {
    let shop = customers();
    let live = Live::of(shop, &shop.lines(), "").await;
    let made = async || {
        let sql = "SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name";
        live.database.rows(sql).await
    };
    let (code, text) = live.stage.said(&["prove", "--times", "1"]);
    assert_eq!(code, 5, "{text}");
    assert!(text.contains("nothing to prove: the group") && text.contains("has no offset"), "{text}");
    assert!(made().await.is_empty());
    live.stage.run(&["--until-end"]);
    live.database.query("DROP TABLE customers SYNC").await;
    let before = made().await;
    let (code, text) = live.stage.said(&["prove", "--times", "1"]);
    assert_eq!(code, 5, "{text}");
    assert!(text.contains("look at table customers: the destination has no such table"), "{text}");
    assert_eq!(made().await, before);
    for row in &before {
        let what = if row[0].ends_with("_current") { "VIEW" } else { "TABLE" };
        live.database.query(&format!("DROP {what} `{}` SYNC", row[0])).await;
    }
    let (code, text) = live.stage.said(&["prove", "--times", "1"]);
    assert_eq!(code, 5, "{text}");
    assert!(text.contains("holds nothing of any run"), "{text}");
    assert!(made().await.is_empty());
}
