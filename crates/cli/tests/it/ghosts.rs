//! Rows that were deleted while the connector had lost its place: reported, and swept where that is
//! asked for, once everything of the new snapshot is applied.

use std::collections::BTreeMap;

use serde_json::json;
use settle_testkit::clickhouse::Client;
use settle_testkit::kafka::{self, Record};

use crate::ends::{self, SHORT_SESSION};
use crate::stage::Stage;

/// A record of partition `id % 2`: op, snapshot mark, `sequence[0]`.
fn record(topic: &str, id: i64, op: &str, snapshot: &str, before: Option<u64>, lsn: u64) -> Record {
    let before = before.map_or("null".to_owned(), |before| format!("\\\"{before}\\\""));
    let after = if op == "d" { "null".to_owned() } else { format!(r#"{{"id":{id},"v":{lsn}}}"#) };
    let value = format!(
        r#"{{"op":"{op}","before":null,"after":{after},"source":{{"connector":"postgresql","name":"srv","db":"shop","schema":"public","table":"t","snapshot":"{snapshot}","ts_ms":{lsn},"lsn":{lsn},"sequence":"[{before},\"{lsn}\"]"}}}}"#
    );
    let partition = i32::try_from(id % 2).unwrap();
    Record::new(topic, partition, Some(&format!(r#"{{"id":{id}}}"#)), Some(&value))
}

/// What was there before the gap: rows 1 to 4, streamed and changed.
fn before_the_gap(topic: &str) -> Vec<Record> {
    let first = (1..=4).map(|id| record(topic, id, "r", if id == 4 { "last" } else { "true" }, None, 100));
    let changes = (1..=4).map(|id| record(topic, id, "u", "false", Some(110), 110 + id.unsigned_abs()));
    first.chain(changes).collect()
}

/// The connector comes back: rows 2 and 3 were deleted meanwhile, row 5 is new.
fn behind_the_gap(topic: &str) -> Vec<Record> {
    vec![
        record(topic, 1, "r", "first", None, 500),
        record(topic, 4, "r", "true", None, 500),
        record(topic, 5, "r", "last", None, 500),
        record(topic, 5, "u", "false", Some(510), 511),
    ]
}

struct Line {
    topic: String,
    stage: Stage,
    clickhouse: Option<Client>,
}

impl Line {
    async fn new(into_clickhouse: bool, rule: &str) -> Self {
        let topic = kafka::unique("ghosts");
        kafka::create_topic(&topic, 2, &[]).await;
        let stage = Stage::new();
        let clickhouse = if into_clickhouse { Some(Client::with_fresh_database("ghosts").await) } else { None };
        let number = if into_clickhouse { "Int64" } else { "INTEGER" };
        stage.configure(&format!(
            "{}{SHORT_SESSION}{}[tables.\"public.t\"]\n{rule}\ncolumns = {{ id = \"{number}\", v = \"{number}\" }}\n",
            ends::kafka(&topic, &[&topic]),
            ends::sink(&stage, clickhouse.as_ref())
        ));
        Self { topic, stage, clickhouse }
    }

    /// One that sweeps, and sets aside what it cannot apply.
    async fn with_a_queue(into_clickhouse: bool) -> Self {
        let line = Self::new(into_clickhouse, "on_resnapshot = \"sweep\"").await;
        line.stage.reconfigure("[tables.", "[dlq]\npath = \"dead.jsonl\"\n[tables.");
        line
    }

    async fn produce(&self, records: Vec<Record>) {
        kafka::produce(records).await;
    }

    async fn before_the_gap(&self) {
        self.produce(before_the_gap(&self.topic)).await;
    }

    async fn behind_the_gap(&self) {
        self.produce(behind_the_gap(&self.topic)).await;
    }

    fn run(&self, args: &[&str]) -> serde_json::Value {
        let output = self.stage.output(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    async fn rows(&self) -> BTreeMap<i64, i64> {
        ends::values(&self.stage, self.clickhouse.as_ref()).await
    }
}

/// A stage that reads these records from a capture.
fn captured(records: Vec<Record>) -> Stage {
    let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).unwrap());
    let line = |(record, offset): (Record, i64)| {
        json!({
            "topic": "ghosts", "partition": 0, "offset": offset, "ts": 0,
            "key": text(record.key), "payload": text(record.payload),
        })
        .to_string()
    };
    let stage = Stage::new();
    let lines: Vec<String> = records.into_iter().zip(0..).map(line).collect();
    stage.write("capture.jsonl", &lines.join("\n"));
    stage.write(
        "settle.toml",
        "[source]\nkind = \"file\"\npath = \"capture.jsonl\"\ngroup = \"g\"\n\
         [sink]\nkind = \"sqlite\"\npath = \"shop.db\"\non_resnapshot = \"sweep\"\n",
    );
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_reads_beside_the_pipeline_sweeps_nothing() {
    let mut records = before_the_gap("ghosts");
    records.extend(behind_the_gap("ghosts"));
    let all = records.len();
    records.push(record("ghosts", 6, "c", "false", Some(600), 601));
    let stage = captured(records);
    // The snapshot is read to its last row, and the pipeline stops before the end of the log.
    stage.run(&["--max-messages", &all.to_string()]);
    let before = ends::values(&stage, None).await;
    assert!(before.contains_key(&2) && before.contains_key(&3), "the sweep waits: {before:?}");
    for args in [&["prove", "--times", "1"][..], &["replay", "--from", "ghosts:0:0"]] {
        let output = stage.settle(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let rows = ends::values(&stage, None).await;
        assert!(rows.contains_key(&2) && rows.contains_key(&3), "{args:?}: {rows:?}");
    }
    let output = stage.output(&["--until-end"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["swept"], 2, "the sweep is the pipeline's own: {report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_deleted_in_a_gap_are_reported_as_possible_ghosts() {
    for into_clickhouse in [false, true] {
        let line = Line::new(into_clickhouse, "").await;
        line.before_the_gap().await;
        assert_eq!(line.run(&["--until-end"])["possible_ghosts"], json!([]), "the first snapshot is none");
        line.behind_the_gap().await;
        let report = line.run(&["--until-end"]);
        assert_eq!(report["possible_ghosts"], json!(["public.t"]));
        assert_eq!(report["swept"], 0);
        assert_eq!(line.rows().await.len(), 5, "nothing is deleted unasked");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ghosts_are_swept_once_everything_has_passed_and_stay_away() {
    let swept: BTreeMap<i64, i64> = [(1, 500), (4, 500), (5, 511)].into();
    for into_clickhouse in [false, true] {
        let line = Line::new(into_clickhouse, "on_resnapshot = \"sweep\"").await;
        line.before_the_gap().await;
        line.run(&["--until-end"]);
        line.behind_the_gap().await;
        // All of it in one run: the group stands at the end when it ends.
        let report = line.run(&["--until-end"]);
        assert_eq!((&report["possible_ghosts"], &report["swept"]), (&json!(["public.t"]), &json!(2)), "{report}");
        assert_eq!(line.rows().await, swept, "ClickHouse {into_clickhouse}");
        for group in ["fresh-1", "fresh-2"] {
            line.run(&["--until-end", "--group", &format!("{}-{group}", line.topic)]);
            assert_eq!(line.rows().await, swept, "a replay brings no ghost back, ClickHouse {into_clickhouse}");
        }
        // The source says something of a swept row again: it is a row.
        line.produce(vec![record(&line.topic, 2, "c", "false", Some(600), 601)]).await;
        line.run(&["--until-end"]);
        assert_eq!(line.rows().await.get(&2), Some(&601));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_swept_while_a_partition_is_behind_and_a_later_run_does_it() {
    for into_clickhouse in [false, true] {
        let line = Line::new(into_clickhouse, "on_resnapshot = \"sweep\"").await;
        line.before_the_gap().await;
        line.run(&["--until-end"]);
        line.behind_the_gap().await;
        // The whole snapshot is read, and then something that is not.
        line.run(&["--max-messages", "4"]);
        line.produce((6..=9).map(|id| record(&line.topic, id, "c", "false", Some(700), 700)).collect()).await;
        let mut report = line.run(&["--max-messages", "1"]);
        let mut swept = report["swept"].as_u64().unwrap();
        if swept == 0 {
            report = line.run(&["--until-end"]);
            swept = report["swept"].as_u64().unwrap();
        }
        let rows = line.rows().await;
        assert!(!rows.contains_key(&2) && !rows.contains_key(&3), "{rows:?}, {report}");
        assert!(swept <= 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_whose_snapshot_record_is_a_dead_letter_is_no_ghost() {
    for into_clickhouse in [false, true] {
        let line = Line::with_a_queue(into_clickhouse).await;
        line.before_the_gap().await;
        line.run(&["--until-end"]);
        // The source has row 2 still, but what the snapshot says of it is torn.
        let torn = record(&line.topic, 2, "r", "true", None, 500);
        let payload = torn.payload.as_ref().unwrap();
        let torn = Record { payload: Some(payload[..payload.len() / 2].to_vec()), ..torn };
        line.produce(vec![record(&line.topic, 1, "r", "first", None, 500), torn]).await;
        line.behind_the_gap().await;
        let report = line.run(&["--until-end"]);
        assert_eq!((&report["dead_lettered"], &report["swept"]), (&json!(1), &json!(0)), "{report}");
        assert_eq!(line.rows().await.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        // Sent once more, whole, it is refreshed; what was put off is done by the next run.
        line.produce(vec![record(&line.topic, 2, "r", "true", None, 500)]).await;
        line.run(&["--until-end"]);
        line.run(&["--until-end"]);
        assert_eq!(line.rows().await.keys().copied().collect::<Vec<_>>(), [1, 2, 4, 5], "row 3 was the ghost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_swept_in_any_run_while_a_dead_letter_does_not_tell_its_row() {
    for into_clickhouse in [false, true] {
        let line = Line::with_a_queue(into_clickhouse).await;
        line.before_the_gap().await;
        line.run(&["--until-end"]);
        // The source has row 2 still, but its key is torn.
        let torn = Record { key: Some(b"{\"id\"".to_vec()), ..record(&line.topic, 2, "r", "true", None, 500) };
        line.produce(vec![record(&line.topic, 1, "r", "first", None, 500), torn]).await;
        line.behind_the_gap().await;
        assert_eq!(line.run(&["--until-end"])["dead_lettered"], 1);
        for _ in 0..2 {
            assert_eq!(line.run(&["--until-end"])["swept"], 0, "a new process knows it, too");
            assert_eq!(line.rows().await.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        }
        let (code, said) = line.stage.said(&["dlq", "drop", "--yes"]);
        assert_eq!(code, 0, "{said}");
        line.run(&["--until-end"]);
        assert_eq!(
            line.rows().await.keys().copied().collect::<Vec<_>>(),
            [1, 4, 5],
            "whoever drops it gives its row up"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_speaks_of_ghosts_once_and_knows_a_sweep_that_is_not_set_any_more() {
    let mut records = before_the_gap("ghosts");
    records.extend(behind_the_gap("ghosts"));
    let stage = captured(records);
    let report = stage.output(&["--until-end"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["swept"], 2);
    let (code, text) = stage.said(&["prove", "--times", "3"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(text.matches("full snapshot").count(), 1, "{text}");
    assert_eq!(stage.said(&["prove", "--fresh"]).0, 0);
    // What was swept is remembered in the destination, and the proof goes by it.
    stage.reconfigure("on_resnapshot = \"sweep\"\n", "");
    let (code, text) = stage.said(&["prove", "--fresh"]);
    assert_eq!(code, 0, "{text}");
}
