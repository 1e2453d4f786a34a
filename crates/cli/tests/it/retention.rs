//! `tombstone_retention`: held against what the log keeps, and followed by runs alone.

use serde_json::json;
use settle_testkit::{kafka, services};

use crate::check::{kafka_into_sqlite, run_exits, said};
use crate::dead_letters::{Line, envelope, good};
use crate::ends::{self, CAPTURE};
use crate::stage::Stage;

const DAY_MS: u64 = 86_400_000;
const AFTER_ALONE: &str = r#""before":null,"after":"#;
const BEFORE_ALONE: &str = r#""after":null,"before":"#;

/// By 46 days.
fn age_tombstones(stage: &Stage) {
    let database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    let age = format!("UPDATE t__tombstones SET _written_ms = _written_ms - {}", 46 * DAY_MS);
    database.execute_batch(&age).unwrap();
}

fn keep(stage: &Stage, retention: &str) {
    let text = std::fs::read_to_string(stage.path("settle.toml")).unwrap();
    let others = text.lines().filter(|line| !line.starts_with("tombstone_retention"));
    let lines: Vec<&str> = others.collect();
    let key = format!("[sink]\ntombstone_retention = \"{retention}\"\n");
    stage.configure(&format!("{}\n", lines.join("\n")).replace("[sink]\n", &key));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_starts_only_where_tombstones_outlive_the_records() {
    let week = (7 * DAY_MS).to_string();
    let (day, ever) = (DAY_MS.to_string(), "-1".to_owned());
    let keeping = [("retention.ms", week.as_str()), ("segment.ms", day.as_str())];
    let for_ever = [("retention.ms", ever.as_str()), ("retention.bytes", "1000000")];
    let both = [("cleanup.policy", "compact,delete"), ("retention.ms", week.as_str()), ("segment.ms", day.as_str())];
    for (settings, retention, told) in [
        (
            &keeping[..],
            "8d",
            Some(
                "it may keep a record for 8d (retention.ms and segment.ms together); set tombstone_retention to at least \"9d\"",
            ),
        ),
        (&keeping[..], "9d", None),
        (
            &for_ever[..],
            "400d",
            Some("it keeps its records for any time; set cleanup.policy=delete and a retention.ms for it"),
        ),
        (&both[..], "400d", Some("it is compacted, so a record of it may stay for any time")),
    ] {
        let topic = kafka::unique("kept");
        kafka::create_topic(&topic, 1, settings).await;
        let stage = kafka_into_sqlite(&[&topic], services::kafka(), &format!("{topic}-group"));
        keep(&stage, retention);
        let checked = said(&stage, &["check"], &[]);
        let run = stage.settle(&["run", "--until-end", "--deadline", "20s"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        let place = format!("tombstone_retention = \"{retention}\" is not safe for topic {topic}");
        match told {
            Some(told) => {
                assert!(
                    checked.starts_with("exit 5\n") && checked.contains(&place) && checked.contains(told),
                    "{checked}"
                );
                assert_eq!(run.status.code(), Some(5), "{stderr}");
                assert!(stderr.contains(&place) && stderr.contains(told), "{stderr}");
            }
            None => {
                assert!(checked.starts_with("exit 0\n"), "{checked}");
                assert_eq!(run.status.code(), Some(0), "{stderr}");
            }
        }
    }
}

fn line(offset: u64, op: &str, id: u64) -> String {
    let lsn = 10 * (offset + 1);
    let after = if op == "d" { "null".to_owned() } else { format!(r#"{{"id":{id},"v":"a"}}"#) };
    let before = if op == "d" { format!(r#"{{"id":{id},"v":"a"}}"#) } else { "null".to_owned() };
    let value = format!(
        r#"{{"op":"{op}","before":{before},"after":{after},"source":{{"connector":"postgresql","name":"srv","db":"shop","schema":"public","table":"t","ts_ms":1700000000000,"lsn":{lsn},"sequence":"[\"{lsn}\",\"{lsn}\"]"}}}}"#
    );
    serde_json::json!({"topic": "shop", "partition": 0, "offset": offset, "ts": 1, "key": format!(r#"{{"id":{id}}}"#),
                       "payload": value})
    .to_string()
}

#[test]
fn a_run_purges_and_nothing_beside_one_does() {
    let stage = Stage::new();
    stage.configure(&[CAPTURE, ends::SQLITE].concat());
    keep(&stage, "45d");
    let mut lines = vec![line(0, "c", 1), line(1, "d", 1), line(2, "c", 2)];
    stage.write("capture.jsonl", &lines.join("\n"));
    let note =
        "note  tombstones are purged when they are older than 45d: see to it that no capture that is read holds older";
    let checked = said(&stage, &["check"], &[]);
    assert!(checked.starts_with("exit 0\n") && checked.contains(note), "{checked}");
    assert_eq!(run_exits(&stage), 0);
    let database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    let count = || -> i64 { database.query_row("SELECT count(*) FROM t__tombstones", [], |row| row.get(0)).unwrap() };
    age_tombstones(&stage);
    for beside in [&["prove"][..], &["prove", "--fresh"], &["replay", "--from", "shop:0:0"], &["check"]] {
        let (code, told) = stage.said(beside);
        assert_eq!((code, count()), (0, 1), "{beside:?}: {told}");
    }
    lines.push(line(3, "c", 3));
    stage.write("capture.jsonl", &lines.join("\n"));
    assert_eq!(run_exits(&stage), 0);
    assert_eq!(count(), 0);
    // What a proof compares is what readers see.
    for proof in [&["prove"][..], &["prove", "--fresh"]] {
        let (code, told) = stage.said(proof);
        assert_eq!(code, 0, "{proof:?}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_is_older_than_tombstones_are_kept_brings_no_row_back() {
    let big = (Some(r#"{"id":2}"#.to_owned()), Some(envelope("u", 2, 3_000_000_000, 16)));
    let line = Line::of_capture(false, &vec![good(1, 10, 10), big]).await;
    line.one_by_one();
    assert_eq!(line.run().dead_lettered, 1);
    line.mend().await;
    line.stage.reconfigure("[sink]\n", "[sink]\ntombstone_retention = \"45d\"\n");
    let (code, said) = line.dlq(&["retry"]);
    assert!(code == 5 && said.contains("stays: shop:0:1: it is older than the tombstones of its table"), "{said}");
    assert_eq!(line.rows().await, json!([{"id": "1", "n": "10"}]));
    line.stage.reconfigure("tombstone_retention = \"45d\"\n", "");
    assert_eq!(line.dlq(&["retry"]).0, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_from_before_a_purge_brings_no_row_back_whatever_the_retention_is_today() {
    let big = (Some(r#"{"id":1}"#.to_owned()), Some(envelope("u", 1, 3_000_000_000, 16)));
    let gone = (Some(r#"{"id":1}"#.to_owned()), Some(envelope("d", 1, 0, 20).replace(AFTER_ALONE, BEFORE_ALONE)));
    let mut pairs = vec![good(1, 10, 10), big, gone];
    let line = Line::of_capture(false, &pairs).await;
    line.one_by_one();
    assert_eq!(line.run().dead_lettered, 1);
    line.stage.reconfigure("[sink]\n", "[sink]\ntombstone_retention = \"45d\"\n");
    // The first dates the tombstone, the next purges it.
    for lsn in [30, 40] {
        pairs.push(good(2, 10, lsn));
        line.capture(&pairs);
        assert_eq!(line.run().applied, 1);
        age_tombstones(&line.stage);
    }
    line.mend().await;
    line.stage.reconfigure("tombstone_retention = \"45d\"\n", "");
    let (code, said) = line.dlq(&["retry"]);
    assert_eq!(line.rows().await, json!([{"id": "2", "n": "10"}]), "{said}");
    assert!(code == 5 && said.contains("stays: shop:0:1: it is older than the tombstones of its table"), "{said}");
}
