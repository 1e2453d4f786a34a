//! The one way in: which reading a kind asks for.

use super::error::ValueError;
use super::exact;
use super::kind::{Kind, Value};
use super::token::Token;
use super::{any, binary, float, integer, temporal, text};
use crate::schema::{Origin, SourceType};

/// Reads `json` (JSON text, `null` included) as `kind`.
///
/// JSON null is SQL NULL for every kind; the JSON text `null` inside a string is text. A string
/// without escapes is borrowed from `json`.
pub fn decode<'a>(json: &'a str, origin: Origin<'_>, kind: &Kind) -> Result<Value<'a>, ValueError> {
    let token = Token::read(json)?;
    if token == Token::Null {
        return Ok(Value::Null);
    }
    match kind {
        Kind::Text => text::decode(token, origin).map(Value::Text),
        Kind::Int { bits, signed } => integer::decode(&token, origin, (*bits, *signed), kind),
        Kind::Decimal { precision, scale } => {
            exact::decimal(&token, origin, (*precision, *scale), kind).map(Value::Decimal)
        }
        Kind::Float32 | Kind::Float64 => float::decode(&token, origin, kind).map(Value::Float),
        Kind::Bool => bool(&token, origin, kind).map(Value::Bool),
        Kind::Date | Kind::Time { .. } | Kind::Timestamp { .. } => temporal::decode(&token, origin, kind),
        Kind::Bytes => binary::bytes(&token, origin, kind).map(Value::Bytes),
        Kind::Uuid => uuid(&token, origin, kind).map(Value::Uuid),
        Kind::Any => any::decode(token, origin),
    }
}

fn bool(token: &Token<'_>, origin: Origin<'_>, kind: &Kind) -> Result<bool, ValueError> {
    match (origin, token) {
        (Origin::Schemaless(_) | Origin::Connect(SourceType::Bool), Token::Bool(value)) => Ok(*value),
        (Origin::Schemaless(_) | Origin::Connect(SourceType::Int { .. }), Token::Number(text)) => {
            match integer::small(text) {
                Some(0) => Ok(false),
                Some(1) => Ok(true),
                _ => Err(ValueError::range(kind)),
            }
        }
        (Origin::Connect(source), _) if !matches!(source, SourceType::Bool | SourceType::Int { .. }) => {
            Err(ValueError::no_mapping(source, kind))
        }
        _ => Err(ValueError::form(token.form(), kind.to_string())),
    }
}

fn uuid(token: &Token<'_>, origin: Origin<'_>, kind: &Kind) -> Result<uuid::Uuid, ValueError> {
    match (origin, token) {
        (Origin::Schemaless(_) | Origin::Connect(SourceType::Uuid | SourceType::Text), Token::Text(text)) => {
            uuid::Uuid::try_parse(text).map_err(|_| ValueError::form("a string that is no UUID", kind.to_string()))
        }
        (Origin::Connect(source), _) if !matches!(source, SourceType::Uuid | SourceType::Text) => {
            Err(ValueError::no_mapping(source, kind))
        }
        _ => Err(ValueError::form(token.form(), kind.to_string())),
    }
}
