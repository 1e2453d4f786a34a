//! Connect schemas: parsed once per distinct text.
//!
//! The JSON converter repeats the schema in every record. A type is known by its base type and its
//! semantic name; a name that is not known changes nothing about the base type, except that a
//! struct stays a struct.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::schema::{Field, RowSchema, SourceType};

/// Why a Connect schema cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the Connect schema of the record is not readable: {0}")]
pub struct SchemaError(pub String);

/// Remembers the row schema of the last schema text of a topic: it is the same text for nearly
/// every record, so one comparison replaces the parsing.
#[derive(Debug, Default)]
pub struct SchemaCache {
    envelope: Remembered,
    key: Remembered,
}

#[derive(Debug, Default)]
struct Remembered(Option<(Box<str>, Arc<RowSchema>)>);

impl SchemaCache {
    /// The schema of the row inside an envelope's schema text (the field `after`).
    pub fn row_of_envelope(&mut self, text: &str) -> Result<Arc<RowSchema>, SchemaError> {
        self.envelope.get(text, row_of_envelope)
    }

    /// The schema of a message key's fields.
    pub fn row_of_key(&mut self, text: &str) -> Result<Arc<RowSchema>, SchemaError> {
        self.key.get(text, row_of_key)
    }
}

impl Remembered {
    fn get(
        &mut self,
        text: &str,
        parse: fn(&str) -> Result<RowSchema, SchemaError>,
    ) -> Result<Arc<RowSchema>, SchemaError> {
        if let Some((known, schema)) = &self.0
            && **known == *text
        {
            return Ok(schema.clone());
        }
        let parsed = Arc::new(parse(text)?);
        // Another text of the same types (a new doc, another version) keeps the pointer: rows are
        // told apart by it.
        let schema = match &self.0 {
            Some((_, schema)) if **schema == *parsed => schema.clone(),
            _ => parsed,
        };
        self.0 = Some((text.into(), schema.clone()));
        Ok(schema)
    }
}

/// The schema of the row inside an envelope's schema text: the struct of its field `after`.
pub fn row_of_envelope(text: &str) -> Result<RowSchema, SchemaError> {
    let envelope = RawSchema::parse(text)?;
    let fields = envelope.struct_fields("the envelope")?;
    let after = fields
        .iter()
        .find(|field| field.field.as_deref() == Some("after"))
        .ok_or_else(|| SchemaError("the envelope has no field `after`".to_owned()))?;
    after.row("the field `after`")
}

/// The schema of a message key: the struct of the key's fields.
pub fn row_of_key(text: &str) -> Result<RowSchema, SchemaError> {
    RawSchema::parse(text)?.row("the message key")
}

/// A schema as the JSON converter writes it; what decides no type is skipped.
#[derive(Deserialize)]
struct RawSchema<'a> {
    #[serde(borrow, rename = "type")]
    base: Cow<'a, str>,
    #[serde(default)]
    optional: bool,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    field: Option<Cow<'a, str>>,
    #[serde(default)]
    parameters: Option<BTreeMap<String, String>>,
    #[serde(borrow, default)]
    fields: Option<Vec<RawSchema<'a>>>,
    #[serde(borrow, default)]
    items: Option<Box<RawSchema<'a>>>,
}

impl<'a> RawSchema<'a> {
    fn parse(text: &'a str) -> Result<Self, SchemaError> {
        serde_json::from_str(text).map_err(|e| SchemaError(e.to_string()))
    }

    fn struct_fields(&self, what: &str) -> Result<&[RawSchema<'a>], SchemaError> {
        if self.base != "struct" {
            return Err(SchemaError(format!("{what} is of type `{}`, where a struct is expected", self.base)));
        }
        self.fields.as_deref().ok_or_else(|| SchemaError(format!("{what} is a struct without `fields`")))
    }

    fn row(&self, what: &str) -> Result<RowSchema, SchemaError> {
        let mut row = RowSchema::default();
        for raw in self.struct_fields(what)? {
            let name = raw.field.as_deref().ok_or_else(|| SchemaError(format!("{what} has a field without a name")))?;
            let source_type = raw.source_type().map_err(|e| SchemaError(format!("field \"{name}\" {e}")))?;
            row.fields.push(Field { name: name.to_owned(), source_type, optional: raw.optional });
        }
        Ok(row)
    }

    /// The type of a field, or what is wrong with it.
    fn source_type(&self) -> Result<SourceType, String> {
        let name = self.name.as_deref().unwrap_or_default();
        if let Some(known) = self.named_type(name)? {
            return Ok(known);
        }
        Ok(match &*self.base {
            "boolean" => SourceType::Bool,
            "int8" => SourceType::Int { bits: 8 },
            "int16" => SourceType::Int { bits: 16 },
            "int32" => SourceType::Int { bits: 32 },
            "int64" => SourceType::Int { bits: 64 },
            "float" | "float32" => SourceType::Float32,
            "double" | "float64" => SourceType::Float64,
            "string" if name.is_empty() => SourceType::Text,
            "string" => SourceType::NamedText(name.to_owned()),
            "bytes" => SourceType::Bytes,
            "array" => {
                let items = self.items.as_ref().ok_or("is an array without `items`")?;
                SourceType::Array(Box::new(items.source_type().map_err(|e| format!("holds an element that {e}"))?))
            }
            "map" => SourceType::Map,
            "struct" if name.is_empty() => SourceType::Other("struct".to_owned()),
            "struct" => SourceType::Other(name.to_owned()),
            other => return Err(format!("is of the unknown type `{other}`")),
        })
    }

    /// A semantic name on the base type that it belongs to. On any other base type (a transform
    /// may have changed it) the name says nothing about the values.
    fn named_type(&self, name: &str) -> Result<Option<SourceType>, String> {
        use SourceType as T;
        Ok(Some(match (name, &*self.base) {
            ("org.apache.kafka.connect.data.Decimal", "bytes") => {
                T::Decimal { scale: self.scale()?, precision: self.number("connect.decimal.precision")? }
            }
            ("io.debezium.data.VariableScaleDecimal", "struct") => T::VariableDecimal,
            ("io.debezium.time.Date" | "org.apache.kafka.connect.data.Date", "int32") => T::EpochDays,
            ("io.debezium.time.Time" | "org.apache.kafka.connect.data.Time", "int32") => T::TimeOfDay { digits: 3 },
            ("io.debezium.time.MicroTime", "int64") => T::TimeOfDay { digits: 6 },
            ("io.debezium.time.NanoTime", "int64") => T::TimeOfDay { digits: 9 },
            ("io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp", "int64") => {
                T::Timestamp { digits: 3 }
            }
            ("io.debezium.time.MicroTimestamp", "int64") => T::Timestamp { digits: 6 },
            ("io.debezium.time.NanoTimestamp", "int64") => T::Timestamp { digits: 9 },
            ("io.debezium.time.ZonedTimestamp", "string") => T::ZonedTimestamp,
            ("io.debezium.time.ZonedTime", "string") => T::ZonedTime,
            ("io.debezium.time.IsoDate" | "io.debezium.time.IsoTime" | "io.debezium.time.IsoTimestamp", "string") => {
                T::IsoText
            }
            ("io.debezium.time.Year", "int32") => T::Year,
            ("io.debezium.time.MicroDuration", "int64") => T::MicroDuration,
            ("io.debezium.time.NanoDuration", "int64") => T::NanoDuration,
            ("io.debezium.time.Interval", "string") => T::Interval,
            ("io.debezium.data.Uuid", "string") => T::Uuid,
            ("io.debezium.data.Json", "string") => T::Json,
            ("io.debezium.data.Enum" | "io.debezium.data.EnumSet", "string") => T::Enum { allowed: self.allowed() },
            ("io.debezium.data.Bits", "bytes") => T::Bits { length: self.number("length")? },
            _ => return Ok(None),
        }))
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.as_ref()?.get(name).map(String::as_str)
    }

    fn scale(&self) -> Result<i32, String> {
        let text = self.parameter("scale").ok_or("is a Decimal without the parameter `scale`")?;
        text.parse().map_err(|_| "is a Decimal whose parameter `scale` is no integer".to_owned())
    }

    fn number(&self, name: &str) -> Result<Option<u32>, String> {
        self.parameter(name)
            .map(|text| text.parse().map_err(|_| format!("has a parameter `{name}` that is no number")))
            .transpose()
    }

    /// Labels as the connector lists them: separated by commas; a comma inside a label follows a
    /// backslash.
    fn allowed(&self) -> Vec<String> {
        let list = self.parameter("allowed").unwrap_or_default();
        let mut labels: Vec<String> = Vec::new();
        for part in list.split(',').filter(|_| !list.is_empty()) {
            match labels.last_mut() {
                Some(label) if label.ends_with('\\') => {
                    label.pop();
                    label.push(',');
                    label.push_str(part);
                }
                _ => labels.push(part.to_owned()),
            }
        }
        labels
    }
}

#[cfg(test)]
mod tests;
