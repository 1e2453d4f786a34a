//! The JSON forms of one value, told apart by the first byte.

use std::borrow::Cow;

use super::error::ValueError;

/// One JSON value. Numbers and composites keep their text, so no digit passes through a float.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Null,
    Bool(bool),
    /// Text that starts like a number.
    Number(&'a str),
    /// Content of a string; borrowed where it has no escapes.
    Text(Cow<'a, str>),
    /// JSON text of an array.
    Array(&'a str),
    /// JSON text of an object.
    Object(&'a str),
}

impl<'a> Token<'a> {
    /// Reads JSON text. It comes out of a parsed record, so composites are not parsed again.
    pub(super) fn read(json: &'a str) -> Result<Self, ValueError> {
        let json = json.trim_ascii();
        match json.as_bytes() {
            [b'-' | b'0'..=b'9', ..] => Ok(Self::Number(json)),
            [b'"', inner @ .., b'"'] => {
                if inner.iter().all(|b| !matches!(b, b'\\' | b'"' | 0..0x20)) {
                    return Ok(Self::Text(Cow::Borrowed(&json[1..json.len() - 1])));
                }
                let text = serde_json::from_str(json).map_err(|_| malformed("a string that is no Unicode text"))?;
                Ok(Self::Text(Cow::Owned(text)))
            }
            [b'[', .., b']'] => Ok(Self::Array(json)),
            [b'{', .., b'}'] => Ok(Self::Object(json)),
            b"null" => Ok(Self::Null),
            b"true" => Ok(Self::Bool(true)),
            b"false" => Ok(Self::Bool(false)),
            _ => Err(malformed("text that is no JSON")),
        }
    }

    /// Name of the form, for messages.
    pub(super) fn form(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a bool",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

fn malformed(found: &'static str) -> ValueError {
    ValueError::form(found, "one JSON value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_borrowed_unless_they_have_escapes() {
        assert!(matches!(Token::read("\"a é\""), Ok(Token::Text(Cow::Borrowed("a é")))));
        assert!(matches!(Token::read(r#""a\n\u00e9""#), Ok(Token::Text(Cow::Owned(t))) if t == "a\né"));
        assert!(matches!(Token::read("\"\""), Ok(Token::Text(t)) if t.is_empty()));
    }

    #[test]
    fn what_is_no_json_value_is_refused() {
        for json in ["", "\"", "nul", "NaN", "[1", "{", "\"a\"b\"", r#""\ud800""#] {
            assert!(Token::read(json).is_err(), "{json}");
        }
    }
}
