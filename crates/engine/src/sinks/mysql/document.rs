//! Whether MySQL's JSON keeps the numbers of a document: integers of 64 bits, and floats.
//!
//! It stores values and not their text. A decimal with more digits than a float tells apart would come
//! back as another number, so such a document is refused.

use settle_core::schema::{Conventions, Origin};
use settle_core::value::{Kind, decode};

/// True where every number in the document is kept. What is no JSON is the server's to refuse.
pub(super) fn is_kept(text: &str) -> bool {
    numbers(text).all(|number| {
        let conventions = Conventions::default();
        let fits = |kind| decode(number, Origin::Schemaless(&conventions), &kind).is_ok();
        match number.contains(['.', 'e', 'E']) {
            true => fits(Kind::Float64),
            false => fits(Kind::Int { bits: 64, signed: true }) || fits(Kind::Int { bits: 64, signed: false }),
        }
    })
}

/// The numbers that stand outside of strings.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            rest = &rest[at..];
            if let Some(inner) = rest.strip_prefix('"') {
                rest = behind_string(inner);
                continue;
            }
            let end = rest
                .find(|c: char| !c.is_ascii_digit() && !matches!(c, '-' | '+' | '.' | 'e' | 'E'))
                .unwrap_or(rest.len());
            let number = &rest[..end];
            rest = &rest[end..];
            return Some(number);
        }
    })
}

fn behind_string(inner: &str) -> &str {
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return &inner[at + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_float_does_not_hold_are_seen_wherever_they_stand() {
        for kept in [
            r#"{"a": [1, -2.5, 1e300, 18446744073709551615, -9223372036854775808], "b": "0.12345678901234567890123"}"#,
            r#""\"1.23456789012345678901234""#,
            "null",
            "0.1",
        ] {
            assert!(is_kept(kept), "{kept}");
        }
        for lost in ["[0.12345678901234567890123]", "18446744073709551616", r#"{"a\"": 1e400}"#] {
            assert!(!is_kept(lost), "{lost}");
        }
    }
}
