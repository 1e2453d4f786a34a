//! What a value is wanted as, and what it was decoded to.

use std::borrow::Cow;
use std::fmt;

use num_bigint::BigInt;

use super::decimal::Decimal;

/// The type a value is wanted as: the target column's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false; 0 and 1 of an integer source too.
    Bool,
    /// Integer of a width.
    Int {
        /// 8, 16, 32, 64, 128 or 256.
        bits: u16,
        /// False for unsigned.
        signed: bool,
    },
    /// 32-bit float.
    Float32,
    /// 64-bit float.
    Float64,
    /// Exact decimal.
    Decimal {
        /// All digits.
        precision: u32,
        /// Digits behind the point.
        scale: i32,
    },
    /// Text; every source type has a stated text form:
    ///
    /// | source | text |
    /// |---|---|
    /// | text, enum, set, uuid, json, xml, ltree, interval | as received |
    /// | timestamps and times with a zone, ISO text | as received |
    /// | integers, year, durations (units as sent) | decimal digits |
    /// | floats | JSON number as received, `NaN`, `Infinity`, `-Infinity` |
    /// | decimals | plain digits with exactly the source's scale, no exponent |
    /// | bool | `true`, `false` |
    /// | dates | `YYYY-MM-DD` |
    /// | times of day | `hh:mm:ss[.fff]`, a leading `-` and more than 23 hours where the source has them |
    /// | timestamps without a zone | `YYYY-MM-DD hh:mm:ss[.fff]` |
    /// | infinite dates and timestamps | `infinity`, `-infinity` |
    /// | bytes | lowercase hexadecimal |
    /// | bits | binary digits, most significant first |
    /// | arrays | JSON; elements that JSON has no form for are strings in the forms above |
    /// | maps, structs | JSON as received |
    ///
    /// Fractions have the digits of the source's unit. Years are astronomical and have a sign
    /// outside of 0000 to 9999 (`-0043` is 44 BC, `+10000`), as Debezium's own ISO text does it.
    /// Without a schema nothing is known but the JSON: strings are their content, the rest is its
    /// JSON text.
    Text,
    /// Raw bytes.
    Bytes,
    /// Calendar date.
    Date,
    /// Time of day with `digits` behind the second.
    Time {
        /// 0 to 9.
        digits: u8,
    },
    /// Instant or local date and time, with `digits` behind the second.
    Timestamp {
        /// 0 to 9.
        digits: u8,
    },
    /// UUID.
    Uuid,
    /// Whatever comes (SQLite columns without a declared type): bool, integers, floats and text as
    /// JSON has them; under a Connect schema bytes as bytes, and every other type in its text form.
    Any,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int { bits, signed: true } => write!(f, "int{bits}"),
            Self::Int { bits, signed: false } => write!(f, "uint{bits}"),
            Self::Float32 => f.write_str("float32"),
            Self::Float64 => f.write_str("float64"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision}, {scale})"),
            Self::Text => f.write_str("text"),
            Self::Bytes => f.write_str("bytes"),
            Self::Date => f.write_str("date"),
            Self::Time { digits } => write!(f, "time({digits})"),
            Self::Timestamp { digits } => write!(f, "timestamp({digits})"),
            Self::Uuid => f.write_str("uuid"),
            Self::Any => f.write_str("any"),
        }
    }
}

/// A decoded value. It fits the [`Kind`] it was decoded for: range and scale are checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// For [`Kind::Bool`].
    Bool(bool),
    /// For [`Kind::Int`] up to 128 bits, except 128 unsigned.
    Int(i128),
    /// For [`Kind::Int`] of 128 unsigned or 256 bits.
    BigInt(BigInt),
    /// For the float kinds; NaN and infinities included.
    Float(f64),
    /// For [`Kind::Decimal`], with exactly its scale.
    Decimal(Decimal),
    /// For [`Kind::Text`].
    Text(Cow<'a, str>),
    /// For [`Kind::Bytes`].
    Bytes(Vec<u8>),
    /// For [`Kind::Date`]: days since 1970-01-01, proleptic Gregorian.
    Date(i64),
    /// For [`Kind::Time`]: nanoseconds since midnight, below 24 hours.
    Time(i64),
    /// For [`Kind::Timestamp`]: nanoseconds since 1970-01-01T00:00:00 (UTC where the source has a
    /// zone), a multiple of the kind's precision.
    Timestamp(i128),
    /// For [`Kind::Uuid`].
    Uuid(uuid::Uuid),
}
