//! What stands behind integers, decimals and floats: the exact number that the record carries.

use serde::Deserialize;

use super::binary;
use super::decimal::Decimal;
use super::error::ValueError;
use super::kind::Kind;
use super::number::Number;
use super::token::Token;
use crate::schema::{Conventions, DecimalMode, Origin, SourceType};

/// Most digits before or behind the point: what PostgreSQL's `numeric` can hold. A greater scale
/// in a record is refused, so that no record can ask for a number of a gigabyte.
pub(super) const MAX_SCALE: i32 = 131_072;

/// A number, as the record carries it.
pub(super) enum Exact<'a> {
    /// As digits.
    Digits(Number<'a>),
    /// As an unscaled integer.
    Decimal(Decimal),
    /// As a word: `NaN`, `Infinity`, `-Infinity`.
    NotFinite(NotFinite),
}

/// What is no finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFinite {
    NaN,
    Infinity,
    NegativeInfinity,
}

impl NotFinite {
    /// The words of the JSON converter (floats) and of the connector (decimals in string mode).
    fn of(word: &str) -> Option<Self> {
        match word {
            "NaN" | "NAN" => Some(Self::NaN),
            "Infinity" | "POSITIVE_INFINITY" => Some(Self::Infinity),
            "-Infinity" | "NEGATIVE_INFINITY" => Some(Self::NegativeInfinity),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NaN => "NaN",
            Self::Infinity => "Infinity",
            Self::NegativeInfinity => "-Infinity",
        }
    }

    pub(super) fn float(self) -> f64 {
        match self {
            Self::NaN => f64::NAN,
            Self::Infinity => f64::INFINITY,
            Self::NegativeInfinity => f64::NEG_INFINITY,
        }
    }
}

/// Reads the number behind `token`. `kind` decides the scale where the record has none.
pub(super) fn read<'t>(token: &'t Token<'_>, origin: Origin<'_>, kind: &Kind) -> Result<Exact<'t>, ValueError> {
    match origin {
        Origin::Connect(source) => of_connect(token, source, kind),
        Origin::Schemaless(conventions) => of_schemaless(token, conventions, kind),
    }
}

fn of_connect<'t>(token: &'t Token<'_>, source: &SourceType, kind: &Kind) -> Result<Exact<'t>, ValueError> {
    use SourceType as T;
    match (source, token) {
        (
            T::Int { .. } | T::Float32 | T::Float64 | T::Year | T::MicroDuration | T::NanoDuration | T::Decimal { .. },
            Token::Number(text),
        ) => digits(text, kind),
        (T::Float32 | T::Float64, Token::Text(text)) => {
            NotFinite::of(text).map(Exact::NotFinite).ok_or_else(|| form(token, kind))
        }
        (T::Decimal { scale, .. }, Token::Text(text)) => scaled(binary::integer(text, kind)?, *scale),
        (T::VariableDecimal, Token::Object(json)) => variable(json, kind),
        (T::Bits { .. }, Token::Text(text)) => Ok(Exact::Decimal(Decimal::wide(binary::bits_integer(text, kind)?, 0))),
        // Decimals of the connector's string mode are plain strings to Connect.
        (T::Text, Token::Text(text)) => words(text).ok_or_else(|| form(token, kind)),
        (
            T::Int { .. }
            | T::Float32
            | T::Float64
            | T::Year
            | T::MicroDuration
            | T::NanoDuration
            | T::Decimal { .. }
            | T::VariableDecimal
            | T::Bits { .. }
            | T::Text,
            _,
        ) => Err(form(token, kind)),
        _ => Err(ValueError::no_mapping(source, kind)),
    }
}

fn of_schemaless<'t>(token: &'t Token<'_>, conventions: &Conventions, kind: &Kind) -> Result<Exact<'t>, ValueError> {
    match token {
        Token::Number(text) => digits(text, kind),
        // Nothing but a decimal of variable scale has this form.
        Token::Object(json) => variable(json, kind),
        Token::Text(text) => {
            if let Some(word) = NotFinite::of(text) {
                return Ok(Exact::NotFinite(word));
            }
            match conventions.decimal {
                Some(DecimalMode::Precise) => base64_of_kind(text, kind),
                Some(DecimalMode::Double | DecimalMode::String) => words(text).ok_or_else(|| form(token, kind)),
                None if !binary::may_be_base64(text) => words(text).ok_or_else(|| form(token, kind)),
                None => Err(ValueError::Undeclared {
                    what: "a string that may be decimal text or a base64 decimal",
                    setting: "decimal_handling_mode",
                }),
            }
        }
        _ => Err(form(token, kind)),
    }
}

/// The connector's precise mode: the scale is the target column's.
fn base64_of_kind<'t>(text: &str, kind: &Kind) -> Result<Exact<'t>, ValueError> {
    let scale = match kind {
        Kind::Decimal { scale, .. } => *scale,
        Kind::Int { .. } => 0,
        _ => return Err(ValueError::NoMapping("base64 decimal of unknown scale".to_owned(), kind.to_string())),
    };
    scaled(binary::integer(text, kind)?, scale)
}

fn digits<'t>(text: &'t str, kind: &Kind) -> Result<Exact<'t>, ValueError> {
    Number::parse(text).map(Exact::Digits).ok_or_else(|| ValueError::form("text that is no number", kind.to_string()))
}

fn words(text: &str) -> Option<Exact<'_>> {
    let number = || Number::parse(text).filter(|_| !has_leading_zeros(text)).map(Exact::Digits);
    NotFinite::of(text).map(Exact::NotFinite).or_else(number)
}

/// No connector writes a number so. `007` is a name made of digits: as a number it would be another.
fn has_leading_zeros(text: &str) -> bool {
    matches!(text.strip_prefix('-').unwrap_or(text).as_bytes(), [b'0', b'0'..=b'9', ..])
}

fn scaled<'t>(unscaled: Decimal, scale: i32) -> Result<Exact<'t>, ValueError> {
    if !(-MAX_SCALE..=MAX_SCALE).contains(&scale) {
        return Err(ValueError::form("a decimal with a scale beyond 131072", "a decimal"));
    }
    Ok(Exact::Decimal(unscaled.with_scale(scale)))
}

/// `{"scale": n, "value": base64}`
fn variable<'t>(json: &str, kind: &Kind) -> Result<Exact<'t>, ValueError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Variable<'a> {
        scale: i32,
        #[serde(borrow)]
        value: std::borrow::Cow<'a, str>,
    }
    let variable: Variable<'_> =
        serde_json::from_str(json).map_err(|_| ValueError::form("an object", kind.to_string()))?;
    scaled(binary::integer(&variable.value, kind)?, variable.scale)
}

fn form(token: &Token<'_>, kind: &Kind) -> ValueError {
    match token {
        Token::Text(_) => ValueError::form("a string that is no number", kind.to_string()),
        _ => ValueError::form(token.form(), kind.to_string()),
    }
}

/// Reads as [`Kind::Decimal`].
pub(super) fn decimal(
    token: &Token<'_>,
    origin: Origin<'_>,
    (precision, scale): (u32, i32),
    kind: &Kind,
) -> Result<Decimal, ValueError> {
    match read(token, origin, kind)? {
        Exact::Digits(number) => number.to_decimal(precision, scale, kind),
        Exact::Decimal(decimal) => decimal.fit(precision, scale, kind),
        Exact::NotFinite(word) => Err(ValueError::NotFinite(word.name(), kind.to_string())),
    }
}
