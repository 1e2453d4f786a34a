//! Types of columns: what PostgreSQL's catalog says of one, and what is sent to such a column.
//!
//! Values travel in the binary form of the column's own type. Types that are not known here travel
//! as text, and the server reads it by its own rules (`text::inet`).

use settle_core::value::Kind;

/// The binary form of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// Precision and scale; none where any number is taken as it is.
    Numeric(Option<(u32, i32)>),
    /// Characters that it may have; none for any number.
    Text(Option<usize>),
    /// Label of an enum.
    Label,
    Json,
    Jsonb,
    Bytea,
    Date,
    /// Digits behind the second.
    Time(u8),
    TimeTz(u8),
    Timestamp(u8),
    Uuid,
    /// How many bits; `true` where it must be so many.
    Bits(Option<u32>, bool),
    /// Read from text by the server.
    Interval,
    /// Read from text by the server.
    Other,
    /// One dimension of these.
    Array(Box<Wire>, u32),
}

/// What the catalog says of a type; a domain's is its base type's.
#[derive(Clone, Debug)]
pub(super) struct CatalogType {
    pub(super) oid: u32,
    pub(super) modifier: i32,
    pub(super) name: String,
    /// `pg_type.typtype`
    pub(super) form: char,
    /// The element of an array.
    pub(super) element: Option<Box<CatalogType>>,
}

impl CatalogType {
    /// How its values are sent, or why they cannot be.
    pub(super) fn wire(&self) -> Result<Wire, &'static str> {
        if let Some(element) = &self.element {
            let wire = CatalogType { modifier: self.modifier, ..(**element).clone() }.wire()?;
            return Ok(Wire::Array(Box::new(wire), element.oid));
        }
        if self.form == 'e' {
            return Ok(Wire::Label);
        }
        // The length of a type is kept with four bytes of the header added.
        let length = usize::try_from(self.modifier - 4).ok();
        let digits = u8::try_from(self.modifier).unwrap_or(6).min(6);
        Ok(match self.oid {
            16 => Wire::Bool,
            17 => Wire::Bytea,
            20 => Wire::Int8,
            21 => Wire::Int2,
            23 => Wire::Int4,
            25 => Wire::Text(None),
            114 => Wire::Json,
            700 => Wire::Float4,
            701 => Wire::Float8,
            1042 | 1043 => Wire::Text(length),
            1082 => Wire::Date,
            1083 => Wire::Time(digits),
            1114 | 1184 => Wire::Timestamp(digits),
            1186 if self.modifier >= 0 => {
                return Err("it cuts intervals (a precision or fields); make it plain interval");
            }
            1186 => Wire::Interval,
            1266 => Wire::TimeTz(digits),
            1560 => Wire::Bits(u32::try_from(self.modifier).ok(), true),
            1562 => Wire::Bits(u32::try_from(self.modifier).ok(), false),
            1700 => Wire::Numeric(numeric(self.modifier)),
            2950 => Wire::Uuid,
            3802 => Wire::Jsonb,
            18 | 19 => return Err("it cuts text in silence; make it text"),
            790 => return Err("it rounds by the server's locale; make it numeric"),
            _ if self.form == 'p' => return Err("it is no type of a column that can be written"),
            _ => Wire::Other,
        })
    }
}

/// Precision and scale out of a `numeric`'s modifier: 16 bits, and 11 signed ones.
fn numeric(modifier: i32) -> Option<(u32, i32)> {
    let packed = modifier.checked_sub(4).filter(|packed| *packed >= 0)?;
    let scale = ((packed & 0x7ff) ^ 1024) - 1024;
    Some((u32::try_from(packed >> 16 & 0xffff).ok()?, scale))
}

impl Wire {
    /// What its values are read as.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::Int2 => Kind::Int { bits: 16, signed: true },
            Self::Int4 => Kind::Int { bits: 32, signed: true },
            Self::Int8 => Kind::Int { bits: 64, signed: true },
            Self::Float4 => Kind::Float32,
            Self::Float8 => Kind::Float64,
            Self::Numeric(Some((precision, scale))) => Kind::Decimal { precision: *precision, scale: *scale },
            Self::Bytea => Kind::Bytes,
            Self::Date => Kind::Date,
            Self::Time(digits) | Self::TimeTz(digits) => Kind::Time { digits: *digits },
            Self::Timestamp(digits) => Kind::Timestamp { digits: *digits },
            Self::Uuid => Kind::Uuid,
            Self::Numeric(None)
            | Self::Text(_)
            | Self::Label
            | Self::Json
            | Self::Jsonb
            | Self::Bits(..)
            | Self::Interval
            | Self::Other
            | Self::Array(..) => Kind::Text,
        }
    }

    /// True where the server reads it from text.
    pub(super) fn is_cast(&self) -> bool {
        match self {
            Self::Interval | Self::Other => true,
            Self::Array(element, _) => element.is_cast(),
            _ => false,
        }
    }

    /// The type of the column in which its values wait to be cast.
    pub(super) fn waits_as(&self) -> Option<&'static str> {
        match self {
            Self::Array(..) if self.is_cast() => Some("pg_catalog.text[]"),
            _ => self.is_cast().then_some("pg_catalog.text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(oid: u32, modifier: i32) -> Result<Wire, &'static str> {
        CatalogType { oid, modifier, name: "t".into(), form: 'b', element: None }.wire()
    }

    #[test]
    fn modifiers_say_lengths_digits_and_scales() {
        for (oid, modifier, wanted) in [
            (1043, 24, Wire::Text(Some(20))),
            (1043, -1, Wire::Text(None)),
            (1700, -1, Wire::Numeric(None)),
            (1700, ((12 << 16) | 2) + 4, Wire::Numeric(Some((12, 2)))),
            (1700, ((3 << 16) | (-2 & 0x7ff)) + 4, Wire::Numeric(Some((3, -2)))),
            (1114, -1, Wire::Timestamp(6)),
            (1184, 3, Wire::Timestamp(3)),
            (1083, 0, Wire::Time(0)),
            (1560, 9, Wire::Bits(Some(9), true)),
            (1562, -1, Wire::Bits(None, false)),
            (869, -1, Wire::Other),
        ] {
            assert_eq!(wire(oid, modifier), Ok(wanted), "{oid} {modifier}");
        }
        for oid in [18, 19, 790] {
            assert!(wire(oid, -1).is_err(), "{oid}");
        }
    }

    #[test]
    fn an_array_takes_the_modifier_of_its_element() {
        let element = CatalogType { oid: 1043, modifier: -1, name: "varchar".into(), form: 'b', element: None };
        let array = CatalogType {
            oid: 1015,
            modifier: 9,
            name: "_varchar".into(),
            form: 'b',
            element: Some(Box::new(element)),
        };
        assert_eq!(array.wire(), Ok(Wire::Array(Box::new(Wire::Text(Some(5))), 1043)));
    }
}
