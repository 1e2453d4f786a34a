//! Every column of the recorded type tables, in every mode that they were recorded in, equals the
//! source table or is refused by name.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;
use crate::columns::Columns;
use crate::debezium::connect;
use crate::schema::RowSchema;
use crate::value::iso::Iso;

/// One column: what it is decoded as, and what its text in the source's CSV stands for.
type Column = (&'static str, Kind, fn(&str) -> Value<'static>);

struct Recording {
    folder: &'static str,
    topic: &'static str,
    expected: &'static str,
    key: &'static str,
    columns: Vec<Column>,
    /// Declared conventions by column; the first entry whose name fits, `*` fits every one.
    declared: Vec<(&'static str, Conventions)>,
    /// What is not equal: row, column, and the refusal; `null` or `sent as …` where the connector
    /// itself sends another value than the source has.
    exceptions: Vec<(&'static str, &'static str, &'static str)>,
}

fn fixture(folder: &str, file: &str) -> String {
    let path = format!("{}/../../testdata/fixtures/{folder}/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Rows of a CSV with a head line; quoted fields may hold commas, quotes and line ends.
fn csv(text: &str) -> Vec<BTreeMap<String, String>> {
    let (mut rows, mut row, mut field, mut quoted) = (vec![], vec![], String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    let head = rows.remove(0);
    rows.into_iter().map(|row| head.iter().cloned().zip(row).collect()).collect()
}

#[derive(Deserialize)]
struct Line {
    key: String,
    payload: Option<String>,
}

#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow)]
    schema: &'a RawValue,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(borrow)]
    after: Option<&'a RawValue>,
}

/// The last row of every key, with its schema.
fn last_rows(jsonl: &str) -> BTreeMap<String, (String, Option<RowSchema>)> {
    let mut rows = BTreeMap::new();
    for line in jsonl.lines() {
        let line: Line = serde_json::from_str(line).expect("a line of the capture");
        let Some(payload) = line.payload else { continue };
        let (schema, json) = match serde_json::from_str::<Wrapped<'_>>(&payload) {
            Ok(wrapped) => {
                let schema = connect::row_of_envelope(wrapped.schema.get()).expect("a schema");
                (Some(schema), wrapped.payload.get().to_owned())
            }
            Err(_) => (None, payload),
        };
        let change: Change<'_> = serde_json::from_str(&json).expect("an envelope");
        match change.after {
            Some(after) => rows.insert(line.key, (after.get().to_owned(), schema)),
            None => rows.remove(&line.key),
        };
    }
    rows
}

fn check(recording: &Recording) {
    let rows = last_rows(&fixture(recording.folder, recording.topic));
    let table = csv(&fixture(recording.folder, recording.expected));
    assert_eq!(rows.len(), table.len(), "{}: rows", recording.folder);
    let mut met: Vec<&(&str, &str, &str)> = Vec::new();
    for (json, schema) in rows.values() {
        let columns = Columns::of(json);
        let cell = |name: &str| columns.get(name, 0).unwrap_or_else(|| panic!("no column {name}")).json;
        let origin = |name: &str| match &schema {
            Some(schema) => Origin::Connect(&schema.field(name, 0).expect("a field").source_type),
            None => {
                let (_, conventions) =
                    recording.declared.iter().find(|(n, _)| *n == name || *n == "*").expect("declared");
                Origin::Schemaless(conventions)
            }
        };
        let (_, kind, wanted) = &recording.columns[0];
        let id = decode(cell(recording.key), origin(recording.key), kind).expect("a key");
        let row = table.iter().find(|row| wanted(&row[recording.key]) == id).expect("a row of the source");
        let id = &row[recording.key];
        for (name, kind, wanted) in &recording.columns {
            let (csv, place) = (&row[*name], format!("{}: {name} of {id}", recording.topic));
            let exception = recording.exceptions.iter().find(|(i, n, _)| i == id && n == name);
            met.extend(exception);
            match (decode(cell(name), origin(name), kind), exception) {
                (Err(error), Some((_, _, what))) => assert_eq!(refusal(&error), *what, "{place}"),
                (Err(error), None) => panic!("{place}: {error}"),
                (Ok(value), Some((_, _, what))) => match what.strip_prefix("sent as ") {
                    Some(sent) => assert_value(&value, &wanted(sent), &place),
                    None => assert_eq!((*what, value), ("null", Value::Null), "{place}"),
                },
                // An empty field is NULL, or an empty text or byte string.
                (Ok(Value::Null), None) => assert_eq!(csv, "", "{place}"),
                (Ok(value), None) => assert_value(&value, &wanted(csv), &place),
            }
        }
    }
    assert_eq!(met.len(), recording.exceptions.len(), "{}: exceptions that no row met", recording.topic);
    assert!(table.iter().all(|row| row.len() == recording.columns.len()), "a column without a check");
}

fn assert_value(value: &Value<'_>, wanted: &Value<'_>, place: &str) {
    match (value, wanted) {
        (Value::Float(a), Value::Float(b)) if a.is_nan() && b.is_nan() => {}
        _ => assert_eq!(value, wanted, "{place}"),
    }
}

const MICROS: Kind = Kind::Timestamp { digits: 6 };

fn as_text(csv: &str) -> Value<'static> {
    Value::Text(csv.to_owned().into())
}

fn as_int(csv: &str) -> Value<'static> {
    Value::Int(csv.parse().expect("an integer"))
}

fn as_double(csv: &str) -> Value<'static> {
    Value::Float(csv.parse().expect("a float"))
}

fn as_real(csv: &str) -> Value<'static> {
    Value::Float(csv.parse::<f32>().expect("a float").into())
}

/// Brings a number of the CSV to the scale of its column.
fn as_decimal<const SCALE: usize>(csv: &str) -> Value<'static> {
    let csv = csv.replace('$', "");
    let (whole, fraction) = csv.split_once('.').unwrap_or((&csv, ""));
    Value::Decimal(decimal(&format!("{whole}.{fraction:0<SCALE$}")))
}

fn as_bytes(csv: &str) -> Value<'static> {
    let digits = csv.trim_start_matches("\\x");
    let byte = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).expect("hex");
    Value::Bytes((0..digits.len()).step_by(2).map(byte).collect())
}

fn as_bool(csv: &str) -> Value<'static> {
    Value::Bool(matches!(csv, "t" | "1"))
}

fn as_uuid(csv: &str) -> Value<'static> {
    Value::Uuid(csv.parse().expect("a UUID"))
}

/// PostgreSQL's text as ISO-8601: years before 1 are `BC`, years after 9999 have no sign.
fn iso(csv: &str) -> Iso {
    let text = match csv.strip_suffix(" BC") {
        Some(before) => format!("-{:04}{}", before[..4].parse::<i64>().expect("a year") - 1, &before[4..]),
        None if csv.find('-') > Some(4) => format!("+{csv}"),
        None => csv.to_owned(),
    };
    Iso::parse(&text).unwrap_or_else(|e| panic!("{csv}: {e:?}"))
}

fn as_date(csv: &str) -> Value<'static> {
    Value::Date(iso(csv).days.expect("a date"))
}

fn as_time(csv: &str) -> Value<'static> {
    Value::Time(iso(csv).time_ns.expect("a time"))
}

fn as_time_ms(csv: &str) -> Value<'static> {
    Value::Time(iso(csv).time_ns.expect("a time") / 1_000_000 * 1_000_000)
}

/// A time with an offset, in UTC.
fn as_utc_time(csv: &str) -> Value<'static> {
    let iso = iso(csv);
    let seconds = iso.offset_s.expect("an offset");
    Value::Time((iso.time_ns.expect("a time") - seconds * 1_000_000_000).rem_euclid(86_400_000_000_000))
}

fn as_timestamp(csv: &str) -> Value<'static> {
    Value::Timestamp(iso(csv).instant_ns().expect("a timestamp"))
}

/// What is left of microseconds under `time.precision.mode=connect`.
fn as_timestamp_ms(csv: &str) -> Value<'static> {
    Value::Timestamp(iso(csv).instant_ns().expect("a timestamp").div_euclid(1_000_000) * 1_000_000)
}

/// `interval.handling.mode=numeric`: microseconds, a month is 30.4375 days.
fn as_interval(csv: &str) -> Value<'static> {
    Value::Int(match csv {
        "1 year 2 mons 3 days 04:05:06.789" => 37_091_106_789_000,
        "-1 days" => -86_400_000_000,
        other => panic!("no such interval was recorded: {other}"),
    })
}

fn as_array(csv: &str) -> Value<'static> {
    as_text(match csv {
        "{}" => "[]",
        "{1,2,NULL,4}" => "[1,2,null,4]",
        "{a,\"b c\",NULL,\"quo\\\"te\"}" => r#"["a","b c",null,"quo\"te"]"#,
        other => panic!("no such array was recorded: {other}"),
    })
}

fn all_types() -> Vec<Column> {
    vec![
        ("id", Kind::Int { bits: 32, signed: true }, as_int),
        ("c_small", Kind::Int { bits: 16, signed: true }, as_int),
        ("c_int", Kind::Int { bits: 32, signed: true }, as_int),
        ("c_big", INT64, as_int),
        ("c_real", Kind::Float32, as_real),
        ("c_double", Kind::Float64, as_double),
        ("c_num38", Kind::Decimal { precision: 38, scale: 10 }, as_decimal::<10>),
        ("c_num", Kind::Decimal { precision: 120, scale: 42 }, as_decimal::<42>),
        ("c_text", Kind::Text, as_text),
        ("c_varchar", Kind::Text, as_text),
        ("c_char", Kind::Text, as_text),
        ("c_bytea", Kind::Bytes, as_bytes),
        ("c_bool", Kind::Bool, as_bool),
        ("c_date", Kind::Date, as_date),
        ("c_time", Kind::Time { digits: 6 }, as_time),
        ("c_timetz", Kind::Time { digits: 6 }, as_utc_time),
        ("c_ts", MICROS, as_timestamp),
        ("c_ts3", Kind::Timestamp { digits: 3 }, as_timestamp),
        ("c_tstz", MICROS, as_timestamp),
        ("c_interval", INT64, as_interval),
        ("c_uuid", Kind::Uuid, as_uuid),
        ("c_json", Kind::Text, as_text),
        ("c_jsonb", Kind::Text, as_text),
        ("c_ints", Kind::Text, as_array),
        ("c_texts", Kind::Text, as_array),
        ("c_mood", Kind::Text, as_text),
        ("c_inet", Kind::Text, as_text),
        ("c_nn", Kind::Int { bits: 32, signed: true }, as_int),
        ("c_xml", Kind::Text, as_text),
        ("c_money", Kind::Decimal { precision: 19, scale: 2 }, as_decimal::<2>),
    ]
}

/// `all_types` under `time.precision.mode=connect`: the connector has cut times to milliseconds.
fn all_types_connect() -> Vec<Column> {
    let mut columns = all_types();
    for (name, _, wanted) in &mut columns {
        match *name {
            "c_time" => *wanted = as_time_ms,
            "c_ts" => *wanted = as_timestamp_ms,
            _ => {}
        }
    }
    columns
}

/// What no mode can bring into these columns.
const INFINITE: [(&str, &str, &str); 3] =
    [("22", "c_date", "infinite"), ("22", "c_ts", "infinite"), ("22", "c_tstz", "infinite")];

#[test]
fn postgres_with_schemas_precise_and_adaptive_equals_the_source() {
    let recording = |folder, exceptions| Recording {
        folder,
        topic: "shopa.public.all_types.jsonl",
        expected: "all_types.expected.csv",
        key: "id",
        columns: all_types(),
        declared: vec![],
        exceptions,
    };
    check(&recording("pg-json-schemas", vec![]));
    // The precise mode has no NaN: the connector sends null.
    check(&recording("pg-types-special", [&INFINITE[..], &[("20", "c_num", "null")]].concat()));
}

#[test]
fn postgres_without_schemas_as_text_and_connect_times_equals_the_source() {
    let recording = |folder, exceptions| Recording {
        folder,
        topic: "shopc.public.all_types.jsonl",
        expected: "all_types.expected.csv",
        key: "id",
        columns: all_types_connect(),
        declared: vec![("*", declared(DecimalMode::String, TimePrecision::Connect, BinaryMode::Base64))],
        exceptions,
    };
    check(&recording("pg-types-string-connect", vec![]));
    check(&recording("pg-types-special", [&INFINITE[..], &[("20", "c_num", "not finite")]].concat()));
}

#[test]
fn postgres_without_schemas_in_default_modes_equals_the_source_once_units_are_declared() {
    let precise = |time| declared(DecimalMode::Precise, time, BinaryMode::Base64);
    let recording = |folder, exceptions| Recording {
        folder,
        topic: "shopd.public.all_types.jsonl",
        expected: "all_types.expected.csv",
        key: "id",
        columns: all_types(),
        declared: vec![("c_ts3", precise(TimePrecision::Connect)), ("*", precise(TimePrecision::Microseconds))],
        exceptions,
    };
    check(&recording("pg-schemaless-defaults", vec![]));
    check(&recording("pg-types-special", [&INFINITE[..], &[("20", "c_num", "null")]].concat()));
}

#[test]
fn postgres_without_schemas_is_refused_where_nothing_is_declared() {
    let undeclared = |id, column| (id, column, "undeclared");
    let mut exceptions = vec![];
    for id in ["1", "11", "13"] {
        for column in ["c_num38", "c_bytea", "c_date", "c_time", "c_ts", "c_ts3", "c_money"] {
            exceptions.push(undeclared(id, column));
        }
    }
    check(&Recording {
        folder: "pg-schemaless-defaults",
        topic: "shopd.public.all_types.jsonl",
        expected: "all_types.expected.csv",
        key: "id",
        columns: all_types(),
        declared: vec![("*", NOTHING)],
        exceptions,
    });
    // Adaptive units depend on the source column, which no record without a schema names.
    let adaptive = declared(DecimalMode::Precise, TimePrecision::Adaptive, BinaryMode::Base64);
    for (json, kind) in [("1709251199123", MICROS), ("86399123456", Kind::Time { digits: 6 })] {
        assert_eq!(read(json, Origin::Schemaless(&adaptive), &kind), Err("unit unknown"));
    }
    let micro_times = Conventions { time_precision: Some(TimePrecision::AdaptiveTimeMicroseconds), ..adaptive };
    let time = read("86399123456", Origin::Schemaless(&micro_times), &Kind::Time { digits: 6 });
    assert_eq!(time, Ok(Value::Time(86_399_123_456_000)));
    assert_eq!(read("1709251199123", Origin::Schemaless(&micro_times), &MICROS), Err("unit unknown"));
}

fn wide() -> Vec<Column> {
    vec![
        ("id", UINT64, as_int),
        ("u64", UINT64, as_int),
        ("d0", Kind::Decimal { precision: 38, scale: 10 }, as_decimal::<10>),
        ("dt0", Kind::Timestamp { digits: 0 }, as_timestamp),
        ("dt6", MICROS, as_timestamp),
        ("ts0", Kind::Timestamp { digits: 0 }, as_timestamp),
        ("ts6", MICROS, as_timestamp),
        ("d", Kind::Date, as_date),
        // Lengths of time, not times of day: text holds all of them.
        ("t", Kind::Text, as_text),
        ("y", Kind::Int { bits: 16, signed: true }, as_int),
        ("b1", Kind::Bool, as_bool),
        ("bits", Kind::Int { bits: 16, signed: false }, as_int),
        ("bin", Kind::Bytes, as_bytes),
        ("tx", Kind::Text, as_text),
        ("en", Kind::Text, as_text),
        ("st", Kind::Text, as_text),
        ("js", Kind::Text, as_text),
        ("f", Kind::Float32, as_real),
        ("dbl", Kind::Float64, as_double),
    ]
}

#[test]
fn mariadb_with_schemas_equals_the_source() {
    check(&Recording {
        folder: "mariadb-types-schemas",
        topic: "mwide.mshop.wide.jsonl",
        expected: "wide.expected.csv",
        key: "id",
        columns: wide(),
        declared: vec![],
        // The connector's `enable.time.adjuster` takes years below 100 for two-digit years.
        exceptions: vec![("4", "d", "sent as 2001-01-01")],
    });
    let time = SourceType::TimeOfDay { digits: 6 };
    for json in ["-108000500000", "-3020399000000", "86400000000"] {
        assert_eq!(read(json, Origin::Connect(&time), &Kind::Time { digits: 6 }), Err("range"));
    }
}

#[test]
fn mariadb_in_long_mode_never_wraps_silently() {
    let conventions = declared(DecimalMode::String, TimePrecision::Connect, BinaryMode::Base64);
    let origin = Origin::Schemaless(&conventions);
    let rows = last_rows(&fixture("mariadb", "mshop.mshop.wide.jsonl"));
    let mut wrapped = 0;
    for (json, _) in rows.values() {
        let columns = Columns::of(json);
        for name in ["id", "u64"] {
            let cell = columns.get(name, 0).expect("a column").json;
            match decode(cell, origin, &UINT64) {
                Ok(Value::Int(number)) => assert!(number >= 0),
                Ok(value) => assert_eq!(value, Value::Null),
                Err(error) => {
                    wrapped += 1;
                    assert!(error.to_string().contains("bigint.unsigned.handling.mode"), "{error}");
                }
            }
        }
    }
    assert_eq!(wrapped, 6);
    let row = rows.values().find(|(json, _)| json.contains("\"id\":1,")).expect("row 1").0.clone();
    let columns = Columns::of(&row);
    for (name, kind, wanted) in [
        ("d0", Kind::Decimal { precision: 38, scale: 10 }, as_decimal::<10>("1234567890123456789012345678.0123456789")),
        ("dt0", Kind::Timestamp { digits: 0 }, as_timestamp("2024-02-29 23:59:59")),
        ("dt6", MICROS, as_timestamp("2024-02-29 23:59:59.123")),
        ("t", Kind::Time { digits: 3 }, as_time("23:59:59.123")),
        ("bits", Kind::Bytes, as_bytes("5501")),
        ("bin", Kind::Bytes, as_bytes("00ff10")),
        ("b1", Kind::Bool, Value::Bool(true)),
    ] {
        let cell = columns.get(name, 0).expect("a column").json;
        assert_eq!(read(cell, origin, &kind), Ok(wanted), "{name}");
    }
}
