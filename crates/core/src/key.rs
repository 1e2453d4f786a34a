//! The identity of a row inside its table.

use std::fmt;
use std::sync::Arc;

use serde::de::Deserializer;

use crate::columns::{ObjectVisitor, is_unavailable};

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
    /// `known` is the key read before: its names are shared when they are the same.
    pub fn parse(json: &str, known: Option<&Key>) -> Result<Self, KeyError> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let fields = deserializer
            .deserialize_map(ObjectVisitor)
            .and_then(|fields| deserializer.end().map(|()| fields))
            .map_err(|e| KeyError::NotAnObject(e.to_string()))?;
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
        let names = match known {
            Some(known) if known.names.iter().map(|n| &**n).eq(fields.iter().map(|f| &*f.name)) => known.names.clone(),
            _ => fields.iter().map(|f| Box::from(&*f.name)).collect(),
        };
        Ok(Self { values: values.into(), names })
    }

    /// Field names with their values as JSON text.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().map(|n| &**n).zip(self.values.iter().map(|v| &**v))
    }

    /// Field names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|n| &**n)
    }

    /// The value of a field as JSON text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields().find(|(n, _)| *n == name).map(|(_, v)| v)
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
    fn parts_do_not_run_together() {
        let a = Key::parse(r#"{"a":"x|y","b":"z"}"#, None).unwrap();
        let b = Key::parse(r#"{"a":"x","b":"y|z"}"#, None).unwrap();
        assert_ne!(a, b);
    }

    #[test]
    fn incomplete_keys_are_refused_by_name() {
        assert_eq!(Key::parse(r#"{"t":null,"id":1}"#, None), Err(KeyError::Null("t".into())));
        assert_eq!(Key::parse(r#"{"k":"__debezium_unavailable_value"}"#, None), Err(KeyError::Unavailable("k".into())));
        assert!(matches!(Key::parse("7", None), Err(KeyError::NotAnObject(_))));
        assert!(matches!(Key::parse("{\"a\":1}x", None), Err(KeyError::NotAnObject(_))));
    }
}
