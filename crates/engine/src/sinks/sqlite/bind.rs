//! From a JSON value to what SQLite stores: exactly, or refused.

use std::borrow::Cow;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value as Stored, ValueRef};
use settle_core::schema::Origin;
use settle_core::value::{self, Kind, Value, ValueError};

use super::column::Storage;
use super::moment;

/// A value ready to be bound to a statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Bound<'a> {
    Null,
    Int(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Blob(Vec<u8>),
}

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl From<Stored> for Bound<'static> {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Null => Self::Null,
            Stored::Integer(number) => Self::Int(number),
            Stored::Real(number) => Self::Real(number),
            Stored::Text(text) => Self::Text(Cow::Owned(text)),
            Stored::Blob(bytes) => Self::Blob(bytes),
        }
    }
}

/// Why a value is not written. Never holds the value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misfit {
    #[error("{0}")]
    Value(#[from] ValueError),
    #[error("a date or time in a column of another type")]
    NotAsked,
    #[error("an integer above 2^63 - 1 has no place in a SQLite INTEGER; make the column TEXT")]
    TooLarge,
    #[error("SQLite stores NaN as NULL; make the column TEXT")]
    NotANumber,
    #[error("text that reads as a number would be stored as one; make the column TEXT")]
    ReadsAsNumber,
    #[error("no number where the column is declared as one")]
    NoNumber,
    #[error(
        "a number of more than 15 digits, or one out of a float's range, has no place in a NUMERIC column; make the column TEXT"
    )]
    TooManyDigits,
}

impl Misfit {
    /// True where every row would fail alike: the topic and the table do not fit together.
    pub(super) fn is_contract(&self) -> bool {
        matches!(
            self,
            Self::Value(ValueError::NoMapping(..) | ValueError::Undeclared { .. } | ValueError::UnitUnknown { .. })
        )
    }
}

/// Reads `json` as what a column takes.
pub(super) fn bound<'a>(json: &'a str, origin: Origin<'_>, storage: &Storage) -> Result<Bound<'a>, Misfit> {
    if json == "null" {
        return Ok(Bound::Null);
    }
    // The INTEGER column of a boolean in a STRICT table, which has no other type for it.
    if let (Kind::Int { .. }, "true" | "false") = (&storage.kind, json) {
        return Ok(Bound::Int(i64::from(json == "true")));
    }
    if let Kind::Date | Kind::Time { .. } | Kind::Timestamp { .. } = storage.kind {
        return Ok(Bound::Text(moment::text(json, origin, &storage.kind)?));
    }
    match value::decode(json, origin, &storage.kind)? {
        Value::Null => Ok(Bound::Null),
        Value::Bool(flag) => Ok(Bound::Int(i64::from(flag))),
        Value::Int(number) => i64::try_from(number).map(Bound::Int).map_err(|_| Misfit::TooLarge),
        Value::BigInt(_) => Err(Misfit::TooLarge),
        Value::Float(number) if number.is_nan() => Err(Misfit::NotANumber),
        Value::Float(number) => Ok(Bound::Real(number)),
        Value::Decimal(decimal) => number(decimal.to_string().into(), storage),
        Value::Text(text) if storage.number => number(text, storage),
        Value::Text(text) if storage.affinity.is_numeric() && reads_as_number(&text) => Err(Misfit::ReadsAsNumber),
        Value::Text(text) => Ok(Bound::Text(text)),
        Value::Bytes(bytes) => Ok(Bound::Blob(bytes)),
        Value::Date(_) | Value::Time(_) | Value::Timestamp(_) => Err(Misfit::NotAsked),
        Value::Uuid(uuid) => Ok(Bound::Text(uuid.to_string().into())),
    }
}

/// A decimal number: its text, or under a numeric affinity what SQLite keeps exactly.
fn number<'a>(text: Cow<'a, str>, storage: &Storage) -> Result<Bound<'a>, Misfit> {
    if !storage.affinity.is_numeric() {
        return Ok(Bound::Text(text));
    }
    if !reads_as_number(&text) {
        return Err(Misfit::NoNumber);
    }
    if let Ok(integer) = text.parse::<i64>() {
        return Ok(Bound::Int(integer));
    }
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    // The nearest float stands for any 15 digits. SQLite's own conversion may miss the nearest.
    let digits = digits.trim_matches('0').len();
    match text.parse::<f64>() {
        Ok(number) if digits <= 15 && (number.is_normal() || digits == 0) => Ok(Bound::Real(number)),
        Ok(_) => Err(Misfit::TooManyDigits),
        Err(_) => Err(Misfit::NoNumber),
    }
}

/// Whether SQLite takes this text for a number.
fn reads_as_number(text: &str) -> bool {
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    trimmed.bytes().any(|b| b.is_ascii_digit())
        && trimmed.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
        && trimmed.parse::<f64>().is_ok()
}
