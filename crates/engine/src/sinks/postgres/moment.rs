//! Dates, times and timestamps in PostgreSQL's binary form: days and microseconds since 2000.
//!
//! The infinities are values of PostgreSQL's own, and so is 24:00:00.

use bytes::BufMut;
use settle_core::schema::{Origin, SourceType};
use settle_core::value::{self, Kind, Value, ValueError};

use super::column::Wire;
use super::encode::Misfit;

/// 2000-01-01 in days since 1970.
const DAYS_TO_2000: i64 = 10_957;
const DAY_US: i64 = 86_400_000_000;
const DAY_NS: i128 = 86_400_000_000_000;

/// Writes a value that is not null.
pub(super) fn put(out: &mut Vec<u8>, json: &str, origin: Origin<'_>, wire: &Wire) -> Result<(), Misfit> {
    let kind = wire.kind();
    let range = || Misfit::Value(ValueError::Range(kind.to_string()));
    match value::decode(json, origin, &kind) {
        Ok(Value::Date(days)) => {
            let days = i32::try_from(days - DAYS_TO_2000).ok().filter(|days| *days != i32::MIN && *days != i32::MAX);
            out.put_i32(days.ok_or_else(range)?);
        }
        Ok(Value::Time(ns)) => time(out, ns / 1000, wire),
        Ok(Value::Timestamp(ns)) => {
            let us = (ns - i128::from(DAYS_TO_2000) * DAY_NS) / 1000;
            let us = i64::try_from(us).ok().filter(|us| *us != i64::MIN && *us != i64::MAX);
            out.put_i64(us.ok_or_else(range)?);
        }
        Ok(_) => return Err(ValueError::NoMapping("the value".into(), kind.to_string()).into()),
        Err(ValueError::Infinite(_)) => {
            let later = !text_of(json, origin, &kind)?.starts_with('-');
            match wire {
                Wire::Date => out.put_i32(if later { i32::MAX } else { i32::MIN }),
                _ => out.put_i64(if later { i64::MAX } else { i64::MIN }),
            }
        }
        Err(ValueError::Range(_)) if is_midnight_after(json, origin, wire) => time(out, DAY_US, wire),
        Err(ValueError::Range(_)) if matches!(wire, Wire::Time(_)) => {
            let kind = format!("{kind}; if these are lengths of time, make the column interval");
            return Err(ValueError::Range(kind).into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// With the zone of UTC, in which times with a zone are sent, where the column keeps one.
fn time(out: &mut Vec<u8>, us: i64, wire: &Wire) {
    out.put_i64(us);
    if let Wire::TimeTz(_) = wire {
        out.put_i32(0);
    }
}

/// 24:00:00, which only PostgreSQL takes for a time of day.
fn is_midnight_after(json: &str, origin: Origin<'_>, wire: &Wire) -> bool {
    let Wire::Time(_) = wire else { return false };
    let text = text_of(json, origin, &wire.kind());
    text.is_ok_and(|text| {
        text.strip_prefix("24:00:00").is_some_and(|rest| rest.bytes().all(|b| matches!(b, b'.' | b'0')))
    })
}

/// The text form; of a number without a schema by what was declared.
fn text_of(json: &str, origin: Origin<'_>, kind: &Kind) -> Result<String, Misfit> {
    let declared: SourceType;
    let origin = match origin {
        Origin::Schemaless(conventions) if !json.starts_with('"') => {
            declared = value::declared(conventions, kind)?;
            Origin::Connect(&declared)
        }
        known => known,
    };
    match value::decode(json, origin, &Kind::Text)? {
        Value::Text(text) => Ok(text.into_owned()),
        _ => Err(ValueError::NoMapping("the value".into(), kind.to_string()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settle_core::schema::{Conventions, TimePrecision};

    fn of(json: &str, source: &SourceType, wire: &Wire) -> Result<Vec<u8>, Misfit> {
        let mut out = Vec::new();
        put(&mut out, json, Origin::Connect(source), wire).map(|()| out)
    }

    #[test]
    fn everything_counts_from_2000() {
        assert_eq!(of("10957", &SourceType::EpochDays, &Wire::Date), Ok(vec![0; 4]));
        let micros = SourceType::Timestamp { digits: 6 };
        assert_eq!(of("946684800000001", &micros, &Wire::Timestamp(6)), Ok(1_i64.to_be_bytes().to_vec()));
        let zoned = SourceType::ZonedTimestamp;
        assert_eq!(of("\"1999-12-31T23:00:00-01:00\"", &zoned, &Wire::Timestamp(6)), Ok(vec![0; 8]));
        let time = SourceType::TimeOfDay { digits: 3 };
        assert_eq!(of("1", &time, &Wire::Time(3)), Ok(1000_i64.to_be_bytes().to_vec()));
        let mut with_zone = 1_000_000_i64.to_be_bytes().to_vec();
        with_zone.extend([0; 4]);
        assert_eq!(of("\"00:00:01Z\"", &SourceType::ZonedTime, &Wire::TimeTz(6)), Ok(with_zone));
    }

    #[test]
    fn the_infinities_and_the_end_of_the_day_stay_what_they_are() {
        assert_eq!(of("-2147472692", &SourceType::EpochDays, &Wire::Date), Ok(i32::MAX.to_be_bytes().to_vec()));
        assert_eq!(of("-2147472691", &SourceType::EpochDays, &Wire::Date), Ok(i32::MIN.to_be_bytes().to_vec()));
        let zoned = SourceType::ZonedTimestamp;
        assert_eq!(of("\"-infinity\"", &zoned, &Wire::Timestamp(6)), Ok(i64::MIN.to_be_bytes().to_vec()));
        let micros = SourceType::Timestamp { digits: 6 };
        assert_eq!(of("9223372036825200000", &micros, &Wire::Timestamp(6)), Ok(i64::MAX.to_be_bytes().to_vec()));
        let day = SourceType::TimeOfDay { digits: 6 };
        assert_eq!(of("86400000000", &day, &Wire::Time(6)), Ok(DAY_US.to_be_bytes().to_vec()));
        let mut out = Vec::new();
        let declared = Conventions { time_precision: Some(TimePrecision::Microseconds), ..Conventions::default() };
        put(&mut out, "9223372036825200000", Origin::Schemaless(&declared), &Wire::Timestamp(6)).unwrap();
        assert_eq!(out, i64::MAX.to_be_bytes());
    }

    #[test]
    fn digits_are_not_cut_and_lengths_are_no_times_of_day() {
        let micros = SourceType::Timestamp { digits: 6 };
        assert!(matches!(of("1", &micros, &Wire::Timestamp(3)), Err(Misfit::Value(ValueError::Precision(_)))));
        let day = SourceType::TimeOfDay { digits: 6 };
        let error = of("-1", &day, &Wire::Time(6)).unwrap_err().to_string();
        assert!(error.ends_with("make the column interval"), "{error}");
    }
}
