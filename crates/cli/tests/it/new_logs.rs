//! Logs that are not what the group read: a restored database, a topic made anew or grown, offsets
//! that are gone. The run stops before anything of it is applied and says what to do; that done, it
//! goes on, and a replay of everything under a new group changes nothing.

use std::collections::BTreeMap;

use settle_testkit::clickhouse::Client;
use settle_testkit::kafka::{self, Record};

use crate::child::{Running, until};
use crate::ends::{self, CAPTURE, SHORT_SESSION, SQLITE};
use crate::stage::{Report, Stage, report};

/// A pipeline from a topic of its own, for one destination.
pub struct Pipeline {
    pub topic: String,
    pub stage: Stage,
    clickhouse: Option<Client>,
}

/// What a command did.
pub struct Said {
    pub code: i32,
    pub text: String,
    report: Option<Report>,
}

impl Pipeline {
    pub async fn into_sqlite(partitions: i32) -> Self {
        Self::new(partitions, None).await
    }

    async fn into_clickhouse(partitions: i32) -> Self {
        let database = Client::with_fresh_database("newlogs").await;
        Self::new(partitions, Some(database)).await
    }

    async fn new(partitions: i32, clickhouse: Option<Client>) -> Self {
        let topic = kafka::unique("restored");
        kafka::create_topic(&topic, partitions, &[]).await;
        let stage = Stage::new();
        let (id, v) = if clickhouse.is_some() { ("Int64", "Nullable(Int64)") } else { ("INTEGER", "INTEGER") };
        stage.configure(&format!(
            "{}{SHORT_SESSION}\"topic.metadata.refresh.interval.ms\" = 1000\n{}[tables.\"public.t\".columns]\n\
             id = \"{id}\"\nv = \"{v}\"\n",
            ends::kafka(&format!("{topic}-group"), &[&topic]),
            ends::sink(&stage, clickhouse.as_ref())
        ));
        Self { topic, stage, clickhouse }
    }

    pub fn group(&self) -> String {
        format!("{}-group", self.topic)
    }

    pub async fn produce(&self, changes: &[Change]) {
        kafka::produce(changes.iter().map(|change| change.record(&self.topic)).collect::<Vec<_>>()).await;
    }

    fn run(&self, args: &[&str]) -> Said {
        let output = self.stage.output(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        Said { code: output.status.code().unwrap(), text, report: Some(report(&output)) }
    }

    pub fn command(&self, args: &[&str]) -> Said {
        let (code, text) = self.stage.said(args);
        Said { code, text, report: None }
    }

    /// Runs to the end; panics with what it said if that fails.
    pub fn run_well(&self, args: &[&str]) -> Report {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{}", ran.text);
        ran.report.unwrap()
    }

    /// A run that stops with exit code 5 and leaves everything as it was. Gives what it said.
    pub async fn refuses(&self) -> String {
        let (rows, committed) = (self.rows().await, self.committed().await);
        let said = self.stops();
        assert_eq!((self.rows().await, self.committed().await), (rows, committed), "{said}");
        said
    }

    /// A run that stops with exit code 5. Gives what it said.
    pub fn stops(&self) -> String {
        let ran = self.run(&["--until-end"]);
        assert_eq!(ran.code, 5, "{}", ran.text);
        ran.text.lines().rev().find(|line| line.starts_with("settle: ")).expect("an error").to_owned()
    }

    /// Runs what the refusal says.
    fn bump_as_told(&self, said: &str) {
        let places = said.split("settle epoch bump ").nth(1).expect("a command to run");
        let places = places.split([')', ',']).next().unwrap().split_whitespace();
        let args: Vec<&str> = ["epoch", "bump"].into_iter().chain(places).collect();
        let bumped = self.command(&args);
        assert_eq!(bumped.code, 0, "{args:?}: {}", bumped.text);
    }

    /// The values of the current rows.
    pub async fn rows(&self) -> BTreeMap<i64, i64> {
        ends::values(&self.stage, self.clickhouse.as_ref()).await
    }

    pub async fn committed(&self) -> Vec<Option<i64>> {
        let committed = kafka::committed(&self.group(), &self.topic).await;
        committed.into_iter().map(|place| place.map(|place| place.offset)).collect()
    }

    /// Everything again, as a group that never was: nothing changes.
    async fn replays_the_same(&self) {
        let rows = self.rows().await;
        let again = self.run_well(&["--until-end", "--group", &kafka::unique("fresh")]);
        assert!(again.read > 0);
        assert_eq!(self.rows().await, rows);
        if self.clickhouse.is_none() {
            assert_eq!(again.applied, 0, "{again:?}");
        }
    }
}

/// A change of row `id` to `v`, at a position and a time of the source.
#[derive(Clone, Copy)]
pub struct Change {
    partition: i32,
    id: i64,
    v: i64,
    lsn: u64,
    time_ms: i64,
}

impl Change {
    fn record(&self, topic: &str) -> Record {
        let Self { partition, id, v, lsn, time_ms } = self;
        let (key, commit) = (format!(r#"{{"id":{id}}}"#), lsn - 1);
        let value = format!(
            r#"{{"before":null,"after":{{"id":{id},"v":{v}}},"source":{{"connector":"postgresql","name":"s","db":"d","ts_ms":{time_ms},"snapshot":"false","sequence":"[\"{commit}\",\"{lsn}\"]","schema":"public","table":"t","lsn":{lsn}}},"transaction":null,"op":"u","ts_ms":{time_ms}}}"#
        );
        Record::new(topic, *partition, Some(&key), Some(&value))
    }
}

/// Changes of ten rows over two partitions, `v` counted from `base`, one position and second each.
pub fn changes(base: i64, lsn: u64, time_ms: i64) -> Vec<Change> {
    let change = |n: i64| Change {
        partition: i32::try_from(n % 2).unwrap(),
        id: n,
        v: base + n,
        lsn: lsn + 10 * n.cast_unsigned(),
        time_ms: time_ms + 1000 * n,
    };
    (0..10).map(change).collect()
}

pub fn values(base: i64) -> BTreeMap<i64, i64> {
    (0..10).map(|n| (n, base + n)).collect()
}

async fn a_restored_database(pipeline: Pipeline) {
    pipeline.produce(&changes(100, 900_000, 1_000_000)).await;
    pipeline.run_well(&["--until-end"]);
    assert_eq!(pipeline.rows().await, values(100));
    // Restored from an older backup: smaller positions, a day later.
    pipeline.produce(&changes(200, 50_000, 90_000_000)).await;
    let mut partitions = Vec::new();
    while partitions.len() < 2 {
        // Later, the partition whose epoch has begun may go on before the other one stops the run.
        let said = if partitions.is_empty() { pipeline.refuses().await } else { pipeline.stops() };
        assert!(said.contains("the log of s/d began anew") && said.contains("Nothing of it is applied"), "{said}");
        let place = said.rsplit(' ').next().unwrap();
        assert!(place.ends_with(":5"), "where it began: {said}");
        if partitions.is_empty() {
            // A mistake: from there on it would be another log, and the run stops where it did.
            let late = format!("{}:7", place.strip_suffix(":5").unwrap());
            assert_eq!(pipeline.command(&["epoch", "bump", &late]).code, 0);
            assert_eq!(pipeline.refuses().await, said);
        }
        partitions.push(place.to_owned());
        pipeline.bump_as_told(&said);
        if pipeline.run(&["--until-end"]).code == 0 {
            break;
        }
    }
    assert_eq!(partitions.len(), 2, "each partition notices by itself: {partitions:?}");
    assert_eq!(pipeline.rows().await, values(200));
    let listed = pipeline.command(&["epoch", "ls"]).text;
    for number in 0..2 {
        assert!(listed.contains(&format!("epoch 1 begins at {}:{number}:5", pipeline.topic)), "{listed}");
    }
    // What is there already is no new epoch.
    let again = pipeline.command(&["epoch", "bump", &format!("{}:0:5", pipeline.topic)]);
    assert_eq!(again.code, 0, "{}", again.text);
    assert_eq!(pipeline.command(&["epoch", "ls"]).text, listed);
    pipeline.replays_the_same().await;
    assert_eq!(pipeline.rows().await, values(200));
    // The restored database goes on, and its connector may be killed.
    pipeline.produce(&changes(200, 50_000, 90_000_000)).await;
    pipeline.produce(&changes(300, 60_000, 91_000_000)).await;
    pipeline.run_well(&["--until-end"]);
    assert_eq!(pipeline.rows().await, values(300));
    pipeline.replays_the_same().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_database_stops_the_run_and_goes_on_in_a_new_epoch_in_sqlite() {
    a_restored_database(Pipeline::into_sqlite(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_database_stops_the_run_and_goes_on_in_a_new_epoch_in_clickhouse() {
    a_restored_database(Pipeline::into_clickhouse(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_log_of_a_slow_clock_is_told_by_its_length_and_what_was_passed_is_read_again() {
    let pipeline = Pipeline::into_sqlite(1).await;
    let one = |n: i64, v, lsn, time_ms| Change { partition: 0, id: n, v, lsn, time_ms };
    let old: Vec<Change> = (0..4).map(|n| one(n, 100 + n, 900 + n.cast_unsigned(), 9_000)).collect();
    let new: Vec<Change> = (0..6).map(|n| one(n % 3, 200 + n, 50 + n.cast_unsigned(), 1_000)).collect();
    pipeline.produce(&old).await;
    pipeline.produce(&new).await;
    let ran = pipeline.run(&["--until-end"]);
    assert_eq!(ran.code, 5, "{}", ran.text);
    assert!(ran.text.contains("5 records below it came since offset 4"), "{}", ran.text);
    let rows: BTreeMap<i64, i64> = (0..4).map(|n| (n, 100 + n)).collect();
    assert_eq!(pipeline.rows().await, rows, "those before it were stale");
    assert_eq!(pipeline.committed().await, [Some(8)]);
    let bumped = pipeline.command(&["epoch", "bump", &format!("{}:0:4", pipeline.topic)]);
    assert!(bumped.code == 0 && bumped.text.contains("--to-offset 4"), "{}", bumped.text);
    let said = pipeline.refuses().await;
    assert!(said.contains("up to offset 8 in epoch 0, and epoch 1 begins at 4"), "{said}");
    assert!(said.contains(&format!(
        "--group {} --topic {}:0 --reset-offsets --to-offset 4",
        pipeline.group(),
        pipeline.topic
    )));
    // A new group reads it all.
    pipeline.run_well(&["--until-end", "--group", &kafka::unique("fresh")]);
    assert_eq!(pipeline.rows().await, [(0, 203), (1, 204), (2, 205), (3, 103)].into());
    pipeline.replays_the_same().await;
}

async fn a_topic_made_anew(pipeline: Pipeline) {
    pipeline.produce(&changes(100, 900_000, 1_000_000)).await;
    pipeline.run_well(&["--until-end"]);
    kafka::delete_topic(&pipeline.topic).await;
    kafka::create_topic(&pipeline.topic, 2, &[]).await;
    pipeline.produce(&changes(200, 50_000, 90_000_000)).await;
    let said = pipeline.refuses().await;
    assert!(said.contains(&format!("topic {} was deleted and made anew", pipeline.topic)), "{said}");
    assert!(said.contains(&format!("settle epoch bump {0}:0:0 {0}:1:0", pipeline.topic)), "{said}");
    // What reads beside the pipeline must not get round that as another group, or as none.
    let first = format!("{}:0:0", pipeline.topic);
    let beside: [&[&str]; 4] = [
        &["prove"],
        &["prove", "--fresh"],
        &["replay", "--from", &first],
        &["replay", "--since", "2000-01-01T00:00:00Z"],
    ];
    for args in beside {
        let refused = pipeline.command(args);
        assert_eq!(refused.code, 5, "{args:?}: {}", refused.text);
        assert_eq!(refused.text.lines().last(), Some(said.as_str()), "{args:?}");
        assert_eq!(pipeline.rows().await, values(100), "{args:?}");
    }
    pipeline.bump_as_told(&said);
    for args in [&["prove", "--times", "1"][..], &["replay", "--from", &first]] {
        let done = pipeline.command(args);
        assert!(!done.text.contains("made anew"), "{args:?}: {}", done.text);
    }
    pipeline.run_well(&["--until-end"]);
    assert_eq!(pipeline.rows().await, values(200));
    pipeline.replays_the_same().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_made_anew_stops_the_run_and_goes_on_in_a_new_epoch_in_sqlite() {
    a_topic_made_anew(Pipeline::into_sqlite(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_made_anew_stops_the_run_and_goes_on_in_a_new_epoch_in_clickhouse() {
    a_topic_made_anew(Pipeline::into_clickhouse(2).await).await;
}

async fn a_group_that_lost_its_offsets(pipeline: Pipeline) {
    pipeline.produce(&changes(100, 900_000, 1_000_000)).await;
    pipeline.run_well(&["--until-end"]);
    until(
        "the group is gone",
        async || {
            kafka::delete_group(&pipeline.group()).await;
            pipeline.committed().await
        },
        |c| *c == [None, None],
    )
    .await;
    let said = pipeline.refuses().await;
    assert!(said.contains("the group lost its offsets (expired, or deleted)"), "{said}");
    assert!(said.contains(&format!("--group {} --topic {}:", pipeline.group(), pipeline.topic)), "{said}");
    assert_eq!(pipeline.committed().await, [None, None], "never a silent reset");
    pipeline.replays_the_same().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_lost_its_offsets_is_noticed_in_sqlite() {
    a_group_that_lost_its_offsets(Pipeline::into_sqlite(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_lost_its_offsets_is_noticed_in_clickhouse() {
    a_group_that_lost_its_offsets(Pipeline::into_clickhouse(2).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_expired_unread_stop_the_run() {
    let pipeline = Pipeline::into_sqlite(2).await;
    pipeline.produce(&changes(100, 900_000, 1_000_000)).await;
    pipeline.run_well(&["--until-end"]);
    pipeline.produce(&changes(200, 910_000, 2_000_000)).await;
    kafka::delete_records(&pipeline.topic, 1, 7).await;
    let said = pipeline.refuses().await;
    assert!(said.contains(":1 from offset 5, but the log begins at 7") && said.contains("--to-offset 7"), "{said}");
    // Moved there as told, it goes on though the destination is behind.
    kafka::move_group(&pipeline.group(), &pipeline.topic, &[(1, 7)]).await;
    assert_eq!(pipeline.run_well(&["--until-end"]).read, 5 + 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_a_topic_gained_wait_for_the_others() {
    let pipeline = Pipeline::into_sqlite(1).await;
    let old: Vec<Change> =
        (0..300).map(|n| Change { partition: 0, id: n, v: 100, lsn: 1000 + n.cast_unsigned(), time_ms: n }).collect();
    pipeline.produce(&old).await;
    pipeline.run_well(&["--max-messages", "10"]);
    kafka::create_partitions(&pipeline.topic, 2).await;
    let moved: Vec<Change> = (0..5)
        .map(|n| Change { partition: 1, id: n, v: 200, lsn: 5000 + n.cast_unsigned(), time_ms: 5000 + n })
        .collect();
    pipeline.produce(&moved).await;
    // Whatever is read, it is of the old partition, until that is committed to its end.
    for _ in 0..2 {
        pipeline.run_well(&["--max-messages", "100"]);
        assert_eq!(pipeline.committed().await[1], None);
    }
    pipeline.run_well(&["--until-end"]);
    assert_eq!(pipeline.committed().await, [Some(300), Some(5)]);
    let rows = pipeline.rows().await;
    assert_eq!((rows[&0], rows[&4], rows[&5]), (200, 200, 100));

    // While it runs.
    let mut running = Running::start(&pipeline.stage, &[]);
    running.until_said("caught up").await;
    kafka::create_partitions(&pipeline.topic, 3).await;
    let more: Vec<Change> = (5..8)
        .map(|n| Change { partition: 2, id: n, v: 300, lsn: 6000 + n.cast_unsigned(), time_ms: 6000 + n })
        .collect();
    pipeline.produce(&more).await;
    until("the third is read", async || pipeline.committed().await, |committed| committed[2] == Some(3)).await;
    assert!(!running.has_ended());
    running.kill();
    assert_eq!(pipeline.rows().await[&7], 300);
    pipeline.replays_the_same().await;
}

/// A capture of two partitions into SQLite: `settle epoch` needs no broker.
fn captured() -> Stage {
    let stage = Stage::new();
    let line = |change: &Change, offset: usize| {
        let record = change.record("shop.t");
        let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.unwrap()).unwrap();
        serde_json::json!({
            "topic": "shop.t", "partition": record.partition, "offset": offset, "ts": 0,
            "key": text(record.key), "payload": text(record.payload),
        })
        .to_string()
    };
    let lines: Vec<String> = changes(100, 900_000, 1_000_000).iter().zip(0..).map(|(c, n)| line(c, n / 2)).collect();
    stage.write("capture.jsonl", &lines.join("\n"));
    stage.configure(&[CAPTURE, SQLITE].concat());
    stage
}

fn epoch(stage: &Stage, args: &[&str]) -> (i32, String) {
    stage.said(&[&["epoch"], args].concat())
}

#[test]
fn an_epoch_that_cannot_begin_there_is_refused_and_nothing_is_recorded() {
    let stage = captured();
    stage.run(&["--until-end"]);
    let none = (0, "no epochs: all records are of the first log\n".to_owned());
    assert_eq!(epoch(&stage, &["ls"]), none);
    for (args, code, said) in [
        (vec!["shop.t:2:0"], 2, "settle: shop.t:2 is none of the partitions that [source] reads\n"),
        (vec!["other:0:0"], 2, "settle: other:0 is none of the partitions that [source] reads\n"),
        (vec!["shop.t:0:6"], 2, "settle: shop.t:0 ends at offset 5: an epoch cannot begin behind it, at 6\n"),
        (
            vec!["shop.t:0:3", "--epoch", "128"],
            2,
            "settle: epoch 128 does not fit the version, whose epochs go up to 127; write this source to new tables\n",
        ),
        (
            vec!["shop.t:0:3", "--epoch", "0"],
            5,
            "settle: shop.t:0: epoch 0 is not above 0, which rows of the topic have already; take a greater one\n",
        ),
        (vec!["shop.t:0:3", "shop.t:2:0"], 2, "settle: shop.t:2 is none of the partitions that [source] reads\n"),
    ] {
        assert_eq!(epoch(&stage, &[&["bump"], &args[..]].concat()), (code, said.to_owned()), "{args:?}");
        assert_eq!(epoch(&stage, &["ls"]), none, "{args:?}");
    }
    let (code, said) = epoch(&stage, &["bump", "shop.t:0:3", "--epoch", "5"]);
    assert_eq!((code, said.lines().next()), (0, Some("epoch 5 begins at shop.t:0:3")), "{said}");
    assert_eq!(
        epoch(&stage, &["bump", "shop.t:0:2", "--epoch", "6"]),
        (
            5,
            "settle: shop.t:0: epoch 6 cannot begin at offset 2: epoch 5 begins at 3, and an epoch begins behind the one \
             before it (`settle epoch ls` shows them)\n"
                .to_owned()
        )
    );
    let (code, said) = epoch(&stage, &["bump", "shop.t:0:2"]);
    assert_eq!((code, said.lines().next()), (0, Some("epoch 5 begins at shop.t:0:2, and not only at 3")), "{said}");
    let (_, listed) = epoch(&stage, &["ls"]);
    assert!(listed.starts_with("epoch 5 begins at shop.t:0:2  (topic id ") && listed.lines().count() == 1, "{listed}");
    let (_, said) = epoch(&stage, &["bump", "shop.t:1:0"]);
    assert!(said.starts_with("epoch 5 begins at shop.t:1:0"), "the one that the other partition moved to: {said}");
}

#[test]
fn rows_above_every_epoch_recorded_stop_a_run_into_sqlite() {
    let stage = captured();
    assert_eq!(epoch(&stage, &["bump", "shop.t:0:0"]).0, 0);
    stage.run(&["--until-end"]);
    // A settle_meta that was lost, or is older than the tables.
    let connection = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    assert_eq!(connection.execute("DELETE FROM settle_meta WHERE kind = 'epoch'", []).unwrap(), 1);
    let output = stage.output(&["--until-end", "--group", "another"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("it holds rows whose version is above every epoch recorded in settle_meta (0)"), "{said}");
    // Recorded again, it goes on, and changes nothing.
    assert_eq!(epoch(&stage, &["bump", "shop.t:0:0"]).0, 0);
    assert_eq!(stage.run(&["--until-end", "--group", "third"]).applied, 0);
}
