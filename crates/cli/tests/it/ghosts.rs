//! Rows that were deleted while the connector had lost its place: reported, and swept where that is
//! asked for, once everything of the new snapshot is applied.

use std::collections::BTreeMap;

use serde_json::json;
use settle_testkit::clickhouse::Client;
use settle_testkit::kafka::{self, Record};
use settle_testkit::services;

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
        let sink = match &clickhouse {
            None => "kind = \"sqlite\"\npath = \"shop.db\"\n".to_owned(),
            Some(client) => {
                stage.write("password", &client.address().password);
                format!(
                    "kind = \"clickhouse\"\nurl = \"{}\"\ndatabase = \"{}\"\nuser = \"{}\"\npassword = \"file:{}\"\n",
                    client.address().url,
                    client.database(),
                    client.address().user,
                    stage.path("password").display()
                )
            }
        };
        let number = if into_clickhouse { "Int64" } else { "INTEGER" };
        let text = format!(
            "[source]\nkind = \"kafka\"\nbrokers = \"{}\"\ngroup = \"{topic}\"\ntopics = [\"{topic}\"]\n\
             [source.properties]\n\"session.timeout.ms\" = 6000\n[sink]\n{sink}\
             [tables.\"public.t\"]\n{rule}\ncolumns = {{ id = \"{number}\", v = \"{number}\" }}\n",
            services::kafka()
        );
        stage.write("settle.toml", &text);
        Self { topic, stage, clickhouse }
    }

    async fn produce(&self, records: Vec<Record>) {
        kafka::produce(records).await;
    }

    /// What was there before the gap: rows 1 to 4, streamed and changed.
    async fn before_the_gap(&self) {
        let first = (1..=4).map(|id| record(&self.topic, id, "r", if id == 4 { "last" } else { "true" }, None, 100));
        let changes = (1..=4).map(|id| record(&self.topic, id, "u", "false", Some(110), 110 + id.unsigned_abs()));
        self.produce(first.chain(changes).collect()).await;
    }

    /// The connector comes back: rows 2 and 3 were deleted meanwhile, row 5 is new.
    async fn behind_the_gap(&self) {
        let topic = &self.topic;
        self.produce(vec![
            record(topic, 1, "r", "first", None, 500),
            record(topic, 4, "r", "true", None, 500),
            record(topic, 5, "r", "last", None, 500),
            record(topic, 5, "u", "false", Some(510), 511),
        ])
        .await;
    }

    fn run(&self, args: &[&str]) -> serde_json::Value {
        let output = self.stage.output(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    async fn rows(&self) -> BTreeMap<i64, i64> {
        match &self.clickhouse {
            None => {
                let connection = rusqlite::Connection::open(self.stage.path("shop.db")).unwrap();
                let mut select = connection.prepare("SELECT id, v FROM t").unwrap();
                let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
            Some(client) => {
                let rows = client.rows("SELECT id, v FROM t_current").await;
                rows.into_iter().map(|row| (row[0].parse().unwrap(), row[1].parse().unwrap())).collect()
            }
        }
    }
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
        let line = Line::new(into_clickhouse, "on_resnapshot = \"sweep\"").await;
        let config = std::fs::read_to_string(line.stage.path("settle.toml")).unwrap();
        line.stage.write("settle.toml", &format!("{config}\n[dlq]\npath = \"dead.jsonl\"\n"));
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
