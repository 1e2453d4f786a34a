//! The columns of one row, read lazily from its JSON object.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Debezium's default marker of a column whose value PostgreSQL did not send.
pub const UNAVAILABLE: &str = "__debezium_unavailable_value";
/// The marker as a JSON string, as it stands in the record.
const UNAVAILABLE_JSON: &str = "\"__debezium_unavailable_value\"";
/// The marker of a bytes column under a base64-writing converter.
const UNAVAILABLE_BASE64: &str = "\"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==\"";
/// The marker as hexadecimal text.
const UNAVAILABLE_HEX: &str = "\"5f5f646562657a69756d5f756e617661696c61626c655f76616c7565\"";

/// True if this JSON text is the unavailable-value marker, alone or as the only element of an array.
pub fn is_unavailable(json: &str) -> bool {
    let marker = |text: &str| {
        text == UNAVAILABLE_JSON || text == UNAVAILABLE_BASE64 || text.eq_ignore_ascii_case(UNAVAILABLE_HEX)
    };
    marker(json)
        || json.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|inner| marker(inner.trim()))
}

/// One column as the record carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// Column name.
    pub name: Cow<'a, str>,
    /// Its value as JSON text, `null` included.
    pub json: &'a str,
}

impl Column<'_> {
    /// True where the value was not sent and the stored one must be kept.
    pub fn is_unavailable(&self) -> bool {
        is_unavailable(self.json)
    }
}

/// The columns of a row in the record's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns<'a> {
    columns: Vec<Column<'a>>,
}

impl<'a> Columns<'a> {
    /// Reads a JSON object. Recognition has checked that it is one; anything else has no columns.
    pub fn of(json: &'a str) -> Self {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let columns = deserializer.deserialize_map(ObjectVisitor).unwrap_or_default();
        Self { columns }
    }

    /// Iterates in the record's order.
    pub fn iter(&self) -> impl Iterator<Item = &Column<'a>> {
        self.columns.iter()
    }

    /// The column called `name`. `hint` is where it stood in the row before: rows of one table
    /// have one order, so this is a single comparison nearly always.
    pub fn get(&self, name: &str, hint: usize) -> Option<&Column<'a>> {
        match self.columns.get(hint) {
            Some(column) if column.name == name => Some(column),
            _ => self.columns.iter().find(|column| column.name == name),
        }
    }

    /// How many columns the record carries.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// True for a row without columns, as a delete is.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Replaces the JSON text of the column at `index`.
    pub(crate) fn fill(&mut self, index: usize, json: &'a str) {
        self.columns[index].json = json;
    }
}

/// Reads an object as (name, raw JSON) pairs.
pub(crate) struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Vec<Column<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut columns = Vec::with_capacity(8);
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let raw: &'de RawValue = map.next_value()?;
            columns.push(Column { name: name.0, json: raw.get() });
        }
        Ok(columns)
    }
}

/// A field name, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_order_text_and_escaped_names() {
        let columns = Columns::of(r#"{"id":1,"a\"b":"x\u00e9","n":9007199254740993,"z":null}"#);
        let seen: Vec<_> = columns.iter().map(|c| (c.name.as_ref(), c.json)).collect();
        assert_eq!(seen, [("id", "1"), ("a\"b", "\"x\\u00e9\""), ("n", "9007199254740993"), ("z", "null")]);
        assert_eq!(columns.get("z", 0).unwrap().json, "null");
    }

    #[test]
    fn the_marker_is_known_as_text_bytes_and_array() {
        for json in [
            "\"__debezium_unavailable_value\"",
            "[\"__debezium_unavailable_value\"]",
            "\"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==\"",
        ] {
            assert!(is_unavailable(json), "{json}");
        }
        assert!(!is_unavailable("\"unavailable\""));
    }
}
