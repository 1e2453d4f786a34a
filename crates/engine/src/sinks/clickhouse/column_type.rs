//! A column's ClickHouse type, read from the text that the server prints.

use std::fmt;

use settle_core::value::Kind;

use super::names::literal;
use super::scan;

/// What a column holds, apart from NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Bool,
    Int {
        bits: u16,
        signed: bool,
    },
    Float32,
    Float64,
    Decimal {
        precision: u8,
        scale: u8,
    },
    String,
    FixedString(usize),
    Date,
    Date32,
    /// Seconds since 1970, unsigned 32 bits.
    DateTime,
    DateTime64 {
        digits: u8,
    },
    Time64 {
        digits: u8,
    },
    Uuid,
    /// `Enum8` or `Enum16`: sent as text, checked against the labels.
    Enum(Labels),
    Ipv4,
    Ipv6,
    Array(Box<ColumnType>),
    Map(Box<ColumnType>, Box<ColumnType>),
    /// A type for which values cannot be written exactly, or at all.
    Unsupported,
}

/// The labels of an enum with their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    labels: Vec<(String, i16)>,
    /// True for 16 bits.
    pub(crate) wide: bool,
}

impl Labels {
    /// The label of a number.
    pub(crate) fn label(&self, number: i16) -> Option<&str> {
        self.labels.iter().find(|(_, known)| *known == number).map(|(label, _)| label.as_str())
    }

    /// The number of a label.
    pub(crate) fn number(&self, label: &str) -> Option<i16> {
        self.labels.iter().find(|(known, _)| known == label).map(|(_, number)| *number)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> =
            self.labels.iter().map(|(label, number)| format!("{} = {number}", literal(label))).collect();
        write!(f, "Enum{}({})", if self.wide { 16 } else { 8 }, labels.join(", "))
    }
}

/// A column's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnType {
    pub(crate) base: Base,
    pub(crate) nullable: bool,
    /// As the server prints it.
    text: String,
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ColumnType {
    /// Reads a type as `system.columns` prints it.
    pub(crate) fn parse(text: &str) -> Self {
        let (base, nullable) = parse(text.trim());
        Self { base, nullable, text: text.trim().to_owned() }
    }

    /// What a value must be decoded as; none for containers and what is not supported.
    pub(crate) fn kind(&self) -> Option<Kind> {
        Some(match &self.base {
            Base::Bool => Kind::Bool,
            Base::Int { bits, signed } => Kind::Int { bits: *bits, signed: *signed },
            Base::Float32 => Kind::Float32,
            Base::Float64 => Kind::Float64,
            Base::Decimal { precision, scale } => {
                Kind::Decimal { precision: u32::from(*precision), scale: i32::from(*scale) }
            }
            Base::String | Base::FixedString(_) | Base::Enum(_) | Base::Ipv4 | Base::Ipv6 => Kind::Text,
            Base::Date | Base::Date32 => Kind::Date,
            Base::DateTime => Kind::Timestamp { digits: 0 },
            Base::DateTime64 { digits } => Kind::Timestamp { digits: *digits },
            Base::Time64 { digits } => Kind::Time { digits: *digits },
            Base::Uuid => Kind::Uuid,
            Base::Array(_) | Base::Map(..) | Base::Unsupported => return None,
        })
    }

    /// True where any text can be written: what `_op` needs.
    pub(crate) fn takes_text(&self) -> bool {
        matches!(self.base, Base::String)
    }

    /// True if no value can be written to it.
    pub(crate) fn is_unsupported(&self) -> bool {
        match &self.base {
            Base::Unsupported => true,
            Base::Array(item) => item.is_unsupported(),
            Base::Map(key, value) => key.is_unsupported() || value.is_unsupported(),
            _ => false,
        }
    }

    /// The same type without NULL.
    pub(crate) fn without_null(text: &str) -> String {
        match scan::call(text) {
            Some(("Nullable", inner, "")) => inner.trim().to_owned(),
            Some(("LowCardinality", inner, "")) => format!("LowCardinality({})", Self::without_null(inner.trim())),
            _ => text.to_owned(),
        }
    }

    /// The same type with NULL; itself where ClickHouse has no such type.
    pub(crate) fn nullable_text(text: &str) -> String {
        let parsed = Self::parse(text);
        if parsed.nullable || matches!(parsed.base, Base::Array(_) | Base::Map(..)) {
            return text.to_owned();
        }
        match scan::call(text) {
            Some(("LowCardinality", inner, "")) => format!("LowCardinality(Nullable({inner}))"),
            _ => format!("Nullable({text})"),
        }
    }
}

fn parse(text: &str) -> (Base, bool) {
    let Some((name, inside, "")) = scan::call(text) else {
        return (simple(text), false);
    };
    let arguments = scan::list(inside);
    let number = |at: usize| arguments.get(at).and_then(|a| a.parse::<u8>().ok());
    let base = match (name, arguments.as_slice()) {
        ("Nullable", _) => return (parse(inside.trim()).0, true),
        ("LowCardinality", _) => return parse(inside.trim()),
        ("FixedString", [length]) => length.parse().map_or(Base::Unsupported, Base::FixedString),
        ("Decimal", [_, _]) => match (number(0), number(1)) {
            (Some(precision @ 1..=76), Some(scale)) if scale <= precision => Base::Decimal { precision, scale },
            _ => Base::Unsupported,
        },
        ("DateTime", _) => Base::DateTime,
        ("DateTime64", _) => match number(0) {
            Some(digits @ 0..=9) => Base::DateTime64 { digits },
            _ => Base::Unsupported,
        },
        ("Time64", _) => match number(0) {
            Some(digits @ 0..=9) => Base::Time64 { digits },
            _ => Base::Unsupported,
        },
        ("Enum8" | "Enum16", labels) => {
            let label = |part: &&str| {
                let (label, number) = part.rsplit_once('=')?;
                Some((scan::string_literal(label)?, number.trim().parse().ok()?))
            };
            let labels = labels.iter().map(label).collect::<Option<Vec<_>>>();
            labels.map_or(Base::Unsupported, |labels| Base::Enum(Labels { labels, wide: name == "Enum16" }))
        }
        ("Array", [item]) => Base::Array(Box::new(ColumnType::parse(item))),
        ("Map", [key, value]) => Base::Map(Box::new(ColumnType::parse(key)), Box::new(ColumnType::parse(value))),
        // The state of `any` and its like is the value itself.
        ("SimpleAggregateFunction", [_, inner]) => return parse(inner),
        _ => Base::Unsupported,
    };
    (base, false)
}

fn simple(text: &str) -> Base {
    match text {
        "Bool" => Base::Bool,
        "String" => Base::String,
        "Float32" => Base::Float32,
        "Float64" => Base::Float64,
        "Date" => Base::Date,
        "Date32" => Base::Date32,
        "DateTime" => Base::DateTime,
        "UUID" => Base::Uuid,
        "IPv4" => Base::Ipv4,
        "IPv6" => Base::Ipv6,
        _ => {
            let (bits, signed) = match text.strip_prefix("UInt") {
                Some(bits) => (bits, false),
                None => (text.strip_prefix("Int").unwrap_or_default(), true),
            };
            match bits.parse() {
                Ok(bits @ (8 | 16 | 32 | 64 | 128 | 256)) => Base::Int { bits, signed },
                _ => Base::Unsupported,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_as_the_server_prints_them() {
        let cases = [
            ("Int256", Base::Int { bits: 256, signed: true }, false),
            ("Nullable(UInt8)", Base::Int { bits: 8, signed: false }, true),
            ("LowCardinality(Nullable(String))", Base::String, true),
            ("Decimal(76, 10)", Base::Decimal { precision: 76, scale: 10 }, false),
            ("DateTime('Europe/Berlin')", Base::DateTime, false),
            ("DateTime64(6, 'UTC')", Base::DateTime64 { digits: 6 }, false),
            (
                "Enum8('a' = 1, 'b, = \\'c' = -2)",
                Base::Enum(Labels { labels: vec![("a".into(), 1), ("b, = 'c".into(), -2)], wide: false }),
                false,
            ),
            ("Array(Nullable(Int32))", Base::Array(Box::new(ColumnType::parse("Nullable(Int32)"))), false),
            ("SimpleAggregateFunction(anyLast, Nullable(Int64))", Base::Int { bits: 64, signed: true }, true),
            ("JSON", Base::Unsupported, false),
            ("Tuple(a Int32)", Base::Unsupported, false),
            ("AggregateFunction(sum, Int32)", Base::Unsupported, false),
            ("IntervalDay", Base::Unsupported, false),
        ];
        for (text, base, nullable) in cases {
            let parsed = ColumnType::parse(text);
            assert_eq!((&parsed.base, parsed.nullable), (&base, nullable), "{text}");
            assert_eq!(parsed.to_string(), text);
        }
        assert!(ColumnType::parse("Array(JSON)").is_unsupported());
    }

    #[test]
    fn null_goes_inside_of_low_cardinality_and_never_round_an_array() {
        for (text, nullable) in [
            ("Int32", "Nullable(Int32)"),
            ("LowCardinality(String)", "LowCardinality(Nullable(String))"),
            ("Array(Int8)", "Array(Int8)"),
            ("Nullable(Int8)", "Nullable(Int8)"),
        ] {
            assert_eq!(ColumnType::nullable_text(text), nullable);
            assert_eq!(ColumnType::without_null(nullable), ColumnType::without_null(text));
        }
        assert_eq!(ColumnType::without_null("LowCardinality(Nullable(String))"), "LowCardinality(String)");
    }
}
