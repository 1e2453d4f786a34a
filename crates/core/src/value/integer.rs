//! Integers up to 256 bits.

use num_bigint::{BigInt, Sign};

use super::error::ValueError;
use super::exact::{self, Exact};
use super::kind::{Kind, Value};
use super::temporal;
use super::token::Token;
use crate::schema::{Origin, SourceType};

/// Digits of the widest integer: 2^256 has 78.
const MAX_DIGITS: u32 = 78;

/// Reads as [`Kind::Int`]. Bools are 1 and 0; dates, times and timestamps are the units as sent.
pub(super) fn decode<'a>(
    token: &Token<'_>,
    origin: Origin<'_>,
    (bits, signed): (u16, bool),
    kind: &Kind,
) -> Result<Value<'a>, ValueError> {
    let number = match (origin, token) {
        (Origin::Schemaless(_) | Origin::Connect(SourceType::Bool), Token::Bool(value)) => i128::from(*value),
        (Origin::Schemaless(_) | Origin::Connect(SourceType::Int { .. }), Token::Number(text))
            if small(text).is_some() =>
        {
            small(text).map_or(0, i128::from)
        }
        (Origin::Connect(source), Token::Number(_)) if source.is_temporal_number() => {
            temporal::raw_units(token, source, kind)?.into()
        }
        _ => {
            let decimal = match exact::read(token, origin, kind)? {
                Exact::Digits(number) => number.to_decimal(MAX_DIGITS, 0, kind)?,
                Exact::Decimal(decimal) => decimal.fit(MAX_DIGITS, 0, kind)?,
                Exact::NotFinite(word) => return Err(ValueError::NotFinite(word.name(), kind.to_string())),
            };
            match decimal.to_i128() {
                Some(number) => number,
                None => return fit_wide(decimal.to_bigint(), bits, signed, kind),
            }
        }
    };
    fit(number, bits, signed, kind)
}

/// Plain digits of an integer of at most 18 digits: nearly every number there is.
pub(super) fn small(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_i64, |sum, b| sum * 10 + i64::from(b - b'0'));
    Some(if negative { -number } else { number })
}

fn fit<'a>(number: i128, bits: u16, signed: bool, kind: &Kind) -> Result<Value<'a>, ValueError> {
    if number < 0 && !signed {
        return Err(negative(bits, kind));
    }
    let fits = match (bits, signed) {
        (0, _) => number == 0,
        (1..=127, true) => (-(1_i128 << (bits - 1))..1_i128 << (bits - 1)).contains(&number),
        (1..=126, false) => number < 1_i128 << bits,
        _ => true,
    };
    match (bits, signed) {
        _ if !fits => Err(ValueError::range(kind)),
        (0..=127, _) | (128, true) => Ok(Value::Int(number)),
        _ => Ok(Value::BigInt(BigInt::from(number))),
    }
}

fn fit_wide<'a>(number: BigInt, bits: u16, signed: bool, kind: &Kind) -> Result<Value<'a>, ValueError> {
    if number.sign() == Sign::Minus && !signed {
        return Err(negative(bits, kind));
    }
    let limit = BigInt::from(1) << (bits - u16::from(signed && bits > 0));
    let fits = number < limit && (!signed || number >= -limit);
    if fits { Ok(Value::BigInt(number)) } else { Err(ValueError::range(kind)) }
}

fn negative(bits: u16, kind: &Kind) -> ValueError {
    if bits != 64 {
        return ValueError::range(kind);
    }
    ValueError::Range(format!(
        "{kind}: it is negative, as `bigint.unsigned.handling.mode=long` sends numbers from 2^63 on; \
         set it to `precise` in the connector"
    ))
}
