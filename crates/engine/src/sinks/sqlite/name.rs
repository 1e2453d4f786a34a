//! Names as SQLite takes them.

use crate::sinks::sql::dialect::Dialect;

/// A name as SQL text: in double quotes, inner ones doubled.
pub(super) fn quoted(name: &str) -> String {
    Dialect::Sqlite.quoted(name)
}

/// Names as SQL text, with commas between.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    Dialect::Sqlite.list(names)
}

/// Whether SQLite takes two names for one: it folds the case of ASCII letters, and of nothing else.
pub(super) fn same(a: &str, b: &str) -> bool {
    Dialect::Sqlite.same(a, b)
}

/// The table that keeps the versions of deleted rows.
pub(super) fn tombstones(table: &str) -> String {
    Dialect::Sqlite.tombstones(table)
}
