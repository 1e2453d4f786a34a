//! A value of a row, and its literal in each dialect.

use settle_core::value::{date_text, time_text, timestamp_text};

use crate::database::{Engine, quoted};

/// A value. Equal cells are equal rows on both servers: no floats that one of them rounds, no time of the day it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    /// As MySQL's unsigned bigint holds it.
    Unsigned(u64),
    /// A decimal, or any other number, as it is written.
    Number(String),
    Text(String),
    Bytes(Vec<u8>),
    /// Days since 1970.
    Date(i64),
    /// Microseconds of the day.
    Time(i64),
    /// Microseconds since 1970, in UTC where the column has a zone.
    Moment(i64),
}

impl Cell {
    /// A decimal with `scale` digits behind the point.
    pub(crate) fn decimal(units: i64, scale: u32) -> Self {
        let sign = if units < 0 { "-" } else { "" };
        let one = 10_u64.pow(scale);
        let (whole, part) = (units.unsigned_abs() / one, units.unsigned_abs() % one);
        let width = scale as usize;
        Self::Number(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part:0width$}") })
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// As it stands in a statement.
    pub(crate) fn literal(&self, engine: Engine) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Bool(true) => "TRUE".to_owned(),
            Self::Bool(false) => "FALSE".to_owned(),
            Self::Int(number) => number.to_string(),
            Self::Unsigned(number) => number.to_string(),
            Self::Number(number) => number.clone(),
            Self::Text(text) => quoted(text, engine),
            Self::Bytes(bytes) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                match engine {
                    Engine::Postgres => format!("'\\x{hex}'"),
                    Engine::MySql => format!("x'{hex}'"),
                }
            }
            Self::Date(days) => format!("'{}'", date_text(*days)),
            Self::Time(micros) => format!("'{}'", time_text(micros * 1_000, 6)),
            Self::Moment(micros) => format!("'{}'", timestamp_text(i128::from(*micros) * 1_000, 6)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_both_dialects() {
        for (cell, postgres, mysql) in [
            (Cell::Null, "NULL", "NULL"),
            (Cell::decimal(-5, 2), "-0.05", "-0.05"),
            (Cell::decimal(1_234_567, 4), "123.4567", "123.4567"),
            (Cell::decimal(-7, 0), "-7", "-7"),
            (Cell::Unsigned(u64::MAX), "18446744073709551615", "18446744073709551615"),
            (Cell::text(r"O'Hara \ x"), r"'O''Hara \ x'", r"'O''Hara \\ x'"),
            (Cell::Bytes(vec![0, 0xff]), r"'\x00ff'", "x'00ff'"),
            (Cell::Date(19_782), "'2024-02-29'", "'2024-02-29'"),
            (Cell::Time(86_399_999_999), "'23:59:59.999999'", "'23:59:59.999999'"),
            (Cell::Moment(1_709_251_199_000_001), "'2024-02-29 23:59:59.000001'", "'2024-02-29 23:59:59.000001'"),
        ] {
            assert_eq!(cell.literal(Engine::Postgres), postgres);
            assert_eq!(cell.literal(Engine::MySql), mysql);
        }
    }
}
