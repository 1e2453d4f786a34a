//! Records that cannot be applied, from the log to the queue and back: wherever they stand, their
//! neighbours are applied, and nothing is committed before they are safe.

use std::net::TcpListener;

use serde_json::{Value, json};
use settle_testkit::clickhouse::Client;
use settle_testkit::kafka::{self, Record};
use settle_testkit::services;

use crate::child::Running;
use crate::ends::{self, CAPTURE};
use crate::stage::{Report, Stage, report};

/// What is wrong with a record: name, class, key, value.
const POISON: [(&str, &str, Option<&str>, &str); 6] = [
    ("not JSON", "not-json", Some(r#"{"id":2}"#), "plain words"),
    ("truncated", "not-json", Some(r#"{"id":2}"#), r#"{"op":"c","before":null,"after":{"id":2"#),
    ("byte order mark", "not-json", Some(r#"{"id":2}"#), "\u{feff}{\"op\":\"c\"}"),
    ("unknown op", "unknown-op", Some(r#"{"id":2}"#), "OP q"),
    ("missing key", "no-key", None, "OP c"),
    ("out of range", "value", Some(r#"{"id":2}"#), "OP big"),
];

/// Where it stands among good records.
const PLACES: [&str; 4] = ["first", "middle", "last", "survivor"];

pub fn envelope(op: &str, id: u64, n: i64, lsn: u64) -> String {
    format!(
        r#"{{"op":"{op}","before":null,"after":{{"id":{id},"n":{n}}},"source":{{"connector":"postgresql","name":"srv","db":"shop","schema":"public","table":"t","ts_ms":1700000000000,"lsn":{lsn},"sequence":"[\"{lsn}\",\"{lsn}\"]"}}}}"#
    )
}

pub fn good(id: u64, n: i64, lsn: u64) -> (Option<String>, Option<String>) {
    (Some(format!(r#"{{"id":{id}}}"#)), Some(envelope("c", id, n, lsn)))
}

fn poison(at: usize, lsn: u64) -> (Option<String>, Option<String>) {
    let (_, _, key, value) = POISON[at];
    let value = match value {
        "OP q" => envelope("q", 2, 5, lsn),
        "OP c" => envelope("c", 2, 5, lsn),
        "OP big" => envelope("u", 2, 3_000_000_000, lsn),
        text => text.to_owned(),
    };
    (key.map(str::to_owned), Some(value))
}

pub type Pairs = Vec<(Option<String>, Option<String>)>;

/// A log with one poison record in it, and the rows that must be there in the end.
fn log(at: usize, place: &str) -> (Pairs, Value) {
    let rows = json!([{"id": "1", "n": "10"}, {"id": "3", "n": "30"}]);
    match place {
        "first" if POISON[at].1 != "no-key" => (vec![poison(at, 5), good(1, 10, 10), good(3, 30, 20)], rows),
        // A topic whose first record has no key is another matter: its shape is not known yet.
        "first" | "middle" => (vec![good(1, 10, 10), poison(at, 15), good(3, 30, 20)], rows),
        "last" => (vec![good(1, 10, 10), good(3, 30, 20), poison(at, 30)], rows),
        _ => {
            let rows = json!([{"id": "1", "n": "10"}, {"id": "2", "n": "21"}]);
            (vec![good(1, 10, 10), good(2, 20, 11), good(2, 21, 12), poison(at, 15)], rows)
        }
    }
}

/// A pipeline with `[dlq]`, on a capture or on Kafka, into SQLite or ClickHouse.
pub struct Line {
    pub stage: Stage,
    database: Option<Client>,
    /// Text columns beside id and n.
    texts: &'static [&'static str],
}

impl Line {
    pub async fn new(into_clickhouse: bool, source: &str, dlq: &str, texts: &'static [&'static str]) -> Self {
        let stage = Stage::new();
        let database = if into_clickhouse { Some(Client::with_fresh_database("dlq").await) } else { None };
        let line = Self { stage, database, texts };
        let sink = ends::sink(&line.stage, line.database.as_ref());
        let rest = if into_clickhouse {
            let columns: String = texts.iter().map(|name| format!("{name} = \"Nullable(String)\"\n")).collect();
            format!("[tables.\"public.t\".columns]\nid = \"Int64\"\nn = \"Nullable(Int32)\"\n{columns}")
        } else {
            line.sql(&line.sqlite_table("t", "CHECK (n < 2000000000)")).await;
            String::new()
        };
        let create = if into_clickhouse { "" } else { "create = false\n" };
        line.stage.configure(&format!("{source}{sink}{create}[dlq]\n{dlq}\n{rest}"));
        line
    }

    pub async fn of_capture(into_clickhouse: bool, pairs: &Pairs) -> Self {
        Self::with_texts(into_clickhouse, pairs, &[]).await
    }

    /// The same, with text columns beside id and n.
    pub async fn with_texts(into_clickhouse: bool, pairs: &Pairs, texts: &'static [&'static str]) -> Self {
        let line = Self::new(into_clickhouse, CAPTURE, "path = \"dead.jsonl\"", texts).await;
        line.capture(pairs);
        line
    }

    fn sqlite_table(&self, name: &str, check: &str) -> String {
        let texts: String = self.texts.iter().map(|name| format!("{name} TEXT, ")).collect();
        format!(
            "CREATE TABLE {name} (id INTEGER PRIMARY KEY, n INTEGER {check}, {texts}_op TEXT, _source_ts_ms INTEGER, \
             _version_hi INTEGER NOT NULL DEFAULT 0, _version_lo INTEGER NOT NULL DEFAULT 0)"
        )
    }

    /// The table takes any n from now on.
    pub async fn mend(&self) {
        match self.database.is_some() {
            true => self.sql("ALTER TABLE t MODIFY COLUMN n Nullable(Int64)").await,
            false => {
                let wider = self.sqlite_table("wider", "");
                let replace = "INSERT INTO wider SELECT * FROM t; DROP TABLE t; ALTER TABLE wider RENAME TO t";
                self.sql(&format!("{wider}; {replace}")).await;
            }
        }
    }

    /// One record a batch, so that none overtakes another in its batch.
    pub fn one_by_one(&self) {
        let text = std::fs::read_to_string(self.stage.path("settle.toml")).unwrap();
        self.stage.write("settle.toml", &format!("{text}\n[batch]\nmax_rows = 1\n"));
    }

    pub fn capture(&self, pairs: &Pairs) {
        let lines: Vec<String> = (0..)
            .zip(pairs)
            .map(|(offset, (key, value))| {
                json!({"topic": "shop", "partition": 0, "offset": offset, "ts": 1, "headers": ["trace", "abc"],
                       "key": key, "payload": value})
                .to_string()
            })
            .collect();
        self.stage.write("capture.jsonl", &format!("{}\n", lines.join("\n")));
    }

    async fn sql(&self, sql: &str) {
        match &self.database {
            None => rusqlite::Connection::open(self.stage.path("shop.db")).unwrap().execute_batch(sql).unwrap(),
            Some(client) => drop(client.query(sql).await),
        }
    }

    pub async fn rows(&self) -> Value {
        let columns = [&["id", "n"], self.texts].concat();
        let list = columns.join(", ");
        let rows = match &self.database {
            None => {
                let connection = rusqlite::Connection::open(self.stage.path("shop.db")).unwrap();
                settle::compare::sqlite_rows(&connection, &format!("SELECT {list} FROM t ORDER BY id")).unwrap()
            }
            Some(client) => {
                let rows = client.rows(&format!("SELECT {list} FROM t_current ORDER BY id")).await;
                let row = |row: Vec<String>| {
                    columns.iter().map(|name| (*name).to_owned()).zip(row.into_iter().map(Some)).collect()
                };
                rows.into_iter().map(row).collect()
            }
        };
        serde_json::to_value(rows).unwrap()
    }

    pub fn letters(&self) -> Vec<Value> {
        let output = self.stage.settle(&["dlq", "ls", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// `settle dlq …`: exit code and what it printed.
    pub fn dlq(&self, args: &[&str]) -> (i32, String) {
        self.stage.said(&[&["dlq"], args].concat())
    }

    pub fn run(&self) -> Report {
        self.stage.run(&["--until-end"])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_of_every_kind_in_every_place_is_set_aside_and_its_neighbours_are_applied() {
    for into_clickhouse in [false, true] {
        for (at, (name, class, ..)) in POISON.iter().enumerate() {
            for place in PLACES {
                let context = format!("{name}, {place}, ClickHouse {into_clickhouse}");
                let (pairs, rows) = log(at, place);
                let line = Line::of_capture(into_clickhouse, &pairs).await;
                let report = line.run();
                assert_eq!((report.read, report.dead_lettered), (pairs.len() as u64, 1), "{context}");
                assert_eq!(report.committed["shop:0"], pairs.len() as i64, "{context}");
                assert_eq!(line.rows().await, rows, "{context}");
                let letters = line.letters();
                assert_eq!(letters.len(), 1, "{context}");
                let class = if *name == "out of range" && !into_clickhouse { "constraint" } else { class };
                assert_eq!(letters[0]["class"], class, "{context}: {letters:?}");
                let dead: Value =
                    serde_json::from_str(&std::fs::read_to_string(line.stage.path("dead.jsonl")).unwrap()).unwrap();
                let (key, value) = &pairs[usize::try_from(letters[0]["offset"].as_u64().unwrap()).unwrap()];
                assert_eq!((dead["key"].as_str(), dead["payload"].as_str()), (key.as_deref(), value.as_deref()));
                assert_eq!(
                    (&dead["headers"][0], &dead["headers"][1]),
                    (&json!("trace"), &json!("abc")),
                    "its own come first"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_nothing_but_poison_is_committed_to_its_end() {
    for into_clickhouse in [false, true] {
        let pairs = vec![poison(0, 1), poison(3, 2)];
        let line = Line::of_capture(into_clickhouse, &pairs).await;
        let report = line.run();
        assert_eq!((report.read, report.dead_lettered, report.committed["shop:0"]), (2, 2, 2));
        let again = line.run();
        assert_eq!(again.read, 0, "committed");
        // Read again as another group, they are that group's letters; read again, they are written again.
        let (code, said) = line.dlq(&["drop", "--yes"]);
        assert_eq!((code, said.as_str()), (0, "dropped 2\n"));
        for times in [1, 2] {
            line.stage.run(&["--until-end", "--group", "other"]);
            let (_, said) = line.dlq(&["ls"]);
            assert!(said.contains("others are left alone: 2 of group \"other\" (--group)"), "{said}");
            assert!(said.contains("no dead letters"), "{said}");
            let (_, said) = line.dlq(&["ls", "--json", "--group", "other"]);
            let letters: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(letters.len(), 2);
            assert!(letters.iter().all(|letter| letter["times"] == times), "{letters:?}");
            std::fs::remove_file(line.stage.path("capture.jsonl.other.offsets")).unwrap();
        }
        let (code, said) = line.dlq(&["ls", "--class", "not-jsn"]);
        assert!(code == 0 && said.contains("unknown error class \"not-jsn\""), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_kafka_the_offset_is_committed_behind_the_queue_and_not_while_it_is_away() {
    let topic = kafka::unique("poison");
    kafka::create_topic(&topic, 1, &[]).await;
    let pairs = [good(1, 10, 10), poison(0, 15), good(3, 30, 20)];
    let records = pairs
        .iter()
        .map(|(key, value)| Record::new(&topic, 0, key.as_deref(), value.as_deref()).with_header("trace", "abc"));
    kafka::produce(records.collect::<Vec<_>>()).await;
    // A port that nobody listens on.
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let queue = format!("{topic}-dlq");
    for into_clickhouse in [true, false] {
        let group = format!("{topic}-{into_clickhouse}");
        let away = format!("topic = \"{queue}\"\nbrokers = \"{dead}\"");
        let line = Line::new(into_clickhouse, &ends::kafka(&group, &[&topic]), &away, &[]).await;
        let run = Running::start(&line.stage, &["--until-end", "--deadline", "3s"]);
        run.until_said("paused").await;
        let (status, report) = run.wait();
        assert_eq!(status.code(), Some(4));
        assert_eq!((report.dead_lettered, report.unsettled), (0, 3), "{report:?}");
        let committed: Vec<i64> = kafka::committed(&group, &topic)
            .await
            .into_iter()
            .map(|place| place.map_or(0, |place| place.offset))
            .collect();
        assert_eq!(committed, [0], "nothing before the queue has it");
        line.stage.reconfigure(&format!("\nbrokers = \"{dead}\""), "");
        let report = line.run();
        assert_eq!((report.read, report.dead_lettered), (3, 1));
        assert_eq!(report.committed[&format!("{topic}:0")], 3);
        assert_eq!(line.rows().await, json!([{"id": "1", "n": "10"}, {"id": "3", "n": "30"}]));
    }
    let letters = kafka::read_topic(&queue, kafka::Isolation::ReadCommitted).await;
    assert_eq!(letters.len(), 2, "one of each pipeline");
    for letter in letters {
        assert_eq!(letter.payload.as_deref(), Some(&b"plain words"[..]));
        assert_eq!(letter.key.as_deref(), Some(&br#"{"id":2}"#[..]));
        let header = |name: &str| {
            let found = letter.headers.iter().find(|(header, _)| header == name);
            String::from_utf8(found.unwrap().1.clone().unwrap()).unwrap()
        };
        assert_eq!((header("trace"), header("x-error-class")), ("abc".to_owned(), "not-json".to_owned()));
        assert_eq!((header("x-origin-topic"), header("x-origin-offset")), (topic.clone(), "1".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_was_deleted_is_made_anew_with_a_warning() {
    let topic = kafka::unique("poison");
    let queue = format!("{topic}-dlq");
    kafka::create_topic(&topic, 1, &[]).await;
    let line = Line::new(false, &ends::kafka(&topic, &[&topic]), &format!("topic = \"{queue}\""), &[]).await;
    let produce = async |(key, value): (Option<String>, Option<String>)| {
        kafka::produce(vec![Record::new(&topic, 0, key.as_deref(), value.as_deref())]).await;
    };
    let said = || {
        let output = line.stage.output(&["--until-end"]);
        assert_eq!(report(&output).dead_lettered, 1);
        String::from_utf8(output.stderr).unwrap()
    };
    produce(poison(0, 5)).await;
    let first = said();
    assert!(first.contains("topic for dead letters created") && !first.contains("WARN"), "{first}");
    kafka::delete_topic(&queue).await;
    produce(poison(5, 10)).await;
    let second = said();
    assert!(
        second.contains("WARN") && second.contains("was gone and is made anew: the letters in it are lost"),
        "{second}"
    );
    kafka::delete_topic(&queue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_after_the_table_was_mended_brings_the_row_unless_a_newer_one_is_there() {
    for into_clickhouse in [false, true] {
        let big = |id: u64, lsn: u64| (Some(format!(r#"{{"id":{id}}}"#)), Some(envelope("u", id, 3_000_000_000, lsn)));
        // Row 2 is only poison; row 1 has something newer behind it.
        let pairs = vec![good(1, 10, 10), big(1, 15), big(2, 16), good(1, 11, 20), poison(0, 25)];
        let line = Line::of_capture(into_clickhouse, &pairs).await;
        line.one_by_one();
        assert_eq!(line.run().dead_lettered, 3);
        assert_eq!(line.rows().await, json!([{"id": "1", "n": "11"}]));
        let (code, said) = line.dlq(&["retry"]);
        assert_eq!(code, 5, "not mended yet: {said}");
        assert!(said.starts_with("retried 0 of 3"), "{said}");
        line.mend().await;
        let (code, said) = line.dlq(&["retry", "--table", "public.t"]);
        assert_eq!(code, 0, "{said}");
        assert!(said.starts_with("retried 2 of 2"), "{said}");
        // ClickHouse cannot know that the newer row 1 stayed.
        let rows = if into_clickhouse { ": 2 rows written (" } else { ": 1 rows applied, 1 stale (" };
        assert!(said.contains(rows), "{said}");
        assert_eq!(line.rows().await, json!([{"id": "1", "n": "11"}, {"id": "2", "n": "3000000000"}]));
        let left = line.letters();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(left[0]["class"], "not-json");
        let (code, said) = line.dlq(&["show", "shop:0:4"]);
        assert!(code == 0 && said.contains("plain words") && said.contains("trace: abc"), "{said}");
        let (_, said) = line.dlq(&["drop", "--class", "not-json"]);
        assert!(said.contains("would be dropped"), "{said}");
        assert_eq!(line.letters().len(), 1);
        let (code, said) = line.dlq(&["drop", "--class", "not-json", "--yes"]);
        assert_eq!((code, said.as_str()), (0, "dropped 1\n"));
        assert_eq!(line.letters().len(), 0);
        assert_eq!(line.dlq(&["retry"]), (0, "no open dead letter is meant\n".to_owned()));
        let (_, all) = line.dlq(&["ls", "--all"]);
        assert!(all.contains("3 dead letters") && all.contains("retried") && all.contains("dropped"), "{all}");
        assert!(all.lines().all(|line| line.chars().count() <= 100), "{all}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_too_big_for_the_queue_is_cut_counted_and_never_applied_by_halves() {
    let queue = kafka::unique("dlq");
    kafka::create_topic(&queue, 1, &[("max.message.bytes", "20000")]).await;
    let dlq = format!("topic = \"{queue}\"\nbrokers = \"{}\"", services::kafka());
    let line = Line::new(false, CAPTURE, &dlq, &[]).await;
    let big = (good(2, 0, 0).0, Some(format!("no json {}", "x".repeat(30_000))));
    line.capture(&vec![good(1, 10, 10), big, poison(0, 15), good(3, 30, 20)]);
    let output = line.stage.output(&["--until-end"]);
    let counted: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&counted["dead_lettered"], &counted["dlq_truncated"]), (&json!(2), &json!(1)), "{counted}");
    assert_eq!(line.rows().await, json!([{"id": "1", "n": "10"}, {"id": "3", "n": "30"}]));
    let (code, said) = line.dlq(&["show", "shop:0:1"]);
    assert!(code == 0 && said.contains("left out: 30008 bytes") && said.contains("{\"id\":2}"), "{said}");
    let (code, said) = line.dlq(&["retry", "shop:0:1"]);
    assert!(code == 5 && said.contains("stays: shop:0:1: its value (30008 bytes) was too big"), "{said}");
    assert!(said.contains("settle replay --from shop:0:1 --to shop:0:1"), "{said}");
    let (code, said) = line.dlq(&["drop", "shop:0:1", "--yes"]);
    assert!(code == 0 && said.starts_with("dropped 1\n"), "{said}");
    let (code, said) = line.dlq(&["ls", "--json"]);
    assert_eq!((code, said.lines().count()), (0, 1), "nothing of librdkafka's is printed: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_stop_the_run_before_they_are_written() {
    let mut pairs: Pairs = (0..1_500).map(|id| good(id + 10, 1, 100 + id)).collect();
    for at in 0..20 {
        pairs[1_000 + at * 10] = poison(0, 0);
    }
    let line = Line::of_capture(false, &pairs).await;
    let output = line.stage.output(&["--until-end"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("20 of 1500 records read cannot be applied"), "{said}");
    assert_eq!(report(&output).dead_lettered, 0);
    assert!(line.letters().is_empty());
    // Allowed, they go.
    line.stage.reconfigure("[dlq]", "[dlq]\nmax_ratio = 0.05");
    assert_eq!(line.run().dead_lettered, 20);
    assert_eq!(line.letters().len(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_queue_the_run_stops_and_says_the_way_out() {
    let line = Line::of_capture(false, &vec![good(1, 10, 10), poison(0, 15)]).await;
    line.stage.reconfigure("[dlq]\npath = \"dead.jsonl\"\n", "");
    let output = line.stage.output(&["--until-end"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("record shop:0:1") && said.contains("[dlq]"), "{said}");
    assert_eq!(report(&output).committed["shop:0"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leaves_a_column_out_behind_a_dead_letter_follows_it_until_the_row_is_whole_in_later_runs_too() {
    let unsent = |lsn: u64| {
        let value = envelope("u", 1, 0, lsn).replace("\"n\":0", "\"n\":\"__debezium_unavailable_value\"");
        (Some(r#"{"id":1}"#.to_owned()), Some(value))
    };
    let garbage = || (Some(r#"{"id":1}"#.to_owned()), Some("plain words".to_owned()));
    for into_clickhouse in [false, true] {
        let mut pairs = vec![good(1, 10, 10), unsent(11), garbage(), unsent(20)];
        let line = Line::of_capture(into_clickhouse, &pairs).await;
        let classes = |line: &Line| -> Vec<String> {
            line.letters().iter().map(|letter| letter["class"].as_str().unwrap().to_owned()).collect()
        };
        // Unsent before the garbage: what is stored is its value. Behind it, nobody knows.
        assert_eq!(line.run().dead_lettered, 2);
        assert_eq!(classes(&line), ["not-json", "follows-a-dead-letter"]);
        // Another process knows it from the destination.
        pairs.extend([unsent(30)]);
        line.capture(&pairs);
        assert_eq!(line.run().dead_lettered, 1);
        assert_eq!(line.rows().await, json!([{"id": "1", "n": "10"}]));
        pairs.extend([good(1, 40, 40), unsent(50)]);
        line.capture(&pairs);
        assert_eq!(line.run().dead_lettered, 0);
        // And knows that it is over.
        pairs.extend([unsent(60)]);
        line.capture(&pairs);
        let report = line.run();
        assert_eq!((report.read, report.dead_lettered), (1, 0));
        assert_eq!(line.rows().await, json!([{"id": "1", "n": "40"}]));
        // All of it again: the same letters, and no row is worse.
        line.stage.run(&["--until-end", "--group", "again"]);
        assert_eq!(classes(&line), ["not-json", "follows-a-dead-letter", "follows-a-dead-letter"]);
        assert_eq!(line.rows().await, json!([{"id": "1", "n": "40"}]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_only_the_server_can_refuse_are_found_among_thousands() {
    let mut pairs: Pairs = (0..3_000).map(|id| good(id, 1, 100 + id)).collect();
    // Row 7 had a good value before; rows 5,000 and 5,001 are nothing but poison.
    pairs.insert(1_500, good(7, 2_000, 50_000));
    pairs.insert(1_501, good(5_000, 2_001, 50_001));
    pairs.push(good(5_001, 2_002, 50_002));
    let line = Line::of_capture(true, &pairs).await;
    line.sql(
        "CREATE TABLE t (id Int64, n Nullable(Int32), CONSTRAINT small CHECK n < 1000, _op LowCardinality(String), \
         _source_ts_ms Nullable(Int64), _is_deleted UInt8, _version UInt128) \
         ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id",
    )
    .await;
    let report = line.run();
    assert_eq!((report.read, report.applied, report.dead_lettered), (3_003, 3_000, 3));
    let letters = line.letters();
    let told: Vec<_> = letters.iter().map(|letter| (letter["offset"].as_i64(), letter["class"].as_str())).collect();
    assert_eq!(told, [1_500, 1_501, 3_002].map(|offset| (Some(offset), Some("constraint"))));
    let rows = line.rows().await;
    let rows = rows.as_array().unwrap();
    assert_eq!((rows.len(), &rows[7]), (3_000, &json!({"id": "7", "n": "1"})));
}
