//! Types of columns: what a declared type takes, and which type a new column gets.
//!
//! New columns keep every value of their source exactly, so text of unknown length is LONGTEXT, a
//! 32-bit float is DOUBLE (MySQL shows six digits of a FLOAT), JSON is LONGTEXT (MySQL's JSON makes
//! floats of decimals), and an instant is a DATETIME in UTC (TIMESTAMP ends in 2038). A key must be
//! indexed, and an index has 3,072 bytes: there text and bytes get as many as fit, and a longer key is
//! refused with its row.

use settle_core::schema::{Inferred, SourceType};
use settle_core::value::Kind;

use super::labels::Labels;

/// What a column takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Storage {
    /// What its values are read as.
    pub(super) kind: Kind,
    /// The family of types that it is of.
    pub(super) family: Family,
    /// Those of an ENUM or SET.
    pub(super) labels: Option<Labels>,
}

/// Types that are bound and compared alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Integer,
    /// YEAR, which takes 70 for 1970.
    Year,
    /// Digits in a decimal.
    Decimal,
    Float,
    /// Compared by a collation, padded by none.
    Text,
    /// CHAR: spaces at the end are not kept.
    PaddedText,
    /// One of the labels of an ENUM or SET.
    Label,
    Bytes,
    /// BINARY: zero bytes are added at the end.
    PaddedBytes,
    Date,
    Time,
    DateTime,
    Bits,
    /// MySQL's JSON: a document, not its text.
    Document,
    /// Another type that is written and read as text, as UUID of MariaDB.
    OtherText,
    /// None that can be written: shapes and the like.
    Unknown,
}

impl Storage {
    /// What a column of these types takes: `data_type` and `column_type` of `information_schema`.
    pub(super) fn of(data_type: &str, column_type: &str) -> Self {
        let word = Word::of(column_type);
        let digits = || word.first.and_then(|n| u8::try_from(n).ok()).unwrap_or(0);
        let signed = !column_type.to_ascii_lowercase().contains("unsigned");
        let integer = |bits| (Kind::Int { bits, signed }, Family::Integer);
        let (kind, family) = match data_type.to_ascii_lowercase().as_str() {
            "tinyint" => integer(8),
            "smallint" => integer(16),
            "mediumint" => integer(24),
            "int" => integer(32),
            "bigint" => integer(64),
            "year" => (Kind::Int { bits: 16, signed: true }, Family::Year),
            "decimal" => {
                let precision = word.first.unwrap_or(10);
                let scale = word.second.and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
                (Kind::Decimal { precision, scale }, Family::Decimal)
            }
            "float" => (Kind::Float32, Family::Float),
            "double" => (Kind::Float64, Family::Float),
            "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => (Kind::Text, Family::Text),
            "char" => (Kind::Text, Family::PaddedText),
            "enum" | "set" => (Kind::Text, Family::Label),
            "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => (Kind::Bytes, Family::Bytes),
            "binary" => (Kind::Bytes, Family::PaddedBytes),
            "date" => (Kind::Date, Family::Date),
            "time" => (Kind::Time { digits: digits() }, Family::Time),
            "datetime" | "timestamp" => (Kind::Timestamp { digits: digits() }, Family::DateTime),
            "bit" => {
                let bits = word.first.and_then(|n| u16::try_from(n).ok()).unwrap_or(1);
                (Kind::Int { bits, signed: false }, Family::Bits)
            }
            "json" => (Kind::Text, Family::Document),
            "uuid" => (Kind::Uuid, Family::OtherText),
            "inet4" | "inet6" => (Kind::Text, Family::OtherText),
            _ => (Kind::Text, Family::Unknown),
        };
        let labels = (family == Family::Label).then(|| Labels::of(column_type));
        Self { kind, family, labels }
    }

    /// True where it takes the same kind of values. Which labels an ENUM has is its own.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.kind == other.kind && self.family == other.family
    }

    /// True where a value of a key reads back as it was bound: then rows are looked up many at once.
    pub(super) fn reads_back(&self) -> bool {
        match self.family {
            Family::Integer
            | Family::Year
            | Family::Decimal
            | Family::Text
            | Family::Bytes
            | Family::Date
            | Family::Time
            | Family::DateTime => true,
            Family::Float
            | Family::PaddedText
            | Family::Label
            | Family::PaddedBytes
            | Family::Bits
            | Family::Document
            | Family::OtherText
            | Family::Unknown => false,
        }
    }
}

/// A type's first word, and its numbers.
struct Word {
    base: String,
    first: Option<u32>,
    second: Option<u32>,
}

impl Word {
    fn of(declared: &str) -> Self {
        let (head, rest) = declared.split_once('(').unwrap_or((declared, ""));
        let numbers = rest.split_once(')').map_or("", |(numbers, _)| numbers);
        let mut numbers = numbers.split(',').map(|n| n.trim().parse().ok());
        let base = head.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        Self { base, first: numbers.next().flatten(), second: numbers.next().flatten() }
    }
}

/// The type of a new column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NewType {
    /// Text of any length.
    Text,
    /// Bytes of any length.
    Bytes,
    /// Of the server's own words.
    Of(String),
}

/// Bytes of a key in an index of InnoDB.
const INDEX_BYTES: usize = 3072;
/// Bytes of a character in utf8mb4.
const CHARACTER_BYTES: usize = 4;
/// What other columns of a key are allowed for: the longest, a DECIMAL(65), has 30 bytes.
const FIXED_BYTES: usize = 32;

/// How long the texts and bytes of a key may be, so that all of it can be indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRoom {
    bytes: usize,
}

impl KeyRoom {
    /// For a key of so many columns of any length, and so many others.
    pub(super) fn of(open: usize, fixed: usize) -> Self {
        Self { bytes: INDEX_BYTES.saturating_sub(fixed * FIXED_BYTES) / open.max(1) }
    }
}

impl NewType {
    /// For a field of a Connect schema.
    pub(super) fn of_source(source: &SourceType) -> Self {
        let of = |word: &str| Self::Of(word.to_owned());
        match source {
            SourceType::Bool => of("TINYINT(1)"),
            SourceType::Int { bits: 8 | 16 } => of("SMALLINT"),
            SourceType::Int { bits: 32 } | SourceType::Year => of("INT"),
            SourceType::Int { .. } | SourceType::MicroDuration | SourceType::NanoDuration => of("BIGINT"),
            SourceType::Float32 | SourceType::Float64 => of("DOUBLE"),
            SourceType::Bytes => Self::Bytes,
            SourceType::Decimal { scale, precision } => decimal(*scale, *precision),
            SourceType::EpochDays => of("DATE"),
            // Nothing has more digits than six behind the second; what has is refused with its row.
            SourceType::TimeOfDay { digits } => Self::Of(format!("TIME({})", digits.min(&6))),
            SourceType::Timestamp { digits } => Self::Of(format!("DATETIME({})", digits.min(&6))),
            SourceType::ZonedTimestamp => of("DATETIME(6)"),
            SourceType::Uuid => of("VARCHAR(36)"),
            SourceType::Bits { length: Some(length @ 1..=64) } => Self::Of(format!("BIT({length})")),
            SourceType::Text
            | SourceType::VariableDecimal
            | SourceType::ZonedTime
            | SourceType::IsoText
            | SourceType::Interval
            | SourceType::Json
            | SourceType::Enum { .. }
            | SourceType::Bits { .. }
            | SourceType::NamedText(_)
            | SourceType::Array(_)
            | SourceType::Map
            | SourceType::Other(_) => Self::Text,
        }
    }

    /// For a column of which only values were seen; none where they were all NULL.
    pub(super) fn of_values(inferred: Option<Inferred>) -> Option<Self> {
        Some(match inferred? {
            Inferred::Bool => Self::Of("TINYINT(1)".into()),
            Inferred::Int64 => Self::Of("BIGINT".into()),
            Inferred::Float64 => Self::Of("DOUBLE".into()),
            Inferred::Text | Inferred::Json => Self::Text,
        })
    }

    /// As a rule declares it. None where it is no type.
    pub(super) fn declared(text: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '(' | ')' | ',' | '\'');
        let words = text.trim();
        let quotes = words.matches('\'').count();
        let fits = !words.is_empty() && words.chars().all(allowed) && quotes.is_multiple_of(2);
        fits.then(|| Self::Of(words.to_owned()))
    }

    /// True where its values may have any length.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Text | Self::Bytes)
    }

    /// As SQL, for a column that is part of no key.
    pub(super) fn sql(&self) -> String {
        match self {
            Self::Text => "LONGTEXT".into(),
            Self::Bytes => "LONGBLOB".into(),
            Self::Of(words) => words.clone(),
        }
    }

    /// As SQL, for a column of a key.
    pub(super) fn key_sql(&self, room: KeyRoom) -> String {
        match self {
            Self::Text => format!("VARCHAR({})", room.bytes / CHARACTER_BYTES),
            Self::Bytes => format!("VARBINARY({})", room.bytes),
            Self::Of(words) => words.clone(),
        }
    }

    /// What such a column takes.
    pub(super) fn storage(&self) -> Storage {
        let words = self.sql();
        let base = match Word::of(&words).base.as_str() {
            "INTEGER" => "int".to_owned(),
            "NUMERIC" | "DEC" | "FIXED" => "decimal".into(),
            "REAL" => "double".into(),
            "BOOL" | "BOOLEAN" => "tinyint".into(),
            "CHARACTER" => "char".into(),
            other => other.to_ascii_lowercase(),
        };
        Storage::of(&base, &words)
    }
}

/// DECIMAL has up to 65 digits, 30 of them behind the point.
fn decimal(scale: i32, precision: Option<u32>) -> NewType {
    match (u32::try_from(scale), precision) {
        (Ok(scale @ 0..=30), Some(precision)) if precision <= 65 && scale <= precision => {
            NewType::Of(format!("DECIMAL({precision},{scale})"))
        }
        (Ok(scale @ 0..=30), None) => NewType::Of(format!("DECIMAL(65,{scale})")),
        _ => NewType::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(column_type: &str) -> (Kind, Family) {
        let data_type = column_type.split(['(', ' ']).next().unwrap_or_default();
        let storage = Storage::of(data_type, column_type);
        (storage.kind, storage.family)
    }

    #[test]
    fn types_are_read_as_the_server_means_them() {
        for (column_type, kind, family) in [
            ("bigint(20) unsigned", Kind::Int { bits: 64, signed: false }, Family::Integer),
            ("tinyint(1)", Kind::Int { bits: 8, signed: true }, Family::Integer),
            ("mediumint", Kind::Int { bits: 24, signed: true }, Family::Integer),
            ("decimal(12,3)", Kind::Decimal { precision: 12, scale: 3 }, Family::Decimal),
            ("float", Kind::Float32, Family::Float),
            ("varchar(20)", Kind::Text, Family::Text),
            ("char(20)", Kind::Text, Family::PaddedText),
            ("varbinary(20)", Kind::Bytes, Family::Bytes),
            ("datetime(3)", Kind::Timestamp { digits: 3 }, Family::DateTime),
            ("timestamp", Kind::Timestamp { digits: 0 }, Family::DateTime),
            ("time(6)", Kind::Time { digits: 6 }, Family::Time),
            ("bit(9)", Kind::Int { bits: 9, signed: false }, Family::Bits),
            ("enum('a(1)','b')", Kind::Text, Family::Label),
            ("geometry", Kind::Text, Family::Unknown),
        ] {
            assert_eq!(read(column_type), (kind, family), "{column_type}");
        }
    }

    #[test]
    fn new_types_keep_what_they_are_made_for() {
        let sql = |source| NewType::of_source(&source).sql();
        assert_eq!(sql(SourceType::Decimal { scale: 2, precision: Some(10) }), "DECIMAL(10,2)");
        assert_eq!(sql(SourceType::Decimal { scale: 2, precision: None }), "DECIMAL(65,2)");
        assert_eq!(sql(SourceType::Decimal { scale: 31, precision: Some(40) }), "LONGTEXT");
        assert_eq!(sql(SourceType::Decimal { scale: -2, precision: None }), "LONGTEXT");
        assert_eq!(sql(SourceType::Timestamp { digits: 9 }), "DATETIME(6)");
        assert_eq!(sql(SourceType::Bits { length: Some(65) }), "LONGTEXT");
        assert_eq!(NewType::of_source(&SourceType::Float32).storage().kind, Kind::Float64);
    }

    #[test]
    fn keys_of_any_length_get_what_an_index_has_room_for() {
        assert_eq!(NewType::Text.key_sql(KeyRoom::of(1, 0)), "VARCHAR(768)");
        assert_eq!(NewType::Text.key_sql(KeyRoom::of(2, 1)), "VARCHAR(380)");
        assert_eq!(NewType::Bytes.key_sql(KeyRoom::of(1, 0)), "VARBINARY(3072)");
        assert_eq!(NewType::Of("INT".into()).key_sql(KeyRoom::of(0, 1)), "INT");
    }

    #[test]
    fn declared_text_that_is_no_type_is_refused() {
        for text in ["TEXT; DROP TABLE x", "", "ENUM('a", "INT -- x", "INT /*"] {
            assert_eq!(NewType::declared(text), None, "{text}");
        }
        for (text, kind) in [
            ("ENUM('a','b')", Kind::Text),
            ("NUMERIC(10, 2)", Kind::Decimal { precision: 10, scale: 2 }),
            ("integer unsigned", Kind::Int { bits: 32, signed: false }),
            ("BOOLEAN", Kind::Int { bits: 8, signed: true }),
            ("double precision", Kind::Float64),
        ] {
            assert_eq!(NewType::declared(text).unwrap().storage().kind, kind, "{text}");
        }
    }
}
