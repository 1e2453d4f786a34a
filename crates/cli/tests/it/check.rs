//! `settle check` says what a run would say: whole outputs, and beside each what a run does.

use std::process::Stdio;

use settle_testkit::clickhouse::Client;
use settle_testkit::kafka;

use crate::child::{Running, until};
use crate::ends::{self, CAPTURE, SQLITE};
use crate::live::{Live, produce};
use crate::shop::{Shop, shop};
use crate::stage::Stage;

/// What `settle` prints, with its exit code. Lines are as wide as they need to be: names of topics
/// differ in length from run to run.
pub fn said(stage: &Stage, args: &[&str], names: &[(&str, &str)]) -> String {
    let output = stage.settle(args).env("COLUMNS", "10000").stdin(Stdio::null()).output().unwrap();
    let mut said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing but findings is said");
    for (name, placeholder) in names {
        said = said.replace(name, placeholder);
    }
    format!("exit {}\n{said}", output.status.code().unwrap())
}

/// The exit code of a run over the same configuration.
pub fn run_exits(stage: &Stage) -> i32 {
    stage.settle(&["run", "--until-end", "--deadline", "1s"]).output().unwrap().status.code().unwrap()
}

pub fn orders() -> Shop {
    shop("pg-hazards", "shop.public.orders")
}

/// A pipeline from a capture with these lines, and these lines of configuration behind.
pub fn capture(lines: &[String], more: &str) -> Stage {
    let stage = Stage::new();
    stage.write("capture.jsonl", &lines.join("\n"));
    stage.configure(&[CAPTURE, SQLITE, more].concat());
    stage
}

/// A pipeline from Kafka into SQLite.
pub fn kafka_into_sqlite(topics: &[&str], brokers: &str, group: &str) -> Stage {
    let stage = Stage::new();
    stage.configure(&(ends::kafka_at(brokers, group, topics) + SQLITE));
    stage
}

/// A topic of its own with a recording in it.
pub async fn recorded(shop: &Shop) -> String {
    let topic = kafka::unique(shop.topic);
    kafka::create_topic(&topic, 3, &[("retention.ms", "604800000")]).await;
    produce(&shop.lines(), &topic).await;
    topic
}

/// A pipeline that has settled a topic, then the recording once more, of which retention took all but
/// the last record of one partition. With topic and group.
pub async fn settled_before_a_loss() -> (Stage, String, String) {
    let shop = orders();
    let topic = recorded(&shop).await;
    let group = format!("{topic}-group");
    let stage = kafka_into_sqlite(&[&topic], settle_testkit::services::kafka(), &group);
    assert_eq!(run_exits(&stage), 0);
    produce(&shop.lines(), &topic).await;
    let ends = kafka::end_offsets(&topic, kafka::Isolation::ReadCommitted).await;
    kafka::delete_records(&topic, 2, ends[2] - 1).await;
    (stage, topic, group)
}

/// A port that nobody listens on.
fn dead() -> String {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    held.local_addr().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_that_would_start_before_and_after_its_first_run() {
    let shop = orders();
    let topic = recorded(&shop).await;
    let live = Live::reading(shop, topic, "").await;
    let folder = live.stage.folder();
    let names = [(folder.as_str(), "FOLDER"), (&live.topic, "TOPIC"), (live.database.database(), "DATABASE")];
    insta::with_settings!({filters => vec![(r"ClickHouse \d[\d.]*", "ClickHouse VERSION")]}, {
        insta::assert_snapshot!(said(&live.stage, &["check"], &names));
        assert_eq!(run_exits(&live.stage), 0);
        insta::assert_snapshot!(said(&live.stage, &["check"], &names));
    });
}

#[test]
fn a_capture_with_rules_that_match_nothing() {
    let rules = "[tables.\"public.order\"]\nexclude = [\"amount\"]\n[tables.\"public.orders\"]\nexclude = [\"amuont\", \
                 \"order_id\"]\nrename = { state = \"order_state\" }\n[tables.\"public.orders\".columns]\ncustomer = \
                 \"INTEGER\"\ncreated = \"TEXT\"\n";
    let stage = capture(&orders().lines(), rules);
    insta::assert_snapshot!(said(&stage, &["check"], &[(&stage.folder(), "FOLDER")]));
    assert_eq!(run_exits(&stage), 0, "warnings stop no run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_is_away() {
    let shop = orders();
    let topic = recorded(&shop).await;
    let live = Live::reading(shop, topic, "").await;
    let dead = dead();
    live.configure(&format!("http://{dead}"), "");
    let folder = live.stage.folder();
    insta::assert_snapshot!(said(
        &live.stage,
        &["check"],
        &[(&folder, "FOLDER"), (&live.topic, "TOPIC"), (&dead, "DEAD")]
    ));
    assert_eq!(run_exits(&live.stage), 4);
}

#[test]
fn a_source_that_is_away() {
    let dead = dead();
    let stage = kafka_into_sqlite(&["shop.public.*"], &dead, "g");
    insta::assert_snapshot!(said(&stage, &["check"], &[(&stage.folder(), "FOLDER"), (&dead, "DEAD")]));
    assert_eq!(run_exits(&stage), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_that_retention_removed() {
    let (stage, topic, group) = settled_before_a_loss().await;
    let folder = stage.folder();
    let names = [
        (group.as_str(), "GROUP"),
        (&topic, "TOPIC"),
        (&folder, "FOLDER"),
        (settle_testkit::services::kafka(), "BROKER"),
    ];
    insta::assert_snapshot!(said(&stage, &["check"], &names));
    assert_eq!(run_exits(&stage), 5);
}

#[test]
fn a_pattern_that_matches_nothing_in_the_capture() {
    let stage = capture(&orders().lines(), "");
    stage.reconfigure("group = \"g\"", "group = \"g\"\ntopics = [\"shop.publik.*\"]");
    insta::assert_snapshot!(said(&stage, &["check"], &[(&stage.folder(), "FOLDER")]));
    assert_eq!(run_exits(&stage), 5);
}

#[test]
fn a_folder_in_which_no_offsets_can_be_kept() {
    let stage = capture(&orders().lines(), "");
    // A folder that not even root may write to.
    let file = std::fs::File::open(stage.path("capture.jsonl")).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&file));
    stage.reconfigure("\"capture.jsonl\"", &format!("\"{path}\""));
    let said = said(&stage, &["check"], &[(&stage.folder(), "FOLDER"), (&path, "CAPTURE")]);
    assert!(said.starts_with("exit 5\n"), "{said}");
    assert!(
        said.contains("FAIL  the offsets of group g are kept beside the capture, but no file can be made in /proc/"),
        "{said}"
    );
    assert!(said.ends_with("a run would not start: 1 error\n"), "{said}");
    assert_eq!(run_exits(&stage), 5);
}

#[test]
fn standard_input_is_not_looked_at_and_that_is_said() {
    let stage = Stage::new();
    stage.configure(&["[source]\nkind = \"stdin\"\n", SQLITE].concat());
    insta::assert_snapshot!(said(&stage, &["check"], &[(&stage.folder(), "FOLDER")]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_that_the_server_does_not_know_is_a_mistake_in_the_configuration() {
    let shop = orders();
    let topic = recorded(&shop).await;
    let live = Live::reading(shop, topic, "").await;
    live.stage.reconfigure("amount = \"Decimal(12, 2)\"", "amount = \"Decimel(12, 2)\"");
    let said = said(&live.stage, &["check"], &[]);
    assert!(said.starts_with("exit 2\n"), "{said}");
    let told = "FAIL  column `amount` is declared as Decimel(12, 2) in [tables.\"public.orders\".columns], which the server \
                does not take: Unknown data type family: Decimel";
    assert!(said.contains(told), "{said}");
    let tables = Client::at(live.database.address().clone(), live.database.database()).query("SHOW TABLES").await;
    assert_eq!(tables, "", "a look makes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_a_column_cannot_hold_is_found_before_the_run() {
    let shop = orders();
    let topic = recorded(&shop).await;
    let live = Live::reading(shop, topic, "").await;
    live.stage.reconfigure("order_id = \"Int32\"", "order_id = \"Int8\"");
    live.stage.reconfigure("updated_at = \"DateTime64(6, 'UTC')\"", "updated_at = \"Int64\"");
    let said = said(&live.stage, &["check"], &[(&live.topic, "TOPIC")]);
    assert!(said.starts_with("exit 5\n"), "{said}");
    assert!(said.contains("FAIL  encoding rows for"), "{said}");
    assert!(said.contains("column `updated_at` (Int64)"), "{said}");
    assert_eq!(run_exits(&live.stage), 5);
}

#[test]
fn two_topics_into_one_table() {
    let lines = orders().lines();
    let copies = lines.iter().map(|line| line.replacen("shop.public.orders", "copy.public.orders", 1));
    let both: Vec<String> = lines.iter().cloned().chain(copies).collect();
    let stage = capture(&both, "");
    let said = said(&stage, &["check"], &[(&stage.folder(), "FOLDER")]);
    let told = "FAIL  record copy.public.orders:0:0: topics shop.public.orders and copy.public.orders both carry table \
                public.orders;";
    assert!(said.contains(told), "{said}");
    assert!(said.ends_with("a run would not start: 1 error\n"), "said once: {said}");
    assert_eq!(run_exits(&stage), 5);
}

#[test]
fn a_record_that_the_group_has_passed_is_no_reason_to_stop() {
    let mut lines = orders().lines();
    let broken = lines[0].replacen("\\\"op\\\"", "\\\"operation\\\"", 1);
    assert_ne!(broken, lines[0]);
    let place: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    lines[0] = broken;
    let stage = capture(&lines, "");
    let before = said(&stage, &["check"], &[]);
    assert!(before.starts_with("exit 5\n") && before.contains("FAIL  record shop.public.orders:"), "{before}");
    assert_eq!(run_exits(&stage), 5);
    let id = settle_core::position::TopicId::of_first_line("shop.public.orders", lines[0].as_bytes());
    let offset = place["offset"].as_i64().unwrap() + 1;
    let partition = &place["partition"];
    stage.write(
        "capture.jsonl.g.offsets",
        &format!(r#"{{"topic":"shop.public.orders","topic_id":"{id}","partition":{partition},"offset":{offset}}}"#),
    );
    let after = said(&stage, &["check"], &[]);
    assert!(after.contains("the group has passed it, so a run does not meet it"), "{after}");
    assert!(after.starts_with("exit 0\n"), "{after}");
    assert_eq!(run_exits(&stage), 0);
}

#[test]
fn files_that_are_no_captures_are_told_by_what_they_are() {
    for (bytes, told) in [
        (&b"\x1f\x8b\x08\x00rest"[..], "is compressed with gzip; unpack it (gunzip -k)"),
        (b"\x28\xb5\x2f\xfdrest", "is compressed with zstd"),
        (b"\xef\xbb\xbf{}", "begins with a byte order mark, which an editor put there; remove it: sed"),
        (b"\xff\xfe{\0}\0", "is UTF-16 text; convert it: iconv"),
        (b"\n{\"payload\":\"\xe9\"}\n", "capture.jsonl line 2 is not UTF-8: the file was saved in another encoding"),
    ] {
        let stage = capture(&[], "");
        std::fs::write(stage.path("capture.jsonl"), bytes).unwrap();
        let said = said(&stage, &["check"], &[]);
        assert!(said.starts_with("exit 5\n") && said.contains(told), "{said}");
        let run = stage.settle(&["run"]).output().unwrap();
        assert!(String::from_utf8_lossy(&run.stderr).contains(told), "a run says the same");
    }
}

#[test]
fn ddl_prints_everything_that_a_run_makes() {
    let stage = capture(&orders().lines(), "");
    let made = stage.settle(&["ddl"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&made.stderr), "");
    let by_hand = rusqlite::Connection::open_in_memory().unwrap();
    by_hand.execute_batch(std::str::from_utf8(&made.stdout).unwrap()).unwrap();
    assert_eq!(run_exits(&stage), 0);
    let by_run = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    let schema = |connection: &rusqlite::Connection| -> String {
        let sql = "SELECT group_concat(name || sql, char(10)) FROM (SELECT * FROM sqlite_schema ORDER BY name)";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(schema(&by_hand), schema(&by_run));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ddl_prints_for_clickhouse_is_all_that_a_run_needs() {
    let shop = orders();
    let topic = recorded(&shop).await;
    let live = Live::reading(shop, topic, "").await;
    let database = live.database.database().to_owned();
    live.database.query(&format!("DROP DATABASE `{database}`")).await;
    live.stage.reconfigure("[sink]\n", "[sink]\ncreate = false\n");
    // However many records may be asked for.
    let made = live.stage.settle(&["ddl", "--sample", &usize::MAX.to_string()]).output().unwrap();
    let text = String::from_utf8(made.stdout).unwrap();
    for statement in text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        Client::new().query(statement).await;
    }
    let said = said(&live.stage, &["check"], &[]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(run_exits(&live.stage), 0);
    live.assert_equals_source("with tables made by hand").await;
}

/// Makes the pipeline of `capture` one into ClickHouse.
pub fn write_to(stage: &Stage, database: &Client) {
    stage.reconfigure(SQLITE, &ends::sink(stage, Some(database)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_the_group_are_counted() {
    let topic = recorded(&orders()).await;
    let stage = kafka_into_sqlite(&[&topic], settle_testkit::services::kafka(), &format!("{topic}-group"));
    let running = Running::start(&stage, &[]);
    let look = async || said(&stage, &["check"], &[]);
    until("a member", look, |said| said.contains("-group has 1 member now: a run shares the partitions")).await;
    running.kill();
}

#[test]
fn a_record_at_fault_is_a_warning_where_it_is_set_aside() {
    let mut lines = orders().lines();
    lines[3] = lines[3].replacen("\\\"op\\\"", "\\\"operation\\\"", 1);
    let stage = capture(&lines, "");
    let without = said(&stage, &["check"], &[]);
    assert!(without.starts_with("exit 5\n") && without.contains("say where: [dlq]"), "{without}");
    assert_eq!(run_exits(&stage), 5);
    let stage = capture(&lines, "[dlq]\npath = \"dead.jsonl\"\n");
    let with = said(&stage, &["check"], &[(&stage.folder(), "FOLDER")]);
    assert!(with.starts_with("exit 0\n"), "{with}");
    assert!(with.contains("warn  record shop.public.orders:"), "{with}");
    assert!(with.contains("fix: a run sets it aside as [dlq] says, and goes on"), "{with}");
    assert!(with.contains(
        "note  records that cannot be applied are set aside in the file FOLDER/dead.jsonl, which holds 0 open"
    ));
    assert!(
        with.contains("warn  1 of 15 sampled records would be set aside, which is more than max_ratio = 0.01"),
        "{with}"
    );
    assert!(!stage.path("dead.jsonl").exists(), "a look makes nothing");
    assert_eq!(run_exits(&stage), 0);
    assert!(said(&stage, &["check"], &[]).contains("which holds 1 open letter"));
}
