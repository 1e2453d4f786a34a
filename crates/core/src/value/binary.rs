//! Bytes in JSON strings: base64 and hexadecimal, and the numbers in them.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use num_bigint::{BigInt, BigUint};

use super::decimal::Decimal;
use super::error::ValueError;
use super::kind::Kind;
use super::token::Token;
use crate::schema::{BinaryMode, Origin, SourceType};

/// Reads as [`Kind::Bytes`]. Bits are little-endian, as they are sent.
pub(super) fn bytes(token: &Token<'_>, origin: Origin<'_>, kind: &Kind) -> Result<Vec<u8>, ValueError> {
    let mode = match origin {
        Origin::Connect(SourceType::Bytes | SourceType::Bits { .. }) => BinaryMode::Base64,
        Origin::Connect(source) => return Err(ValueError::no_mapping(source, kind)),
        Origin::Schemaless(conventions) => match (conventions.binary, token) {
            (Some(mode), _) => mode,
            (None, Token::Text(_)) => {
                return Err(ValueError::Undeclared {
                    what: "a string in a column of bytes",
                    setting: "binary_handling_mode",
                });
            }
            (None, _) => return Err(ValueError::form(token.form(), kind.to_string())),
        },
    };
    let Token::Text(text) = token else {
        return Err(ValueError::form(token.form(), kind.to_string()));
    };
    match mode {
        BinaryMode::Base64 => base64(text, kind),
        BinaryMode::Base64UrlSafe => {
            let engine = if text.ends_with('=') { &URL_SAFE } else { &URL_SAFE_NO_PAD };
            engine.decode(text.as_bytes()).map_err(|_| not("a string that is not URL-safe base64", kind))
        }
        BinaryMode::Hex => unhex(text).ok_or_else(|| not("a string that is not hexadecimal", kind)),
    }
}

/// Bytes of a Connect `bytes` value.
pub(super) fn base64(text: &str, kind: &Kind) -> Result<Vec<u8>, ValueError> {
    STANDARD.decode(text.as_bytes()).map_err(|_| not("a string that is not base64", kind))
}

/// Base64 of a big-endian two's complement number, of scale 0.
pub(super) fn integer(text: &str, kind: &Kind) -> Result<Decimal, ValueError> {
    let mut buffer = [0_u8; 18];
    if text.len() <= 24 {
        let length = STANDARD
            .decode_slice(text.as_bytes(), &mut buffer)
            .map_err(|_| not("a string that is not base64", kind))?;
        match &buffer[..length] {
            [] => return Err(not("a decimal of no bytes", kind)),
            bytes @ [first, ..] if bytes.len() <= 16 => {
                let sign = if *first & 0x80 == 0 { 0 } else { 0xFF };
                let mut extended = [sign; 16];
                extended[16 - bytes.len()..].copy_from_slice(bytes);
                return Ok(Decimal::new(i128::from_be_bytes(extended), 0));
            }
            bytes => return Ok(Decimal::wide(BigInt::from_signed_bytes_be(bytes), 0)),
        }
    }
    Ok(Decimal::wide(BigInt::from_signed_bytes_be(&base64(text, kind)?), 0))
}

/// Base64 of bits, as the unsigned number that they are.
pub(super) fn bits_integer(text: &str, kind: &Kind) -> Result<BigInt, ValueError> {
    Ok(BigUint::from_bytes_le(&base64(text, kind)?).into())
}

/// True for every text that is base64, and so may be a number of the connector's precise mode.
pub(super) fn may_be_base64(text: &str) -> bool {
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.trim_end_matches('=').bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// Lowercase hexadecimal, two digits a byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()).collect()
}

/// Binary digits, most significant first: as many as the schema says, else eight a byte.
pub(super) fn bit_text(text: &str, length: Option<u32>, kind: &Kind) -> Result<String, ValueError> {
    let bytes = base64(text, kind)?;
    let mut bits = String::with_capacity(bytes.len() * 8);
    for byte in bytes.iter().rev() {
        let _ = write!(bits, "{byte:08b}");
    }
    let wanted = length.map_or(bits.len(), |length| usize::try_from(length).unwrap_or(usize::MAX));
    // Bits are sent in whole bytes; only zeros may be above the declared length.
    let extra = bits.len().saturating_sub(wanted);
    if bits[..extra].contains('1') {
        return Err(not("more bits than the schema states", kind));
    }
    Ok(bits.split_off(extra))
}

fn not(found: &'static str, kind: &Kind) -> ValueError {
    ValueError::form(found, kind.to_string())
}
