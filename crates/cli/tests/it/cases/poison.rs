//! Records that cannot be applied: each is set aside with its bytes, by name, and all the others
//! end as the case wants it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::case::{Case, Entry};
use super::stand::{Sink, Stand, same_rows};
use super::verdict::{Outcome, Verdict};
use super::walk::{refused, target};

/// A record that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    pub topic: String,
    pub offset: i64,
    pub said: String,
}

/// Runs to the end in one go, and says what was set aside.
pub fn past_poison(stand: &mut Stand, entries: Vec<Entry>) -> Result<Vec<SetAside>, String> {
    stand.settings.dlq = true;
    stand.configure();
    stand.feed(entries.clone());
    let ran = stand.run(&["--until-end"]);
    if ran.code != 0 {
        return Err(format!("exit {}: {}", ran.code, ran.said));
    }
    let mut ends: BTreeMap<(&str, i32), i64> = BTreeMap::new();
    for entry in &entries {
        let end = ends.entry((&entry.topic, entry.partition)).or_insert(0);
        *end = (*end).max(entry.offset + 1);
    }
    for ((topic, partition), end) in ends {
        if stand.committed(topic, partition) != Some(end) {
            return Err(format!(
                "{topic}:{partition} is not committed to its end: {:?}",
                stand.committed(topic, partition)
            ));
        }
    }
    let lines = std::fs::read_to_string(stand.stage.path("dead.jsonl")).unwrap_or_default();
    let letters: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    if ran.report.dead_lettered != letters.len() as u64 {
        return Err(format!("{} letters, the report says {:?}", letters.len(), ran.report));
    }
    letters.iter().map(|letter| set_aside_whole(letter, &entries)).collect()
}

/// The letter is the record of its origin, byte for byte, and says why without a value of the row.
fn set_aside_whole(letter: &Value, entries: &[Entry]) -> Result<SetAside, String> {
    let headers: Vec<&str> = letter["headers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let header = |name: &str| headers.chunks_exact(2).find(|pair| pair[0] == name).map_or("", |pair| pair[1]);
    let (topic, offset) = (header("x-origin-topic").to_owned(), header("x-origin-offset").parse().unwrap_or(-1));
    let origin = entries.iter().find(|entry| {
        entry.topic == topic && entry.offset == offset && header("x-origin-partition") == entry.partition.to_string()
    });
    let entry = origin.ok_or_else(|| format!("a letter of no record: {letter}"))?;
    let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if letter["payload"].as_str() != text(&entry.value).as_deref()
        || letter["key"].as_str() != text(&entry.key).as_deref()
    {
        return Err(format!("the letter of {topic}:{offset} does not hold the record's bytes"));
    }
    for (name, value) in &entry.headers {
        if header(name) != value {
            return Err(format!("the letter of {topic}:{offset} lost the header {name}"));
        }
    }
    let said = header("x-error").to_owned();
    hides_values(&said, entry)?;
    Ok(SetAside { topic, offset, said })
}

/// Values that messages may name: they are kinds of values.
/// The last stands in the constraint's own definition.
const SAYABLE: [&str; 5] = ["__debezium_unavailable_value", "infinity", "Infinity", "-Infinity", "violates CHECK"];

/// A message never holds a value of the row.
fn hides_values(said: &str, entry: &Entry) -> Result<(), String> {
    let envelope = entry.envelope().unwrap_or_default();
    let row = envelope["after"].as_object().into_iter().flatten();
    let texts = row.filter_map(|(_, value)| value.as_str()).filter(|text| text.len() > 6 && !SAYABLE.contains(text));
    match texts.into_iter().find(|text| said.contains(text)) {
        Some(_) => Err(format!("the message holds a value of the row: {said}")),
        None => Ok(()),
    }
}

/// The letters must be of these offsets, each with its words.
pub fn stops(found: &[SetAside], wanted: &[(i64, &str)]) -> Result<(), String> {
    let mut found = found.to_vec();
    found.sort_by_key(|stop| stop.offset);
    let offsets: Vec<i64> = found.iter().map(|stop| stop.offset).collect();
    if !offsets.iter().eq(wanted.iter().map(|(offset, _)| offset)) {
        return Err(format!("set aside {offsets:?}, wanted {wanted:?}: {found:#?}"));
    }
    for (stop, (_, words)) in found.iter().zip(wanted) {
        if !stop.said.contains(words) {
            return Err(format!("the message for offset {} does not say {words}: {}", stop.offset, stop.said));
        }
    }
    Ok(())
}

/// The case with records to be set aside: what is left must end as `rows`.
fn set_aside(mut stand: Stand, case: &Case, rows: &Value, wanted: &[(i64, &str)]) -> Outcome {
    let found = past_poison(&mut stand, case.entries())?;
    stops(&found, wanted)?;
    same_rows(rows, &stand.table(target(case)), &case.table.key, true)?;
    Ok(dead_letters(wanted))
}

fn dead_letters(wanted: &[(i64, &str)]) -> Verdict {
    let offsets: Vec<String> = wanted.iter().map(|(offset, _)| offset.to_string()).collect();
    Verdict::SetAside(format!("dead letters at offset {}", offsets.join(", ")))
}

/// B30: NaN and infinities in a decimal column; a bare NaN is no JSON.
pub fn not_finite(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.declare(case);
    let n = sink.shown("n");
    if sink == Sink::Postgres {
        // A column with a precision has NaN, and no infinities.
        set_aside(stand, case, &json!([{"id": 1, "n": "NaN", "f": "NaN"}]), &[(1, &n), (2, &n), (3, "not JSON")])?;
        let mut wide = Stand::of(case, sink);
        wide.retype(&case.table.name, "n", "numeric");
        return set_aside(wide, case, &case.expect["rows"]["postgres"], &[(3, "not JSON")]);
    }
    set_aside(stand, case, &json!([]), &[(0, &n), (1, &n), (2, &n), (3, "not JSON")])
}

/// B35: infinite dates and timestamps.
pub fn infinite(case: &Case, sink: Sink) -> Outcome {
    let stand = Stand::of(case, sink);
    if matches!(sink, Sink::Sqlite | Sink::Postgres) {
        let mut stand = stand;
        super::walk::steps(&mut stand, case)?;
        same_rows(&case.expect["postgres_rows"], &stand.table("inf"), &case.table.key, true)?;
        return Ok(Verdict::Pass(if sink == Sink::Sqlite { "stored as text" } else { "" }));
    }
    let tz = sink.shown("tz");
    set_aside(stand, case, &json!([]), &[(0, &tz), (1, &tz), (2, &tz)])
}

/// B41: a NULL where the target has none.
pub fn null_where_none_may_be(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.declare(case);
    stand.settings.source = "time_precision_mode = \"connect\"\n".to_owned();
    match sink {
        Sink::Sqlite => stand.sql("CREATE TABLE z (id INTEGER PRIMARY KEY, a TIMESTAMP, b TIMESTAMP NOT NULL)")?,
        Sink::Postgres => stand.sql("CREATE TABLE z (id INTEGER PRIMARY KEY, a TIMESTAMP, b TIMESTAMP NOT NULL)")?,
        Sink::MySql => stand.sql("CREATE TABLE z (id INTEGER PRIMARY KEY, a DATETIME, b DATETIME NOT NULL)")?,
        Sink::ClickHouse => stand.retype("shop.z", "b", "DateTime64(3, 'UTC')"),
    }
    set_aside(stand, case, &case.expect["rows"], &[(2, "b")])
}

/// B46: the source did not send the key.
pub fn key_not_sent(case: &Case, sink: Sink) -> Outcome {
    let words = "key field \"doc_key\" was not sent by the source";
    set_aside(Stand::of(case, sink), case, &case.expect["rows"], &[(1, words)])
}

/// B55: a label that the enum does not have.
pub fn unknown_label(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    let kind = match sink {
        Sink::Postgres => {
            stand.sql("CREATE TYPE label AS ENUM ('public', 'restricted')")?;
            "label"
        }
        Sink::MySql => "ENUM('public', 'restricted')",
        _ => "Enum8('public' = 1, 'restricted' = 2)",
    };
    stand.retype(&case.table.name, "e", kind);
    let words = match sink {
        Sink::ClickHouse => {
            "column `e` (Enum8('public' = 1, 'restricted' = 2)): a label that the enum does not have".to_owned()
        }
        Sink::MySql => "column \"e\": a text that is none of the labels of the column".to_owned(),
        _ => sink.shown("e"),
    };
    let words = words.as_str();
    set_aside(stand, case, &case.expect["default"]["rows"], &[(1, words), (2, words)])
}

/// B60: an incomplete key; keys whose parts run together; members in another order.
pub fn incomplete_key(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    let found = past_poison(&mut stand, case.entries())?;
    stops(&found, &[(1, "key field \"tenant\" is null")])?;
    let key = ["a".to_owned(), "b".to_owned()];
    same_rows(&case.expect["rows_k2"], &stand.table("k2"), &key, true)?;
    same_rows(&json!([{"tenant": "t1", "id": 5, "v": "x"}]), &stand.table("m"), &case.table.key, true)?;
    Ok(dead_letters(&[(1, "")]))
}

/// B70: what a console producer can do to a topic.
pub fn no_json(case: &Case, sink: Sink) -> Outcome {
    let wanted = [
        (1, "the value is not JSON (at line 1 column 2)"),
        (2, "the value is empty (zero bytes)"),
        (3, "starts with a byte order mark"),
        (4, "the value is not JSON"),
        (5, "the value is not JSON"),
        (6, "the message key is not a JSON object (found no JSON)"),
        (7, "found an array"),
    ];
    set_aside(Stand::of(case, sink), case, &case.expect["rows"], &wanted)
}

/// B73: ten megabytes, well formed and not.
pub fn large(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    let found = past_poison(&mut stand, case.entries())?;
    stops(&found, &[(1, "the value is not JSON")])?;
    let rows = stand.select("id, length(v) AS v_bytes", "t");
    same_rows(&json!([{"id": 1, "v_bytes": 10_485_760}, {"id": 3, "v_bytes": 5}]), &rows, &case.table.key, true)?;
    Ok(dead_letters(&[(1, "")]))
}

/// B75: a row that breaks a constraint, and a table that is not there, between good ones.
pub fn one_bad_row(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    // What Settle keeps of the log is made by a run that reads nothing of interest.
    stand.anchor();
    stand.configure();
    let nothing = Entry { partition: 7, key: None, value: None, ..case.entries()[0].clone() };
    stand.feed([nothing]);
    stand.run_to_end()?;
    stand.settings.sink = "create = false\n".to_owned();
    for (table, check) in [("a", "CHECK (v <> 'violates CHECK')"), ("b", "CHECK (v <> '')")] {
        match sink {
            Sink::Sqlite => stand.sql(&format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY, v TEXT {check}, _op TEXT, _source_ts_ms INTEGER, \
                 _version_hi INTEGER NOT NULL DEFAULT 0, _version_lo INTEGER NOT NULL DEFAULT 0)"))?,
            Sink::Postgres | Sink::MySql => stand.sql(&format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY, v TEXT {check}, _op VARCHAR(1), _source_ts_ms BIGINT, \
                 _version_hi BIGINT NOT NULL DEFAULT 0, _version_lo BIGINT NOT NULL DEFAULT 0)"))?,
            Sink::ClickHouse => stand.sql(&format!(
                "CREATE TABLE {table} (id Int32, v Nullable(String), _op String, _source_ts_ms Int64, _is_deleted UInt8, \
                 _version UInt128, CONSTRAINT ok {check}) ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id"
            ))?,
        }
    }
    stand.configure();
    let (known, unknown): (Vec<Entry>, Vec<Entry>) =
        case.entries().into_iter().partition(|entry| entry.topic != "srv.public.missing");
    // The missing table stops the run; its partition does not advance, and nothing is lost.
    stand.feed(unknown.clone());
    let ran = stand.run(&["--until-end"]);
    refused(&ran, &["missing", "create"])?;
    if stand.committed("srv.public.missing", 0).is_some_and(|at| at > 0) {
        return Err("the missing table's partition advanced".to_owned());
    }
    stand.take_out("srv.public.missing", 0, 0);
    let found = past_poison(&mut stand, known)?;
    stops(&found, &[(1, "")])?;
    let rows = &case.expect["rows"];
    let see = |stand: &Stand, table| match sink {
        Sink::Sqlite | Sink::Postgres | Sink::MySql => stand.table(table),
        Sink::ClickHouse => stand.rows(&format!("SELECT * FROM {table} FINAL WHERE _is_deleted = 0")),
    };
    same_rows(&rows["a"], &see(&stand, "a"), &case.table.key, true)?;
    same_rows(&rows["b"], &see(&stand, "b"), &case.table.key, true)?;
    Ok(dead_letters(&[(1, "")]))
}
