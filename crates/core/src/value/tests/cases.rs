//! The reported cases of numbers, times and types (B26 to B56 of the case collection), one by one.

use super::*;
use crate::schema::Field;

#[test]
fn b26_integers_beyond_doubles_and_beyond_64_bits_are_exact() {
    assert_eq!(schemaless("9007199254740993", &INT64), Ok(Value::Int(9_007_199_254_740_993)));
    assert_eq!(schemaless("-9223372036854775808", &INT64), Ok(Value::Int(i64::MIN.into())));
    assert_eq!(schemaless("18446744073709551615", &UINT64), Ok(Value::Int(u64::MAX.into())));
    assert_eq!(schemaless("18446744073709551616", &UINT64), Err("range"));
    assert_eq!(
        schemaless("327267367867168100000", &Kind::Decimal { precision: 38, scale: 0 }),
        number("327267367867168100000")
    );
    assert_eq!(schemaless("327267367867168100000", &INT64), Err("range"));
    assert_eq!(schemaless("327267367867168100000", &Kind::Text), Ok(Value::Text("327267367867168100000".into())));
    for (json, wanted) in [("1e3", 1000), ("-0", 0), ("5.0", 5), ("1200e-2", 12)] {
        assert_eq!(schemaless(json, &INT64), Ok(Value::Int(wanted)), "{json}");
    }
    assert_eq!(schemaless("1.5", &INT64), Err("precision"));
    // Doubles cannot hold it: refused instead of rounded.
    assert_eq!(schemaless("9007199254740993", &Kind::Float64), Err("precision"));
    assert_eq!(schemaless("9007199254740992", &Kind::Float64), Ok(Value::Float(9_007_199_254_740_992.0)));
}

#[test]
fn b28_base64_decimals_are_signed_and_of_any_width() {
    let source = SourceType::Decimal { scale: 18, precision: Some(38) };
    let kind = Kind::Decimal { precision: 38, scale: 18 };
    for (base64, wanted) in [
        ("DeC2s6dkAAE=", "1.000000000000000001"),
        ("8h9JTFib//8=", "-1.000000000000000001"),
        ("AA==", "0.000000000000000000"),
        ("/w==", "-0.000000000000000001"),
        ("fw==", "0.000000000000000127"),
        ("AIA=", "0.000000000000000128"),
        ("gA==", "-0.000000000000000128"),
        ("/38=", "-0.000000000000000129"),
        ("SztMqFqGxHoJiiI//////w==", "99999999999999999999.999999999999999999"),
        ("BrFOn4EvNmw1", "123.456789012345678901"),
    ] {
        let json = format!("\"{base64}\"");
        assert_eq!(connect(&json, &source, &kind), number(wanted), "{base64}");
        assert_eq!(text(&json, &source).as_deref(), Ok(wanted));
    }
    for json in ["\"\"", "\"A\"", "\"AA\"", "\"AB==\"", "\"A-==\"", "[0]", "true"] {
        assert_eq!(connect(json, &source, &kind), Err("form"), "{json}");
    }
    // A converter with `decimal.format=NUMERIC` keeps the schema and writes a number.
    assert_eq!(connect("-1.5", &source, &kind), number("-1.500000000000000000"));
    assert_eq!(text("-1.5", &source).as_deref(), Ok("-1.500000000000000000"));
}

#[test]
fn b30_what_is_not_finite_is_a_float_or_a_refusal() {
    let decimal = Kind::Decimal { precision: 12, scale: 2 };
    for (word, float) in [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)] {
        let json = format!("\"{word}\"");
        let origins = [Origin::Connect(&SourceType::Float64), Origin::Schemaless(&NOTHING)];
        for origin in origins {
            for kind in [Kind::Float32, Kind::Float64] {
                let Ok(Value::Float(read)) = read(&json, origin, &kind) else { panic!("{word}") };
                assert!(read.to_bits() == float.to_bits(), "{word}");
            }
            assert_eq!(read(&json, origin, &Kind::Text), Ok(Value::Text(word.into())));
            assert_eq!(read(&json, origin, &decimal), Err("not finite"));
        }
    }
    for word in ["NAN", "POSITIVE_INFINITY", "NEGATIVE_INFINITY"] {
        let json = format!("\"{word}\"");
        assert_eq!(schemaless(&json, &decimal), Err("not finite"));
        assert_eq!(schemaless(&json, &INT64), Err("not finite"));
        assert_eq!(connect(&json, &SourceType::Text, &decimal), Err("not finite"));
        assert_eq!(schemaless(&json, &Kind::Text), Ok(Value::Text(word.into())));
        assert!(matches!(schemaless(&json, &Kind::Float64), Ok(Value::Float(f)) if !f.is_finite()));
    }
    assert_eq!(schemaless("1e400", &Kind::Float64), Err("range"));
    assert_eq!(schemaless("1e-400", &Kind::Float64), Err("precision"));
}

#[test]
fn b31_money_has_a_scale_and_no_precision() {
    let source = SourceType::Decimal { scale: 2, precision: None };
    let kind = Kind::Decimal { precision: 19, scale: 2 };
    assert_eq!(connect("\"AeIT\"", &source, &kind), number("1234.11"));
    assert_eq!(connect("\"/h3t\"", &source, &kind), number("-1234.11"));
    assert_eq!(connect("null", &source, &kind), Ok(Value::Null));
    assert_eq!(connect("\"AeIT\"", &source, &Kind::Decimal { precision: 19, scale: 1 }), Err("precision"));
    assert_eq!(connect("\"AeIT\"", &source, &Kind::Decimal { precision: 5, scale: 2 }), Err("range"));
}

#[test]
fn b33_fractions_before_1970_are_floored() {
    let (micros, millis) = (SourceType::Timestamp { digits: 6 }, SourceType::Timestamp { digits: 3 });
    for (source, units, wanted) in [
        (&micros, "-6795364578871000", "1754-08-30 22:43:41.129000"),
        (&micros, "-1", "1969-12-31 23:59:59.999999"),
        (&micros, "1000042", "1970-01-01 00:00:01.000042"),
        (&micros, "-1047174587392000", "1936-10-25 22:10:12.608000"),
        (&millis, "-1", "1969-12-31 23:59:59.999"),
        (&millis, "-999", "1969-12-31 23:59:59.001"),
        (&millis, "1001", "1970-01-01 00:00:01.001"),
        (&millis, "0", "1970-01-01 00:00:00.000"),
    ] {
        assert_eq!(text(units, source).as_deref(), Ok(wanted));
    }
    let kind = Kind::Timestamp { digits: 6 };
    assert_eq!(connect("-1", &micros, &kind), Ok(Value::Timestamp(-1000)));
}

#[test]
fn b35_infinity_is_never_an_ordinary_date() {
    let (date, micros) = (SourceType::EpochDays, SourceType::Timestamp { digits: 6 });
    let (millis, nanos) = (SourceType::Timestamp { digits: 3 }, SourceType::Timestamp { digits: 9 });
    let kind = Kind::Timestamp { digits: 9 };
    for (source, kind, units, wanted) in [
        (&date, &Kind::Date, "-2147472692", "infinity"),
        (&date, &Kind::Date, "-2147472691", "-infinity"),
        (&date, &Kind::Date, "2147483647", "infinity"),
        (&date, &Kind::Date, "-2147483648", "-infinity"),
        (&micros, &kind, "9223372036825200000", "infinity"),
        (&micros, &kind, "-9223372036832400000", "-infinity"),
        (&micros, &kind, "9223372036854775807", "infinity"),
        (&micros, &kind, "-9223372036854775808", "-infinity"),
        (&millis, &kind, "9223372036825200", "infinity"),
        (&millis, &kind, "-9223372036832400", "-infinity"),
        (&nanos, &kind, "9223372036854775807", "infinity"),
    ] {
        assert_eq!(text(units, source).as_deref(), Ok(wanted), "{units}");
        assert_eq!(connect(units, source, kind), Err("infinite"), "{units}");
        assert_eq!(connect(units, source, &INT64), Err("infinite"), "{units}");
    }
    let connect_mode = declared(DecimalMode::String, TimePrecision::Connect, BinaryMode::Hex);
    assert_eq!(read("9223372036825200", Origin::Schemaless(&connect_mode), &kind), Err("infinite"));
    assert_eq!(read("-2147472692", Origin::Schemaless(&connect_mode), &Kind::Date), Err("infinite"));
    for word in ["\"infinity\"", "\"-infinity\""] {
        assert_eq!(connect(word, &SourceType::ZonedTimestamp, &kind), Err("infinite"));
        assert_eq!(text(word, &SourceType::ZonedTimestamp).as_deref(), Ok(word.trim_matches('"')));
        assert_eq!(schemaless(word, &Kind::Date), Err("infinite"));
    }
    // The day before the nonsense is a day like any other that no calendar of ours refuses.
    assert_eq!(connect("-2147472690", &date, &Kind::Date), Ok(Value::Date(-2_147_472_690)));
}

#[test]
fn b36_years_of_more_than_four_digits_and_before_1_are_read() {
    let kind = Kind::Timestamp { digits: 6 };
    for (json, microseconds) in [
        ("\"+21016-11-04T06:51:30.123456Z\"", 601_060_287_090_123_456_i128),
        ("\"-4713-12-31T23:59:59.999999Z\"", -210_863_520_000_000_001),
        ("\"0001-01-01T00:00:00.000000Z\"", -62_135_596_800_000_000),
        ("\"+294247-01-01T23:59:59.999999Z\"", 9_223_371_331_199_999_999),
        ("\"2016-11-04T11:51:30.123456Z\"", 1_478_260_290_123_456),
    ] {
        let wanted = Ok(Value::Timestamp(microseconds * 1000));
        assert_eq!(schemaless(json, &kind), wanted);
        assert_eq!(connect(json, &SourceType::ZonedTimestamp, &kind), wanted);
        assert_eq!(text(json, &SourceType::ZonedTimestamp).as_deref(), Ok(json.trim_matches('"')));
    }
    assert_eq!(
        text("601060287090123456", &SourceType::Timestamp { digits: 6 }).unwrap(),
        "+21016-11-04 06:51:30.123456"
    );
    assert_eq!(
        text("-210831897600000001", &SourceType::Timestamp { digits: 6 }).unwrap(),
        "-4712-12-31 23:59:59.999999"
    );
}

#[test]
fn b38_units_are_the_schemas_and_never_cut() {
    let millis = SourceType::Timestamp { digits: 3 };
    let micros = SourceType::Timestamp { digits: 6 };
    let nanos = SourceType::Timestamp { digits: 9 };
    let kind = |digits| Kind::Timestamp { digits };
    let second = 1_767_225_600_000_000_000_i128;
    for (source, json, ns) in [
        (&millis, "1767225600123", 123_000_000),
        (&micros, "1767225600123456", 123_456_000),
        (&nanos, "1767225600123456789", 123_456_789),
    ] {
        assert_eq!(connect(json, source, &kind(9)), Ok(Value::Timestamp(second + ns)));
    }
    assert_eq!(connect("1767225600123456", &micros, &kind(3)), Err("precision"));
    assert_eq!(connect("1767225600123000", &micros, &kind(3)), Ok(Value::Timestamp(second + 123_000_000)));
    assert_eq!(connect("1767225600123", &millis, &kind(0)), Err("precision"));
    assert_eq!(connect("1767225600123", &millis, &Kind::Date), Err("precision"));
    assert_eq!(connect("1767225600000", &millis, &Kind::Date), Ok(Value::Date(20454)));
    assert_eq!(connect("20454", &SourceType::EpochDays, &kind(3)), Ok(Value::Timestamp(second)));
    // Without a schema the unit is declared or the value refused.
    assert_eq!(schemaless("1767225600123", &kind(3)), Err("undeclared"));
    assert_eq!(schemaless("20454", &Kind::Date), Err("undeclared"));
    for (mode, json) in [
        (TimePrecision::Connect, "1767225600123"),
        (TimePrecision::Microseconds, "1767225600123000"),
        (TimePrecision::Nanoseconds, "1767225600123000000"),
    ] {
        let conventions = Conventions { time_precision: Some(mode), ..NOTHING };
        let value = read(json, Origin::Schemaless(&conventions), &kind(3));
        assert_eq!(value, Ok(Value::Timestamp(second + 123_000_000)), "{mode:?}");
    }
    let iso = Conventions { time_precision: Some(TimePrecision::IsoString), ..NOTHING };
    assert_eq!(read("1767225600123", Origin::Schemaless(&iso), &kind(3)), Err("form"));
    // A plain integer of a schema has no unit at all.
    assert_eq!(connect("1767225600123", &SourceType::Int { bits: 64 }, &kind(3)), Err("no mapping"));
}

#[test]
fn b40_durations_stay_numbers_and_intervals_stay_text() {
    for json in ["37091106780000", "-1", "0"] {
        assert_eq!(connect(json, &SourceType::MicroDuration, &INT64), Ok(Value::Int(json.parse().unwrap())));
        assert_eq!(text(json, &SourceType::MicroDuration).as_deref(), Ok(json));
        assert_eq!(connect(json, &SourceType::MicroDuration, &Kind::Time { digits: 6 }), Err("no mapping"));
    }
    for json in ["\"P1Y2M3DT4H5M6.78S\"", "\"P0Y0M0DT5H1M0.123457S\"", "\"P-1Y-2M3DT-4H\""] {
        assert_eq!(text(json, &SourceType::Interval).as_deref(), Ok(json.trim_matches('"')));
    }
}

#[test]
fn b41_zero_is_1970_and_null_is_null() {
    let conventions = declared(DecimalMode::String, TimePrecision::Connect, BinaryMode::Hex);
    let kind = Kind::Timestamp { digits: 0 };
    assert_eq!(read("0", Origin::Schemaless(&conventions), &kind), Ok(Value::Timestamp(0)));
    assert_eq!(read("null", Origin::Schemaless(&conventions), &kind), Ok(Value::Null));
}

#[test]
fn b43_bytes_are_read_as_declared_and_never_guessed() {
    let bytes = |json: &str, binary| {
        let conventions = Conventions { binary, ..NOTHING };
        match read(json, Origin::Schemaless(&conventions), &Kind::Bytes)? {
            Value::Bytes(bytes) => Ok(bytes),
            other => panic!("{other:?}"),
        }
    };
    use BinaryMode as B;
    for (json, mode, wanted) in [
        ("\"AQID\"", B::Base64, Ok(vec![1, 2, 3])),
        ("\"010203\"", B::Hex, Ok(vec![1, 2, 3])),
        ("\"cafe\"", B::Hex, Ok(vec![0xCA, 0xFE])),
        ("\"CAFE\"", B::Hex, Ok(vec![0xCA, 0xFE])),
        ("\"cafe\"", B::Base64, Ok(vec![0x71, 0xA7, 0xDE])),
        ("\"_-8=\"", B::Base64UrlSafe, Ok(vec![0xFF, 0xEF])),
        ("\"_-8\"", B::Base64UrlSafe, Ok(vec![0xFF, 0xEF])),
        ("\"_-8=\"", B::Hex, Err("form")),
        ("\"_-8=\"", B::Base64, Err("form")),
        ("\"caf\"", B::Hex, Err("form")),
        ("\"\"", B::Hex, Ok(vec![])),
        ("\"\"", B::Base64, Ok(vec![])),
        ("1", B::Hex, Err("form")),
    ] {
        assert_eq!(bytes(json, Some(mode)), wanted, "{json} {mode:?}");
    }
    assert_eq!(bytes("\"cafe\"", None), Err("undeclared"));
    assert_eq!(connect("\"AQID\"", &SourceType::Bytes, &Kind::Bytes), Ok(Value::Bytes(vec![1, 2, 3])));
    assert_eq!(connect("\"\"", &SourceType::Bytes, &Kind::Bytes), Ok(Value::Bytes(vec![])));
    // A schema's plain string says nothing about bytes: the declaration does.
    assert_eq!(connect("\"cafe\"", &SourceType::Text, &Kind::Bytes), Err("no mapping"));
    let field = Field { name: "d".into(), source_type: SourceType::Text, optional: true };
    let hex = Conventions { binary: Some(B::Hex), ..NOTHING };
    let origin = |conventions| Origin::of(Some(&field), conventions, &Kind::Bytes);
    assert_eq!(read("\"cafe\"", origin(&hex), &Kind::Bytes), Ok(Value::Bytes(vec![0xCA, 0xFE])));
    assert_eq!(read("\"cafe\"", origin(&NOTHING), &Kind::Bytes), Err("undeclared"));
    assert!(matches!(Origin::of(Some(&field), &hex, &Kind::Text), Origin::Connect(SourceType::Text)));
    let all: Vec<u8> = (0..=255).collect();
    let hex: String = all.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(bytes(&format!("\"{hex}\""), Some(B::Hex)), Ok(all));
    assert_eq!(text("\"AP8Qqw==\"", &SourceType::Bytes).as_deref(), Ok("00ff10ab"));
}

#[test]
fn b50_json_text_is_kept_to_the_byte() {
    for content in [
        r#"{"p":[9223372036854775807]}"#,
        r#"{"n":100000000000000000000000000,"amount":16.4}"#,
        r#"{"b":1,"a":2,"b":3}"#,
        "9007199254740993",
        "\"plain\"",
        "null",
    ] {
        let json = serde_json::to_string(content).unwrap();
        assert_eq!(text(&json, &SourceType::Json).as_deref(), Ok(content));
        assert_eq!(schemaless(&json, &Kind::Text), Ok(Value::Text(content.into())));
        assert_eq!(schemaless(&json, &Kind::Any), Ok(Value::Text(content.into())));
    }
    assert_eq!(connect("null", &SourceType::Json, &Kind::Text), Ok(Value::Null));
}

#[test]
fn b51_maps_and_b53_unusual_types_keep_their_text() {
    for json in [r#"{"key1":"val1","key2":null}"#, "{}", r#"{"a\"b":"c=>d","":"e"}"#] {
        assert_eq!(text(json, &SourceType::Map).as_deref(), Ok(json));
        assert_eq!(schemaless(json, &Kind::Text), Ok(Value::Text(json.into())));
    }
    let ltree = SourceType::NamedText("io.debezium.data.Ltree".into());
    assert_eq!(text("\"Top.Collections\"", &ltree).as_deref(), Ok("Top.Collections"));
    let array = SourceType::Array(Box::new(ltree));
    assert_eq!(text(r#"["Ship.Frigate",null]"#, &array).as_deref(), Ok(r#"["Ship.Frigate",null]"#));
    assert_eq!(
        text(r#""[\"2019-03-31 15:30:00\",infinity)""#, &SourceType::Text).as_deref(),
        Ok("[\"2019-03-31 15:30:00\",infinity)")
    );
    let tsquery = connect("\"J2ZhdCcgPC0+ICdjYXQn\"", &SourceType::Bytes, &Kind::Bytes);
    assert_eq!(tsquery, Ok(Value::Bytes(b"'fat' <-> 'cat'".to_vec())));
    let point = SourceType::Other("io.debezium.data.geometry.Point".into());
    let json = r#"{"x":1.0,"y":2.0,"wkb":"AQ==","srid":null}"#;
    assert_eq!(text(json, &point).as_deref(), Ok(json));
    assert_eq!(connect(json, &point, &INT64), Err("no mapping"));
}
