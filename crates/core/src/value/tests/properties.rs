//! What holds for every value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use num_bigint::BigInt;
use proptest::prelude::*;

use super::*;

fn kinds() -> Vec<Kind> {
    let mut kinds =
        vec![Kind::Bool, Kind::Float32, Kind::Float64, Kind::Text, Kind::Bytes, Kind::Date, Kind::Uuid, Kind::Any];
    for bits in [0, 1, 8, 16, 32, 64, 127, 128, 129, 256] {
        kinds.extend([true, false].map(|signed| Kind::Int { bits, signed }));
    }
    for digits in [0, 3, 6, 9, 12, 255] {
        kinds.extend([Kind::Time { digits }, Kind::Timestamp { digits }]);
    }
    for (precision, scale) in [(0, 0), (1, 0), (9, 2), (38, 10), (38, 38), (76, 0), (76, 76), (5, -3), (200, 100)] {
        kinds.push(Kind::Decimal { precision, scale });
    }
    kinds
}

fn sources() -> Vec<SourceType> {
    use SourceType as T;
    let mut sources = vec![
        T::Bool,
        T::Float32,
        T::Float64,
        T::Text,
        T::Bytes,
        T::VariableDecimal,
        T::EpochDays,
        T::ZonedTimestamp,
        T::ZonedTime,
        T::IsoText,
        T::Year,
        T::MicroDuration,
        T::NanoDuration,
        T::Interval,
        T::Uuid,
        T::Json,
        T::Map,
        T::Enum { allowed: vec![] },
        T::NamedText("x".into()),
        T::Other("x".into()),
        T::Bits { length: None },
        T::Bits { length: Some(9) },
        T::Array(Box::new(T::Int { bits: 32 })),
        T::Array(Box::new(T::EpochDays)),
        T::Array(Box::new(T::Array(Box::new(T::Bytes)))),
    ];
    sources.extend([8, 16, 32, 64].map(|bits| T::Int { bits }));
    sources.extend([3, 6, 9, 255].map(|digits| T::TimeOfDay { digits }));
    sources.extend([3, 6, 9, 255].map(|digits| T::Timestamp { digits }));
    sources.extend([0, 2, 76, -3, i32::MAX, i32::MIN].map(|scale| T::Decimal { scale, precision: None }));
    sources
}

fn conventions() -> Vec<Conventions> {
    use TimePrecision as P;
    let mut all = vec![NOTHING];
    for time in [P::Connect, P::Adaptive, P::AdaptiveTimeMicroseconds, P::Microseconds, P::Nanoseconds, P::IsoString] {
        for decimal in [DecimalMode::Precise, DecimalMode::Double, DecimalMode::String] {
            for binary in [BinaryMode::Base64, BinaryMode::Base64UrlSafe, BinaryMode::Hex] {
                all.push(declared(decimal, time, binary));
            }
        }
    }
    all
}

/// JSON values of every form, the odd ones often; and text that is no JSON.
fn json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<i128>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:e}")),
        "-?[0-9]{1,90}(\\.[0-9]{1,90})?([eE][+-]?[0-9]{1,30})?",
    ];
    let string = prop_oneof![
        any::<String>(),
        any::<Vec<u8>>().prop_map(|bytes| STANDARD.encode(bytes)),
        "[+-]?[0-9]{1,40}(\\.[0-9]{1,40})?",
        "[+-]?[0-9]{4,10}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,12})?)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?",
        "[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,12})?Z?",
        Just("NaN".to_owned()),
        Just("infinity".to_owned()),
        Just("POSITIVE_INFINITY".to_owned()),
    ]
    .prop_map(|text| serde_json::to_string(&text).expect("a string"));
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        number,
        string,
        any::<String>(),
        (any::<i32>(), any::<Vec<u8>>())
            .prop_map(|(scale, bytes)| format!("{{\"scale\":{scale},\"value\":\"{}\"}}", STANDARD.encode(bytes))),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(|elements| format!("[{}]", elements.join(",")))
    })
}

#[test]
fn no_scale_makes_us_write_out_billions_of_zeros() {
    let source = SourceType::Decimal { scale: i32::MAX, precision: None };
    assert!(decode("0", Origin::Connect(&source), &Kind::Text).is_err());
    // SQLite takes any numbers in a declared type.
    let source = SourceType::Decimal { scale: 2, precision: None };
    for scale in [2_000_000_000, -2_000_000_000] {
        let kind = Kind::Decimal { precision: 4_000_000_000, scale };
        assert!(decode("\"AQ==\"", Origin::Connect(&source), &kind).is_err(), "{scale}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_panics_and_no_message_holds_the_value(json in json()) {
        let (kinds, sources, conventions) = (kinds(), sources(), conventions());
        let content = json.trim_matches(|c| "\"[]{}".contains(c));
        let origins = sources.iter().map(Origin::Connect).chain(conventions.iter().map(Origin::Schemaless));
        for origin in origins {
            for kind in &kinds {
                let result = decode(&json, origin, kind);
                if json.trim_ascii() == "null" {
                    prop_assert_eq!(&result, &Ok(Value::Null));
                }
                if let Err(error) = result && content.len() > 12 {
                    prop_assert!(!error.to_string().contains(content), "{}", error);
                }
            }
        }
    }

    #[test]
    fn decimal_text_and_base64_are_one_number(bytes in prop::collection::vec(any::<u8>(), 1..33), scale in 0_u32..40, more in 0_i32..4) {
        let number = Decimal::wide(BigInt::from_signed_bytes_be(&bytes), scale);
        let kind = Kind::Decimal { precision: 200, scale: i32::try_from(scale).unwrap() + more };
        let (text, plain) = (format!("\"{number}\""), number.to_string());
        let string_mode = declared(DecimalMode::String, TimePrecision::Connect, BinaryMode::Hex);
        let precise = SourceType::Decimal { scale: i32::try_from(scale).unwrap(), precision: None };
        let base64 = format!("\"{}\"", STANDARD.encode(&bytes));
        let variable = format!("{{\"scale\":{scale},\"value\":{base64}}}");
        let from_text = read(&text, Origin::Schemaless(&string_mode), &kind);
        prop_assert_eq!(&from_text, &read(&base64, Origin::Connect(&precise), &kind));
        prop_assert_eq!(&from_text, &read(&variable, Origin::Connect(&SourceType::VariableDecimal), &kind));
        prop_assert_eq!(&from_text, &read(&variable, Origin::Schemaless(&NOTHING), &kind));
        prop_assert_eq!(&from_text, &read(&plain, Origin::Connect(&precise), &kind));
        prop_assert_eq!(super::text(&base64, &precise), Ok(plain.clone()));
        let Ok(Value::Decimal(decoded)) = from_text else { panic!("no decimal") };
        prop_assert_eq!(decoded.scale(), scale + u32::try_from(more).unwrap());
        prop_assert_eq!(decoded.to_bigint(), number.to_bigint() * BigInt::from(10).pow(u32::try_from(more).unwrap()));
    }

    #[test]
    fn a_smaller_scale_keeps_the_number_or_refuses(number in any::<i64>(), scale in 0_i32..20, target in 0_i32..20) {
        let precise = SourceType::Decimal { scale, precision: None };
        let base64 = format!("\"{}\"", STANDARD.encode(BigInt::from(number).to_signed_bytes_be()));
        let fits = scale <= target || number % 10_i64.checked_pow(u32::try_from(scale - target).unwrap()).unwrap_or(i64::MAX) == 0;
        let kind = Kind::Decimal { precision: 100, scale: target };
        prop_assert_eq!(read(&base64, Origin::Connect(&precise), &kind).is_ok(), fits || number == 0);
    }

    #[test]
    fn timestamps_are_their_text_again(units in any::<i64>(), digits in prop::sample::select(vec![3_u8, 6, 9])) {
        let source = SourceType::Timestamp { digits };
        let text = super::text(&units.to_string(), &source).unwrap();
        prop_assume!(!text.ends_with("infinity"));
        let kind = Kind::Timestamp { digits: 9 };
        let (text, units) = (format!("\"{text}\""), units.to_string());
        let from_text = read(&text, Origin::Schemaless(&NOTHING), &kind);
        prop_assert_eq!(from_text, read(&units, Origin::Connect(&source), &kind));
    }

    #[test]
    fn dates_are_their_text_again(days in any::<i32>()) {
        let text = super::text(&days.to_string(), &SourceType::EpochDays).unwrap();
        prop_assume!(!text.ends_with("infinity"));
        let json = format!("\"{text}\"");
        prop_assert_eq!(read(&json, Origin::Schemaless(&NOTHING), &Kind::Date), Ok(Value::Date(days.into())));
    }

    #[test]
    fn integers_are_exact_or_out_of_range(number in any::<i128>(), bits in prop::sample::select(vec![8_u16, 16, 32, 64, 128])) {
        let number = number >> (number.unsigned_abs() % 127);
        let limit = BigInt::from(1) << bits;
        let signed = read_int(&number.to_string(), bits, true);
        let fits = BigInt::from(number) * 2 < limit && BigInt::from(number) * 2 >= -&limit;
        prop_assert_eq!(signed, if fits { Ok(BigInt::from(number)) } else { Err("range") });
        let unsigned = read_int(&number.to_string(), bits, false);
        let fits = number >= 0 && BigInt::from(number) < limit;
        prop_assert_eq!(unsigned, if fits { Ok(BigInt::from(number)) } else { Err("range") });
    }

    #[test]
    fn floats_keep_every_bit(double in any::<f64>(), real in any::<f32>()) {
        prop_assume!(double.is_finite() && real.is_finite());
        for text in [format!("{double:e}"), format!("{double:?}"), format!("{double:.16e}")] {
            let value = read(&text, Origin::Connect(&SourceType::Float64), &Kind::Float64);
            prop_assert!(matches!(value, Ok(Value::Float(f)) if f.to_bits() == double.to_bits()), "{}", text);
        }
        for text in [format!("{real:e}"), format!("{real:.8e}")] {
            let value = read(&text, Origin::Connect(&SourceType::Float32), &Kind::Float32);
            prop_assert!(matches!(value, Ok(Value::Float(f)) if f.to_bits() == f64::from(real).to_bits()), "{}", text);
        }
        let text = format!("{double:e}");
        if let Ok(Value::Float(narrow)) = read(&text, Origin::Connect(&SourceType::Float64), &Kind::Float32) {
            #[expect(clippy::cast_possible_truncation, reason = "the nearest 32-bit float is meant")]
            let nearest = double as f32;
            prop_assert_eq!(format!("{:e}", nearest), format!("{:e}", double));
            prop_assert_eq!(narrow.to_bits(), f64::from(nearest).to_bits());
        }
    }
}

fn read_int(json: &str, bits: u16, signed: bool) -> Result<BigInt, &'static str> {
    match read(json, Origin::Schemaless(&NOTHING), &Kind::Int { bits, signed })? {
        Value::Int(number) => Ok(number.into()),
        Value::BigInt(number) => Ok(number),
        other => panic!("{other:?} is no integer"),
    }
}
