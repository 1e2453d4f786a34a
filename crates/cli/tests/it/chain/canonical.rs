//! One spelling for one value: what source and destinations print of it differs, what it is must not.

use settle::compare::plain;

/// What a column of the source holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Integer,
    Decimal,
    Float,
    /// `float` of MySQL and MariaDB: they print six digits of it, also to a connector that takes a full snapshot, while the
    /// stream carries all.
    SixDigits,
    Boolean,
    Bytes,
    Date,
    Time,
    Moment,
}

impl Kind {
    /// From the word of `information_schema`. Panics on one that nobody thought of.
    pub fn of(data_type: &str) -> Self {
        match data_type {
            "text" | "character varying" | "character" | "uuid" | "jsonb" | "varchar" | "char" | "longtext"
            | "enum" => Self::Text,
            "smallint" | "integer" | "int" | "bigint" | "tinyint" => Self::Integer,
            "numeric" | "decimal" => Self::Decimal,
            "double precision" | "real" | "double" => Self::Float,
            "float" => Self::SixDigits,
            "boolean" => Self::Boolean,
            "bytea" | "varbinary" => Self::Bytes,
            "date" => Self::Date,
            "time" | "time without time zone" => Self::Time,
            "timestamp" | "datetime" | "timestamp without time zone" | "timestamp with time zone" => Self::Moment,
            other => panic!("a column of type {other}: say how it is compared"),
        }
    }

    /// The one spelling of a value. Bytes are given in hexadecimal.
    pub fn canonical(self, text: &str) -> String {
        match self {
            Self::Text | Self::Date => text.to_owned(),
            Self::Bytes => text.to_ascii_uppercase(),
            Self::Decimal => number(text),
            // As short as the width of the column allows, and read back by everybody alike.
            Self::Float => text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| number.to_string()),
            Self::SixDigits => text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| format!("{number:.5e}")),
            // A number of one digit may be a truth.
            Self::Integer | Self::Boolean | Self::Moment => plain(text),
            Self::Time => match text.split_once('.') {
                Some((seconds, fraction)) => {
                    format!("{seconds}.{fraction}").trim_end_matches('0').trim_end_matches('.').to_owned()
                }
                None => text.to_owned(),
            },
        }
    }
}

/// A number as a fraction and a power of ten, so that zeros at its ends do not count; other text as it is.
fn number(text: &str) -> String {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let Ok(exponent) = exponent.parse::<i64>() else { return text.to_owned() };
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.to_owned();
    }
    let kept = all.trim_start_matches('0');
    let point = i64::try_from(whole.len()).unwrap() - i64::try_from(all.len() - kept.len()).unwrap() + exponent;
    match kept.trim_end_matches('0') {
        "" => "0".to_owned(),
        kept => format!("{sign}0.{kept}e{point}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_one_spelling() {
        let same = [
            (Kind::Decimal, "12.50", "12.5"),
            (Kind::Decimal, "0E-10", "0.0000000000"),
            (Kind::Decimal, "-1E-10", "-0.0000000001"),
            (Kind::Decimal, "-0.00", "0"),
            (Kind::Decimal, "1E+2", "100"),
            (Kind::Integer, "1", "true"),
            (Kind::Float, "1e+4", "10000.0"),
            (Kind::SixDigits, "-6755.62", "-6755.625"),
            (Kind::Boolean, "t", "true"),
            (Kind::Time, "10:00:00.250000", "10:00:00.25"),
            (Kind::Time, "10:00:00.000000", "10:00:00"),
            (Kind::Moment, "2024-01-01 00:00:01.5+00", "2024-01-01T00:00:01.500000Z"),
            (Kind::Bytes, "00ff", "00FF"),
        ];
        for (kind, one, other) in same {
            assert_eq!(kind.canonical(one), kind.canonical(other), "{kind:?}: {one} and {other}");
        }
    }

    #[test]
    fn two_values_have_two_spellings() {
        let others = [
            (Kind::Decimal, "12.5", "-12.5"),
            (Kind::Decimal, "12.5", "125"),
            (Kind::Decimal, "0.05", "0.5"),
            (Kind::Integer, "10", "1"),
            (Kind::Integer, "100", "1"),
            (Kind::Integer, "9223372036854775807", "9223372036854775806"),
            (Kind::Float, "0.125", "0.25"),
            (Kind::SixDigits, "-6755.62", "-6755.63"),
            (Kind::Time, "10:00:00", "10:00:01"),
            (Kind::Time, "10:00:00", "10:00"),
            (Kind::Moment, "2024-01-01 00:00:01", "2024-01-01 00:00:01.000001"),
            (Kind::Text, "a ", "a"),
            (Kind::Boolean, "t", "f"),
        ];
        for (kind, one, other) in others {
            assert_ne!(kind.canonical(one), kind.canonical(other), "{kind:?}: {one} and {other}");
        }
    }
}
