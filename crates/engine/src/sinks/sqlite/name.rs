//! Names in SQL: quoted, whatever they hold.

/// A name as SQL text: in double quotes, inner ones doubled.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Names as SQL text, with commas between.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// Whether SQLite takes two names for one: it folds the case of ASCII letters, and of nothing else.
pub(super) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// The table that keeps the versions of deleted rows.
pub(super) fn tombstones(table: &str) -> String {
    format!("{table}{TOMBSTONES}")
}

const TOMBSTONES: &str = "__tombstones";

/// Tables of Settle, now or later.
const OWN: [&str; 3] = ["settle_meta", "settle_positions", "settle_held"];

/// Why a table cannot be written under this name.
pub(super) fn refusal(table: &str) -> Option<&'static str> {
    let lower = table.to_ascii_lowercase();
    if table.is_empty() || table.contains('\0') {
        Some("a name must not be empty or hold a NUL character")
    } else if lower.starts_with("sqlite_") {
        Some("names that start with sqlite_ belong to SQLite")
    } else if OWN.contains(&lower.as_str()) {
        Some("Settle keeps its own places under this name")
    } else if lower.ends_with(TOMBSTONES) {
        Some("names that end in __tombstones hold the versions of deleted rows")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_doubled_and_nothing_else_is_touched() {
        assert_eq!(quoted(r#"a"b'; DROP TABLE x; --"#), r#""a""b'; DROP TABLE x; --""#);
        assert_eq!(list(["a", "b\"c"]), r#""a", "b""c""#);
    }

    #[test]
    fn names_that_belong_to_others_are_refused() {
        for name in ["", "a\0b", "sqlite_x", "SETTLE_META", "orders__Tombstones"] {
            assert!(refusal(name).is_some(), "{name}");
        }
        assert_eq!(refusal("settle_orders"), None);
    }
}
