//! What is known of a row's types: from the Connect schema in the record, or declared.

use std::sync::Arc;

/// The type of a field as the Connect schema states it: base type and semantic name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceType {
    /// `boolean`
    Bool,
    /// `int8` to `int64`, with no semantic name.
    Int {
        /// 8, 16, 32 or 64.
        bits: u8,
    },
    /// `float`
    Float32,
    /// `double`
    Float64,
    /// `string`
    Text,
    /// `bytes`: base64 in JSON.
    Bytes,
    /// `org.apache.kafka.connect.data.Decimal`: base64 of a big-endian two's complement number.
    Decimal {
        /// Digits behind the point.
        scale: i32,
        /// All digits, where `connect.decimal.precision` says.
        precision: Option<u32>,
    },
    /// `io.debezium.data.VariableScaleDecimal`: `{"scale": n, "value": base64}`.
    VariableDecimal,
    /// Days since 1970: `io.debezium.time.Date`, `org.apache.kafka.connect.data.Date`.
    EpochDays,
    /// Time of day in units of 10^-digits s: 3 (`Time`), 6 (`MicroTime`), 9 (`NanoTime`).
    TimeOfDay {
        /// 3, 6 or 9.
        digits: u8,
    },
    /// Units of 10^-digits s since 1970, without a zone: 3 (`Timestamp`), 6 (`MicroTimestamp`), 9 (`NanoTimestamp`).
    Timestamp {
        /// 3, 6 or 9.
        digits: u8,
    },
    /// `io.debezium.time.ZonedTimestamp`: ISO-8601 text with an offset.
    ZonedTimestamp,
    /// `io.debezium.time.ZonedTime`: text with an offset.
    ZonedTime,
    /// ISO-8601 text without a zone: `IsoDate`, `IsoTime`, `IsoTimestamp`.
    IsoText,
    /// `io.debezium.time.Year`
    Year,
    /// `io.debezium.time.MicroDuration`: microseconds, with months of 30.4375 days.
    MicroDuration,
    /// `io.debezium.time.Interval`: ISO-8601 duration text.
    Interval,
    /// `io.debezium.data.Uuid`
    Uuid,
    /// `io.debezium.data.Json`: JSON text in a string.
    Json,
    /// `io.debezium.data.Enum` and `EnumSet`: text; `allowed` as the schema lists it.
    Enum {
        /// Allowed labels.
        allowed: Vec<String>,
    },
    /// `io.debezium.data.Bits`: base64, little-endian.
    Bits,
    /// Any other string with a semantic name (xml, ltree, …): its text.
    NamedText(String),
    /// `array` of one element type.
    Array(Box<SourceType>),
    /// `map` of strings.
    Map,
    /// A struct or a name that has no mapping.
    Other(String),
}

/// One field of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Column name.
    pub name: String,
    /// Its type at the source.
    pub source_type: SourceType,
    /// True where null is allowed.
    pub optional: bool,
}

/// The fields of a row, from the Connect schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSchema {
    /// Fields in the order of the schema.
    pub fields: Vec<Field>,
}

impl RowSchema {
    /// The field called `name`; `hint` is its likely place.
    pub fn field(&self, name: &str, hint: usize) -> Option<&Field> {
        match self.fields.get(hint) {
            Some(field) if field.name == name => Some(field),
            _ => self.fields.iter().find(|field| field.name == name),
        }
    }
}

/// How a connector without schemas writes temporal values: `time.precision.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePrecision {
    /// Milliseconds, days, milliseconds of the day.
    Connect,
    /// By the column's precision: milliseconds up to 3 digits, microseconds above.
    Adaptive,
    /// As adaptive, times of day always in microseconds.
    AdaptiveTimeMicroseconds,
    /// Microseconds throughout.
    Microseconds,
    /// Nanoseconds throughout.
    Nanoseconds,
    /// ISO-8601 text.
    IsoString,
}

/// How a connector without schemas writes decimals: `decimal.handling.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalMode {
    /// Base64 of the unscaled value; the scale must be declared by the target column.
    Precise,
    /// JSON number.
    Double,
    /// Text.
    String,
}

/// How a connector writes bytes: `binary.handling.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryMode {
    /// Base64 by the JSON converter, or by the connector.
    Base64,
    /// Base64 with the URL-safe alphabet.
    Base64UrlSafe,
    /// Hexadecimal.
    Hex,
}

/// What the user declared of a topic without schemas. Nothing is guessed where it is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conventions {
    /// Unit of integers in temporal columns.
    pub time_precision: Option<TimePrecision>,
    /// Form of decimals; text and JSON numbers are read without it.
    pub decimal: Option<DecimalMode>,
    /// Form of bytes.
    pub binary: Option<BinaryMode>,
}

/// Where the type of a JSON value is known from.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// The record's Connect schema.
    Connect(&'a SourceType),
    /// No schema: the target's type and what was declared.
    Schemaless(&'a Conventions),
}

/// A shared row schema.
pub type SharedSchema = Arc<RowSchema>;
