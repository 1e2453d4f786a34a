//! Values arrive exactly as the source has them, or are refused with the column's name.

use settle_core::sink::FailureKind;
use settle_engine::config::Target;

use crate::records::{Event, batch, event};
use crate::stage::{Stage, creating, declaring, staged};

/// One row of `(id, c)`.
fn row(json: &str, schema: Option<&str>) -> Event {
    let event = event("c", 100, r#"{"id":1}"#, &format!(r#"{{"id":1,"c":{json}}}"#));
    match schema {
        Some(schema) => event.with_schema(&[("id", r#"{"type":"int32","optional":false}"#), ("c", schema)]),
        None => event,
    }
}

/// Writes the value into a fresh table and reads it back as text.
async fn round_trip(
    stage: &Stage,
    target: Target,
    json: &str,
    schema: Option<&str>,
) -> Result<String, (FailureKind, String)> {
    stage.run("DROP TABLE IF EXISTS t").await;
    stage.run("DROP VIEW IF EXISTS t_current").await;
    match stage.apply(target, &batch(&[row(json, schema)])).await {
        Ok(_) => Ok(stage.rows("SELECT toString(c) FROM t_current FORMAT TSVRaw").await.join("\n")),
        Err(error) => Err((error.kind, stage.message(&error))),
    }
}

#[tokio::test]
async fn values_without_a_schema_are_read_as_the_declared_type() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("Int8", &[("-128", "-128"), ("127", "127")]),
        ("UInt8", &[("255", "255")]),
        ("Int64", &[("-9223372036854775808", "-9223372036854775808"), ("9007199254740993", "9007199254740993")]),
        ("UInt64", &[("18446744073709551615", "18446744073709551615")]),
        ("UInt128", &[("340282366920938463463374607431768211455", "340282366920938463463374607431768211455")]),
        ("Int128", &[("-170141183460469231731687303715884105728", "-170141183460469231731687303715884105728")]),
        ("Int256", &[("-170141183460469231731687303715884105729", "-170141183460469231731687303715884105729")]),
        ("Bool", &[("true", "true"), ("false", "false")]),
        ("Float64", &[("0.1", "0.1"), ("1e300", "1e300")]),
        ("Float32", &[("1.5", "1.5")]),
        ("Decimal(12, 2)", &[("\"1234567890.12\"", "1234567890.12"), ("0.1", "0.1"), ("\"-0.01\"", "-0.01")]),
        (
            "Decimal(76, 10)",
            &[(
                "\"123456789012345678901234567890123456789012345678901234567890123456.0123456789\"",
                "123456789012345678901234567890123456789012345678901234567890123456.0123456789",
            )],
        ),
        ("String", &[(r#""naïve\u0000\n\"""#, "naïve\0\n\""), ("\"\"", "")]),
        ("LowCardinality(String)", &[("\"a\"", "a")]),
        ("FixedString(4)", &[("\"abcd\"", "abcd")]),
        ("Date", &[("\"2023-11-14\"", "2023-11-14")]),
        ("Date32", &[("\"1900-01-01\"", "1900-01-01")]),
        ("DateTime('UTC')", &[("\"2023-11-14T22:13:20Z\"", "2023-11-14 22:13:20")]),
        ("DateTime64(3, 'UTC')", &[("\"2023-11-14T23:13:20.123+01:00\"", "2023-11-14 22:13:20.123")]),
        ("DateTime64(5, 'UTC')", &[("\"2023-11-14T22:13:20.12345Z\"", "2023-11-14 22:13:20.12345")]),
        ("DateTime64(6, 'Europe/Berlin')", &[("\"2023-11-14T22:13:20.123456Z\"", "2023-11-14 23:13:20.123456")]),
        ("DateTime64(9, 'UTC')", &[("\"2023-11-14T22:13:20.123456789Z\"", "2023-11-14 22:13:20.123456789")]),
        ("UUID", &[("\"01a22d52-e40c-71c7-aa86-51b285b99459\"", "01a22d52-e40c-71c7-aa86-51b285b99459")]),
        ("Enum8('public' = 1, 'it\\'s' = 2)", &[("\"it's\"", "it's")]),
        ("IPv4", &[("\"10.0.0.1\"", "10.0.0.1")]),
        ("IPv6", &[("\"2001:db8::1\"", "2001:db8::1")]),
        ("Array(Nullable(Int32))", &[("[1,null,3]", "[1,NULL,3]"), ("[]", "[]")]),
        ("Array(Array(String))", &[(r#"[["a"],[]]"#, "[['a'],[]]")]),
        ("Map(String, Nullable(String))", &[(r#"{"k":"v","":null}"#, "{'k':'v','':NULL}"), ("{}", "{}")]),
    ];
    staged(async |stage| {
        for (number, (text, values)) in cases.iter().enumerate() {
            // Beside the plain column one that takes NULL, where the type has such a form.
            let nullable = match *text {
                "LowCardinality(String)" => "LowCardinality(Nullable(String))".to_owned(),
                text if text.starts_with("Array") || text.starts_with("Map") => text.to_owned(),
                text => format!("Nullable({text})"),
            };
            let takes_null = nullable.contains("Nullable(") && nullable != *text;
            let name = format!("t{number}");
            let mut target = declaring(&[("id", "Int32"), ("c", text), ("n", &nullable)]);
            target.tables.get_mut("public.t").unwrap().name = Some(name.clone());
            let mut events = Vec::new();
            let mut expected = Vec::new();
            for (json, shown) in *values {
                let mut add = |n: &str, n_shown: &str| {
                    let id = events.len();
                    events.push(event("c", 100, &format!(r#"{{"id":{id}}}"#), &format!(r#"{{"id":{id},"c":{json},"n":{n}}}"#)));
                    expected.push(format!("{shown}|{n_shown}"));
                };
                add(json, shown);
                if takes_null {
                    add("null", "NULL");
                }
            }
            stage.apply(target, &batch(&events)).await.unwrap_or_else(|error| panic!("{text}: {error}"));
            let sql = format!("SELECT concat(toString(c), '|', ifNull(toString(n), 'NULL')) FROM {name}_current ORDER BY id FORMAT TSVRaw");
            assert_eq!(stage.rows(&sql).await.join("\n"), expected.join("\n"), "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn columns_created_from_a_schema_hold_its_values() {
    let named = |base: &str, name: &str| format!(r#"{{"type":"{base}","optional":true,"name":"{name}"}}"#);
    let decimal =
        r#"{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"3"}}"#;
    let array = r#"{"type":"array","optional":true,"items":{"type":"int32","optional":true}}"#;
    let variable = r#"{"type":"struct","optional":true,"name":"io.debezium.data.VariableScaleDecimal","fields":[{"field":"scale","type":"int32"},{"field":"value","type":"bytes"}]}"#;
    let cases = [
        (r#"{"type":"boolean","optional":true}"#.to_owned(), "true", "Nullable(Bool)", "true"),
        (r#"{"type":"bytes","optional":true}"#.to_owned(), "\"//79\"", "Nullable(String)", "\u{fffd}\u{fffd}\u{fffd}"),
        (decimal.to_owned(), "\"BNI=\"", "Nullable(Decimal(76, 3))", "1.234"),
        (variable.to_owned(), r#"{"scale":2,"value":"BNI="}"#, "Nullable(String)", "12.34"),
        (named("int32", "io.debezium.time.Date"), "-25567", "Nullable(Date32)", "1900-01-01"),
        (named("int64", "io.debezium.time.MicroTime"), "3600000001", "Nullable(String)", "01:00:00.000001"),
        (
            named("int64", "io.debezium.time.MicroTimestamp"),
            "1700000000123456",
            "Nullable(DateTime64(6, 'UTC'))",
            "2023-11-14 22:13:20.123456",
        ),
        (
            named("int64", "io.debezium.time.NanoTimestamp"),
            "1700000000123456789",
            "Nullable(DateTime64(9, 'UTC'))",
            "2023-11-14 22:13:20.123456789",
        ),
        (
            named("string", "io.debezium.time.ZonedTimestamp"),
            "\"2023-11-14T23:13:20.5+01:00\"",
            "Nullable(DateTime64(6, 'UTC'))",
            "2023-11-14 22:13:20.500000",
        ),
        (
            named("string", "io.debezium.data.Uuid"),
            "\"01a22d52-e40c-71c7-aa86-51b285b99459\"",
            "Nullable(UUID)",
            "01a22d52-e40c-71c7-aa86-51b285b99459",
        ),
        (
            named("string", "io.debezium.data.Json"),
            r#""{\"b\":1,\"a\":9223372036854775808,\"b\":3}""#,
            "Nullable(String)",
            r#"{"b":1,"a":9223372036854775808,"b":3}"#,
        ),
        (named("string", "io.debezium.data.Json"), "\"null\"", "Nullable(String)", "null"),
        (named("string", "io.debezium.data.Enum"), "\"public\"", "LowCardinality(Nullable(String))", "public"),
        (array.to_owned(), "[1,null]", "Nullable(String)", "[1,null]"),
        (named("string", "io.debezium.data.Ltree"), "\"Top.A\"", "Nullable(String)", "Top.A"),
    ];
    staged(async |stage| {
        for (schema, json, text, shown) in cases {
            let found = round_trip(stage, creating(), json, Some(&schema)).await;
            assert_eq!(found.as_deref(), Ok(shown), "{json} of {schema}");
            let types = stage.rows("SELECT toTypeName(c) FROM t FORMAT TSVRaw").await;
            assert_eq!(types, [text], "{schema}");
            let found = round_trip(stage, creating(), "null", Some(&schema)).await;
            assert_eq!(found.as_deref(), Ok("\\N"), "null of {schema}");
        }
    })
    .await;
}

#[tokio::test]
async fn bytes_of_a_schema_arrive_as_bytes() {
    staged(async |stage| {
        let all = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5fYGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6e3x9fn+AgYKDhIWGh4iJiouMjY6PkJGSk5SVlpeYmZqbnJ2en6ChoqOkpaanqKmqq6ytrq+wsbKztLW2t7i5uru8vb6/wMHCw8TFxsfIycrLzM3Oz9DR0tPU1dbX2Nna29zd3t/g4eLj5OXm5+jp6uvs7e7v8PHy8/T19vf4+fr7/P3+/w==";
        let schema = r#"{"type":"bytes","optional":true}"#;
        stage.apply(creating(), &batch(&[row(&format!("\"{all}\""), Some(schema))])).await.unwrap();
        let expected: String = (0..=255).map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(stage.rows("SELECT hex(c) FROM t").await, [expected]);
    })
    .await;
}

#[tokio::test]
async fn what_a_column_cannot_hold_is_refused_by_name_and_nothing_is_written() {
    use FailureKind::{Contract, Row};
    let cases = [
        ("Int8", "128", Row, "out of the range of int8"),
        (
            "UInt64",
            "-1",
            Row,
            "out of the range of uint64: it is negative, as `bigint.unsigned.handling.mode=long` sends numbers from 2^63 on; \
             set it to `precise` in the connector",
        ),
        ("Int32", "null", Row, "NULL where the column is not Nullable"),
        ("String", "null", Row, "NULL where the column is not Nullable"),
        ("Int32", "\"x\"", Row, "a string that is no number where int32 is expected"),
        ("Decimal(4, 2)", "\"1.234\"", Row, "more digits than decimal(4, 2) holds"),
        ("Date", "\"1969-12-31\"", Row, "out of the range of Date"),
        ("DateTime('UTC')", "\"1969-12-31T23:59:59Z\"", Row, "out of the range of DateTime"),
        (
            "DateTime64(9, 'UTC')",
            "\"2500-01-01T00:00:00Z\"",
            Row,
            "out of the range of DateTime64 on this server; a String column keeps every date as text",
        ),
        ("DateTime64(3, 'UTC')", "\"2023-11-14T22:13:20.123456Z\"", Row, "more digits than timestamp(3) holds"),
        ("FixedString(4)", "\"abc\"", Row, "3 bytes where FixedString(4) holds exactly 4"),
        (
            "Enum8('a' = 1, 'b' = 2)",
            "\"c\"",
            Row,
            "a label that the enum does not have; add it with ALTER TABLE … MODIFY COLUMN",
        ),
        (
            "Enum8('a' = 1, 'b' = 2)",
            "\"\"",
            Row,
            "a label that the enum does not have; add it with ALTER TABLE … MODIFY COLUMN",
        ),
        ("IPv4", "\"10.0.0.0/8\"", Row, "no address in the form that IPv4 gives back"),
        ("UUID", "\"x\"", Row, "a string that is no UUID where uuid is expected"),
        ("Array(Int32)", "null", Row, "NULL where the column is not Nullable"),
        ("Array(Int32)", "[1,null]", Row, "NULL where the column is not Nullable"),
        ("Array(Int32)", "7", Row, "no JSON array where the column holds one"),
        (
            "Date32",
            "19000",
            Contract,
            "an integer in a column of dates without a schema: declare `time_precision_mode` in [source]",
        ),
    ];
    staged(async |stage| {
        for (text, json, kind, why) in cases {
            let refused = round_trip(stage, declaring(&[("id", "Int32"), ("c", text)]), json, None).await;
            let message =
                format!("encoding rows for `shop`.`t`: record srv.public.t:0:0: column `c` ({}): {why}", text);
            assert_eq!(refused, Err((kind, message)), "{json} into {text}");
            assert_eq!(stage.rows("SELECT count() FROM t").await, ["0"], "{json} into {text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_type_without_an_exact_form_is_refused_with_another_way() {
    staged(async |stage| {
        let refused = round_trip(stage, declaring(&[("id", "Int32"), ("c", "JSON")]), r#""{\"a\":1}""#, None).await;
        let message = "encoding rows for `shop`.`t`: column `c` is JSON: a type to which values cannot be written exactly; give \
                       it another type (String holds JSON text exactly), or exclude it in [tables.\"public.t\"]";
        assert_eq!(refused, Err((FailureKind::Contract, message.to_owned())));
    })
    .await;
}
