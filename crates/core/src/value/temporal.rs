//! Dates, times and timestamps: units by schema name or by declaration, never by magnitude.

use super::calendar::DAY_NS;
use super::error::ValueError;
use super::integer;
use super::iso::{Iso, IsoError};
use super::kind::{Kind, Value};
use super::number::Number;
use super::token::Token;
use crate::schema::{Conventions, Origin, SourceType, TimePrecision};

/// A point or a length of time, as the record states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Days(i64),
    TimeOfDayNs(i128),
    InstantNs(i128),
}

/// PostgreSQL's `infinity` and `-infinity`, as the connector sends them.
///
/// As a date they are the days of overflowed nonsense dates: both negative, and the later one is
/// the smaller. As a timestamp they are PostgreSQL's greatest and smallest milliseconds in the
/// unit, or the ends of the 64-bit range.
const INFINITE_DAYS: [(i64, bool); 4] =
    [(-2_147_472_692, true), (-2_147_472_691, false), (i32::MAX as i64, true), (i32::MIN as i64, false)];
const INFINITE_MS: i64 = 9_223_372_036_825_200;
const NEGATIVE_INFINITE_MS: i64 = -9_223_372_036_832_400;

/// Whether the number stands for an infinity: true for the later one.
pub(super) fn infinity(number: i64, source: &SourceType) -> Option<bool> {
    match source {
        SourceType::EpochDays => INFINITE_DAYS.iter().find(|(days, _)| *days == number).map(|(_, later)| *later),
        SourceType::Timestamp { digits } => {
            let unit = 10_i64.pow(u32::from(*digits).saturating_sub(3).min(9));
            match number {
                i64::MAX => Some(true),
                i64::MIN => Some(false),
                _ if Some(number) == INFINITE_MS.checked_mul(unit) => Some(true),
                _ if Some(number) == NEGATIVE_INFINITE_MS.checked_mul(unit) => Some(false),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The number of units behind a temporal number, infinities refused.
pub(super) fn raw_units(token: &Token<'_>, source: &SourceType, kind: &Kind) -> Result<i64, ValueError> {
    let number = units(token, kind)?;
    match infinity(number, source) {
        Some(_) => Err(ValueError::Infinite(name_of(source))),
        None => Ok(number),
    }
}

/// A 64-bit integer.
pub(super) fn units(token: &Token<'_>, kind: &Kind) -> Result<i64, ValueError> {
    let Token::Number(text) = token else {
        return Err(ValueError::form(token.form(), kind.to_string()));
    };
    if let Some(number) = integer::small(text) {
        return Ok(number);
    }
    let number = Number::parse(text).ok_or_else(|| ValueError::form("text that is no number", kind.to_string()))?;
    let number = number.to_i128().ok_or_else(|| ValueError::form("a number that is no integer", kind.to_string()))?;
    i64::try_from(number).map_err(|_| ValueError::range(kind))
}

/// Reads as [`Kind::Date`], [`Kind::Time`] or [`Kind::Timestamp`].
pub(super) fn decode<'a>(token: &Token<'_>, origin: Origin<'_>, kind: &Kind) -> Result<Value<'a>, ValueError> {
    let moment = match (origin, token) {
        (
            Origin::Connect(
                SourceType::ZonedTimestamp | SourceType::ZonedTime | SourceType::IsoText | SourceType::Text,
            )
            | Origin::Schemaless(_),
            Token::Text(text),
        ) => of_text(text, kind)?,
        (Origin::Connect(source), _) if source.is_temporal_number() => {
            of_units(raw_units(token, source, kind)?, source, kind)?
        }
        (Origin::Connect(source), _) if source.is_temporal_text() || *source == SourceType::Text => {
            return Err(ValueError::form(token.form(), kind.to_string()));
        }
        (Origin::Connect(source), _) => return Err(ValueError::no_mapping(source, kind)),
        (Origin::Schemaless(conventions), Token::Number(_)) => {
            let source = declared(conventions, kind)?;
            of_units(raw_units(token, &source, kind)?, &source, kind)?
        }
        (Origin::Schemaless(_), _) => return Err(ValueError::form(token.form(), kind.to_string())),
    };
    fit(moment, kind)
}

fn of_text(text: &str, kind: &Kind) -> Result<Moment, ValueError> {
    if matches!(text, "infinity" | "-infinity") {
        return Err(ValueError::Infinite(name_of_kind(kind)));
    }
    let iso = Iso::parse(text).map_err(|error| match error {
        IsoError::Form => ValueError::form("a string that is no ISO-8601 text", kind.to_string()),
        IsoError::Range => ValueError::range(kind),
    })?;
    if iso.cut {
        return Err(ValueError::precision(kind));
    }
    match (iso.days, iso.time_ns) {
        // A day has no offset of its own; only `Z` says the same as nothing.
        (Some(days), None) if iso.offset_s.unwrap_or(0) == 0 => Ok(Moment::Days(days)),
        (None, Some(time)) => {
            let time = i128::from(time) - i128::from(iso.offset_s.unwrap_or(0)) * 1_000_000_000;
            Ok(Moment::TimeOfDayNs(if iso.offset_s.is_some() { time.rem_euclid(DAY_NS) } else { time }))
        }
        _ => iso.instant_ns().map(Moment::InstantNs).ok_or_else(|| ValueError::range(kind)),
    }
}

fn of_units(number: i64, source: &SourceType, kind: &Kind) -> Result<Moment, ValueError> {
    let ns = |digits: u8| i128::from(number) * 10_i128.pow(9_u32.saturating_sub(digits.into()));
    match source {
        // Connect dates are 32 bits wide.
        SourceType::EpochDays if i32::try_from(number).is_ok() => Ok(Moment::Days(number)),
        SourceType::EpochDays => Err(ValueError::range(kind)),
        SourceType::TimeOfDay { digits } => Ok(Moment::TimeOfDayNs(ns(*digits))),
        SourceType::Timestamp { digits } => Ok(Moment::InstantNs(ns(*digits))),
        _ => Err(ValueError::no_mapping(source, kind)),
    }
}

/// What an integer in a column of dates, times or timestamps is without a schema, as declared.
pub fn declared(conventions: &Conventions, kind: &Kind) -> Result<SourceType, ValueError> {
    const CURE: &str = "under adaptive precision an integer is milliseconds or microseconds by the source column's \
        precision; enable schemas in the converter, or set `time.precision.mode` to `connect` or `microseconds` in the connector";
    let mode = conventions.time_precision.ok_or(ValueError::Undeclared {
        what: match kind {
            Kind::Date => "an integer in a column of dates",
            Kind::Time { .. } => "an integer in a column of times",
            _ => "an integer in a column of timestamps",
        },
        setting: "time_precision_mode",
    })?;
    use TimePrecision as P;
    match (kind, mode) {
        (_, P::IsoString) => Err(ValueError::form("a number", format!("ISO-8601 text for {kind}"))),
        (Kind::Date, _) => Ok(SourceType::EpochDays),
        (Kind::Time { .. }, P::Connect) => Ok(SourceType::TimeOfDay { digits: 3 }),
        (Kind::Time { .. }, P::AdaptiveTimeMicroseconds | P::Microseconds) => Ok(SourceType::TimeOfDay { digits: 6 }),
        (Kind::Time { .. }, P::Nanoseconds) => Ok(SourceType::TimeOfDay { digits: 9 }),
        (_, P::Adaptive) => Err(ValueError::UnitUnknown { what: "an integer time without a schema", cure: CURE }),
        (_, P::Connect) => Ok(SourceType::Timestamp { digits: 3 }),
        (_, P::Microseconds) => Ok(SourceType::Timestamp { digits: 6 }),
        (_, P::Nanoseconds) => Ok(SourceType::Timestamp { digits: 9 }),
        (_, P::AdaptiveTimeMicroseconds) => {
            Err(ValueError::UnitUnknown { what: "an integer timestamp without a schema", cure: CURE })
        }
    }
}

fn fit<'a>(moment: Moment, kind: &Kind) -> Result<Value<'a>, ValueError> {
    let range = || ValueError::range(kind);
    match (kind, moment) {
        (Kind::Date, Moment::Days(days)) => Ok(Value::Date(days)),
        (Kind::Date, Moment::InstantNs(ns)) if ns.rem_euclid(DAY_NS) == 0 => {
            Ok(Value::Date(i64::try_from(ns.div_euclid(DAY_NS)).map_err(|_| range())?))
        }
        (Kind::Date, Moment::InstantNs(_)) => Err(ValueError::precision(kind)),
        (Kind::Time { digits }, Moment::TimeOfDayNs(ns)) => {
            if !(0..DAY_NS).contains(&ns) {
                return Err(range());
            }
            exact(ns, *digits, kind)?;
            Ok(Value::Time(i64::try_from(ns).map_err(|_| range())?))
        }
        (Kind::Timestamp { .. }, Moment::Days(days)) => Ok(Value::Timestamp(i128::from(days) * DAY_NS)),
        (Kind::Timestamp { digits }, Moment::InstantNs(ns)) => {
            exact(ns, *digits, kind)?;
            Ok(Value::Timestamp(ns))
        }
        (_, Moment::Days(_)) => Err(ValueError::form("a date", kind.to_string())),
        (_, Moment::TimeOfDayNs(_)) => Err(ValueError::form("a time of day", kind.to_string())),
        (_, Moment::InstantNs(_)) => Err(ValueError::form("a timestamp", kind.to_string())),
    }
}

fn exact(ns: i128, digits: u8, kind: &Kind) -> Result<(), ValueError> {
    let unit = 10_i128.pow(9_u32.saturating_sub(digits.into()));
    if ns % unit == 0 { Ok(()) } else { Err(ValueError::precision(kind)) }
}

fn name_of(source: &SourceType) -> &'static str {
    if *source == SourceType::EpochDays { "date" } else { "timestamp" }
}

fn name_of_kind(kind: &Kind) -> &'static str {
    if *kind == Kind::Date { "date" } else { "timestamp" }
}
