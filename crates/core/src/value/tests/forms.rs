//! How each form of a value meets each kind, beyond the reported cases.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

#[test]
fn text_with_leading_zeros_is_no_number() {
    // A column that was a number and became text: `007` must not be stored as 7.
    let conventions = Conventions { decimal: Some(DecimalMode::String), ..Conventions::default() };
    let kinds =
        [Kind::Int { bits: 64, signed: true }, Kind::Decimal { precision: 12, scale: 2 }, Kind::Float64, Kind::Float32];
    for kind in kinds {
        for origin in [Origin::Connect(&SourceType::Text), Origin::Schemaless(&conventions)] {
            for text in ["\"007\"", "\"-01\"", "\"00.5\""] {
                assert!(matches!(decode(text, origin, &kind), Err(ValueError::Form { .. })), "{text} as {kind}");
            }
            for text in ["\"7\"", "\"0\"", "\"-0\"", "\"0E+3\""] {
                assert!(decode(text, origin, &kind).is_ok(), "{text} as {kind}: {:?}", decode(text, origin, &kind));
            }
        }
    }
}

#[test]
fn arrays_of_encoded_elements_are_written_out() {
    let array = |element| SourceType::Array(Box::new(element));
    let decimals = array(SourceType::Decimal { scale: 2, precision: None });
    assert_eq!(text(r#"["AeIT",null,"/h3t"]"#, &decimals).as_deref(), Ok(r#"["1234.11",null,"-1234.11"]"#));
    assert_eq!(text("[19782,null]", &array(SourceType::EpochDays)).as_deref(), Ok(r#"["2024-02-29",null]"#));
    assert_eq!(text(r#"[["AQID"],[]]"#, &array(array(SourceType::Bytes))).as_deref(), Ok(r#"[["010203"],[]]"#));
    assert_eq!(text("[1.50, 2]", &array(SourceType::Float64)).as_deref(), Ok("[1.50, 2]"));
    assert_eq!(text("[[1]]", &array(SourceType::EpochDays)), Err("form"));
}

#[test]
fn bits_are_a_number_bytes_or_digits() {
    let bits = SourceType::Bits { length: Some(9) };
    assert_eq!(connect("\"VQE=\"", &bits, &Kind::Int { bits: 16, signed: false }), Ok(Value::Int(341)));
    assert_eq!(connect("\"VQE=\"", &bits, &Kind::Bytes), Ok(Value::Bytes(vec![0x55, 1])));
    assert_eq!(text("\"VQE=\"", &bits).as_deref(), Ok("101010101"));
    assert_eq!(text("\"VQE=\"", &SourceType::Bits { length: None }).as_deref(), Ok("0000000101010101"));
    assert_eq!(text("\"/w==\"", &SourceType::Bits { length: Some(3) }), Err("form"));
}

#[test]
fn strings_that_may_be_text_or_base64_must_be_declared() {
    let kind = Kind::Decimal { precision: 12, scale: 2 };
    let mode = |decimal| Conventions { decimal: Some(decimal), ..NOTHING };
    // What has a point or a sign is no base64; what has neither may be both.
    assert_eq!(schemaless("\"12.34\"", &kind), number("12.34"));
    assert_eq!(schemaless("\"-1234\"", &kind), number("-1234.00"));
    assert_eq!(schemaless("\"123\"", &kind), number("123.00"));
    assert_eq!(schemaless("\"1234\"", &kind), Err("undeclared"));
    assert_eq!(schemaless("\"BNI=\"", &kind), Err("undeclared"));
    assert_eq!(schemaless("\"1234\"", &UINT64), Err("undeclared"));
    assert_eq!(read("\"1234\"", Origin::Schemaless(&mode(DecimalMode::String)), &kind), number("1234.00"));
    assert_eq!(read("\"BNI=\"", Origin::Schemaless(&mode(DecimalMode::Precise)), &kind), number("12.34"));
    assert_eq!(read("\"BNI=\"", Origin::Schemaless(&mode(DecimalMode::String)), &kind), Err("form"));
    assert_eq!(read("\"BNI=\"", Origin::Schemaless(&mode(DecimalMode::Precise)), &Kind::Float64), Err("no mapping"));
    // The schema says string, so it is text.
    assert_eq!(connect("\"1234\"", &SourceType::Text, &kind), number("1234.00"));
}

#[test]
fn unsigned_numbers_that_came_wrapped_are_refused_with_the_cure() {
    let error = decode("-1", Origin::Schemaless(&NOTHING), &UINT64).unwrap_err();
    assert_eq!(
        error.to_string(),
        "out of the range of uint64: it is negative, as `bigint.unsigned.handling.mode=long` sends numbers from 2^63 on; \
         set it to `precise` in the connector"
    );
    assert_eq!(
        connect("\"AP//////////\"", &SourceType::Decimal { scale: 0, precision: Some(20) }, &UINT64),
        Ok(Value::Int(u64::MAX.into()))
    );
    assert_eq!(schemaless("true", &UINT64), Ok(Value::Int(1)));
    assert_eq!(connect("false", &SourceType::Bool, &INT64), Ok(Value::Int(0)));
}

#[test]
fn wide_numbers_and_odd_scales_are_kept_or_refused() {
    let wide = "123456789012345678901234567890123456789012345";
    let source = |scale| SourceType::Decimal { scale, precision: None };
    let unscaled: num_bigint::BigInt = wide.parse().unwrap();
    let json = format!("\"{}\"", STANDARD.encode(unscaled.to_signed_bytes_be()));
    let kind = |scale| Kind::Decimal { precision: 76, scale };
    assert_eq!(connect(&json, &source(2), &kind(2)).unwrap(), number(&format!("{}.45", &wide[..43])).unwrap());
    assert_eq!(connect(&json, &source(2), &kind(1)), Err("precision"));
    assert_eq!(connect(&json, &source(-3), &kind(0)), number(&format!("{wide}000")));
    assert_eq!(connect(&json, &source(0), &Kind::Int { bits: 128, signed: true }), Err("range"));
    let bits_256 = Kind::Int { bits: 256, signed: true };
    assert_eq!(connect(&json, &source(0), &bits_256), Ok(Value::BigInt(unscaled)));
    // The variant depends on the column alone, never on the value.
    for (bits, signed, wanted) in [
        (128, true, Value::Int(7)),
        (128, false, Value::BigInt(7.into())),
        (256, true, Value::BigInt(7.into())),
        (256, false, Value::BigInt(7.into())),
    ] {
        assert_eq!(schemaless("7", &Kind::Int { bits, signed }), Ok(wanted));
    }
    for scale in [131_073, -131_073, i32::MAX, i32::MIN] {
        let json = format!(r#"{{"scale":{scale},"value":"AQ=="}}"#);
        assert_eq!(connect(&json, &SourceType::VariableDecimal, &Kind::Text), Err("form"), "{scale}");
    }
    assert_eq!(text(r#"{"scale":-3,"value":"AQ=="}"#, &SourceType::VariableDecimal).as_deref(), Ok("1000"));
    assert_eq!(connect("2147483648", &SourceType::EpochDays, &Kind::Date), Err("range"));
    assert_eq!(text("2147483648", &SourceType::EpochDays), Err("range"));
}

#[test]
fn bools_come_as_bools_or_as_0_and_1() {
    let tiny = SourceType::Int { bits: 16 };
    assert_eq!(connect("1", &tiny, &Kind::Bool), Ok(Value::Bool(true)));
    assert_eq!(connect("0", &tiny, &Kind::Bool), Ok(Value::Bool(false)));
    assert_eq!(connect("2", &tiny, &Kind::Bool), Err("range"));
    assert_eq!(schemaless("false", &Kind::Bool), Ok(Value::Bool(false)));
    assert_eq!(schemaless("\"true\"", &Kind::Bool), Err("form"));
    assert_eq!(text("true", &SourceType::Bool).as_deref(), Ok("true"));
}

#[test]
fn floats_keep_their_text_or_refuse() {
    let (real, double) = (SourceType::Float32, SourceType::Float64);
    assert_eq!(connect("-0.1", &real, &Kind::Float64), Ok(Value::Float(-0.1)));
    assert_eq!(connect("-0.1", &real, &Kind::Float32), Ok(Value::Float((-0.1_f32).into())));
    assert_eq!(connect("0.1", &double, &Kind::Float32), Ok(Value::Float(0.1_f32.into())));
    assert_eq!(connect("2.718281828459045", &double, &Kind::Float32), Err("precision"));
    assert_eq!(connect("0.123456789", &double, &Kind::Float32), Err("precision"));
    assert_eq!(connect("1.0E300", &double, &Kind::Float32), Err("range"));
    // Printed with more digits than needed, as older Java does.
    assert_eq!(connect("1.4E-45", &real, &Kind::Float32), Ok(Value::Float(f32::from_bits(1).into())));
    assert_eq!(connect("5.684341886080802E-14", &double, &Kind::Float64), Ok(Value::Float(2_f64.powi(-44))));
    // A decimal becomes a float only if the float is that decimal when it is printed.
    assert_eq!(schemaless("\"12.34\"", &Kind::Float64), Ok(Value::Float(12.34)));
    assert_eq!(schemaless("\"12345678901234567890.12\"", &Kind::Float64), Err("precision"));
    assert_eq!(schemaless("0.12345678901234567891", &Kind::Float64), Err("precision"));
    assert_eq!(
        schemaless("0.12345678901234567891", &Kind::Decimal { precision: 38, scale: 20 }),
        number("0.12345678901234567891")
    );
}

#[test]
fn any_takes_what_json_has_and_what_a_schema_says() {
    for (json, wanted) in [
        ("7", Value::Int(7)),
        ("18446744073709551615", Value::Int(u64::MAX.into())),
        ("1.5", Value::Float(1.5)),
        ("1e3", Value::Float(1000.0)),
        ("\"x\"", Value::Text("x".into())),
        ("true", Value::Bool(true)),
        ("[1, 2]", Value::Text("[1, 2]".into())),
        ("null", Value::Null),
    ] {
        assert_eq!(schemaless(json, &Kind::Any), Ok(wanted), "{json}");
    }
    for (json, source, wanted) in [
        ("19782", SourceType::EpochDays, Value::Text("2024-02-29".into())),
        ("19782", SourceType::Int { bits: 32 }, Value::Int(19782)),
        ("\"BNI=\"", SourceType::Decimal { scale: 2, precision: None }, Value::Text("12.34".into())),
        ("\"AQID\"", SourceType::Bytes, Value::Bytes(vec![1, 2, 3])),
        ("\"Infinity\"", SourceType::Float64, Value::Float(f64::INFINITY)),
    ] {
        assert_eq!(connect(json, &source, &Kind::Any), Ok(wanted), "{json}");
    }
}

#[test]
fn zoned_times_and_iso_text_are_read() {
    let time = Kind::Time { digits: 6 };
    assert_eq!(connect("\"21:59:59.123456Z\"", &SourceType::ZonedTime, &time), Ok(Value::Time(79_199_123_456_000)));
    assert_eq!(connect("\"01:00:00+02:00\"", &SourceType::ZonedTime, &time), Ok(Value::Time(82_800_000_000_000)));
    assert_eq!(text("\"21:59:59.123456Z\"", &SourceType::ZonedTime).as_deref(), Ok("21:59:59.123456Z"));
    assert_eq!(connect("\"2024-02-29Z\"", &SourceType::IsoText, &Kind::Date), Ok(Value::Date(19782)));
    assert_eq!(connect("\"2024-02-29+02:00\"", &SourceType::IsoText, &Kind::Date), Err("precision"));
    assert_eq!(connect("\"10:33:23Z\"", &SourceType::IsoText, &time), Ok(Value::Time(38_003_000_000_000)));
    assert_eq!(connect("\"10:33:23\"", &SourceType::IsoText, &Kind::Date), Err("form"));
    assert_eq!(connect("\"2024-02-29\"", &SourceType::IsoText, &time), Err("form"));
    assert_eq!(schemaless("\"10:33:23.1234567\"", &time), Err("precision"));
    assert_eq!(schemaless("\"10:33:23.1234560\"", &time), Ok(Value::Time(38_003_123_456_000)));
    assert_eq!(schemaless("\"2024-02-30\"", &Kind::Date), Err("range"));
    assert_eq!(schemaless("\"soon\"", &Kind::Date), Err("form"));
}

#[test]
fn uuids_are_read_from_text_only() {
    let json = "\"6f1c1a52-6b0e-4a5e-9b3a-111111111111\"";
    let wanted = Value::Uuid(uuid::Uuid::from_u128(0x6f1c_1a52_6b0e_4a5e_9b3a_1111_1111_1111));
    assert_eq!(schemaless(json, &Kind::Uuid), Ok(wanted.clone()));
    assert_eq!(connect(json, &SourceType::Uuid, &Kind::Uuid), Ok(wanted));
    assert_eq!(connect("\"6f1c\"", &SourceType::Uuid, &Kind::Uuid), Err("form"));
    assert_eq!(connect("1", &SourceType::Year, &Kind::Uuid), Err("no mapping"));
}
