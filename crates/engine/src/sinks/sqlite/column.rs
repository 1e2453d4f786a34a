//! Types of columns: what SQLite makes of a declared word, what is written into such a column, and
//! which word a new column gets.
//!
//! SQLite stores by affinity, not by type. The words DATE, TIME, TIMESTAMP, BOOLEAN, DECIMAL are
//! ours to read; the text that is stored under them survives their NUMERIC affinity because it
//! reads as no number. A decimal does read as one, so new columns for decimals are TEXT.
//!
//! An unsigned 64-bit integer above 2^63 - 1 fits no INTEGER of SQLite: its row is refused. Such a
//! column must be TEXT, which is what a new one for a `precise` unsigned bigint is.

use settle_core::schema::{Inferred, SourceType};
use settle_core::value::Kind;

/// How SQLite converts what is stored in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Affinity {
    Integer,
    Text,
    /// No conversion.
    Blob,
    Real,
    Numeric,
}

impl Affinity {
    /// By the rules of SQLite, in their order.
    fn of(declared: &str, strict: bool) -> Self {
        let upper = declared.to_ascii_uppercase();
        let has = |part: &str| upper.contains(part);
        match () {
            () if strict && upper == "ANY" => Self::Blob,
            () if has("INT") => Self::Integer,
            () if has("CHAR") || has("CLOB") || has("TEXT") => Self::Text,
            () if has("BLOB") || upper.trim().is_empty() => Self::Blob,
            () if has("REAL") || has("FLOA") || has("DOUB") => Self::Real,
            () => Self::Numeric,
        }
    }

    /// True where text that reads as a number is stored as a number.
    pub(super) fn is_numeric(self) -> bool {
        matches!(self, Self::Integer | Self::Real | Self::Numeric)
    }
}

/// What a column takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Storage {
    pub(super) affinity: Affinity,
    /// What its values are read as.
    pub(super) kind: Kind,
    /// A number of any precision: decimals of up to 15 digits, and integers, stay exact under
    /// NUMERIC affinity.
    pub(super) number: bool,
}

impl Storage {
    /// What a column of this declared type takes. `meant` is the type that a rule declares for it.
    pub(super) fn of(declared: &str, strict: bool, meant: Option<&str>) -> Self {
        let affinity = Affinity::of(declared, strict);
        let word = Word::of(meant.unwrap_or(declared));
        let digits = || word.first.and_then(|n| u8::try_from(n).ok()).unwrap_or(6).min(9);
        let mut number = false;
        let kind = match word.base.as_str() {
            "BOOL" | "BOOLEAN" => Kind::Bool,
            "DATE" => Kind::Date,
            "TIME" | "TIME WITHOUT TIME ZONE" => Kind::Time { digits: digits() },
            "DATETIME" | "TIMESTAMP" | "TIMESTAMPTZ" | "TIMESTAMP WITH TIME ZONE" | "TIMESTAMP WITHOUT TIME ZONE" => {
                Kind::Timestamp { digits: digits() }
            }
            "UUID" => Kind::Uuid,
            "DECIMAL" | "NUMERIC" | "DEC" | "NUMBER" => {
                number = true;
                match word.first {
                    Some(precision) => {
                        Kind::Decimal { precision, scale: word.second.and_then(|n| i32::try_from(n).ok()).unwrap_or(0) }
                    }
                    None => Kind::Text,
                }
            }
            "BINARY" | "VARBINARY" | "BYTEA" => Kind::Bytes,
            _ => match meant.map_or(affinity, |meant| Affinity::of(meant, strict)) {
                Affinity::Integer => Kind::Int { bits: 64, signed: true },
                Affinity::Real => Kind::Float64,
                Affinity::Blob if word.base == "ANY" || word.base.is_empty() => Kind::Any,
                Affinity::Blob => Kind::Bytes,
                Affinity::Text | Affinity::Numeric => Kind::Text,
            },
        };
        Self { affinity, kind, number }
    }
}

/// A type's words in capitals, and its numbers.
struct Word {
    base: String,
    first: Option<u32>,
    second: Option<u32>,
}

impl Word {
    fn of(declared: &str) -> Self {
        let (head, rest) = declared.split_once('(').unwrap_or((declared, ""));
        let (numbers, tail) = rest.split_once(')').unwrap_or(("", ""));
        let words: Vec<String> =
            head.split_whitespace().chain(tail.split_whitespace()).map(str::to_ascii_uppercase).collect();
        let mut numbers = numbers.split(',').map(|n| n.trim().parse().ok());
        Self { base: words.join(" "), first: numbers.next().flatten(), second: numbers.next().flatten() }
    }
}

/// The type of a new column, in words that are read back as what they were made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewType(String);

impl NewType {
    /// For a field of a Connect schema.
    pub(super) fn of_source(source: &SourceType) -> Self {
        Self(match source {
            SourceType::Bool => "BOOLEAN".into(),
            SourceType::Int { .. } | SourceType::Year | SourceType::MicroDuration | SourceType::NanoDuration => {
                "INTEGER".into()
            }
            SourceType::Float32 | SourceType::Float64 => "REAL".into(),
            SourceType::Bytes => "BLOB".into(),
            SourceType::EpochDays => "DATE".into(),
            SourceType::TimeOfDay { digits } => format!("TIME({digits})"),
            SourceType::Timestamp { digits } => format!("TIMESTAMP({digits})"),
            SourceType::ZonedTimestamp => "TIMESTAMP(6)".into(),
            // Decimals too: every other affinity makes floats of them. Bits are their digits.
            _ => "TEXT".into(),
        })
    }

    /// For a column of which only values were seen.
    pub(super) fn of_values(inferred: Option<Inferred>) -> Self {
        Self(
            match inferred {
                Some(Inferred::Bool) => "BOOLEAN",
                Some(Inferred::Int64) => "INTEGER",
                Some(Inferred::Float64) => "REAL",
                Some(Inferred::Text | Inferred::Json) => "TEXT",
                None => "",
            }
            .into(),
        )
    }

    /// As a rule declares it. Decimals become TEXT, which keeps their digits; the rule's word goes
    /// on saying what they are. None where it is no type.
    pub(super) fn declared(text: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '(' | ')' | ',');
        if !text.chars().all(allowed) {
            return None;
        }
        Some(Self(match Word::of(text).base.as_str() {
            "DECIMAL" | "NUMERIC" | "DEC" | "NUMBER" => "TEXT".into(),
            _ => text.trim().to_owned(),
        }))
    }

    /// True where a STRICT table may have it.
    pub(super) fn is_strict(&self) -> bool {
        matches!(self.0.to_ascii_uppercase().as_str(), "" | "INT" | "INTEGER" | "REAL" | "TEXT" | "BLOB" | "ANY")
    }

    /// As SQL. A STRICT table knows six types: the nearest of them that stores the same.
    pub(super) fn sql(&self, strict: bool) -> &str {
        match self.0.as_str() {
            "" if strict => "ANY",
            word if !strict || self.is_strict() => word,
            "BOOLEAN" => "INTEGER",
            _ => "TEXT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(declared: &str) -> (Affinity, Kind) {
        let storage = Storage::of(declared, false, None);
        (storage.affinity, storage.kind)
    }

    #[test]
    fn declared_words_are_read_as_sqlite_and_as_people_read_them() {
        let int = Kind::Int { bits: 64, signed: true };
        for (declared, affinity, wanted) in [
            ("INTEGER", Affinity::Integer, int.clone()),
            ("bigint unsigned", Affinity::Integer, int.clone()),
            ("VARCHAR(20)", Affinity::Text, Kind::Text),
            ("", Affinity::Blob, Kind::Any),
            ("BLOB", Affinity::Blob, Kind::Bytes),
            ("double precision", Affinity::Real, Kind::Float64),
            ("BOOLEAN", Affinity::Numeric, Kind::Bool),
            ("timestamp(3) with time zone", Affinity::Numeric, Kind::Timestamp { digits: 3 }),
            ("TIMESTAMP", Affinity::Numeric, Kind::Timestamp { digits: 6 }),
            ("TIME(0)", Affinity::Numeric, Kind::Time { digits: 0 }),
            ("DECIMAL(10,2)", Affinity::Numeric, Kind::Decimal { precision: 10, scale: 2 }),
            ("NUMERIC", Affinity::Numeric, Kind::Text),
            ("INET", Affinity::Numeric, Kind::Text),
        ] {
            assert_eq!(kind(declared), (affinity, wanted), "{declared}");
        }
    }

    #[test]
    fn a_rule_says_what_a_text_column_holds() {
        let storage = Storage::of("TEXT", true, Some("NUMERIC(12,2)"));
        assert_eq!(storage.affinity, Affinity::Text);
        assert_eq!(storage.kind, Kind::Decimal { precision: 12, scale: 2 });
        assert_eq!(Storage::of("TEXT", false, Some("BLOB")).kind, Kind::Bytes);
    }

    #[test]
    fn any_of_a_strict_table_keeps_what_comes_and_of_another_does_not() {
        assert_eq!(Storage::of("ANY", true, None).affinity, Affinity::Blob);
        assert_eq!(Storage::of("ANY", true, None).kind, Kind::Any);
        assert_eq!(Storage::of("ANY", false, None).affinity, Affinity::Numeric);
    }

    #[test]
    fn new_types_are_read_back_as_what_they_were_made_for() {
        let read = |source| Storage::of(NewType::of_source(&source).sql(false), false, None).kind;
        assert_eq!(read(SourceType::Bool), Kind::Bool);
        assert_eq!(read(SourceType::TimeOfDay { digits: 3 }), Kind::Time { digits: 3 });
        assert_eq!(read(SourceType::Timestamp { digits: 9 }), Kind::Timestamp { digits: 9 });
        assert_eq!(read(SourceType::EpochDays), Kind::Date);
        assert_eq!(read(SourceType::Bytes), Kind::Bytes);
        assert_eq!(read(SourceType::Decimal { scale: 2, precision: None }), Kind::Text);
    }

    #[test]
    fn declared_text_that_is_no_type_is_refused() {
        assert_eq!(NewType::declared("TEXT); DROP TABLE x; --"), None);
        assert_eq!(NewType::declared("DECIMAL(10, 2)").map(|t| t.sql(true).to_owned()).as_deref(), Some("TEXT"));
        assert_eq!(NewType::declared("TIMESTAMP").map(|t| t.sql(true).to_owned()).as_deref(), Some("TEXT"));
    }
}
