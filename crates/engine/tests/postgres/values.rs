//! What is stored of a value: exactly what the source has, or nothing.

use serde_json::{Value, json};
use settle_core::schema::{BinaryMode, Conventions, TimePrecision};
use settle_core::sink::{FailureKind, SinkError};
use settle_engine::config::target::Target;

use crate::database::{Database, META, target};
use crate::log::{Log, batch};

fn conventions() -> Conventions {
    Conventions { time_precision: Some(TimePrecision::Connect), decimal: None, binary: Some(BinaryMode::Base64) }
}

/// What a column of this type stores of a JSON value without a schema.
fn stored(database: &Database, kind: &str, json: &Value) -> Result<String, SinkError> {
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": json}))]);
    database.run(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t (id bigint PRIMARY KEY, v {kind}, {META})"));
    let mut sink = database.sink(Target { conventions: conventions(), ..target() }, &log.records);
    database.apply(&mut sink, &batch(&log.records))?;
    Ok(database.rows("t")[0]["v"].clone().unwrap())
}

/// The same with a schema that says this type.
fn stored_with_schema(database: &Database, kind: &str, json: &Value, field: &Value) -> Result<String, SinkError> {
    let mut log = Log::of("t");
    let mut field = field.clone();
    field["field"] = json!("v");
    field["optional"] = json!(true);
    let fields = json!([{"type": "int64", "optional": false, "field": "id"}, field]);
    log.add_with_schema("c", 10, &json!({"id": 1, "v": json}), &fields);
    database.run(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t (id bigint PRIMARY KEY, v {kind}, {META})"));
    let mut sink = database.sink(target(), &log.records);
    database.apply(&mut sink, &batch(&log.records))?;
    Ok(database.rows("t")[0]["v"].clone().unwrap())
}

#[test]
fn values_are_stored_exactly() {
    let database = Database::new();
    database
        .run("CREATE TYPE mood AS ENUM ('happy', 'so so'); CREATE DOMAIN price AS numeric(12, 2) CHECK (value >= 0)");
    for (kind, json, text) in [
        ("bigint", json!(9_007_199_254_740_993_i64), "9007199254740993"),
        ("boolean", json!(true), "t"),
        ("text", json!(u64::MAX), "18446744073709551615"),
        ("text", json!({"b": [1, {"a": null}]}), "{\"b\":[1,{\"a\":null}]}"),
        ("real", json!(0.1), "0.1"),
        ("double precision", json!(1e300), "1e+300"),
        ("double precision", json!("NaN"), "NaN"),
        ("numeric", json!("12345678901234567890.1234567890"), "12345678901234567890.1234567890"),
        ("numeric", json!("-0.00"), "0.00"),
        ("numeric", json!("NAN"), "NaN"),
        ("numeric(40, 2)", json!(-1.5), "-1.50"),
        ("price", json!("10.50"), "10.50"),
        ("bytea", json!("AP8Q"), "00ff10"),
        ("date", json!(19782), "2024-02-29"),
        ("time(3)", json!(86_399_123), "23:59:59.123"),
        ("time", json!(86_400_000), "24:00:00"),
        ("timestamp(3)", json!(1_709_251_199_123_i64), "2024-02-29 23:59:59.123"),
        ("timestamp", json!("2024-02-29T23:59:59.5Z"), "2024-02-29 23:59:59.5"),
        ("timestamptz", json!("-infinity"), "-infinity"),
        ("timestamptz", json!("2024-02-29T23:59:59+02:00"), "2024-02-29 21:59:59+00"),
        ("timetz", json!("23:59:59.123456Z"), "23:59:59.123456+00"),
        ("uuid", json!("6F1C0B0E-0000-4000-8000-000000000001"), "6f1c0b0e-0000-4000-8000-000000000001"),
        ("json", json!("{\"b\":1, \"a\":1, \"a\":2}"), "{\"b\":1, \"a\":1, \"a\":2}"),
        ("jsonb", json!({"b": 1.10, "a": [null]}), "{\"a\": [null], \"b\": 1.1}"),
        ("mood", json!("so so"), "so so"),
        ("char(5)", json!("ab "), "ab   "),
        ("varchar(2)", json!("éé"), "éé"),
        ("inet", json!("192.168.0.1/24"), "192.168.0.1/24"),
        ("int4range", json!("[1,5)"), "[1,5)"),
        ("interval", json!("P1Y2M3DT4H5M6.789S"), "1 year 2 mons 3 days 04:05:06.789"),
        ("xml", json!("<a>1</a>"), "<a>1</a>"),
        ("bit(9)", json!("VQE="), "101010101"),
        ("bigint[]", json!([1, null, -3]), "{1,NULL,-3}"),
        ("text[]", json!(["a,b", "\"", null, ""]), "{\"a,b\",\"\\\"\",NULL,\"\"}"),
        ("inet[]", json!(["::1"]), "{::1}"),
        ("mood[]", json!(["happy"]), "{happy}"),
        ("numeric(9, 2)[]", json!(["1.5"]), "{1.50}"),
    ] {
        match stored(&database, kind, &json) {
            Ok(stored) => assert_eq!(stored, text, "{json} in {kind}"),
            Err(error) => panic!("{json} in {kind}: {error} {:?}", error.source),
        }
    }
    // Lengths of time of MySQL and MariaDB.
    let time = json!({"type": "int64", "name": "io.debezium.time.MicroTime"});
    let long = json!(-3_020_399_000_001_i64);
    assert_eq!(stored_with_schema(&database, "interval", &long, &time).unwrap(), "-838:59:59.000001");
}

#[test]
fn what_cannot_be_stored_exactly_is_refused_by_column_and_record() {
    let database = Database::new();
    database.run("CREATE TYPE mood AS ENUM ('happy')");
    let at = "write to \"t\": record s.public.t:0:0, column \"v\": ";
    for (kind, json, why) in [
        ("integer", json!(1_i64 << 31), "out of the range of int32"),
        ("numeric(5, 2)", json!(1000), "out of the range of decimal(5, 2)"),
        ("numeric(5, 2)", json!(0.001), "more digits than decimal(5, 2) holds"),
        ("varchar(2)", json!("abc"), "a text longer than the 2 characters of the column"),
        ("varchar(2)", json!("ab "), "a text longer than the 2 characters of the column"),
        ("timestamp(0)", json!("2024-02-29T23:59:59.5Z"), "more digits than timestamp(0) holds"),
        ("time", json!(-1), "out of the range of time(6); if these are lengths of time, make the column interval"),
        (
            "text",
            json!("a\0b"),
            "a text with a NUL character (\\u0000), which PostgreSQL cannot hold; remove it at the source",
        ),
        (
            "jsonb",
            json!("{\"a\": \"\\u0000\"}"),
            "a text has a character that the database cannot hold (\\u0000, or one \
            outside of its encoding); mend it at the source, or let the connector replace it",
        ),
        ("json", json!("s3cret"), "a text is no value of its column's type"),
        ("mood", json!("s3cret"), "a text is no value of its column's type"),
        ("bit(8)", json!("VQE="), "a string that is not base64 where text is expected"),
        ("bigint[]", json!([[1]]), "an array of arrays where the column is an array"),
        ("bigint[]", json!("{1}"), "a value that is no array where the column is an array"),
        ("date", json!("2999999-01-01"), "a string that is no ISO-8601 text where date is expected"),
    ] {
        let error = stored(&database, kind, &json).unwrap_err();
        assert_eq!(error.kind, FailureKind::Row, "{kind}: {error}");
        assert!(error.place.is_some(), "{kind}: {error}");
        if kind != "bit(8)" {
            assert_eq!(error.to_string(), format!("{at}{why}"), "{json} in {kind}");
        }
        assert!(!format!("{error} {:?}", error.source).contains("s3cret"));
    }
    // Read by the server when it writes: the row is found by taking the batch apart.
    let error = stored(&database, "inet", &json!("s3cret")).unwrap_err();
    assert_eq!((error.kind, error.place.is_none()), (FailureKind::Row, true));
    assert!(!format!("{error} {:?}", error.source).contains("s3cret"));
}

#[test]
fn what_every_row_would_fail_at_stops_the_run() {
    let database = Database::new();
    let duration = json!({"type": "int64", "name": "io.debezium.time.MicroDuration"});
    let error = stored_with_schema(&database, "interval", &json!(1), &duration).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(error.context.ends_with("set interval.handling.mode=string in the connector"), "{error}");
    for kind in ["money", "\"char\"", "name", "interval second(0)"] {
        let error = stored(&database, kind, &json!("1")).unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract, "{kind}");
        assert!(error.context.contains("; make it ") && error.context.contains(", or exclude the column"), "{error}");
    }
}

#[test]
fn null_is_null_and_the_text_null_is_text() {
    let database = Database::new();
    database.run(&format!("CREATE TABLE t (id bigint PRIMARY KEY, a text, b text, c text, d json, {META})"));
    let log = Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "a": "null", "b": "", "c": "x", "d": "null"})),
            ("u", 20, json!({"id": 1, "a": "null", "b": "", "c": null, "d": "null"})),
        ],
    );
    database.apply_all(&target(), &log.records, 1);
    let row = &database.rows("t")[0];
    let shown = ["a", "b", "c", "d"].map(|name| row[name].as_deref());
    assert_eq!(shown, [Some("null"), Some(""), None, Some("null")]);
}

#[test]
fn a_row_of_eight_megabytes_and_a_table_of_many_columns_pass() {
    let database = Database::new();
    database.run(&format!("CREATE TABLE t (id bigint PRIMARY KEY, v text, {META})"));
    let long = "é".repeat(4 << 20);
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": long})), ("c", 11, json!({"id": 2, "v": "x"}))]);
    database.apply_all(&target(), &log.records, 10);
    assert_eq!(database.one("SELECT string_agg(length(v)::text, ',' ORDER BY id) FROM t"), format!("{},1", 4 << 20));
    let names: Vec<String> = (0..1_000).map(|n| format!("c{n} integer")).collect();
    database.run(&format!("CREATE TABLE wide (id bigint PRIMARY KEY, {}, {META})", names.join(", ")));
    let mut row = json!({"id": 1});
    (0..1_000).for_each(|n| row[format!("c{n}")] = json!(n));
    database.apply_all(&target(), &Log::from("wide", &[("c", 10, row)]).records, 10);
    assert_eq!(database.one("SELECT c999 FROM wide"), "999");
}
