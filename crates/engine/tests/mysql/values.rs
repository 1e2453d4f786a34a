//! What is stored of a value: exactly what the source has, or nothing.

use serde_json::{Value, json};
use settle_core::schema::{BinaryMode, Conventions, TimePrecision};
use settle_core::sink::FailureKind;
use settle_engine::config::target::Target;

use crate::database::{Database, META, apply, apply_all, target};
use crate::log::{Log, batch};

fn conventions() -> Conventions {
    Conventions { time_precision: Some(TimePrecision::Connect), decimal: None, binary: Some(BinaryMode::Base64) }
}

/// What a column of this type stores of a JSON value without a schema.
async fn stored(database: &Database, kind: &str, json: &Value) -> Result<String, String> {
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": json}))]);
    database.run("DROP TABLE IF EXISTS t").await;
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, v {kind} NULL, {META}) CHARACTER SET utf8mb4")).await;
    let mut sink = database.sink(Target { conventions: conventions(), ..target() }, &log.records).await;
    apply(&mut sink, &batch(&log.records)).await.map_err(|error| {
        assert_eq!(error.kind, FailureKind::Row, "{error}");
        assert_eq!(error.place.as_ref().map(|place| place.offset), Some(0), "{error}");
        error.to_string()
    })?;
    let rows = database.rows("t").await;
    Ok(rows[0]["v"].clone().unwrap())
}

#[tokio::test]
async fn values_are_stored_exactly() {
    let database = Database::new().await;
    for (kind, json, text) in [
        ("BIGINT", json!(-9_007_199_254_740_993_i64), "-9007199254740993"),
        ("BIGINT UNSIGNED", json!(u64::MAX), "18446744073709551615"),
        ("TINYINT(1)", json!(true), "1"),
        ("MEDIUMINT", json!(-8_388_608), "-8388608"),
        ("YEAR", json!(2024), "2024"),
        ("BIT(9)", json!(341), "341"),
        ("VARCHAR(20)", json!("10.50 "), "10.50 "),
        ("LONGTEXT", json!({"b": [1, {"a": null}]}), "{\"b\":[1,{\"a\":null}]}"),
        ("LONGTEXT", json!("😀 é \u{0} \\ '"), "😀 é \u{0} \\ '"),
        ("TEXT CHARACTER SET latin1", json!("é"), "é"),
        ("JSON", json!({"a": 1.5, "b": "x"}), "{\"a\":1.5,\"b\":\"x\"}"),
        ("DOUBLE", json!(1e300), "1e300"),
        ("FLOAT", json!(0.1), "0.1"),
        ("DECIMAL(12,2)", json!("10.50"), "10.50"),
        ("DECIMAL(65,30)", json!("0.000000000000000000000000000001"), "0.000000000000000000000000000001"),
        ("LONGBLOB", json!("AP8Q"), "00ff10"),
        ("VARBINARY(3)", json!("AP8Q"), "00ff10"),
        ("DATE", json!(19782), "2024-02-29"),
        ("DATE", json!(-719_528), "0000-01-01"),
        ("TIME(3)", json!(86_399_123), "23:59:59.123000"),
        ("TIME(3)", json!(-108_000_500), "-30:00:00.500000"),
        ("DATETIME(3)", json!(1_709_251_199_123_i64), "2024-02-29 23:59:59.123000"),
        ("DATETIME(6)", json!("2024-02-29T23:59:59.5+02:00"), "2024-02-29 21:59:59.500000"),
        ("DATETIME", json!(253_402_300_799_000_i64), "9999-12-31 23:59:59.000000"),
        ("TIMESTAMP(6) NULL", json!("2024-02-29T23:59:59.000001Z"), "2024-02-29 23:59:59.000001"),
        ("UUID", json!("6F1C0B0E-0000-4000-8000-000000000001"), "6f1c0b0e-0000-4000-8000-000000000001"),
        ("ENUM('a','b c')", json!("b c"), "b c"),
        ("ENUM('it''s','a\\\\b','😀')", json!("it's"), "it's"),
        ("ENUM('it''s','a\\\\b','😀')", json!("a\\b"), "a\\b"),
        ("ENUM('it''s','a\\\\b','😀')", json!("😀"), "😀"),
        ("SET('a','b')", json!("a,b"), "a,b"),
        ("SET('a','b')", json!(""), ""),
        ("YEAR", json!(0), "0"),
        ("YEAR", json!(2155), "2155"),
        ("INET6", json!("::1"), "::1"),
    ] {
        assert_eq!(stored(&database, kind, &json).await.as_deref(), Ok(text), "{json} in {kind}");
    }
}

#[tokio::test]
async fn what_cannot_be_stored_exactly_is_refused_by_column_and_record_and_without_its_value() {
    let database = Database::new().await;
    for (kind, json, said) in [
        ("BIGINT", json!(u64::MAX), "out of the range of int64"),
        ("BIGINT UNSIGNED", json!(-7), "out of the range of uint64"),
        ("TINYINT", json!(1234), "out of the range of int8"),
        ("YEAR", json!(1234), "a year that is neither 0 nor within 1901 to 2155"),
        ("YEAR", json!(70), "a year that is neither 0 nor within 1901 to 2155"),
        ("BIT(3)", json!(341), "out of the range of uint3"),
        ("DECIMAL(5,2)", json!("1234.56"), "out of the range of decimal(5, 2)"),
        ("DECIMAL(10,1)", json!("1.25"), "more digits than decimal(10, 1) holds"),
        ("DOUBLE", json!("NaN"), "MySQL has no NaN; make the column a text"),
        ("FLOAT", json!(0.123_456_789_123), "more digits than float32 holds"),
        ("DATETIME", json!(1_709_251_199_123_i64), "more digits than timestamp(0) holds"),
        ("DATETIME(6)", json!("-infinity"), "an infinite timestamp has no place in the column"),
        ("DATETIME(3)", json!(253_402_300_800_000_i64), "a year outside of 0 to 9999"),
        ("TIME(3)", json!(3_020_400_000_i64), "a time beyond 838:59:59"),
        ("TIMESTAMP NULL", json!("1969-12-31T23:59:59Z"), "a value does not fit"),
        ("VARCHAR(3)", json!("s3cret"), "a value is too long for 'v'"),
        ("VARBINARY(1)", json!("AP8Q"), "a value is too long for 'v'"),
        ("TEXT CHARACTER SET latin1", json!("s3cret 😀"), "a value does not fit"),
        ("ENUM('a','b')", json!("s3cret"), "a text that is none of the labels of the column"),
        ("ENUM('s3cret')", json!("S3CRET"), "a text that is none of the labels of the column"),
        ("ENUM('s3cret')", json!("s3cret "), "a text that is none of the labels of the column"),
        ("ENUM('a','b')", json!("2"), "a text that is none of the labels of the column"),
        ("SET('a','s3cret')", json!("a,S3CRET"), "a text that is none of the labels of the column"),
        ("SET('a','b')", json!("3"), "a text that is none of the labels of the column"),
        ("UUID", json!("s3cret"), "a string that is no UUID"),
        ("DATE", json!("s3cret"), "no ISO-8601 text"),
        ("INT", json!("s3cret!"), "a string that is no number"),
    ] {
        let refused = stored(&database, kind, &json).await.unwrap_err();
        assert!(refused.starts_with("write to \"t\": record s.public.t:0:0"), "{kind}: {refused}");
        assert!(refused.contains(said), "{json} in {kind}: {refused}");
        assert!(!refused.contains("s3cret"), "{refused}");
    }
}

/// MariaDB's JSON is a text with a CHECK.
#[tokio::test]
async fn what_is_no_document_has_no_place_in_a_column_of_json() {
    let database = Database::new().await;
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, v JSON, {META})")).await;
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": "s3cret"}))]);
    let mut sink = database.sink(target(), &log.records).await;
    let error = apply(&mut sink, &batch(&log.records)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Constraint);
    assert_eq!(
        error.to_string(),
        "write to \"t\": record s.public.t:0:0: a CHECK constraint of the table refused the row"
    );
    assert!(!format!("{error:?}").contains("s3cret"));
}

/// A server that is told of several rows names the one at fault.
#[tokio::test]
async fn of_many_rows_the_one_at_fault_is_named() {
    let database = Database::new().await;
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(3), {META})")).await;
    let events: Vec<_> =
        (0..40).map(|id| ("c", 10 + id, json!({"id": id, "v": if id == 33 { "long" } else { "ok" }}))).collect();
    let log = Log::from("t", &events);
    let mut sink = database.sink(target(), &log.records).await;
    let error = apply(&mut sink, &batch(&log.records)).await.unwrap_err();
    assert_eq!(error.to_string(), "write to \"t\": record s.public.t:0:33: a value is too long for 'v'");
    assert_eq!(error.place.unwrap().offset, 33);
    assert_eq!(database.count("t").await, "0");
}

#[tokio::test]
async fn a_unit_that_was_not_declared_stops_the_run_and_so_does_a_type_that_is_not_written() {
    let database = Database::new().await;
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": 1_709_251_199_123_i64}))]);
    for kind in ["DATETIME(3)", "POINT"] {
        database.run("DROP TABLE IF EXISTS t").await;
        database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, v {kind} NULL, {META})")).await;
        let mut sink = database.sink(target(), &log.records).await;
        let error = apply(&mut sink, &batch(&log.records)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract, "every row would fail alike: {error}");
    }
}

#[tokio::test]
async fn null_is_null_and_the_text_null_is_text_and_zero_is_a_key() {
    let events = [
        ("c", 10, json!({"id": 0, "a": "null", "b": "", "c": "x"})),
        ("u", 20, json!({"id": 0, "a": "null", "b": "", "c": null})),
    ];
    let log = Log::from("t", &events);
    let database = Database::new().await;
    let columns = "id BIGINT AUTO_INCREMENT PRIMARY KEY, a TEXT, b TEXT, c TEXT";
    database.run(&format!("CREATE TABLE t ({columns}, {META})")).await;
    apply_all(&database, &target(), &log.records, 1).await;
    let row = &database.rows("t").await[0];
    assert_eq!(row["id"].as_deref(), Some("0"));
    assert_eq!((row["a"].as_deref(), row["b"].as_deref(), row["c"].as_deref()), (Some("null"), Some(""), None));
}

/// One byte above what the server takes at once: nobody else's row is at fault.
#[tokio::test]
async fn a_row_that_the_server_does_not_take_is_refused_before_it_is_sent() {
    let database = Database::new().await;
    let limit: usize = database.one("SELECT @@max_allowed_packet").await.parse().unwrap();
    let large = "x".repeat(limit);
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": "small"})), ("c", 20, json!({"id": 2, "v": large}))]);
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, v LONGTEXT, {META})")).await;
    let mut sink = database.sink(target(), &log.records).await;
    let error = apply(&mut sink, &batch(&log.records)).await.unwrap_err();
    assert_eq!((error.kind, error.place.as_ref().map(|place| place.offset)), (FailureKind::Row, Some(1)), "{error}");
    assert!(error.context.contains("set max_allowed_packet of the server above it"), "{error}");
    // The connection goes on with the rest, and many rows of which each is large are sent in pieces.
    let some = "y".repeat(3 << 20);
    let events: Vec<_> = (0..12).map(|id| ("c", 30 + id, json!({"id": id, "v": some}))).collect();
    let log = Log::from("t", &events);
    assert_eq!(apply(&mut sink, &batch(&log.records)).await.unwrap().applied, 12);
    assert_eq!(database.one("SELECT COUNT(*) FROM t WHERE LENGTH(v) = 3145728").await, "12");
}
