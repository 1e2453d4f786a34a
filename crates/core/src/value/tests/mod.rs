//! Decoding against recorded topics, the reported cases, and properties.

mod cases;
mod forms;
mod properties;
mod recorded;

use super::{Decimal, Kind, Value, ValueError, decode};
use crate::schema::{BinaryMode, Conventions, DecimalMode, Origin, SourceType, TimePrecision};

/// `connector` settings as a user would declare them.
fn declared(decimal: DecimalMode, time_precision: TimePrecision, binary: BinaryMode) -> Conventions {
    Conventions { time_precision: Some(time_precision), decimal: Some(decimal), binary: Some(binary) }
}

const NOTHING: Conventions = Conventions { time_precision: None, decimal: None, binary: None };

/// Name of a refusal, as the tables of these tests list it.
fn refusal(error: &ValueError) -> &'static str {
    match error {
        ValueError::Form { .. } => "form",
        ValueError::Range(_) => "range",
        ValueError::Precision(_) => "precision",
        ValueError::Undeclared { .. } => "undeclared",
        ValueError::UnitUnknown { .. } => "unit unknown",
        ValueError::NotFinite(..) => "not finite",
        ValueError::Infinite(_) => "infinite",
        ValueError::NoMapping(..) => "no mapping",
    }
}

/// What `json` gives: the value, or the name of the refusal.
fn read<'a>(json: &'a str, origin: Origin<'_>, kind: &Kind) -> Result<Value<'a>, &'static str> {
    decode(json, origin, kind).map_err(|error| refusal(&error))
}

/// The text form under a Connect type.
fn text(json: &str, source: &SourceType) -> Result<String, &'static str> {
    match read(json, Origin::Connect(source), &Kind::Text)? {
        Value::Text(text) => Ok(text.into_owned()),
        other => panic!("{other:?} is no text"),
    }
}

fn decimal(text: &str) -> Decimal {
    let digits = text.replace('.', "");
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    Decimal::wide(digits.parse().expect("digits"), scale.try_into().expect("a small scale"))
}

const INT64: Kind = Kind::Int { bits: 64, signed: true };
const UINT64: Kind = Kind::Int { bits: 64, signed: false };

fn schemaless<'a>(json: &'a str, kind: &Kind) -> Result<Value<'a>, &'static str> {
    read(json, Origin::Schemaless(&NOTHING), kind)
}

fn connect<'a>(json: &'a str, source: &SourceType, kind: &Kind) -> Result<Value<'a>, &'static str> {
    read(json, Origin::Connect(source), kind)
}

fn number(text: &str) -> Result<Value<'static>, &'static str> {
    Ok(Value::Decimal(decimal(text)))
}
