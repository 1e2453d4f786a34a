//! Floats. The connector has already made its numbers floats; nothing else may become one unless
//! the float's own shortest text is the number again.

use super::error::ValueError;
use super::exact::{self, Exact};
use super::kind::Kind;
use super::number::Number;
use super::token::Token;
use crate::schema::{Origin, SourceType};

/// Most digits that a float is ever printed with: more of them name no float.
const DIGITS_32: usize = 9;
const DIGITS_64: usize = 17;

/// Reads as [`Kind::Float32`] or [`Kind::Float64`]. A 32-bit float read into a 64-bit column keeps
/// its decimal text (`-0.1` stays `-0.1`).
pub(super) fn decode(token: &Token<'_>, origin: Origin<'_>, kind: &Kind) -> Result<f64, ValueError> {
    if let Token::Number(text) = token
        && matches!(origin, Origin::Schemaless(_) | Origin::Connect(SourceType::Float32 | SourceType::Float64))
    {
        let number = Number::parse(text).ok_or_else(|| ValueError::form("text that is no number", kind.to_string()))?;
        return printed(text, &number, is_lenient(text, &number, origin, kind), kind);
    }
    match exact::read(token, origin, kind)? {
        Exact::NotFinite(word) => Ok(word.float()),
        Exact::Digits(number) => {
            let text = match token {
                Token::Number(text) => text,
                Token::Text(text) => &**text,
                _ => return Err(ValueError::form(token.form(), kind.to_string())),
            };
            printed(text, &number, false, kind)
        }
        Exact::Decimal(decimal) => {
            let text = decimal.to_string();
            let number = Number::parse(&text).ok_or_else(|| ValueError::precision(kind))?;
            printed(&text, &number, false, kind)
        }
    }
}

/// True if `text` may be a float that was printed with more digits than the shortest text has
/// (Java before 19 does so for some), and so need not be equal to it.
fn is_lenient(text: &str, number: &Number<'_>, origin: Origin<'_>, kind: &Kind) -> bool {
    let limit = match (kind, origin) {
        (Kind::Float32, Origin::Connect(SourceType::Float64)) => return false,
        (Kind::Float32, _) => DIGITS_32,
        _ => DIGITS_64,
    };
    // Java prints a point in every float: what has none was an integer, and must stay exact.
    text.contains(['.', 'e', 'E']) && number.digits() <= limit
}

fn printed(text: &str, number: &Number<'_>, lenient: bool, kind: &Kind) -> Result<f64, ValueError> {
    let real: Option<f32> = match kind {
        Kind::Float32 => Some(text.parse().map_err(|_| ValueError::range(kind))?),
        _ => None,
    };
    let float: f64 = match real {
        Some(real) => real.into(),
        None => text.parse().map_err(|_| ValueError::range(kind))?,
    };
    if float.is_infinite() {
        return Err(ValueError::range(kind));
    }
    // A number that is no zero must not become one.
    if (float == 0.0) != number.is_zero() {
        return Err(ValueError::precision(kind));
    }
    if lenient {
        return Ok(float);
    }
    let shortest = real.map_or_else(|| format!("{float:e}"), |real| format!("{real:e}"));
    match Number::parse(&shortest) {
        Some(shortest) if shortest.equals(number) => Ok(float),
        _ => Err(ValueError::precision(kind)),
    }
}
