//! One column of a block while it is being filled: decoded values into an Arrow array of the type
//! that ClickHouse reads exactly.
//!
//! Ranges are checked here, before a byte is sent: some of the server's conversions saturate, pad
//! or wrap in silence.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Decimal256Builder, FixedSizeBinaryBuilder,
    Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    Time64MicrosecondBuilder, Time64NanosecondBuilder, TimestampMicrosecondBuilder, TimestampMillisecondBuilder,
    TimestampNanosecondBuilder, TimestampSecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::i256;
use arrow_schema::ArrowError;
use settle_core::value::Value;

use super::column_type::{Base, Labels};

/// Why a decoded value is not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misfit {
    /// NULL where the type has none.
    #[error("NULL where the column is not Nullable")]
    Null,
    /// Outside of the type's range.
    #[error("out of the range of {0}")]
    Range(&'static str),
    /// Outside of the years that the server keeps.
    #[error("out of the range of {0} on this server; a String column keeps every date as text")]
    Year(&'static str),
    /// Not a label of the enum.
    #[error("a label that the enum does not have; add it with ALTER TABLE … MODIFY COLUMN")]
    Label,
    /// Another length than the fixed one: the server would pad it with zero bytes.
    #[error("{found} bytes where FixedString({wanted}) holds exactly {wanted}")]
    Length { found: usize, wanted: usize },
    /// Not an address in its usual form.
    #[error("no address in the form that {0} gives back")]
    Address(&'static str),
    /// The decoder gave another value than the column's kind: a fault of ours.
    #[error("a value of another kind than the column's")]
    Kind,
}

/// Years that the server's dates and times reach. Older servers end at 1900 and 2299 and saturate
/// in silence beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calendar {
    first_day: i64,
    last_day: i64,
}

impl Calendar {
    /// 1900 to 2299.
    pub(crate) const NARROW: Self = Self { first_day: -25_567, last_day: 120_529 };
    /// 0001 to 9999.
    pub(crate) const WIDE: Self = Self { first_day: -719_162, last_day: 2_932_896 };

    fn day(self, days: i64) -> Option<i32> {
        (self.first_day..=self.last_day).contains(&days).then(|| i32::try_from(days).ok()).flatten()
    }

    fn units(self, nanos: i128, nanos_a_unit: i128) -> Option<i64> {
        let day = nanos.div_euclid(86_400_000_000_000);
        let inside = (i128::from(self.first_day)..=i128::from(self.last_day)).contains(&day);
        (inside && nanos % nanos_a_unit == 0).then(|| i64::try_from(nanos / nanos_a_unit).ok()).flatten()
    }
}

/// The values of one column.
pub(crate) enum Buffer {
    Bool(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt8(UInt8Builder),
    UInt16(UInt16Builder),
    UInt32(UInt32Builder),
    UInt64(UInt64Builder),
    /// 128 and 256 bits: little-endian, two's complement.
    Wide {
        builder: FixedSizeBinaryBuilder,
        bits: u16,
        signed: bool,
    },
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal128(Decimal128Builder),
    Decimal256(Decimal256Builder),
    String(BinaryBuilder),
    FixedString {
        builder: BinaryBuilder,
        length: usize,
    },
    Enum {
        builder: StringBuilder,
        labels: Labels,
    },
    Ipv4(StringBuilder),
    Ipv6(StringBuilder),
    Date(UInt16Builder),
    Date32(Date32Builder),
    DateTime(UInt32Builder),
    Seconds(TimestampSecondBuilder),
    Millis(TimestampMillisecondBuilder),
    Micros(TimestampMicrosecondBuilder),
    Nanos(TimestampNanosecondBuilder),
    TimeMicros(Time64MicrosecondBuilder),
    TimeNanos(Time64NanosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
}

impl Buffer {
    /// An empty buffer for a type; none for containers and what is not supported.
    pub(crate) fn new(base: &Base) -> Result<Option<Self>, ArrowError> {
        Ok(Some(match base {
            Base::Bool => Self::Bool(BooleanBuilder::new()),
            Base::Int { bits, signed } => match (bits, signed) {
                (8, true) => Self::Int8(Int8Builder::new()),
                (16, true) => Self::Int16(Int16Builder::new()),
                (32, true) => Self::Int32(Int32Builder::new()),
                (64, true) => Self::Int64(Int64Builder::new()),
                (8, false) => Self::UInt8(UInt8Builder::new()),
                (16, false) => Self::UInt16(UInt16Builder::new()),
                (32, false) => Self::UInt32(UInt32Builder::new()),
                (64, false) => Self::UInt64(UInt64Builder::new()),
                (&bits, &signed) => {
                    Self::Wide { builder: FixedSizeBinaryBuilder::new(i32::from(bits) / 8), bits, signed }
                }
            },
            Base::Float32 => Self::Float32(Float32Builder::new()),
            Base::Float64 => Self::Float64(Float64Builder::new()),
            Base::Decimal { precision, scale } => {
                let scale = i8::try_from(*scale).unwrap_or(i8::MAX);
                match precision {
                    ..=38 => Self::Decimal128(Decimal128Builder::new().with_precision_and_scale(*precision, scale)?),
                    _ => Self::Decimal256(Decimal256Builder::new().with_precision_and_scale(*precision, scale)?),
                }
            }
            Base::String => Self::String(BinaryBuilder::new()),
            Base::FixedString(length) => Self::FixedString { builder: BinaryBuilder::new(), length: *length },
            Base::Enum(labels) => Self::Enum { builder: StringBuilder::new(), labels: labels.clone() },
            Base::Ipv4 => Self::Ipv4(StringBuilder::new()),
            Base::Ipv6 => Self::Ipv6(StringBuilder::new()),
            Base::Date => Self::Date(UInt16Builder::new()),
            Base::Date32 => Self::Date32(Date32Builder::new()),
            Base::DateTime => Self::DateTime(UInt32Builder::new()),
            Base::DateTime64 { digits } => match digits {
                0 => Self::Seconds(TimestampSecondBuilder::new()),
                1..=3 => Self::Millis(TimestampMillisecondBuilder::new()),
                4..=6 => Self::Micros(TimestampMicrosecondBuilder::new()),
                _ => Self::Nanos(TimestampNanosecondBuilder::new()),
            },
            Base::Time64 { digits: ..=6 } => Self::TimeMicros(Time64MicrosecondBuilder::new()),
            Base::Time64 { .. } => Self::TimeNanos(Time64NanosecondBuilder::new()),
            Base::Uuid => Self::Uuid(FixedSizeBinaryBuilder::new(16)),
            Base::Array(_) | Base::Map(..) | Base::Unsupported => return Ok(None),
        }))
    }

    /// Appends NULL.
    pub(crate) fn append_null(&mut self) {
        match self {
            Self::Bool(b) => b.append_null(),
            Self::Int8(b) => b.append_null(),
            Self::Int16(b) => b.append_null(),
            Self::Int32(b) => b.append_null(),
            Self::Int64(b) => b.append_null(),
            Self::UInt8(b) => b.append_null(),
            Self::UInt16(b) | Self::Date(b) => b.append_null(),
            Self::UInt32(b) | Self::DateTime(b) => b.append_null(),
            Self::UInt64(b) => b.append_null(),
            Self::Wide { builder: b, .. } | Self::Uuid(b) => b.append_null(),
            Self::Float32(b) => b.append_null(),
            Self::Float64(b) => b.append_null(),
            Self::Decimal128(b) => b.append_null(),
            Self::Decimal256(b) => b.append_null(),
            Self::String(b) | Self::FixedString { builder: b, .. } => b.append_null(),
            Self::Enum { builder: b, .. } | Self::Ipv4(b) | Self::Ipv6(b) => b.append_null(),
            Self::Date32(b) => b.append_null(),
            Self::Seconds(b) => b.append_null(),
            Self::Millis(b) => b.append_null(),
            Self::Micros(b) => b.append_null(),
            Self::Nanos(b) => b.append_null(),
            Self::TimeMicros(b) => b.append_null(),
            Self::TimeNanos(b) => b.append_null(),
        }
    }

    /// Appends a value that is not NULL.
    pub(crate) fn append(&mut self, value: &Value<'_>, calendar: Calendar) -> Result<(), Misfit> {
        match (self, value) {
            (Self::Bool(b), Value::Bool(value)) => b.append_value(*value),
            (Self::Int8(b), Value::Int(value)) => b.append_value(fit(*value, "Int8")?),
            (Self::Int16(b), Value::Int(value)) => b.append_value(fit(*value, "Int16")?),
            (Self::Int32(b), Value::Int(value)) => b.append_value(fit(*value, "Int32")?),
            (Self::Int64(b), Value::Int(value)) => b.append_value(fit(*value, "Int64")?),
            (Self::UInt8(b), Value::Int(value)) => b.append_value(fit(*value, "UInt8")?),
            (Self::UInt16(b), Value::Int(value)) => b.append_value(fit(*value, "UInt16")?),
            (Self::UInt32(b), Value::Int(value)) => b.append_value(fit(*value, "UInt32")?),
            (Self::UInt64(b), Value::Int(value)) => b.append_value(fit(*value, "UInt64")?),
            (Self::Wide { builder, bits, signed }, Value::Int(value)) => {
                wide(builder, &value.to_le_bytes(), *bits, *signed)?;
            }
            (Self::Wide { builder, bits, signed }, Value::BigInt(value)) => {
                wide(builder, &value.to_signed_bytes_le(), *bits, *signed)?;
            }
            #[expect(clippy::cast_possible_truncation, reason = "decoded as a 32-bit float")]
            (Self::Float32(b), Value::Float(value)) => b.append_value(*value as f32),
            (Self::Float64(b), Value::Float(value)) => b.append_value(*value),
            (Self::Decimal128(b), Value::Decimal(value)) => {
                b.append_value(value.to_i128().ok_or(Misfit::Range("Decimal"))?);
            }
            (Self::Decimal256(b), Value::Decimal(value)) => {
                let bytes = widened(&value.to_bigint().to_signed_bytes_le(), true).ok_or(Misfit::Range("Decimal"))?;
                b.append_value(i256::from_le_bytes(bytes));
            }
            (Self::String(b), Value::Text(text)) => b.append_value(text.as_bytes()),
            (Self::String(b), Value::Bytes(bytes)) => b.append_value(bytes),
            (Self::FixedString { builder, length }, Value::Text(text)) => fixed(builder, text.as_bytes(), *length)?,
            (Self::FixedString { builder, length }, Value::Bytes(bytes)) => fixed(builder, bytes, *length)?,
            (Self::Enum { builder, labels }, Value::Text(text)) => {
                if labels.number(text).is_none() {
                    return Err(Misfit::Label);
                }
                builder.append_value(text);
            }
            (Self::Ipv4(b), Value::Text(text)) => b.append_value(address::<std::net::Ipv4Addr>(text, "IPv4")?),
            (Self::Ipv6(b), Value::Text(text)) => b.append_value(address::<std::net::Ipv6Addr>(text, "IPv6")?),
            (Self::Date(b), Value::Date(days)) => b.append_value(fit(i128::from(*days), "Date")?),
            (Self::Date32(b), Value::Date(days)) => {
                b.append_value(calendar.day(*days).ok_or(Misfit::Year("Date32"))?);
            }
            (Self::DateTime(b), Value::Timestamp(nanos)) => {
                b.append_value(fit(nanos.div_euclid(1_000_000_000), "DateTime")?);
            }
            (Self::Seconds(b), Value::Timestamp(nanos)) => b.append_value(time(calendar, *nanos, 1_000_000_000)?),
            (Self::Millis(b), Value::Timestamp(nanos)) => b.append_value(time(calendar, *nanos, 1_000_000)?),
            (Self::Micros(b), Value::Timestamp(nanos)) => b.append_value(time(calendar, *nanos, 1_000)?),
            (Self::Nanos(b), Value::Timestamp(nanos)) => b.append_value(time(calendar, *nanos, 1)?),
            (Self::TimeMicros(b), Value::Time(nanos)) => b.append_value(nanos / 1_000),
            (Self::TimeNanos(b), Value::Time(nanos)) => b.append_value(*nanos),
            (Self::Uuid(b), Value::Uuid(uuid)) => b.append_value(uuid.as_bytes()).map_err(|_| Misfit::Kind)?,
            _ => return Err(Misfit::Kind),
        }
        Ok(())
    }

    /// The array of what was appended.
    pub(crate) fn finish(self) -> ArrayRef {
        fn shared(array: impl Array + 'static) -> ArrayRef {
            Arc::new(array)
        }
        match self {
            Self::Bool(mut b) => shared(b.finish()),
            Self::Int8(mut b) => shared(b.finish()),
            Self::Int16(mut b) => shared(b.finish()),
            Self::Int32(mut b) => shared(b.finish()),
            Self::Int64(mut b) => shared(b.finish()),
            Self::UInt8(mut b) => shared(b.finish()),
            Self::UInt16(mut b) | Self::Date(mut b) => shared(b.finish()),
            Self::UInt32(mut b) | Self::DateTime(mut b) => shared(b.finish()),
            Self::UInt64(mut b) => shared(b.finish()),
            Self::Wide { builder: mut b, .. } | Self::Uuid(mut b) => shared(b.finish()),
            Self::Float32(mut b) => shared(b.finish()),
            Self::Float64(mut b) => shared(b.finish()),
            Self::Decimal128(mut b) => shared(b.finish()),
            Self::Decimal256(mut b) => shared(b.finish()),
            Self::String(mut b) | Self::FixedString { builder: mut b, .. } => shared(b.finish()),
            Self::Enum { builder: mut b, .. } | Self::Ipv4(mut b) | Self::Ipv6(mut b) => shared(b.finish()),
            Self::Date32(mut b) => shared(b.finish()),
            Self::Seconds(mut b) => shared(b.finish()),
            Self::Millis(mut b) => shared(b.finish()),
            Self::Micros(mut b) => shared(b.finish()),
            Self::Nanos(mut b) => shared(b.finish()),
            Self::TimeMicros(mut b) => shared(b.finish()),
            Self::TimeNanos(mut b) => shared(b.finish()),
        }
    }
}

fn fit<T: TryFrom<i128>>(value: i128, column: &'static str) -> Result<T, Misfit> {
    T::try_from(value).map_err(|_| Misfit::Range(column))
}

fn time(calendar: Calendar, nanos: i128, nanos_a_unit: i128) -> Result<i64, Misfit> {
    calendar.units(nanos, nanos_a_unit).ok_or(Misfit::Year("DateTime64"))
}

/// A little-endian two's complement number of `N` bytes; none where it does not fit.
fn widened<const N: usize>(bytes: &[u8], signed: bool) -> Option<[u8; N]> {
    let negative = bytes.last().is_some_and(|top| top & 0x80 != 0);
    let fill = if negative { 0xff } else { 0 };
    let mut out = [fill; N];
    let kept = bytes.len().min(N);
    out[..kept].copy_from_slice(&bytes[..kept]);
    let lost = bytes[kept..].iter().any(|byte| *byte != fill);
    let sign_changed = signed && (out[N - 1] & 0x80 != 0) != negative;
    (!lost && !sign_changed && (signed || !negative)).then_some(out)
}

fn wide(builder: &mut FixedSizeBinaryBuilder, bytes: &[u8], bits: u16, signed: bool) -> Result<(), Misfit> {
    let appended = if bits == 128 {
        widened::<16>(bytes, signed).map(|bytes| builder.append_value(bytes))
    } else {
        widened::<32>(bytes, signed).map(|bytes| builder.append_value(bytes))
    };
    appended.ok_or(Misfit::Range("the wide integer"))?.map_err(|_| Misfit::Kind)
}

fn fixed(builder: &mut BinaryBuilder, bytes: &[u8], wanted: usize) -> Result<(), Misfit> {
    if bytes.len() != wanted {
        return Err(Misfit::Length { found: bytes.len(), wanted });
    }
    builder.append_value(bytes);
    Ok(())
}

/// An address, if the column gives back the same text.
fn address<'a, T: std::str::FromStr + ToString>(text: &'a str, name: &'static str) -> Result<&'a str, Misfit> {
    let same = text.parse::<T>().is_ok_and(|address| address.to_string() == text);
    same.then_some(text).ok_or(Misfit::Address(name))
}

#[cfg(test)]
mod tests {
    use super::super::column_type::ColumnType;
    use super::*;

    #[test]
    fn wide_integers_keep_sign_and_range() {
        assert_eq!(widened::<16>(&[1], true), Some(1i128.to_le_bytes()));
        assert_eq!(widened::<16>(&[0xff], true), Some((-1i128).to_le_bytes()));
        assert_eq!(widened::<16>(&[0xff], false), None, "negative");
        let max = u128::MAX.to_le_bytes();
        let with_zero = [&max[..], &[0]].concat();
        assert_eq!(widened::<16>(&with_zero, false), Some(max));
        assert_eq!(widened::<16>(&with_zero, true), None, "above the signed range");
        assert_eq!(widened::<32>(&i128::MIN.to_le_bytes(), true).unwrap()[31], 0xff);
    }

    #[test]
    fn times_outside_of_the_servers_years_are_refused() {
        let year_1 = -62_135_596_800_000_000_000i128;
        assert_eq!(Calendar::NARROW.units(year_1, 1_000), None);
        assert_eq!(Calendar::WIDE.units(year_1, 1_000), Some(-62_135_596_800_000_000));
        assert_eq!(Calendar::WIDE.units(year_1, 1), None, "nanoseconds of year 1 exceed 64 bits");
        assert_eq!(Calendar::WIDE.units(1_500, 1_000), None, "digits would be lost");
        assert_eq!((Calendar::NARROW.day(-25_567), Calendar::NARROW.day(-25_568)), (Some(-25_567), None));
    }

    #[test]
    fn what_the_server_would_pad_or_guess_is_refused() {
        let mut buffer = Buffer::new(&Base::FixedString(4)).unwrap().unwrap();
        let text = |text: &'static str| Value::Text(text.into());
        assert_eq!(buffer.append(&text("abcd"), Calendar::NARROW), Ok(()));
        assert_eq!(buffer.append(&text("abc"), Calendar::NARROW), Err(Misfit::Length { found: 3, wanted: 4 }));
        let mut buffer = Buffer::new(&ColumnType::parse("Enum8('a' = 1)").base).unwrap().unwrap();
        assert_eq!(buffer.append(&text("a"), Calendar::NARROW), Ok(()));
        assert_eq!(buffer.append(&text("1"), Calendar::NARROW), Err(Misfit::Label));
        let mut buffer = Buffer::new(&Base::Ipv4).unwrap().unwrap();
        assert_eq!(buffer.append(&text("10.0.0.1"), Calendar::NARROW), Ok(()));
        assert_eq!(buffer.append(&text("10.0.0.1/24"), Calendar::NARROW), Err(Misfit::Address("IPv4")));
        assert_eq!(buffer.append(&Value::Bool(true), Calendar::NARROW), Err(Misfit::Kind));
    }
}
