//! A look and a run agree: on every recording, and on what stops a run that went on before.

use std::collections::BTreeSet;
use std::io::Read;

use settle_testkit::clickhouse::Client;
use settle_testkit::kafka;

use crate::check::{capture, kafka_into_sqlite, orders, recorded, run_exits, said, settled_before_a_loss, write_to};
use crate::live::produce;
use crate::shop::fixtures;
use crate::stage::Stage;

/// Every recorded topic, those that are refused among them.
fn recordings() -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(fixtures()).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.display().to_string();
            let mut text = String::new();
            if name.ends_with(".jsonl") {
                text = std::fs::read_to_string(&path).unwrap();
            } else if name.ends_with(".jsonl.gz") {
                let file = std::fs::File::open(&path).unwrap();
                flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
            } else {
                continue;
            }
            found.push((name, text.lines().map(str::to_owned).collect()));
        }
    }
    found.sort();
    assert!(found.len() > 40, "the recordings are there");
    found
}

/// What looks and runs ended with.
#[derive(Default)]
struct Seen {
    differ: Vec<String>,
    exits: BTreeSet<i32>,
}

impl Seen {
    fn look_and_run(&mut self, name: &str, stage: &Stage) {
        let looked = said(stage, &["check", "--sample", "1000000"], &[]);
        let run = stage.settle(&["run"]).output().unwrap();
        let exit = run.status.code().unwrap();
        self.exits.insert(exit);
        if !looked.starts_with(&format!("exit {exit}\n")) {
            let why = String::from_utf8_lossy(&run.stderr);
            self.differ.push(format!("{name}: a run exits {exit}: {why}\n{looked}"));
        }
    }

    fn agree(self) {
        assert!(self.differ.is_empty(), "{}", self.differ.join("\n"));
        assert_eq!(self.exits, BTreeSet::from([0, 5]), "recordings of both kinds were seen");
    }
}

#[test]
fn a_look_and_a_run_agree_on_every_recording_into_sqlite() {
    let mut seen = Seen::default();
    for (name, lines) in recordings() {
        let stage = capture(&lines, "");
        seen.look_and_run(&name, &stage);
    }
    seen.agree();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_and_a_run_agree_on_every_recording_into_clickhouse() {
    let mut seen = Seen::default();
    for (name, lines) in recordings() {
        let database = Client::with_fresh_database("agree").await;
        let stage = capture(&lines, "");
        write_to(&stage, &database);
        // Without schemas a table must be there: made from what is printed for the topic.
        let made = stage.settle(&["ddl", "--sample", "1000000"]).output().unwrap();
        for statement in String::from_utf8(made.stdout).unwrap().split(";\n").map(str::trim).filter(|s| !s.is_empty()) {
            database.query(statement).await;
        }
        seen.look_and_run(&name, &stage);
        database.query(&format!("DROP DATABASE `{}`", database.database())).await;
    }
    seen.agree();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_another_server_fills() {
    let (_, lines) = recordings().into_iter().find(|(name, _)| name.ends_with("shopa.public.orders.jsonl")).unwrap();
    let foreign: Vec<String> =
        lines.iter().map(|line| line.replace("\\\"name\\\":\\\"shopa\\\"", "\\\"name\\\":\\\"other\\\"")).collect();
    assert_ne!(lines, foreign);
    let database = Client::with_fresh_database("owner").await;
    for into_clickhouse in [false, true] {
        let stage = capture(&lines, "");
        if into_clickhouse {
            write_to(&stage, &database);
        }
        assert_eq!(run_exits(&stage), 0);
        stage.write("other.jsonl", &foreign.join("\n"));
        stage.reconfigure("capture.jsonl", "other.jsonl");
        let said = said(&stage, &["check"], &[]);
        assert!(said.starts_with("exit 5\n"), "{said}");
        assert!(
            said.contains("of other/shop would be written to table orders, which is filled from public.orders"),
            "{said}"
        );
        assert_eq!(run_exits(&stage), 5);
    }
    database.query(&format!("DROP DATABASE `{}`", database.database())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_lost_its_offsets_beside_a_destination_that_knows_them() {
    let (stage, topic, group) = settled_before_a_loss().await;
    kafka::delete_group(&group).await;
    let said = said(&stage, &["check"], &[(&topic, "TOPIC")]);
    assert!(said.starts_with("exit 5\n"), "{said}");
    let told = "FAIL  the group has no offset in TOPIC:0, but had one, and the destination holds its records: the group \
                lost its offsets";
    assert!(said.contains(told), "{said}");
    assert_eq!(run_exits(&stage), 5);
}

#[test]
fn a_log_of_a_restored_database() {
    let mut lines = orders().lines();
    let stage = capture(&lines, "");
    assert_eq!(run_exits(&stage), 0);
    // The last change again, at the first position of a new log and a day later.
    let streamed = lines.iter().rev().find(|line| line.contains("\\\"op\\\":\\\"u\\\"")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(streamed).unwrap();
    let mut envelope: serde_json::Value = serde_json::from_str(record["payload"].as_str().unwrap()).unwrap();
    let later = envelope["source"]["ts_ms"].as_i64().unwrap() + 86_400_000;
    envelope["source"]["ts_ms"] = later.into();
    envelope["source"]["lsn"] = 2000.into();
    envelope["source"]["sequence"] = "[\"1000\",\"2000\"]".into();
    record["payload"] = envelope.to_string().into();
    let same = |line: &&String| line.contains(&format!("\"partition\":{},", record["partition"]));
    record["offset"] = lines.iter().filter(same).count().into();
    lines.push(record.to_string());
    stage.write("capture.jsonl", &lines.join("\n"));
    let said = said(&stage, &["check"], &[]);
    assert!(said.starts_with("exit 5\n") && said.contains("settle epoch bump"), "{said}");
    assert_eq!(run_exits(&stage), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_was_made_anew() {
    let shop = orders();
    let topic = recorded(&shop).await;
    let stage = kafka_into_sqlite(&[&topic], settle_testkit::services::kafka(), &format!("{topic}-group"));
    assert_eq!(run_exits(&stage), 0);
    kafka::delete_topic(&topic).await;
    kafka::create_topic(&topic, 3, &[]).await;
    produce(&shop.lines(), &topic).await;
    let said = said(&stage, &["check"], &[(&topic, "TOPIC")]);
    assert!(said.starts_with("exit 5\n") && said.contains("FAIL  topic TOPIC was deleted and made anew"), "{said}");
    assert_eq!(run_exits(&stage), 5);
}
