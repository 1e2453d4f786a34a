//! ClickHouse's RowBinary: values as the server holds them, to the bit, whatever its version and its
//! settings. Keys are sent in it, and stored rows read.

use std::net::{Ipv4Addr, Ipv6Addr};

use num_bigint::BigInt;
use settle_core::value::{Decimal, Value};
use uuid::Uuid;

use super::column_type::{Base, ColumnType};

/// A stored value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// NULL, too.
    Scalar(Value<'static>),
    Array(Vec<Cell>),
    Map(Vec<(Cell, Cell)>),
}

/// Takes one value off the front; none where the bytes are not of this type.
pub(crate) fn take(column: &ColumnType, bytes: &mut &[u8]) -> Option<Cell> {
    if column.nullable && byte(bytes)? != 0 {
        return Some(Cell::Scalar(Value::Null));
    }
    Some(match &column.base {
        Base::Array(item) => {
            let length = length(bytes)?;
            Cell::Array((0..length).map(|_| take(item, bytes)).collect::<Option<_>>()?)
        }
        Base::Map(key, value) => {
            let length = length(bytes)?;
            let entry = |_| Some((take(key, bytes)?, take(value, bytes)?));
            Cell::Map((0..length).map(entry).collect::<Option<_>>()?)
        }
        base => Cell::Scalar(scalar(base, bytes)?),
    })
}

fn scalar(base: &Base, bytes: &mut &[u8]) -> Option<Value<'static>> {
    Some(match base {
        Base::Bool => Value::Bool(byte(bytes)? != 0),
        Base::Int { bits, signed } => integer(some(bytes, usize::from(*bits) / 8)?, *signed),
        Base::Float32 => Value::Float(f64::from(f32::from_le_bytes(fixed(bytes)?))),
        Base::Float64 => Value::Float(f64::from_le_bytes(fixed(bytes)?)),
        Base::Decimal { precision, scale } => {
            let unscaled = BigInt::from_signed_bytes_le(some(bytes, decimal_width(*precision))?);
            Value::Decimal(Decimal::wide(unscaled, u32::from(*scale)))
        }
        Base::String => {
            let length = length(bytes)?;
            Value::Bytes(some(bytes, length)?.to_vec())
        }
        Base::FixedString(length) => Value::Bytes(some(bytes, *length)?.to_vec()),
        Base::Date => Value::Date(i64::from(u16::from_le_bytes(fixed(bytes)?))),
        Base::Date32 => Value::Date(i64::from(i32::from_le_bytes(fixed(bytes)?))),
        Base::DateTime => Value::Timestamp(i128::from(u32::from_le_bytes(fixed(bytes)?)) * 1_000_000_000),
        Base::DateTime64 { digits } => {
            Value::Timestamp(i128::from(i64::from_le_bytes(fixed(bytes)?)) * i128::from(nanos(*digits)))
        }
        Base::Time64 { digits } => Value::Time(i64::from_le_bytes(fixed(bytes)?).checked_mul(nanos(*digits))?),
        Base::Uuid => {
            let (high, low) = (u64::from_le_bytes(fixed(bytes)?), u64::from_le_bytes(fixed(bytes)?));
            Value::Uuid(Uuid::from_u64_pair(high, low))
        }
        Base::Enum(labels) => {
            let number = match labels.wide {
                true => i16::from_le_bytes(fixed(bytes)?),
                false => i16::from(i8::from_le_bytes(fixed(bytes)?)),
            };
            Value::Text(labels.label(number)?.to_owned().into())
        }
        Base::Ipv4 => Value::Text(Ipv4Addr::from(u32::from_le_bytes(fixed(bytes)?)).to_string().into()),
        Base::Ipv6 => Value::Text(Ipv6Addr::from(fixed::<16>(bytes)?).to_string().into()),
        Base::Array(_) | Base::Map(..) | Base::Unsupported => return None,
    })
}

/// Puts a value, which is not NULL, behind `out`; none where the type does not hold it.
pub(crate) fn put(base: &Base, value: &Value<'_>, out: &mut Vec<u8>) -> Option<()> {
    match (base, value) {
        (Base::Bool, Value::Bool(value)) => out.push(u8::from(*value)),
        (Base::Int { bits, signed }, Value::Int(value)) => {
            widened(&value.to_le_bytes(), *value < 0, usize::from(*bits) / 8, *signed, out)?;
        }
        (Base::Int { bits, signed }, Value::BigInt(value)) => {
            let negative = value.sign() == num_bigint::Sign::Minus;
            widened(&value.to_signed_bytes_le(), negative, usize::from(*bits) / 8, *signed, out)?;
        }
        #[expect(clippy::cast_possible_truncation, reason = "decoded as a 32-bit float")]
        (Base::Float32, Value::Float(value)) => out.extend((*value as f32).to_le_bytes()),
        (Base::Float64, Value::Float(value)) => out.extend(value.to_le_bytes()),
        (Base::Decimal { precision, .. }, Value::Decimal(value)) => {
            let unscaled = value.to_bigint();
            let negative = unscaled.sign() == num_bigint::Sign::Minus;
            widened(&unscaled.to_signed_bytes_le(), negative, decimal_width(*precision), true, out)?;
        }
        (Base::String, Value::Text(text)) => put_bytes(text.as_bytes(), out),
        (Base::String, Value::Bytes(bytes)) => put_bytes(bytes, out),
        (Base::FixedString(length), Value::Text(text)) if text.len() == *length => out.extend(text.as_bytes()),
        (Base::FixedString(length), Value::Bytes(bytes)) if bytes.len() == *length => out.extend(bytes),
        (Base::Date, Value::Date(days)) => out.extend(u16::try_from(*days).ok()?.to_le_bytes()),
        (Base::Date32, Value::Date(days)) => out.extend(i32::try_from(*days).ok()?.to_le_bytes()),
        (Base::DateTime, Value::Timestamp(time)) => {
            out.extend(u32::try_from(time.div_euclid(1_000_000_000)).ok()?.to_le_bytes());
        }
        (Base::DateTime64 { digits }, Value::Timestamp(time)) => {
            out.extend(i64::try_from(time / i128::from(nanos(*digits))).ok()?.to_le_bytes());
        }
        (Base::Time64 { digits }, Value::Time(time)) => out.extend((time / nanos(*digits)).to_le_bytes()),
        (Base::Uuid, Value::Uuid(uuid)) => {
            let (high, low) = uuid.as_u64_pair();
            out.extend(high.to_le_bytes());
            out.extend(low.to_le_bytes());
        }
        (Base::Enum(labels), Value::Text(label)) => {
            let number = labels.number(label)?;
            match labels.wide {
                true => out.extend(number.to_le_bytes()),
                false => out.extend(i8::try_from(number).ok()?.to_le_bytes()),
            }
        }
        (Base::Ipv4, Value::Text(text)) => out.extend(u32::from(text.parse::<Ipv4Addr>().ok()?).to_le_bytes()),
        (Base::Ipv6, Value::Text(text)) => out.extend(text.parse::<Ipv6Addr>().ok()?.octets()),
        _ => return None,
    }
    Some(())
}

/// A UInt128, as `_version` is.
pub(crate) fn take_u128(bytes: &mut &[u8]) -> Option<u128> {
    fixed(bytes).map(u128::from_le_bytes)
}

pub(crate) fn byte(bytes: &mut &[u8]) -> Option<u8> {
    fixed::<1>(bytes).map(|[byte]| byte)
}

fn some<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = bytes.split_at_checked(length)?;
    *bytes = left;
    Some(taken)
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    some(bytes, N)?.try_into().ok()
}

/// LEB128; no more than there are bytes, so that nothing absurd is allocated for.
fn length(bytes: &mut &[u8]) -> Option<usize> {
    let mut length = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = byte(bytes)?;
        length |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(length).ok().filter(|length| *length <= bytes.len());
        }
    }
    None
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut left = bytes.len();
    loop {
        let low = u8::try_from(left & 0x7f).unwrap_or_default();
        left >>= 7;
        out.push(if left == 0 { low } else { low | 0x80 });
        if left == 0 {
            break;
        }
    }
    out.extend(bytes);
}

fn integer(bytes: &[u8], signed: bool) -> Value<'static> {
    let number = match signed {
        true => BigInt::from_signed_bytes_le(bytes),
        false => BigInt::from_bytes_le(num_bigint::Sign::Plus, bytes),
    };
    i128::try_from(&number).map_or(Value::BigInt(number), Value::Int)
}

/// Two's complement in exactly `width` bytes; none where the number is out of range.
fn widened(bytes: &[u8], negative: bool, width: usize, signed: bool, out: &mut Vec<u8>) -> Option<()> {
    let fill = if negative { 0xff } else { 0 };
    let lost = bytes.iter().skip(width).any(|byte| *byte != fill);
    let start = out.len();
    out.extend(bytes.iter().copied().chain(std::iter::repeat(fill)).take(width));
    let top_is_set = out.last().is_some_and(|top| top & 0x80 != 0);
    let fits = !lost && out.len() == start + width && if signed { top_is_set == negative } else { !negative };
    fits.then_some(())
}

fn decimal_width(precision: u8) -> usize {
    match precision {
        0..=9 => 4,
        10..=18 => 8,
        19..=38 => 16,
        _ => 32,
    }
}

fn nanos(digits: u8) -> i64 {
    10_i64.pow(9 - u32::from(digits.min(9)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that ClickHouse 26.9 gave for these values.
    #[test]
    fn values_as_the_server_writes_them_and_back() {
        let text = |text: &'static str| Value::Text(text.into());
        let int = |number: i128| Value::Int(number);
        let cases: Vec<(&str, &str, Value<'static>)> = vec![
            ("Int32", "01000000", int(1)),
            ("Bool", "01", Value::Bool(true)),
            (
                "UUID",
                "7766554433221100ffeeddccbbaa9988",
                Value::Uuid(Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)),
            ),
            ("IPv4", "04030201", text("1.2.3.4")),
            ("IPv6", "00000000000000000000000000000001", text("::1")),
            ("Decimal(9, 2)", "83ffffff", Value::Decimal(Decimal::new(-125, 2))),
            (
                "Decimal(76, 3)",
                "c409000000000000000000000000000000000000000000000000000000000000",
                Value::Decimal(Decimal::new(2500, 3)),
            ),
            ("DateTime64(6, 'Europe/Berlin')", "405e8f39d60d0600", Value::Timestamp(1_704_063_600_123_456_000)),
            ("Date", "0c4d", Value::Date(19_724)),
            ("Date32", "77e3ffff", Value::Date(-7_305)),
            ("Time64(3)", "f42f930200000000", Value::Time(43_200_500_000_000)),
            ("Int256", &"ff".repeat(32), int(-1)),
            ("FixedString(3)", "616263", Value::Bytes(b"abc".to_vec())),
            ("Enum16('x' = -300, 'y' = 5)", "d4fe", text("x")),
            ("Enum8('a' = 1)", "01", text("a")),
            ("UInt64", &"ff".repeat(8), int(i128::from(u64::MAX))),
            ("UInt128", &"ff".repeat(16), Value::BigInt(BigInt::from(u128::MAX))),
            ("Int8", "80", int(-128)),
            ("DateTime", "ffffffff", Value::Timestamp(4_294_967_295_000_000_000)),
            ("Float32", "0000c03f", Value::Float(1.5)),
            ("String", "03ff0061", Value::Bytes(b"\xff\0a".to_vec())),
        ]
        .into_iter()
        .map(|(kind, hex, value)| (kind, &*Box::leak(hex.to_owned().into_boxed_str()), value))
        .collect();
        for (kind, hex, value) in cases {
            let bytes: Vec<u8> =
                (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
            let column = ColumnType::parse(kind);
            let mut left = bytes.as_slice();
            assert_eq!(take(&column, &mut left), Some(Cell::Scalar(value.clone())), "{kind}");
            assert!(left.is_empty(), "{kind}");
            let mut out = Vec::new();
            assert_eq!(put(&column.base, &value, &mut out), Some(()), "{kind}");
            assert_eq!(out, bytes, "{kind}");
            assert_eq!(take(&column, &mut &bytes[1..]), None, "{kind} cut short");
        }
    }

    #[test]
    fn containers_and_null() {
        let column = ColumnType::parse("Map(String, Nullable(Int8))");
        let entry = (Cell::Scalar(Value::Bytes(b"k".to_vec())), Cell::Scalar(Value::Null));
        assert_eq!(take(&column, &mut &b"\x01\x01k\x01"[..]), Some(Cell::Map(vec![entry])));
        let column = ColumnType::parse("Array(LowCardinality(Nullable(String)))");
        let items = vec![Cell::Scalar(Value::Null), Cell::Scalar(Value::Bytes(Vec::new()))];
        assert_eq!(take(&column, &mut &b"\x02\x01\0\0"[..]), Some(Cell::Array(items)));
        assert_eq!(take(&column, &mut &b"\xff\xff\xff\xff\x7f"[..]), None, "longer than the answer");
    }

    #[test]
    fn what_a_type_does_not_hold_is_not_put() {
        let none = |kind: &str, value: Value<'static>| {
            assert_eq!(put(&ColumnType::parse(kind).base, &value, &mut Vec::new()), None, "{kind} {value:?}");
        };
        none("Int8", Value::Int(128));
        none("UInt8", Value::Int(-1));
        none("UInt8", Value::Int(256));
        none("Date", Value::Date(-1));
        none("FixedString(2)", Value::Text("abc".into()));
        none("Enum8('a' = 1)", Value::Text("b".into()));
        none("Int8", Value::Bool(true));
    }

    #[test]
    fn long_texts_have_their_length_before_them() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 100_000] {
            let text = vec![b'x'; length];
            let mut out = Vec::new();
            put_bytes(&text, &mut out);
            let taken = take(&ColumnType::parse("String"), &mut out.as_slice());
            assert_eq!(taken, Some(Cell::Scalar(Value::Bytes(text))), "{length}");
        }
    }
}
