//! From a JSON value to what MySQL stores: exactly, or refused.

use chrono::{DateTime, Datelike, Timelike};
use mysql_async::Value as Bound;
use settle_core::schema::{Origin, SourceType};
use settle_core::value::{self, Kind, Value, ValueError};

use super::column::{Family, Storage};
use super::document;

/// Why a value is not written. Never holds the value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misfit {
    #[error("{0}")]
    Value(#[from] ValueError),
    #[error("MySQL has no {0}; make the column a text")]
    NotFinite(&'static str),
    #[error("a year outside of 0 to 9999 has no place in a column of MySQL; make it a text")]
    Year,
    #[error(
        "a year that is neither 0 nor within 1901 to 2155 has no place in a column of the type YEAR; make it SMALLINT"
    )]
    ShortYear,
    #[error(
        "a text that is none of the labels of the column, letter for letter, has no place in it; add the label, or make the \
         column a text"
    )]
    Label,
    #[error("a time beyond 838:59:59 has no place in a column of MySQL; make it a text")]
    Hours,
    #[error("the column is of a type that Settle does not write")]
    UnknownType,
    #[error("MySQL's JSON makes another number of one in the document; make the column LONGTEXT")]
    Document,
}

impl Misfit {
    /// True where every row would fail alike: the topic and the table do not fit together.
    pub(super) fn is_contract(&self) -> bool {
        matches!(
            self,
            Self::UnknownType
                | Self::Value(
                    ValueError::NoMapping(..) | ValueError::Undeclared { .. } | ValueError::UnitUnknown { .. }
                )
        )
    }
}

/// Reads `json` as what a column takes.
pub(super) fn bound(json: &str, origin: Origin<'_>, storage: &Storage) -> Result<Bound, Misfit> {
    if json == "null" {
        return Ok(Bound::NULL);
    }
    if storage.family == Family::Unknown {
        return Err(Misfit::UnknownType);
    }
    if let Kind::Time { digits } = storage.kind
        && let Some(source) = units(json, origin, &storage.kind)?
    {
        return time(json, &source, digits);
    }
    Ok(match value::decode(json, origin, &storage.kind)? {
        Value::Null => Bound::NULL,
        Value::Bool(flag) => Bound::Int(i64::from(flag)),
        Value::Int(number) if storage.family == Family::Year && !matches!(number, 0 | 1901..=2155) => {
            return Err(Misfit::ShortYear);
        }
        Value::Int(number) => match i64::try_from(number) {
            Ok(number) => Bound::Int(number),
            Err(_) => Bound::UInt(u64::try_from(number).map_err(|_| ValueError::Range(storage.kind.to_string()))?),
        },
        Value::BigInt(_) => return Err(ValueError::Range(storage.kind.to_string()).into()),
        Value::Float(number) if number.is_nan() => return Err(Misfit::NotFinite("NaN")),
        Value::Float(number) if number.is_infinite() => return Err(Misfit::NotFinite("infinite number")),
        #[expect(clippy::cast_possible_truncation, reason = "decoded as a 32-bit float, so it is one")]
        Value::Float(number) if storage.kind == Kind::Float32 => Bound::Float(number as f32),
        Value::Float(number) => Bound::Double(number),
        Value::Decimal(decimal) => Bound::Bytes(decimal.to_string().into_bytes()),
        Value::Text(text) => {
            if storage.family == Family::Document && !document::is_kept(&text) {
                return Err(Misfit::Document);
            }
            if storage.labels.as_ref().is_some_and(|labels| !labels.take(&text)) {
                return Err(Misfit::Label);
            }
            Bound::Bytes(text.into_owned().into_bytes())
        }
        Value::Bytes(bytes) => Bound::Bytes(bytes),
        Value::Date(days) => moment(i128::from(days) * DAY_NS)?,
        Value::Time(ns) => length(ns.into())?,
        Value::Timestamp(ns) => moment(ns)?,
        Value::Uuid(uuid) => Bound::Bytes(uuid.to_string().into_bytes()),
    })
}

const DAY_NS: i128 = 86_400_000_000_000;
const SECOND_NS: i128 = 1_000_000_000;

/// A date, or a date and time: years as MySQL has them. Never finer than a microsecond: no column is.
fn moment(ns: i128) -> Result<Bound, Misfit> {
    let seconds = i64::try_from(ns.div_euclid(SECOND_NS)).map_err(|_| Misfit::Year)?;
    let below = u32::try_from(ns.rem_euclid(SECOND_NS)).map_err(|_| Misfit::Year)?;
    let at = DateTime::from_timestamp(seconds, below).ok_or(Misfit::Year)?.naive_utc();
    let year = u16::try_from(at.year()).ok().filter(|year| *year <= 9999).ok_or(Misfit::Year)?;
    let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    Ok(Bound::Date(
        year,
        small(at.month()),
        small(at.day()),
        small(at.hour()),
        small(at.minute()),
        small(at.second()),
        below / 1000,
    ))
}

/// The unit of a time of day that comes as a number: MySQL's own may be negative, and longer than a day.
fn units(json: &str, origin: Origin<'_>, kind: &Kind) -> Result<Option<SourceType>, Misfit> {
    Ok(match origin {
        Origin::Connect(source @ SourceType::TimeOfDay { .. }) => Some(source.clone()),
        Origin::Schemaless(conventions) if !json.starts_with('"') => Some(value::declared(conventions, kind)?),
        _ => None,
    })
}

fn time(json: &str, source: &SourceType, digits: u8) -> Result<Bound, Misfit> {
    let SourceType::TimeOfDay { digits: unit } = source else { return Err(Misfit::UnknownType) };
    let number = match value::decode(json, Origin::Connect(source), &Kind::Int { bits: 64, signed: true })? {
        Value::Int(number) => number,
        _ => return Err(Misfit::Hours),
    };
    let power = |digits: u8| 10_i128.pow(9_u32.saturating_sub(digits.into()));
    let ns = number * power(*unit);
    if ns % power(digits) != 0 {
        return Err(ValueError::Precision(Kind::Time { digits }.to_string()).into());
    }
    length(ns)
}

/// The longest time that MySQL has.
const LONGEST_NS: i128 = (838 * 3600 + 59 * 60 + 59) * SECOND_NS;

fn length(ns: i128) -> Result<Bound, Misfit> {
    if ns.abs() > LONGEST_NS {
        return Err(Misfit::Hours);
    }
    let (seconds, below) = (ns.unsigned_abs() / SECOND_NS.unsigned_abs(), ns.unsigned_abs() % SECOND_NS.unsigned_abs());
    let part = |number: u128| u8::try_from(number).map_err(|_| Misfit::Hours);
    let wide = |number: u128| u32::try_from(number).map_err(|_| Misfit::Hours);
    Ok(Bound::Time(
        ns < 0,
        wide(seconds / 86_400)?,
        part(seconds / 3600 % 24)?,
        part(seconds / 60 % 60)?,
        part(seconds % 60)?,
        wide(below / 1000)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use settle_core::schema::Conventions;

    fn of(json: &str, source: &SourceType, column_type: &str) -> Result<Bound, Misfit> {
        let data_type = column_type.split(['(', ' ']).next().unwrap_or_default();
        bound(json, Origin::Connect(source), &Storage::of(data_type, column_type))
    }

    #[test]
    fn values_are_bound_as_the_types_of_mysql_hold_them() {
        use SourceType as T;
        for (json, source, column, wanted) in [
            ("true", T::Bool, "tinyint(1)", Bound::Int(1)),
            ("7", T::Int { bits: 16 }, "tinyint(1)", Bound::Int(7)),
            (
                "18446744073709551615",
                T::Decimal { scale: 0, precision: None },
                "bigint(20) unsigned",
                Bound::UInt(u64::MAX),
            ),
            ("0.1", T::Float32, "float", Bound::Float(0.1)),
            ("0.1", T::Float32, "double", Bound::Double(0.1)),
            ("\"AMg=\"", T::Decimal { scale: 2, precision: Some(10) }, "decimal(10,2)", Bound::Bytes(b"2.00".into())),
            ("\"/wA=\"", T::Bytes, "longblob", Bound::Bytes(vec![255, 0])),
            ("\"BQ==\"", T::Bits { length: Some(3) }, "bit(3)", Bound::Int(5)),
            ("-1", T::EpochDays, "date", Bound::Date(1969, 12, 31, 0, 0, 0, 0)),
            ("-719528", T::EpochDays, "date", Bound::Date(0, 1, 1, 0, 0, 0, 0)),
            ("-1", T::Timestamp { digits: 6 }, "datetime(6)", Bound::Date(1969, 12, 31, 23, 59, 59, 999_999)),
            (
                "\"2020-01-01T01:00:00.5+01:00\"",
                T::ZonedTimestamp,
                "timestamp(1)",
                Bound::Date(2020, 1, 1, 0, 0, 0, 500_000),
            ),
            ("-3020399000000", T::TimeOfDay { digits: 6 }, "time(6)", Bound::Time(true, 34, 22, 59, 59, 0)),
            ("1500", T::TimeOfDay { digits: 3 }, "time(1)", Bound::Time(false, 0, 0, 0, 1, 500_000)),
            ("\"{\\\"a\\\":1.5}\"", T::Json, "json", Bound::Bytes(b"{\"a\":1.5}".into())),
        ] {
            assert_eq!(of(json, &source, column), Ok(wanted), "{json} {source} {column}");
        }
    }

    #[test]
    fn what_would_not_be_kept_is_refused() {
        use SourceType as T;
        for (json, source, column) in [
            ("\"NaN\"", T::Float64, "double"),
            ("\"Infinity\"", T::Float64, "float"),
            ("253402300800000", T::Timestamp { digits: 3 }, "datetime(3)"),
            ("-719529", T::EpochDays, "date"),
            ("9223372036854775807", T::Timestamp { digits: 6 }, "datetime(6)"),
            ("1500", T::TimeOfDay { digits: 3 }, "time"),
            ("3020400000", T::TimeOfDay { digits: 3 }, "time(3)"),
            ("1500", T::Timestamp { digits: 3 }, "datetime"),
            ("128", T::Int { bits: 16 }, "tinyint(4)"),
            ("-1", T::Int { bits: 64 }, "bigint(20) unsigned"),
            ("\"{\\\"a\\\":0.12345678901234567890123}\"", T::Json, "json"),
            ("\"x\"", T::Text, "point"),
        ] {
            assert!(of(json, &source, column).is_err(), "{json} {source} {column}");
        }
        let conventions = Conventions::default();
        let storage = Storage::of("time", "time(6)");
        let misfit = bound("7", Origin::Schemaless(&conventions), &storage).unwrap_err();
        assert!(misfit.is_contract(), "{misfit}");
    }
}
