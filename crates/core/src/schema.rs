//! What is known of a row's types: from the Connect schema in the record, or declared.

use std::fmt;
use std::sync::Arc;

use crate::value::{Kind, decode};

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
    /// `io.debezium.time.NanoDuration`: nanoseconds, with months of 30.4375 days.
    NanoDuration,
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
    Bits {
        /// How many bits, where the schema says.
        length: Option<u32>,
    },
    /// Any other string with a semantic name (xml, ltree, …): its text.
    NamedText(String),
    /// `array` of one element type.
    Array(Box<SourceType>),
    /// `map` of strings.
    Map,
    /// A struct or a name that has no mapping.
    Other(String),
}

impl SourceType {
    /// True for dates, times and timestamps that are sent as a number of units.
    pub fn is_temporal_number(&self) -> bool {
        matches!(self, Self::EpochDays | Self::TimeOfDay { .. } | Self::Timestamp { .. })
    }

    /// True for dates, times and timestamps that are sent as ISO-8601 text.
    pub fn is_temporal_text(&self) -> bool {
        matches!(self, Self::ZonedTimestamp | Self::ZonedTime | Self::IsoText)
    }

    /// True where JSON itself says all there is, so that the value needs no decoding to be read.
    pub fn is_plain_json(&self) -> bool {
        match self {
            Self::Bool
            | Self::Int { .. }
            | Self::Float32
            | Self::Float64
            | Self::Text
            | Self::ZonedTimestamp
            | Self::ZonedTime
            | Self::IsoText
            | Self::Year
            | Self::MicroDuration
            | Self::NanoDuration
            | Self::Interval
            | Self::Uuid
            | Self::Json
            | Self::Enum { .. }
            | Self::NamedText(_)
            | Self::Map
            | Self::Other(_) => true,
            Self::Bytes
            | Self::Decimal { .. }
            | Self::VariableDecimal
            | Self::EpochDays
            | Self::TimeOfDay { .. }
            | Self::Timestamp { .. }
            | Self::Bits { .. } => false,
            Self::Array(element) => element.is_plain_json(),
        }
    }
}

/// As messages name it.
impl fmt::Display for SourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("boolean"),
            Self::Int { bits } => write!(f, "int{bits}"),
            Self::Float32 => f.write_str("float"),
            Self::Float64 => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Decimal { scale, precision: Some(precision) } => write!(f, "Decimal({precision}, {scale})"),
            Self::Decimal { scale, precision: None } => write!(f, "Decimal(scale {scale})"),
            Self::VariableDecimal => f.write_str("VariableScaleDecimal"),
            Self::EpochDays => f.write_str("Date"),
            Self::TimeOfDay { digits } => write!(f, "Time({digits})"),
            Self::Timestamp { digits } => write!(f, "Timestamp({digits})"),
            Self::ZonedTimestamp => f.write_str("ZonedTimestamp"),
            Self::ZonedTime => f.write_str("ZonedTime"),
            Self::IsoText => f.write_str("ISO-8601 text"),
            Self::Year => f.write_str("Year"),
            Self::MicroDuration => f.write_str("MicroDuration"),
            Self::NanoDuration => f.write_str("NanoDuration"),
            Self::Interval => f.write_str("Interval"),
            Self::Uuid => f.write_str("Uuid"),
            Self::Json => f.write_str("Json"),
            Self::Enum { .. } => f.write_str("Enum"),
            Self::Bits { .. } => f.write_str("Bits"),
            Self::NamedText(name) | Self::Other(name) => f.write_str(name),
            Self::Array(element) => write!(f, "array of {element}"),
            Self::Map => f.write_str("map"),
        }
    }
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

impl<'a> Origin<'a> {
    /// The origin of a column that is wanted as `kind`: its field's type where the record has a
    /// schema, else the declaration. A schema's plain string says nothing of bytes (they are
    /// strings under `binary.handling.mode=hex` and `base64`), so there the declaration decides.
    pub fn of(field: Option<&'a Field>, conventions: &'a Conventions, kind: &Kind) -> Self {
        match field.map(|field| &field.source_type) {
            Some(SourceType::Text) if *kind == Kind::Bytes => Self::Schemaless(conventions),
            Some(source_type) => Self::Connect(source_type),
            None => Self::Schemaless(conventions),
        }
    }
}

/// A shared row schema.
pub type SharedSchema = Arc<RowSchema>;

/// The type of a column that appears without a schema, from one value seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inferred {
    /// `true` or `false`.
    Bool,
    /// An integer of at most 64 bits.
    Int64,
    /// Any other number that a 64-bit float holds.
    Float64,
    /// A string, or a number that only text keeps exactly.
    Text,
    /// An array or an object.
    Json,
}

impl Inferred {
    /// The type that holds the values of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Int64, Self::Float64) | (Self::Float64, Self::Int64) => Self::Float64,
            _ => Self::Text,
        }
    }
}

/// Infers the type of one JSON value; none for null and for what is no JSON.
pub fn infer(json: &str) -> Option<Inferred> {
    let conventions = Conventions::default();
    let fits = |kind: Kind| decode(json, Origin::Schemaless(&conventions), &kind).is_ok();
    match json.trim_ascii().as_bytes().first()? {
        b't' | b'f' => fits(Kind::Bool).then_some(Inferred::Bool),
        b'"' => fits(Kind::Text).then_some(Inferred::Text),
        b'[' | b'{' => fits(Kind::Text).then_some(Inferred::Json),
        b'-' | b'0'..=b'9' if !fits(Kind::Text) => None,
        // A float of the source has a point or an exponent; `1.0` is none of an integer column.
        b'-' | b'0'..=b'9' if json.contains(['.', 'e', 'E']) => {
            Some(if fits(Kind::Float64) { Inferred::Float64 } else { Inferred::Text })
        }
        b'-' | b'0'..=b'9' => {
            Some(if fits(Kind::Int { bits: 64, signed: true }) { Inferred::Int64 } else { Inferred::Text })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_tells_the_narrowest_type_that_keeps_it() {
        for (json, wanted) in [
            ("null", None),
            ("true", Some(Inferred::Bool)),
            ("7", Some(Inferred::Int64)),
            ("-9223372036854775808", Some(Inferred::Int64)),
            ("9223372036854775808", Some(Inferred::Text)),
            ("1.0", Some(Inferred::Float64)),
            ("1E300", Some(Inferred::Float64)),
            ("1e400", Some(Inferred::Text)),
            ("0.12345678901234567891", Some(Inferred::Text)),
            ("\"7\"", Some(Inferred::Text)),
            ("[1]", Some(Inferred::Json)),
            ("{}", Some(Inferred::Json)),
            ("-", None),
            ("truth", None),
            ("", None),
        ] {
            assert_eq!(infer(json), wanted, "{json}");
        }
    }

    #[test]
    fn two_values_meet_in_a_type_that_keeps_both() {
        use Inferred as I;
        assert_eq!(I::Int64.or(I::Int64), I::Int64);
        assert_eq!(I::Int64.or(I::Float64), I::Float64);
        assert_eq!(I::Float64.or(I::Int64), I::Float64);
        assert_eq!(I::Bool.or(I::Int64), I::Text);
        assert_eq!(I::Json.or(I::Text), I::Text);
    }
}
