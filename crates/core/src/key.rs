//! The identity of a row inside its table.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, IgnoredAny};

use crate::columns::{Column, ObjectVisitor, is_unavailable};
use crate::debezium::envelope;

/// A primary key: the fields of the message key, in its order.
///
/// Values are kept as canonical JSON text (escapes resolved), so one value has one spelling and
/// numbers never pass through a float.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    values: Arc<[Box<str>]>,
    names: Arc<[Box<str>]>,
}

/// Why a message key is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The record has no key.
    #[error("the record has no message key; set `message.key.columns` in the connector")]
    Missing,
    /// Not JSON, or not an object.
    #[error("the message key is not a JSON object ({0}); use the JSON converter with a struct key")]
    NotAnObject(String),
    /// An object without fields.
    #[error("the message key has no fields; set `message.key.columns` in the connector")]
    NoFields,
    /// A field is null.
    #[error("key field \"{0}\" is null; make the replica identity of the table cover every key column")]
    Null(String),
    /// A field was not sent.
    #[error("key field \"{0}\" was not sent by the source (unavailable value); set REPLICA IDENTITY FULL on the table")]
    Unavailable(String),
}

impl Key {
    /// Reads the payload of a message key: a JSON object with at least one field, none null.
    /// `known` is the key read before: its names, and their order, are kept when they are the same.
    pub fn parse(json: &str, known: Option<&Key>) -> Result<Self, KeyError> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let fields = deserializer
            .deserialize_map(ObjectVisitor)
            .and_then(|fields| deserializer.end().map(|()| fields))
            .map_err(|_| KeyError::NotAnObject(format!("found {}", form(json))))?;
        if fields.is_empty() {
            return Err(KeyError::NoFields);
        }
        let mut values = Vec::with_capacity(fields.len());
        for field in &fields {
            if field.json == "null" {
                return Err(KeyError::Null(field.name.to_string()));
            }
            if is_unavailable(field.json) {
                return Err(KeyError::Unavailable(field.name.to_string()));
            }
            values.push(canonical(field.json));
        }
        let names = match known.map(|known| &known.names) {
            Some(known) if known.iter().map(|n| &**n).eq(fields.iter().map(|f| &*f.name)) => known.clone(),
            Some(known) => match in_order_of(known, &fields) {
                Some(order) => {
                    values = order.iter().map(|&i| std::mem::take(&mut values[i])).collect();
                    known.clone()
                }
                None => names_of(&fields),
            },
            None => names_of(&fields),
        };
        Ok(Self { values: values.into(), names })
    }

    /// The key that a message has, with or without a Connect schema; none where it is not readable.
    pub fn of_message(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        Self::parse(envelope::unwrap(text), None).ok()
    }

    /// Field names with their values as JSON text.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().map(|n| &**n).zip(self.values.iter().map(|v| &**v))
    }

    /// Field names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|n| &**n)
    }

    /// As a JSON object: [`Key::parse`] reads the same key back.
    pub fn to_json(&self) -> String {
        let field = |(name, value): (&str, &str)| format!("{}:{value}", serde_json::Value::from(name));
        format!("{{{}}}", self.fields().map(field).collect::<Vec<_>>().join(","))
    }

    /// The value of a field as JSON text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields().find(|(n, _)| *n == name).map(|(_, v)| v)
    }
}

fn names_of(fields: &[Column<'_>]) -> Arc<[Box<str>]> {
    fields.iter().map(|f| Box::from(&*f.name)).collect()
}

/// Where each of the known names stands in `fields`, if they are the same names: the order of the
/// members means nothing.
fn in_order_of(known: &[Box<str>], fields: &[Column<'_>]) -> Option<Vec<usize>> {
    if known.len() != fields.len() {
        return None;
    }
    known.iter().map(|name| fields.iter().position(|f| *f.name == **name)).collect()
}

/// What stands where an object should, without its content.
fn form(json: &str) -> &'static str {
    if serde_json::from_str::<IgnoredAny>(json).is_err() {
        return "no JSON";
    }
    match json.trim_start().as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// One spelling for one value: strings with escapes are written again, the rest is kept.
fn canonical(json: &str) -> Box<str> {
    if json.starts_with('"') && json.contains('\\') {
        let text: Result<String, _> = serde_json::from_str(json);
        if let Ok(written) = text.and_then(|t| serde_json::to_string(&t)) {
            return written.into();
        }
    }
    json.into()
}

/// Shows the key as it is compared. Keys are row values: for messages that the user asked for,
/// never for logs.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, value)) in self.fields().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}\"{name}\":{value}")?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_of_one_value_are_one_key() {
        let a = Key::parse(r#"{"k":"\u0061\/b"}"#, None).unwrap();
        let b = Key::parse(r#"{"k":"a/b"}"#, Some(&a)).unwrap();
        assert_eq!(a, b);
    }

    #[test]
    fn a_key_is_read_back_whatever_its_names_and_values_hold() {
        let key = Key::parse(r#"{"a\"b\\":"x\ny","n":-0.10,"ü":"\u0041"}"#, None).unwrap();
        assert_eq!(Key::parse(&key.to_json(), None), Ok(key));
    }

    #[test]
    fn parts_do_not_run_together() {
        let a = Key::parse(r#"{"a":"x|y","b":"z"}"#, None).unwrap();
        let b = Key::parse(r#"{"a":"x","b":"y|z"}"#, None).unwrap();
        assert_ne!(a, b);
    }

    #[test]
    fn the_order_of_the_members_means_nothing() {
        let a = Key::parse(r#"{"a":"1","b":"2","c":"3"}"#, None).unwrap();
        let b = Key::parse(r#"{"c":"3","a":"1","b":"2"}"#, Some(&a)).unwrap();
        assert_eq!(a, b);
        for other in [r#"{"c":"1","a":"3","b":"2"}"#, r#"{"a":"1","b":"2"}"#, r#"{"a":"1","b":"2","d":"3"}"#] {
            assert_ne!(a, Key::parse(other, Some(&a)).unwrap());
        }
    }

    #[test]
    fn refusals_say_the_form_and_not_the_value() {
        let refused = |json| Key::parse(json, None).unwrap_err().to_string();
        assert_eq!(
            refused(r#""4111 1111""#),
            "the message key is not a JSON object (found a string); use the JSON converter with a struct key"
        );
        assert_eq!(
            refused("41111111"),
            "the message key is not a JSON object (found a number); use the JSON converter with a struct key"
        );
    }

    #[test]
    fn incomplete_keys_are_refused_by_name() {
        assert_eq!(Key::parse(r#"{"t":null,"id":1}"#, None), Err(KeyError::Null("t".into())));
        assert_eq!(Key::parse(r#"{"k":"__debezium_unavailable_value"}"#, None), Err(KeyError::Unavailable("k".into())));
        assert!(matches!(Key::parse("7", None), Err(KeyError::NotAnObject(_))));
        assert!(matches!(Key::parse("{\"a\":1}x", None), Err(KeyError::NotAnObject(_))));
    }
}
