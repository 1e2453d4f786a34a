//! Dates, times and timestamps as ISO text, with all the digits that they come with.
//!
//! A type's digits bind SQLite to nothing, so none are cut: a time of MySQL keeps its sign and its
//! days, and the infinities of PostgreSQL stay what they are. What has a zone is told in UTC,
//! without a mark. The texts of one column sort as what they mean, from year 0 to 9999.

use std::borrow::Cow;

use settle_core::schema::{Origin, SourceType};
use settle_core::value::{self, Kind, Value, ValueError, date_text, time_text, timestamp_text};

/// The text of a value that is not null, in a column of this kind.
pub(super) fn text<'a>(json: &'a str, origin: Origin<'_>, kind: &Kind) -> Result<Cow<'a, str>, ValueError> {
    if matches!(json, "\"infinity\"" | "\"-infinity\"") {
        return Ok(json.trim_matches('"').into());
    }
    match origin {
        Origin::Connect(source) if is_same(kind, source) => of_source(json, source),
        Origin::Schemaless(conventions) if !json.starts_with('"') => {
            let source = value::declared(conventions, kind)?;
            if is_same(kind, &source) { of_source(json, &source) } else { of_kind(json, origin, kind) }
        }
        _ => of_kind(json, origin, kind),
    }
}

/// Whether numbers of the source mean what the column means.
fn is_same(kind: &Kind, source: &SourceType) -> bool {
    matches!(
        (kind, source),
        (Kind::Date, SourceType::EpochDays)
            | (Kind::Time { .. }, SourceType::TimeOfDay { .. })
            | (Kind::Timestamp { .. }, SourceType::Timestamp { .. })
    )
}

fn of_source<'a>(json: &'a str, source: &SourceType) -> Result<Cow<'a, str>, ValueError> {
    match value::decode(json, Origin::Connect(source), &Kind::Text)? {
        Value::Text(text) => Ok(text),
        _ => Err(ValueError::NoMapping(source.to_string(), Kind::Text.to_string())),
    }
}

/// Reads it as the kind, with as many digits as it needs: mostly those of the type.
fn of_kind<'a>(json: &'a str, origin: Origin<'_>, kind: &Kind) -> Result<Cow<'a, str>, ValueError> {
    let own = match kind {
        Kind::Time { digits } | Kind::Timestamp { digits } => *digits,
        _ => 9,
    };
    for digits in [own, 6, 9] {
        let kind = match kind {
            Kind::Time { .. } => Kind::Time { digits },
            Kind::Timestamp { .. } => Kind::Timestamp { digits },
            other => other.clone(),
        };
        return match value::decode(json, origin, &kind) {
            Err(ValueError::Precision(_)) if digits < 9 => continue,
            Ok(Value::Date(days)) => Ok(date_text(days).into()),
            Ok(Value::Time(ns)) => Ok(time_text(ns, digits).into()),
            Ok(Value::Timestamp(ns)) => Ok(timestamp_text(ns, digits).into()),
            Ok(_) => Err(ValueError::NoMapping("the value".into(), kind.to_string())),
            Err(error) => Err(error),
        };
    }
    Err(ValueError::Precision(kind.to_string()))
}
