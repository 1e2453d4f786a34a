//! In what the three dialects differ: names, placeholders, what becomes of a row that is there
//! already, and how a row is locked.

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The SQL of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    /// MySQL and MariaDB: what one of them lacks is used of neither.
    MySql,
}

/// What a column gets where a row of the same key is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// The new value.
    New,
    /// The least of both.
    Least,
    /// The greatest of both.
    Greatest,
}

/// How long a row is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Others may share it, nobody may own it.
    Shared,
    /// Nobody else.
    Owned,
}

/// What every table of tombstones is called behind its table.
const TOMBSTONES: &str = "__tombstones";

/// Tables of Settle, now or later.
const OWN: [&str; 3] = ["settle_meta", "settle_positions", "settle_held"];

/// Columns that every table of PostgreSQL has of its own.
const POSTGRES_SYSTEM: [&str; 6] = ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"];

impl Dialect {
    /// A name as SQL text, whatever it holds.
    pub(crate) fn quoted(self, name: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("\"{}\"", name.replace('"', "\"\"")),
            Self::MySql => format!("`{}`", name.replace('`', "``")),
        }
    }

    /// Names as SQL text, with commas between.
    pub(crate) fn list<'a>(self, names: impl IntoIterator<Item = &'a str>) -> String {
        names.into_iter().map(|name| self.quoted(name)).collect::<Vec<_>>().join(", ")
    }

    /// The place of the n-th value, from 1. MySQL counts them itself: every place stands in a text
    /// once, in the order of its values.
    pub(crate) fn place(self, n: usize) -> String {
        match self {
            Self::Sqlite => format!("?{n}"),
            Self::Postgres => format!("${n}"),
            Self::MySql => "?".to_owned(),
        }
    }

    /// The places of `n` values from `first` on, with commas between.
    pub(crate) fn places(self, first: usize, n: usize) -> String {
        (first..first + n).map(|n| self.place(n)).collect::<Vec<_>>().join(", ")
    }

    /// Whether two names of columns are one. MySQL folds more than this (`é` is `e`): what it takes
    /// for one beyond that, it says itself when the table is made.
    pub(crate) fn same(self, a: &str, b: &str) -> bool {
        match self {
            Self::Sqlite => a.eq_ignore_ascii_case(b),
            Self::Postgres => a == b,
            Self::MySql => a == b || a.to_lowercase() == b.to_lowercase(),
        }
    }

    /// The name of a table as one thing is always called. Where the server of MySQL folds the names
    /// of tables, the sink has folded it before.
    pub(crate) fn canonical(self, table: &str) -> Cow<'_, str> {
        match self {
            Self::Sqlite => table.to_ascii_lowercase().into(),
            Self::Postgres | Self::MySql => table.into(),
        }
    }

    /// The table that keeps the versions of deleted rows. Where the engine has no room for its name,
    /// a digest stands for the end of the table's: cut names would meet.
    pub(crate) fn tombstones(self, table: &str) -> String {
        let whole = format!("{table}{TOMBSTONES}");
        if self.fits(&whole) {
            return whole;
        }
        let mark = format!("_{}{TOMBSTONES}", &digest(table)[..16]);
        let mut head = table.to_owned();
        while !self.fits(&format!("{head}{mark}")) && head.pop().is_some() {}
        head + &mark
    }

    /// Whether a name is short enough. PostgreSQL would cut it without a word, and counts bytes.
    fn fits(self, name: &str) -> bool {
        match self {
            Self::Sqlite => true,
            Self::Postgres => name.len() <= 63,
            Self::MySql => name.chars().count() <= 64,
        }
    }

    /// Why neither a table nor a column can have this name.
    fn refusal(self, name: &str) -> Option<&'static str> {
        if name.is_empty() || name.contains('\0') {
            return Some("a name must not be empty or hold a NUL character");
        }
        match self {
            Self::Postgres if !self.fits(name) => Some("PostgreSQL cuts names behind 63 bytes"),
            Self::MySql if !self.fits(name) => Some("names have at most 64 characters in MySQL"),
            Self::MySql if name.ends_with(' ') => Some("names must not end with a space in MySQL"),
            Self::MySql if name.chars().any(|c| c > '\u{ffff}') => {
                Some("names must not hold characters above U+FFFF in MySQL")
            }
            Self::Sqlite | Self::Postgres | Self::MySql => None,
        }
    }

    /// Why no table can be written under this name.
    pub(crate) fn table_refusal(self, table: &str) -> Option<&'static str> {
        let lower = table.to_ascii_lowercase();
        if let Some(why) = self.refusal(table) {
            Some(why)
        } else if self == Self::Sqlite && lower.starts_with("sqlite_") {
            Some("names that start with sqlite_ belong to SQLite")
        } else if OWN.contains(&lower.as_str()) {
            Some("Settle keeps its own places under this name")
        } else if lower.ends_with(TOMBSTONES) {
            Some("names that end in __tombstones hold the versions of deleted rows")
        } else {
            None
        }
    }

    /// Why no column can have this name.
    pub(crate) fn column_refusal(self, column: &str) -> Option<&'static str> {
        match self {
            Self::Postgres if POSTGRES_SYSTEM.contains(&column) => {
                Some("every table of PostgreSQL has a column of this name of its own")
            }
            _ => self.refusal(column),
        }
    }

    /// Inserts `rows` rows; where one of the same key is there, `there` says what its columns get:
    /// nothing changes where that is empty. Values come row by row.
    pub(crate) fn insert(
        self,
        table: &str,
        columns: &[&str],
        rows: usize,
        key: &[&str],
        there: &[(&str, Take)],
    ) -> String {
        let width = columns.len();
        let values: Vec<String> = (0..rows).map(|row| format!("({})", self.places(row * width + 1, width))).collect();
        let target = self.quoted(table);
        let mut sql =
            format!("INSERT INTO {target} ({}) VALUES {}", self.list(columns.iter().copied()), values.join(", "));
        let set: Vec<String> = there
            .iter()
            .map(|(column, take)| {
                let name = self.quoted(column);
                let (old, new) = (format!("{target}.{name}"), self.inserted(column));
                let (least, greatest) = match self {
                    Self::Sqlite => ("min", "max"),
                    Self::Postgres | Self::MySql => ("LEAST", "GREATEST"),
                };
                match take {
                    Take::New => format!("{name} = {new}"),
                    Take::Least => format!("{name} = {least}({old}, {new})"),
                    Take::Greatest => format!("{name} = {greatest}({old}, {new})"),
                }
            })
            .collect();
        // Writing to a string cannot fail.
        let _ = match (self, set.is_empty()) {
            (Self::Sqlite | Self::Postgres, true) => write!(sql, " ON CONFLICT DO NOTHING"),
            (Self::Sqlite | Self::Postgres, false) => {
                write!(sql, " ON CONFLICT ({}) DO UPDATE SET {}", self.list(key.iter().copied()), set.join(", "))
            }
            // Not INSERT IGNORE, which also swallows what does not fit.
            (Self::MySql, true) => {
                let same = self.quoted(key.first().copied().unwrap_or_default());
                write!(sql, " ON DUPLICATE KEY UPDATE {same} = {target}.{same}")
            }
            (Self::MySql, false) => write!(sql, " ON DUPLICATE KEY UPDATE {}", set.join(", ")),
        };
        sql
    }

    /// The value that was to be inserted, where a row is there.
    pub(crate) fn inserted(self, column: &str) -> String {
        let name = self.quoted(column);
        match self {
            Self::Sqlite | Self::Postgres => format!("excluded.{name}"),
            // MariaDB has no other word for it, MySQL takes it.
            Self::MySql => format!("VALUES({name})"),
        }
    }

    /// Milliseconds since 1970 by the clock of the server, as a BIGINT.
    pub(crate) fn now_ms(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(strftime('%s', 'now') AS INTEGER) * 1000",
            Self::Postgres => "(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp()) * 1000)::bigint",
            // Without a value it knows no time zone, and no hour that comes twice.
            Self::MySql => "CAST(UNIX_TIMESTAMP() AS SIGNED) * 1000",
        }
    }

    /// The later of two moments. Where one of them is not known, that is not either, or it is the other.
    pub(crate) fn later(self, one: &str, other: &str) -> String {
        match self {
            Self::Sqlite => format!("max({one}, {other})"),
            Self::Postgres | Self::MySql => format!("GREATEST({one}, {other})"),
        }
    }

    /// What stands behind a SELECT that locks its rows. SQLite's transaction has locked everything.
    pub(crate) fn lock(self, lock: Lock) -> &'static str {
        match (self, lock) {
            (Self::Sqlite, _) => "",
            (_, Lock::Owned) => " FOR UPDATE",
            (Self::Postgres, Lock::Shared) => " FOR SHARE",
            (Self::MySql, Lock::Shared) => " LOCK IN SHARE MODE",
        }
    }

    /// True or false as SQL: PostgreSQL compares its booleans with no number.
    pub(crate) fn flag(self, is: bool) -> &'static str {
        match (self, is) {
            (Self::Postgres, true) => "true",
            (Self::Postgres, false) => "false",
            (Self::Sqlite | Self::MySql, true) => "1",
            (Self::Sqlite | Self::MySql, false) => "0",
        }
    }

    /// True where writers need rows to wait at: SQLite has one writer.
    pub(crate) fn has_row_locks(self) -> bool {
        self != Self::Sqlite
    }

    /// What keeps MySQL from reading, and locking, more rows of a small table than are asked for.
    pub(crate) fn by_key(self) -> &'static str {
        match self {
            Self::Sqlite | Self::Postgres => "",
            Self::MySql => " FORCE INDEX (PRIMARY)",
        }
    }
}

/// SHA-256 of a text, in hexadecimal: a name of bounded length.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Dialect; 3] = [Dialect::Sqlite, Dialect::Postgres, Dialect::MySql];

    #[test]
    fn quotes_are_doubled_and_nothing_else_is_touched() {
        assert_eq!(Dialect::Sqlite.quoted(r#"a"b'; DROP TABLE x; --"#), r#""a""b'; DROP TABLE x; --""#);
        assert_eq!(Dialect::Postgres.list(["a", "b\"c"]), r#""a", "b""c""#);
        assert_eq!(Dialect::MySql.list(["a\"", "b`c"]), "`a\"`, `b``c`");
    }

    #[test]
    fn names_that_belong_to_others_are_refused() {
        for dialect in ALL {
            for name in ["", "a\0b", "SETTLE_META", "orders__Tombstones"] {
                assert!(dialect.table_refusal(name).is_some(), "{dialect:?} {name}");
            }
            assert_eq!(dialect.table_refusal("settle_orders"), None);
        }
        assert!(Dialect::Sqlite.table_refusal("sqlite_x").is_some());
        assert_eq!(Dialect::Postgres.column_refusal("id"), None);
        assert!(Dialect::Postgres.column_refusal("ctid").is_some());
        assert!(Dialect::Postgres.column_refusal(&"é".repeat(32)).is_some());
        assert_eq!(Dialect::MySql.column_refusal(&"é".repeat(64)), None);
        assert!(Dialect::MySql.column_refusal(&"é".repeat(65)).is_some());
        assert!(Dialect::MySql.column_refusal("a ").is_some());
        assert!(Dialect::MySql.column_refusal("😀").is_some());
    }

    #[test]
    fn tombstones_of_long_names_have_room_and_do_not_meet() {
        assert_eq!(Dialect::Postgres.tombstones("orders"), "orders__tombstones");
        for (dialect, letter) in [(Dialect::Postgres, "é"), (Dialect::MySql, "é"), (Dialect::MySql, "a")] {
            let (one, other) = (format!("{}a", letter.repeat(30)), format!("{}b", letter.repeat(30)));
            let (one, other) = (one.repeat(2), other.repeat(2));
            let named = [dialect.tombstones(&one), dialect.tombstones(&other)];
            assert_ne!(named[0], named[1]);
            for name in named {
                assert!(dialect.fits(&name) && name.ends_with(TOMBSTONES), "{name}");
            }
        }
    }

    #[test]
    fn what_becomes_of_a_row_that_is_there_is_said_in_each_dialect() {
        let there = [("n", Take::Greatest), ("t", Take::New)];
        let said = |dialect: Dialect, there| dialect.insert("x", &["k", "n", "t"], 2, &["k"], there);
        assert_eq!(
            said(Dialect::Sqlite, &there),
            "INSERT INTO \"x\" (\"k\", \"n\", \"t\") VALUES (?1, ?2, ?3), (?4, ?5, ?6) ON CONFLICT (\"k\") DO UPDATE SET \
             \"n\" = max(\"x\".\"n\", excluded.\"n\"), \"t\" = excluded.\"t\""
        );
        assert_eq!(
            said(Dialect::Postgres, &there),
            "INSERT INTO \"x\" (\"k\", \"n\", \"t\") VALUES ($1, $2, $3), ($4, $5, $6) ON CONFLICT (\"k\") DO UPDATE SET \
             \"n\" = GREATEST(\"x\".\"n\", excluded.\"n\"), \"t\" = excluded.\"t\""
        );
        assert_eq!(
            said(Dialect::MySql, &there),
            "INSERT INTO `x` (`k`, `n`, `t`) VALUES (?, ?, ?), (?, ?, ?) ON DUPLICATE KEY UPDATE `n` = GREATEST(`x`.`n`, \
             VALUES(`n`)), `t` = VALUES(`t`)"
        );
        assert!(said(Dialect::Postgres, &[]).ends_with(" ON CONFLICT DO NOTHING"));
        assert!(said(Dialect::MySql, &[]).ends_with(" ON DUPLICATE KEY UPDATE `k` = `x`.`k`"));
    }

    #[test]
    fn a_digest_is_the_one_that_everybody_computes() {
        assert_eq!(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
