//! The text form of every source type: see [`Kind::Text`](super::Kind::Text).

use std::borrow::Cow;

use super::binary;
use super::calendar::{write_date, write_time, write_timestamp};
use super::error::ValueError;
use super::exact::{self, Exact};
use super::kind::Kind;
use super::number::Number;
use super::temporal;
use super::token::Token;
use crate::schema::{Origin, SourceType};

const KIND: Kind = Kind::Text;

/// The text form of a value that is not null.
pub(super) fn decode<'a>(token: Token<'a>, origin: Origin<'_>) -> Result<Cow<'a, str>, ValueError> {
    match origin {
        Origin::Connect(source) => of_connect(token, source),
        Origin::Schemaless(_) => as_received(token),
    }
}

/// Content of a string, JSON text of the rest.
fn as_received(token: Token<'_>) -> Result<Cow<'_, str>, ValueError> {
    match token {
        Token::Text(text) => Ok(text),
        Token::Number(text) if Number::parse(text).is_some() => Ok(Cow::Borrowed(text)),
        Token::Array(json) | Token::Object(json) => Ok(Cow::Borrowed(json)),
        Token::Bool(value) => Ok(Cow::Borrowed(if value { "true" } else { "false" })),
        Token::Number(_) | Token::Null => Err(ValueError::form("text that is no JSON", "text")),
    }
}

fn of_connect<'a>(token: Token<'a>, source: &SourceType) -> Result<Cow<'a, str>, ValueError> {
    use SourceType as T;
    match (source, &token) {
        (T::Bool, Token::Bool(_)) => as_received(token),
        (T::Int { .. } | T::Float32 | T::Float64 | T::Year | T::MicroDuration | T::NanoDuration, Token::Number(_)) => {
            as_received(token)
        }
        (T::Float32 | T::Float64, Token::Text(_)) => match exact::read(&token, Origin::Connect(source), &KIND)? {
            Exact::NotFinite(word) => Ok(Cow::Borrowed(word.name())),
            _ => Err(form(&token, source)),
        },
        (
            T::Text
            | T::ZonedTimestamp
            | T::ZonedTime
            | T::IsoText
            | T::Interval
            | T::Uuid
            | T::Json
            | T::Enum { .. }
            | T::NamedText(_),
            Token::Text(_),
        ) => as_received(token),
        (T::Bytes, Token::Text(text)) => Ok(Cow::Owned(binary::hex(&binary::base64(text, &KIND)?))),
        (T::Bits { length }, Token::Text(text)) => Ok(Cow::Owned(binary::bit_text(text, *length, &KIND)?)),
        (T::Decimal { .. } | T::VariableDecimal, _) => decimal(&token, source),
        (T::EpochDays | T::TimeOfDay { .. } | T::Timestamp { .. }, Token::Number(_)) => {
            temporal_text(&token, source).map(Cow::Owned)
        }
        (T::Array(element), Token::Array(json)) => array(json, element),
        (T::Map | T::Other(_), Token::Object(_) | Token::Array(_)) => as_received(token),
        (T::Other(_), _) => as_received(token),
        _ => Err(form(&token, source)),
    }
}

fn decimal<'a>(token: &Token<'a>, source: &SourceType) -> Result<Cow<'a, str>, ValueError> {
    let scale = match source {
        SourceType::Decimal { scale, .. } => *scale,
        _ => 0,
    };
    match exact::read(token, Origin::Connect(source), &KIND)? {
        Exact::Decimal(decimal) => Ok(Cow::Owned(decimal.to_string())),
        // A converter that writes decimals as JSON numbers: the same digits, at the same scale.
        Exact::Digits(number) => Ok(Cow::Owned(number.to_decimal(u32::from(u16::MAX) * 4, scale, &KIND)?.to_string())),
        Exact::NotFinite(word) => Ok(Cow::Borrowed(word.name())),
    }
}

fn temporal_text(token: &Token<'_>, source: &SourceType) -> Result<String, ValueError> {
    let number = temporal::units(token, &KIND)?;
    if let Some(later) = temporal::infinity(number, source) {
        return Ok(if later { "infinity" } else { "-infinity" }.to_owned());
    }
    let mut text = String::with_capacity(32);
    match source {
        SourceType::EpochDays if i32::try_from(number).is_ok() => write_date(&mut text, number),
        SourceType::TimeOfDay { digits } => write_time(&mut text, number, *digits),
        SourceType::Timestamp { digits } => write_timestamp(&mut text, number, *digits),
        _ => return Err(ValueError::Range("a date".to_owned())),
    }
    Ok(text)
}

/// Arrays of what JSON can say are kept as received; else every element becomes a string.
fn array<'a>(json: &'a str, element: &SourceType) -> Result<Cow<'a, str>, ValueError> {
    if element.is_plain_json() {
        return Ok(Cow::Borrowed(json));
    }
    let malformed = || ValueError::form("text that is no JSON", "an array");
    let elements: Vec<&serde_json::value::RawValue> = serde_json::from_str(json).map_err(|_| malformed())?;
    let mut text = String::with_capacity(json.len() + 2);
    text.push('[');
    for (index, raw) in elements.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        match Token::read(raw.get())? {
            Token::Null => text.push_str("null"),
            token => {
                let inner = of_connect(token, element)?;
                match element {
                    SourceType::Array(_) => text.push_str(&inner),
                    _ => text.push_str(&serde_json::to_string(&inner).map_err(|_| malformed())?),
                }
            }
        }
    }
    text.push(']');
    Ok(Cow::Owned(text))
}

fn form(token: &Token<'_>, source: &SourceType) -> ValueError {
    ValueError::form(token.form(), format!("a value of {source}"))
}
