//! What is stored of a value: exactly what the source has, or nothing.

use serde_json::{Value, json};
use settle_core::schema::{BinaryMode, Conventions, TimePrecision};
use settle_core::sink::FailureKind;
use settle_engine::config::target::Target;

use crate::database::{Database, apply, apply_all, target};
use crate::log::{Log, batch};

const META: &str = "\"_op\" TEXT, \"_source_ts_ms\" INTEGER, \"_version_hi\" INTEGER NOT NULL DEFAULT 0, \
                    \"_version_lo\" INTEGER NOT NULL DEFAULT 0";

/// What a column of this type stores of a JSON value, with the type that SQLite gives it.
fn stored(kind: &str, json: &Value) -> Result<(String, String), String> {
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": json}))]);
    let database = Database::new();
    database.run(&format!("CREATE TABLE t (id INTEGER PRIMARY KEY, v {kind}, {META})"));
    let conventions =
        Conventions { time_precision: Some(TimePrecision::Connect), decimal: None, binary: Some(BinaryMode::Base64) };
    let mut sink = database.sink(Target { conventions, ..target() }, &log.records);
    apply(&mut sink, &batch(&log.records)).map_err(|error| {
        assert_eq!(error.kind, FailureKind::Row);
        error.to_string()
    })?;
    let shown = database.rows("t")[0]["v"].clone();
    Ok((shown.unwrap(), database.one("SELECT typeof(v) FROM t")))
}

fn is(kind: &str, json: Value, text: &str, storage: &str) {
    assert_eq!(stored(kind, &json), Ok((text.to_owned(), storage.to_owned())), "{json} in {kind}");
}

#[test]
fn values_are_stored_exactly() {
    is("INTEGER", json!(9_007_199_254_740_993_i64), "9007199254740993", "integer");
    is("INTEGER", json!(true), "1", "integer");
    is("BOOLEAN", json!(false), "0", "integer");
    is("TEXT", json!(u64::MAX), "18446744073709551615", "text");
    is("TEXT", json!("10.50"), "10.50", "text");
    is("TEXT", json!({"b": [1, {"a": null}]}), "{\"b\":[1,{\"a\":null}]}", "text");
    is("REAL", json!(1.5), "1.5", "real");
    is("", json!("07"), "07", "text");
    is("", json!(7), "7", "integer");
    is("BLOB", json!("AP8Q"), "00ff10", "blob");
    is("DATE", json!(19782), "2024-02-29", "text");
    is("TIME(3)", json!(86_399_123), "23:59:59.123", "text");
    is("TIMESTAMP(3)", json!(1_709_251_199_123_i64), "2024-02-29 23:59:59.123", "text");
    is("TIMESTAMP", json!("2024-02-29T23:59:59.5Z"), "2024-02-29 23:59:59.500000", "text");
    // All digits that come, whatever the type says; a time of more than a day; the end of time.
    is("TIMESTAMP(0)", json!(1_709_251_199_123_i64), "2024-02-29 23:59:59.123", "text");
    is("TIMESTAMP(0)", json!("2024-02-29T23:59:59.0000001Z"), "2024-02-29 23:59:59.000000100", "text");
    is("TIME", json!(-108_000_500), "-30:00:00.500", "text");
    is("TIMESTAMP", json!("-infinity"), "-infinity", "text");
    is("UUID", json!("6F1C0B0E-0000-4000-8000-000000000001"), "6f1c0b0e-0000-4000-8000-000000000001", "text");
    // Under NUMERIC affinity a number that a float shows again, or an integer.
    is("DECIMAL(12,2)", json!("10.50"), "10.5", "real");
    is("NUMERIC", json!("9223372036854775807"), "9223372036854775807", "integer");
    is("NUMERIC", json!("-0.00012345678901234"), "-0.00012345678901234", "real");
}

#[test]
fn what_cannot_be_stored_exactly_is_refused_by_column_and_record() {
    let refused = |kind: &str, json: Value| stored(kind, &json).unwrap_err();
    assert_eq!(
        refused("INTEGER", json!(u64::MAX)),
        "write to \"t\": record s.public.t:0:0, column \"v\": out of the range of int64"
    );
    assert_eq!(
        refused("NUMERIC", json!("12345678901234567.5")),
        "write to \"t\": record s.public.t:0:0, column \"v\": a number of more than 15 digits, or one out of a float's \
         range, has no place in a NUMERIC column; make the column TEXT"
    );
    assert_eq!(
        refused("INET", json!("12")),
        "write to \"t\": record s.public.t:0:0, column \"v\": text that reads as a number would be stored as one; make \
         the column TEXT"
    );
    assert!(refused("NUMERIC", json!("1e400")).contains("out of a float's range"));
    assert!(refused("NUMERIC", json!("1e-400")).contains("out of a float's range"));
    assert!(refused("NUMERIC", json!("NAN")).contains("no number where the column is declared as one"));
    assert!(refused("REAL", json!("NaN")).contains("SQLite stores NaN as NULL"));
    for (kind, json) in [("DATE", json!("tomorrow")), ("BOOLEAN", json!(2))] {
        assert!(refused(kind, json).starts_with("write to \"t\": record s.public.t:0:0, column \"v\": "));
    }
}

#[test]
fn no_error_holds_a_value() {
    for kind in ["INTEGER", "REAL", "DATE", "UUID", "BLOB", "NUMERIC", "BOOLEAN"] {
        let error = stored(kind, &json!("s3cret!")).unwrap_err();
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn a_unit_that_was_not_declared_stops_the_run() {
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": 1_709_251_199_123_i64}))]);
    let database = Database::new();
    database.run(&format!("CREATE TABLE t (id INTEGER PRIMARY KEY, v TIMESTAMP, {META})"));
    let mut sink = database.sink(target(), &log.records);
    let error = apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "every row would fail alike: {error}");
}

#[test]
fn null_is_null_and_the_text_null_is_text() {
    let log = Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "a": "null", "b": "", "c": "x"})),
            ("u", 20, json!({"id": 1, "a": "null", "b": "", "c": null})),
        ],
    );
    let database = Database::new();
    apply_all(&database, &target(), &log.records, 1);
    let row = &database.rows("t")[0];
    assert_eq!((row["a"].as_deref(), row["b"].as_deref(), row["c"].as_deref()), (Some("null"), Some(""), None));
}
