//! Columns without a declared type.

use std::borrow::Cow;

use super::binary;
use super::error::ValueError;
use super::float;
use super::integer;
use super::kind::{Kind, Value};
use super::number::Number;
use super::text;
use super::token::Token;
use crate::schema::{Origin, SourceType};

/// Reads as [`Kind::Any`].
pub(super) fn decode<'a>(token: Token<'a>, origin: Origin<'_>) -> Result<Value<'a>, ValueError> {
    match (origin, &token) {
        (Origin::Schemaless(_) | Origin::Connect(SourceType::Bool), Token::Bool(value)) => Ok(Value::Bool(*value)),
        (Origin::Schemaless(_), Token::Number(text)) => number(text, &token, origin),
        (
            Origin::Connect(
                SourceType::Int { .. } | SourceType::Year | SourceType::MicroDuration | SourceType::NanoDuration,
            ),
            Token::Number(_),
        ) => integer::decode(&token, origin, (64, true), &Kind::Int { bits: 64, signed: true }),
        (Origin::Connect(SourceType::Float32 | SourceType::Float64), _) => {
            float::decode(&token, origin, &Kind::Float64).map(Value::Float)
        }
        (Origin::Connect(SourceType::Bytes), _) => binary::bytes(&token, origin, &Kind::Any).map(Value::Bytes),
        _ => text::decode(token, origin).map(Value::Text),
    }
}

fn number<'a>(text: &'a str, token: &Token<'_>, origin: Origin<'_>) -> Result<Value<'a>, ValueError> {
    if let Some(number) = integer::small(text) {
        return Ok(Value::Int(number.into()));
    }
    if !text.contains(['.', 'e', 'E']) {
        return match Number::parse(text).map(Number::to_i128) {
            Some(Some(number)) => Ok(Value::Int(number)),
            // Wider than any integer of a database: its digits.
            Some(None) => Ok(Value::Text(Cow::Borrowed(text))),
            None => Err(ValueError::form("text that is no number", Kind::Any.to_string())),
        };
    }
    float::decode(token, origin, &Kind::Float64).map(Value::Float)
}
