//! From a JSON value to the bytes that PostgreSQL takes for its column: exactly, or refused.
//!
//! A field is its length and its bytes, as in `COPY … (FORMAT binary)`; NULL is the length -1.

use std::borrow::Cow;

use bytes::BufMut;
use serde_json::value::RawValue;
use settle_core::schema::{Origin, SourceType};
use settle_core::value::{self, Kind, Value, ValueError};

use super::column::Wire;
use super::moment;
use super::numeric;

/// Why a value is not written. Never holds the value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misfit {
    #[error("{0}")]
    Value(#[from] ValueError),
    #[error("a text with a NUL character (\\u0000), which PostgreSQL cannot hold; remove it at the source")]
    Nul,
    #[error("a text longer than the {0} characters of the column")]
    TooLong(usize),
    #[error("a number of more digits than numeric holds")]
    TooManyDigits,
    #[error("a value that is no number where the column is numeric")]
    NoNumber,
    #[error(
        "a base64 decimal, whose scale nothing says; declare the column with its scale, as NUMERIC(12,2), or set \
         decimal.handling.mode=string in the connector"
    )]
    NoScale,
    #[error("{0} has no exact form as an interval; set interval.handling.mode=string in the connector")]
    NoInterval(String),
    #[error("{0} bits where the column has {1}")]
    OtherBits(usize, u32),
    #[error("a string in a column of bits without a schema: declare `binary_handling_mode` in [source]")]
    UndeclaredBits,
    #[error("bits without a schema in a column that does not say how many; make it bit(n)")]
    BitsOfNoLength,
    #[error("{0} where the column is an array")]
    NoArray(&'static str),
    #[error("a value of more than 1 GB")]
    TooLarge,
}

impl Misfit {
    /// True where every row would fail alike: the topic and the table do not fit together.
    pub(super) fn is_contract(&self) -> bool {
        matches!(
            self,
            Self::Value(ValueError::NoMapping(..) | ValueError::Undeclared { .. } | ValueError::UnitUnknown { .. })
                | Self::NoScale
                | Self::NoInterval(_)
                | Self::UndeclaredBits
                | Self::BitsOfNoLength
        )
    }
}

/// Writes `json` as one field of this form.
pub(super) fn put(out: &mut Vec<u8>, json: &str, origin: Origin<'_>, wire: &Wire) -> Result<(), Misfit> {
    if json == "null" {
        out.put_i32(-1);
        return Ok(());
    }
    let start = out.len();
    out.put_i32(0);
    if let Err(misfit) = put_value(out, json, origin, wire) {
        out.truncate(start);
        return Err(misfit);
    }
    let length = i32::try_from(out.len() - start - 4).map_err(|_| Misfit::TooLarge)?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn put_value(out: &mut Vec<u8>, json: &str, origin: Origin<'_>, wire: &Wire) -> Result<(), Misfit> {
    match wire {
        Wire::Date | Wire::Time(_) | Wire::TimeTz(_) | Wire::Timestamp(_) => {
            return moment::put(out, json, origin, wire);
        }
        Wire::Numeric(None) => return any_number(out, json, origin),
        Wire::Bits(length, exactly) => return bits(out, json, origin, *length, *exactly),
        Wire::Array(element, oid) => return array(out, json, origin, element, *oid),
        Wire::Interval => refuse_inexact(origin, json)?,
        _ => {}
    }
    let value = match value::decode(json, origin, &wire.kind()) {
        Err(ValueError::NotFinite(word, _)) if matches!(wire, Wire::Numeric(_)) => {
            numeric::put_word(out, word);
            return Ok(());
        }
        decoded => decoded?,
    };
    match value {
        // Only the JSON null is decoded to it.
        Value::Null => {}
        Value::Bool(flag) => out.put_u8(flag.into()),
        Value::Int(number) => integer(out, number, wire)?,
        Value::Float(number) => match wire {
            #[expect(clippy::cast_possible_truncation, reason = "decoded as a 32-bit float")]
            Wire::Float4 => out.put_f32(number as f32),
            _ => out.put_f64(number),
        },
        Value::Decimal(decimal) => numeric::put(out, &decimal).ok_or(Misfit::TooManyDigits)?,
        Value::Text(text) => put_text(out, &text, wire)?,
        Value::Bytes(bytes) => out.put_slice(&bytes),
        Value::Uuid(uuid) => out.put_slice(uuid.as_bytes()),
        Value::BigInt(_) | Value::Date(_) | Value::Time(_) | Value::Timestamp(_) => {
            return Err(ValueError::NoMapping("the value".into(), wire.kind().to_string()).into());
        }
    }
    Ok(())
}

fn integer(out: &mut Vec<u8>, number: i128, wire: &Wire) -> Result<(), Misfit> {
    let range = || Misfit::Value(ValueError::Range(wire.kind().to_string()));
    match wire {
        Wire::Int2 => out.put_i16(i16::try_from(number).map_err(|_| range())?),
        Wire::Int4 => out.put_i32(i32::try_from(number).map_err(|_| range())?),
        _ => out.put_i64(i64::try_from(number).map_err(|_| range())?),
    }
    Ok(())
}

fn put_text(out: &mut Vec<u8>, text: &str, wire: &Wire) -> Result<(), Misfit> {
    if text.as_bytes().contains(&0) {
        return Err(Misfit::Nul);
    }
    match wire {
        // PostgreSQL would cut spaces beyond the length in silence.
        Wire::Text(Some(limit)) if text.len() > *limit && text.chars().count() > *limit => {
            return Err(Misfit::TooLong(*limit));
        }
        // The version of its binary form.
        Wire::Jsonb => out.put_u8(1),
        _ => {}
    }
    out.put_slice(text.as_bytes());
    Ok(())
}

/// A number of any precision, with the digits that it comes with.
fn any_number(out: &mut Vec<u8>, json: &str, origin: Origin<'_>) -> Result<(), Misfit> {
    let text = match origin {
        Origin::Connect(SourceType::Decimal { .. } | SourceType::VariableDecimal) => {
            value::decode(json, origin, &Kind::Text)?
        }
        // Nothing but a decimal of variable scale has this form.
        Origin::Schemaless(_) if json.starts_with('{') => {
            value::decode(json, Origin::Connect(&SourceType::VariableDecimal), &Kind::Text)?
        }
        _ => return number_of_own_scale(out, json, origin),
    };
    let Value::Text(text) = text else { return Err(Misfit::NoNumber) };
    match text.as_ref() {
        "NaN" | "Infinity" | "-Infinity" => numeric::put_word(out, &text),
        digits => numeric::put_text(out, digits).ok_or(Misfit::TooManyDigits)?,
    }
    Ok(())
}

/// The digits behind the point are those of the text itself.
fn number_of_own_scale(out: &mut Vec<u8>, json: &str, origin: Origin<'_>) -> Result<(), Misfit> {
    use settle_core::schema::DecimalMode::Precise;
    let is_string = json.starts_with('"');
    if let (Origin::Schemaless(conventions), true) = (origin, is_string)
        && conventions.decimal == Some(Precise)
    {
        return Err(Misfit::NoScale);
    }
    let scale = numeric::scale_of(json.trim_matches('"')).ok_or(Misfit::NoNumber)?;
    let kind = Kind::Decimal { precision: numeric::MAX_DIGITS, scale };
    match value::decode(json, origin, &kind) {
        Ok(Value::Decimal(decimal)) => numeric::put(out, &decimal).ok_or(Misfit::TooManyDigits),
        Err(ValueError::NotFinite(word, _)) => {
            numeric::put_word(out, word);
            Ok(())
        }
        Ok(_) | Err(ValueError::Form { .. }) => Err(Misfit::NoNumber),
        Err(error) => Err(error.into()),
    }
}

/// Bits as PostgreSQL has them: their number, then the bits from the left.
fn bits(out: &mut Vec<u8>, json: &str, origin: Origin<'_>, length: Option<u32>, exactly: bool) -> Result<(), Misfit> {
    let digits = match (origin, json) {
        // Both databases send a single bit as a boolean.
        (_, "true") => Cow::Borrowed("1"),
        (_, "false") => Cow::Borrowed("0"),
        (Origin::Connect(_), _) => match value::decode(json, origin, &Kind::Text)? {
            Value::Text(text) => text,
            _ => return Err(ValueError::NoMapping("the value".into(), "bits".into()).into()),
        },
        (Origin::Schemaless(conventions), _) => {
            if conventions.binary.is_none() {
                return Err(Misfit::UndeclaredBits);
            }
            let length = length.ok_or(Misfit::BitsOfNoLength)?;
            // Little-endian, as they are sent under a schema.
            let source = SourceType::Bits { length: Some(length) };
            let Value::Bytes(bytes) = value::decode(json, origin, &Kind::Bytes)? else { return Err(Misfit::NoNumber) };
            let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &bytes);
            match value::decode(&format!("\"{base64}\""), Origin::Connect(&source), &Kind::Text)? {
                Value::Text(text) => Cow::Owned(text.into_owned()),
                _ => return Err(Misfit::NoNumber),
            }
        }
    };
    if !digits.bytes().all(|digit| matches!(digit, b'0' | b'1')) {
        return Err(ValueError::NoMapping("text".into(), "bits".into()).into());
    }
    if let Some(length) = length {
        let wanted = usize::try_from(length).unwrap_or(usize::MAX);
        if if exactly { digits.len() != wanted } else { digits.len() > wanted } {
            return Err(Misfit::OtherBits(digits.len(), length));
        }
    }
    out.put_i32(i32::try_from(digits.len()).map_err(|_| Misfit::TooLarge)?);
    for eight in digits.as_bytes().chunks(8) {
        out.put_u8(eight.iter().enumerate().fold(0, |byte, (at, digit)| byte | (digit & 1) << (7 - at)));
    }
    Ok(())
}

/// One dimension; every element in the form of its type.
fn array(out: &mut Vec<u8>, json: &str, origin: Origin<'_>, element: &Wire, oid: u32) -> Result<(), Misfit> {
    if !json.starts_with('[') {
        return Err(Misfit::NoArray("a value that is no array"));
    }
    let origin = match origin {
        Origin::Connect(SourceType::Array(inner)) => Origin::Connect(inner),
        Origin::Connect(other) => return Err(ValueError::NoMapping(other.to_string(), "an array".into()).into()),
        schemaless => schemaless,
    };
    let elements: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| Misfit::NoArray("text that is no JSON"))?;
    let dimensions = i32::from(!elements.is_empty());
    out.put_i32(dimensions);
    out.put_i32(elements.iter().any(|element| element.get() == "null").into());
    out.put_u32(if element.is_cast() { TEXT } else { oid });
    if dimensions > 0 {
        out.put_i32(i32::try_from(elements.len()).map_err(|_| Misfit::TooLarge)?);
        out.put_i32(1);
    }
    for value in elements {
        if value.get().starts_with('[') && !matches!(element, Wire::Json | Wire::Jsonb) {
            return Err(Misfit::NoArray("an array of arrays"));
        }
        put(out, value.get(), origin, element)?;
    }
    Ok(())
}

/// The type in which elements wait to be cast.
const TEXT: u32 = 25;

/// An interval keeps its months and days; the connector's numbers have made hours of them.
fn refuse_inexact(origin: Origin<'_>, json: &str) -> Result<(), Misfit> {
    match origin {
        Origin::Connect(
            SourceType::Interval | SourceType::Text | SourceType::NamedText(_) | SourceType::TimeOfDay { .. },
        ) => Ok(()),
        Origin::Connect(other) => Err(Misfit::NoInterval(other.to_string())),
        Origin::Schemaless(_) if json.starts_with('"') => Ok(()),
        Origin::Schemaless(_) => Err(Misfit::NoInterval("a number".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settle_core::schema::{BinaryMode, Conventions, DecimalMode};

    fn of(json: &str, source: &SourceType, wire: &Wire) -> Result<Vec<u8>, Misfit> {
        let mut out = Vec::new();
        put(&mut out, json, Origin::Connect(source), wire)?;
        Ok(out)
    }

    fn schemaless(json: &str, conventions: Conventions, wire: &Wire) -> Result<Vec<u8>, Misfit> {
        let mut out = Vec::new();
        put(&mut out, json, Origin::Schemaless(&conventions), wire)?;
        Ok(out)
    }

    fn field(bytes: &[u8]) -> Vec<u8> {
        let length = i32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    }

    #[test]
    fn a_field_is_its_length_and_its_bytes() {
        assert_eq!(of("null", &SourceType::Text, &Wire::Text(None)), Ok(vec![0xff; 4]));
        assert_eq!(of("\"é\"", &SourceType::Text, &Wire::Text(Some(1))), Ok(field("é".as_bytes())));
        assert_eq!(of("-2", &SourceType::Int { bits: 16 }, &Wire::Int2), Ok(field(&[0xff, 0xfe])));
        assert_eq!(of("true", &SourceType::Bool, &Wire::Bool), Ok(field(&[1])));
        assert_eq!(of("\"{}\"", &SourceType::Json, &Wire::Jsonb), Ok(field(b"\x01{}")));
        assert_eq!(of("\"AP8=\"", &SourceType::Bytes, &Wire::Bytea), Ok(field(&[0, 255])));
    }

    #[test]
    fn what_postgres_would_cut_or_cannot_hold_is_refused_and_leaves_nothing() {
        assert_eq!(of("\"a\\u0000b\"", &SourceType::Text, &Wire::Text(None)), Err(Misfit::Nul));
        assert_eq!(of("\"ab \"", &SourceType::Text, &Wire::Text(Some(2))), Err(Misfit::TooLong(2)));
        let mut out = vec![7];
        let int = SourceType::Int { bits: 32 };
        assert!(put(&mut out, "40000", Origin::Connect(&int), &Wire::Int2).is_err());
        assert_eq!(out, [7]);
    }

    #[test]
    fn numbers_keep_every_digit_and_are_not_guessed() {
        let numeric = Wire::Numeric(None);
        let number = |digits: &str| {
            let mut out = Vec::new();
            numeric::put_text(&mut out, digits).unwrap();
            field(&out)
        };
        let decimal = SourceType::Decimal { scale: 2, precision: None };
        assert_eq!(of("\"BNI=\"", &decimal, &numeric), Ok(number("12.34")));
        assert_eq!(of("{\"scale\":3,\"value\":\"AQ==\"}", &SourceType::VariableDecimal, &numeric), Ok(number("0.001")));
        assert_eq!(of("\"12.500\"", &SourceType::Text, &numeric), Ok(number("12.500")));
        assert_eq!(of("1.5E-3", &SourceType::Float64, &numeric), Ok(number("0.0015")));
        assert_eq!(
            schemaless("9007199254740993.10", Conventions::default(), &numeric),
            Ok(number("9007199254740993.10"))
        );
        let precise = Conventions { decimal: Some(DecimalMode::Precise), ..Conventions::default() };
        assert_eq!(schemaless("\"BNI=\"", precise, &numeric), Err(Misfit::NoScale));
        assert_eq!(schemaless("\"BNI=\"", precise, &Wire::Numeric(Some((9, 2)))), Ok(number("12.34")));
        assert!(matches!(
            schemaless("\"1234\"", Conventions::default(), &numeric),
            Err(Misfit::Value(ValueError::Undeclared { .. }))
        ));
        assert_eq!(of("\"x\"", &SourceType::Text, &numeric), Err(Misfit::NoNumber));
    }

    #[test]
    fn bits_come_from_the_left() {
        let nine = SourceType::Bits { length: Some(9) };
        assert_eq!(
            of("\"VQE=\"", &nine, &Wire::Bits(Some(9), true)),
            Ok(field(&[0, 0, 0, 9, 0b1010_1010, 0b1000_0000]))
        );
        assert_eq!(of("\"VQE=\"", &nine, &Wire::Bits(Some(10), true)), Err(Misfit::OtherBits(9, 10)));
        assert_eq!(of("true", &SourceType::Bool, &Wire::Bits(Some(1), true)), Ok(field(&[0, 0, 0, 1, 0x80])));
        let declared = Conventions { binary: Some(BinaryMode::Base64), ..Conventions::default() };
        let wire = Wire::Bits(Some(9), true);
        assert_eq!(schemaless("\"VQE=\"", declared, &wire), of("\"VQE=\"", &nine, &wire));
        assert_eq!(schemaless("\"VQE=\"", Conventions::default(), &wire), Err(Misfit::UndeclaredBits));
    }

    #[test]
    fn arrays_have_one_dimension_and_nulls() {
        let ints = SourceType::Array(Box::new(SourceType::Int { bits: 32 }));
        let wire = Wire::Array(Box::new(Wire::Int4), 23);
        let head = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1];
        let elements = [0, 0, 0, 4, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(of("[7,null]", &ints, &wire), Ok(field(&[&head[..], &elements].concat())));
        assert_eq!(of("[]", &ints, &wire), Ok(field(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23])));
        assert_eq!(of("[[1]]", &ints, &wire), Err(Misfit::NoArray("an array of arrays")));
    }

    #[test]
    fn an_interval_of_microseconds_is_refused() {
        let text = SourceType::Interval;
        assert_eq!(of("\"P1M\"", &text, &Wire::Interval), Ok(field(b"P1M")));
        assert!(of("2629800000000", &SourceType::MicroDuration, &Wire::Interval).unwrap_err().is_contract());
    }
}
