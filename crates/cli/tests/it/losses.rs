//! Destinations that were lost, whole or in part, and groups that a tool has moved: the run stops before
//! anything is applied, `check` says the same and `status` shows it; each of the ways out ends right.

use settle_testkit::kafka;

use crate::ends::{CAPTURE, SQLITE};
use crate::new_logs::{Pipeline, changes, values};
use crate::stage::Stage;

impl Pipeline {
    /// Ten rows are applied, and ten changes wait behind them.
    async fn with_ten_rows(self) -> Self {
        self.produce(&changes(100, 900_000, 1_000_000)).await;
        self.run_well(&["--until-end"]);
        assert_eq!(self.rows().await, values(100));
        self.produce(&changes(200, 910_000, 2_000_000)).await;
        self
    }

    async fn sql(&self, clickhouse: &str, sqlite: &str) {
        match &self.clickhouse {
            Some(client) => drop(client.query(clickhouse).await),
            None => rusqlite::Connection::open(self.stage.path("shop.db")).unwrap().execute_batch(sqlite).unwrap(),
        }
    }

    /// A run refuses, and so does `check`; `status` shows it. Nothing is changed by it. Gives what was said.
    async fn is_refused_by_all(&self) -> String {
        let said = self.stops();
        let why = ["settle: source: ", "settle: sink: "].iter().find_map(|of| said.strip_prefix(of)).unwrap();
        assert_eq!(self.committed().await, [Some(5), Some(5)], "{said}");
        let checked = self.command(&["check"]);
        assert_eq!(checked.code, 5, "{}", checked.text);
        // Its lines are as wide as a terminal.
        assert!(flat(&checked.text).contains(why.split(". ").next().unwrap()), "{why}: {}", checked.text);
        let status = self.command(&["status"]).text;
        assert!(status.contains(&format!("A RUN WOULD STOP: {why}")), "{why}: {status}");
        assert_eq!(self.stops(), said, "again");
        said
    }

    /// Moves the group as a tool does.
    async fn move_to(&self, offset: i64) {
        kafka::move_group(&self.group(), &self.topic, &[(0, offset), (1, offset)]).await;
    }

    /// Whatever it was, it ends as the source.
    async fn ends_right(&self) {
        self.run_well(&["--until-end"]);
        assert_eq!(self.rows().await, values(200));
        self.replays_the_same().await;
        assert!(!self.command(&["status"]).text.contains("A RUN WOULD STOP"));
    }
}

async fn a_lost_destination(pipeline: Pipeline) {
    let pipeline = pipeline.with_ten_rows().await;
    match &pipeline.clickhouse {
        Some(client) => drop(client.query(&format!("DROP DATABASE `{0}`", client.database())).await),
        None => std::fs::remove_file(pipeline.stage.path("shop.db")).unwrap(),
    }
    let said = pipeline.is_refused_by_all().await;
    assert!(said.contains("the destination holds nothing of the group, which has read and written before"), "{said}");
    assert!(
        said.contains("read under a new group, or move the group there (") && said.contains("--to-offset 0"),
        "{said}"
    );
    pipeline.move_to(0).await;
    pipeline.ends_right().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_database_of_clickhouse_is_told_and_filled_from_the_beginning() {
    a_lost_destination(Pipeline::into_clickhouse(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_file_of_sqlite_is_told_and_filled_from_the_beginning() {
    a_lost_destination(Pipeline::into_sqlite(2).await).await;
}

async fn a_lost_settle_meta(pipeline: Pipeline) -> String {
    let pipeline = pipeline.with_ten_rows().await;
    pipeline.sql("DROP TABLE settle_meta SYNC", "DROP TABLE settle_meta").await;
    let said = pipeline.is_refused_by_all().await;
    pipeline.sql("SELECT 1", "DROP TABLE IF EXISTS settle_positions").await;
    pipeline.move_to(0).await;
    pipeline.ends_right().await;
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_settle_meta_of_clickhouse_is_told() {
    let said = a_lost_settle_meta(Pipeline::into_clickhouse(2).await).await;
    assert!(said.contains("the destination holds nothing of the group"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_settle_meta_of_sqlite_is_told() {
    let said = a_lost_settle_meta(Pipeline::into_sqlite(2).await).await;
    assert!(said.contains("settle_positions says that records were applied: it was lost"), "{said}");
    assert!(said.contains("DROP TABLE \"settle_positions\""), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_places_of_sqlite_are_told() {
    let pipeline = Pipeline::into_sqlite(2).await.with_ten_rows().await;
    pipeline.sql("", "DROP TABLE settle_positions").await;
    let said = pipeline.is_refused_by_all().await;
    assert!(said.contains("the destination holds nothing of the group"), "{said}");
    pipeline.move_to(0).await;
    pipeline.ends_right().await;
}

async fn a_lost_table(pipeline: Pipeline) {
    let pipeline = pipeline.with_ten_rows().await;
    pipeline.sql("DROP TABLE t SYNC", "DROP TABLE t").await;
    let said = pipeline.is_refused_by_all().await;
    assert!(said.contains("the table \"t\" is not there, and had rows of records that the group has passed"), "{said}");
    assert!(pipeline.rows().await.is_empty(), "it was not made anew");
    // Of all that reads beside the pipeline, what begins behind its rows must not make it either.
    let beside = pipeline.command(&["replay", "--from", &format!("{}:0:5", pipeline.topic)]);
    assert_eq!(beside.code, 5, "{}", beside.text);
    assert!(pipeline.rows().await.is_empty());
    // Read from the beginning, a stop before its first row changes nothing of that.
    pipeline.move_to(0).await;
    pipeline.ends_right().await;
    // Made by hand, its old rows are not wanted.
    pipeline.sql("DROP TABLE t SYNC", "DROP TABLE t").await;
    pipeline.produce(&changes(300, 920_000, 3_000_000)[..3]).await;
    pipeline.stops();
    pipeline
        .sql(
            "CREATE TABLE t (id Int64, v Nullable(Int64), _op LowCardinality(String), _source_ts_ms Nullable(Int64), \
             _is_deleted UInt8, _version UInt128) ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id",
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)",
        )
        .await;
    pipeline.run_well(&["--until-end"]);
    assert_eq!(pipeline.rows().await, (0..3).map(|n| (n, 300 + n)).collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_table_of_clickhouse_is_not_made_anew_without_its_rows() {
    a_lost_table(Pipeline::into_clickhouse(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_table_of_sqlite_is_not_made_anew_without_its_rows() {
    a_lost_table(Pipeline::into_sqlite(2).await).await;
}

async fn a_group_moved_forward(pipeline: Pipeline) {
    let pipeline = pipeline.with_ten_rows().await;
    // To the end: five records of each partition would be skipped.
    pipeline.move_to(10).await;
    let said = pipeline.stops();
    assert!(said.contains("the group is ahead of the destination") && said.contains(":0 at 10,"), "{said}");
    assert!(said.contains("a tool moved the group") && said.contains("--to-offset 5"), "{said}");
    assert!(said.ends_with("what is there already stays as it is"), "{said}");
    assert_eq!(pipeline.command(&["check"]).code, 5);
    assert!(pipeline.command(&["status"]).text.contains("A RUN WOULD STOP: the group is ahead"));
    assert_eq!(pipeline.rows().await, values(100));
    // Back, and further back, is always allowed: a replay.
    pipeline.move_to(5).await;
    pipeline.ends_right().await;
    pipeline.move_to(2).await;
    assert_eq!(pipeline.run_well(&["--until-end"]).read, 16);
    pipeline.ends_right().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_a_tool_moved_past_what_clickhouse_has_is_refused_and_a_replay_is_not() {
    a_group_moved_forward(Pipeline::into_clickhouse(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_a_tool_moved_past_what_sqlite_has_is_refused_and_a_replay_is_not() {
    a_group_moved_forward(Pipeline::into_sqlite(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_are_gone_unread_are_told_by_status() {
    let pipeline = Pipeline::into_sqlite(2).await.with_ten_rows().await;
    kafka::delete_records(&pipeline.topic, 1, 7).await;
    let status = pipeline.command(&["status"]).text;
    assert!(status.contains("at 5 of 7..10, lag 3; 2 before it were removed unread\n"), "{status}");
    assert!(status.contains("A RUN WOULD STOP: group ") && status.contains("but the log begins at 7"), "{status}");
}

async fn a_topic_made_anew_twice(pipeline: Pipeline) {
    for life in 0..3_i64 {
        let base = 100 * (life + 1);
        pipeline.produce(&changes(base, 900_000, 1_000_000 * (life + 1))).await;
        if life > 0 {
            let said = pipeline.stops();
            pipeline.bump_as_told(&said);
        }
        pipeline.run_well(&["--until-end"]);
        assert_eq!(pipeline.rows().await, values(base));
        let listed = pipeline.command(&["epoch", "ls"]).text;
        let last = listed.lines().filter(|line| line.starts_with(&format!("epoch {life} "))).find_map(topic_id);
        kafka::delete_topic(&pipeline.topic).await;
        kafka::create_topic(&pipeline.topic, 2, &[]).await;
        if let Some(last) = last {
            pipeline.produce(&changes(base, 900_000, 1)).await;
            let said = pipeline.stops();
            assert!(said.contains(&format!("the group wrote id {last}, now")), "{last}: {said}");
            kafka::delete_topic(&pipeline.topic).await;
            kafka::create_topic(&pipeline.topic, 2, &[]).await;
        }
    }
}

fn topic_id(line: &str) -> Option<String> {
    Some(line.split("(topic id ").nth(1)?.trim_end_matches(')').to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_several_former_topics_is_named_by_clickhouse() {
    a_topic_made_anew_twice(Pipeline::into_clickhouse(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_several_former_topics_is_named_by_sqlite() {
    a_topic_made_anew_twice(Pipeline::into_sqlite(2).await).await;
}

/// On one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// So many records of a capture.
fn captured(stage: &Stage, records: i64) {
    let line = |n: i64| {
        let change = changes(100, 900_000, 1_000_000)[usize::try_from(n).unwrap()].record("shop.t");
        let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.unwrap()).unwrap();
        serde_json::json!({
            "topic": "shop.t", "partition": 0, "offset": n, "ts": 0, "key": text(change.key),
            "payload": text(change.payload),
        })
        .to_string()
    };
    stage.write("capture.jsonl", &(0..records).map(line).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_capture_that_is_shorter_than_the_groups_offset_is_refused() {
    let stage = Stage::new();
    stage.configure(&[CAPTURE, SQLITE].concat());
    captured(&stage, 5);
    assert_eq!(stage.run(&[]).read, 5);
    captured(&stage, 3);
    let told = "group g is to read shop.t:0 from offset 5, but the capture ends at 3: the capture was cut off, or is an \
                older copy. Restore it; or read it from the beginning, under a new group or by moving";
    let (code, said) = stage.said(&["run"]);
    assert!(code == 5 && said.contains(told), "{code}: {said}");
    let (code, said) = stage.said(&["check"]);
    assert!(code == 5 && flat(&said).contains(told), "{code}: {said}");
    let (_, said) = stage.said(&["status"]);
    assert!(said.contains(&format!("A RUN WOULD STOP: {told}")), "{said}");
    captured(&stage, 7);
    assert_eq!(stage.run(&[]).read, 2);
    // The offsets stay, the destination does not.
    std::fs::remove_file(stage.path("shop.db")).unwrap();
    let (code, said) = stage.said(&["run"]);
    assert!(code == 5 && said.contains("the destination holds nothing of the group"), "{code}: {said}");
}
