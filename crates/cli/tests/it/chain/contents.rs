//! What a table holds, at the source and in a destination, and where the two differ.

use settle::compare::{TextRow, TextTable, sqlite_rows};
use settle::database::{Address, Engine, Session};
use settle::simulate::Table;
use settle_testkit::clickhouse::Client;

use super::canonical::Kind;

/// A table of canonical values.
pub fn table(table: Table, columns: &[(String, Kind)], rows: impl Iterator<Item = TextRow>) -> TextTable {
    let mut found = TextTable::new(table.key());
    for row in rows {
        let cell = |(name, kind): &(String, Kind)| {
            let value = row.get(name).unwrap_or_else(|| panic!("{} has no column {name}", table.name()));
            (name.clone(), value.as_deref().map(|text| kind.canonical(text)))
        };
        found.add(columns.iter().map(cell).collect());
    }
    found
}

/// A table of a SQLite database.
pub fn in_sqlite(path: &std::path::Path, of: Table, columns: &[(String, Kind)]) -> TextTable {
    let select = |(name, kind): &(String, Kind)| match kind {
        // The hexadecimal form of NULL is an empty text.
        Kind::Bytes => format!("iif({name} IS NULL, NULL, hex({name})) AS {name}"),
        _ => name.clone(),
    };
    let selected: Vec<String> = columns.iter().map(select).collect();
    let connection = rusqlite::Connection::open(path).unwrap();
    let rows = sqlite_rows(&connection, &format!("SELECT {} FROM {}", selected.join(", "), of.name())).unwrap();
    table(of, columns, rows.into_iter())
}

/// A table of a PostgreSQL, MySQL or MariaDB.
pub async fn in_server(url: &str, of: Table, columns: &[(String, Kind)]) -> TextTable {
    // Its times are in UTC.
    let mut session = Session::open(&Address::parse(url).unwrap()).await.unwrap();
    let select = |(name, kind): &(String, Kind)| match (kind, session.engine()) {
        (Kind::Bytes, Engine::Postgres) => format!("encode({name}, 'hex')"),
        (Kind::Bytes, Engine::MySql) => format!("hex({name})"),
        _ => name.clone(),
    };
    let selected: Vec<String> = columns.iter().map(select).collect();
    let rows = session.rows(&format!("SELECT {} FROM {}", selected.join(", "), of.name())).await.unwrap();
    let named = |row: Vec<Option<String>>| columns.iter().map(|(name, _)| name.clone()).zip(row).collect();
    table(of, columns, rows.into_iter().map(named))
}

/// What a reader of ClickHouse asks: the view, or the table itself with `FINAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Current,
    Final,
}

/// A table of a ClickHouse database.
pub async fn in_clickhouse(database: &Client, of: Table, columns: &[(String, Kind)], reading: Reading) -> TextTable {
    let select = |(name, kind): &(String, Kind)| match kind {
        Kind::Bytes => format!("hex({name}) AS {name}"),
        _ => name.clone(),
    };
    let selected: Vec<String> = columns.iter().map(select).collect();
    let from = match reading {
        Reading::Current => format!("{}_current", of.name()),
        Reading::Final => format!("{} FINAL WHERE _is_deleted = 0", of.name()),
    };
    let sql = format!(
        "SELECT {} FROM {from} SETTINGS output_format_json_quote_decimals = 1, output_format_json_quote_denormals = 1",
        selected.join(", ")
    );
    let text = |value: serde_json::Value| match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    };
    let row = |row: serde_json::Value| {
        let serde_json::Value::Object(fields) = row else { panic!("a row is an object") };
        fields.into_iter().map(|(name, value)| (name, text(value))).collect()
    };
    table(of, columns, database.json(&sql).await.into_iter().map(row))
}

/// One key where the tables differ.
#[derive(Debug)]
pub struct Difference {
    pub key: Vec<String>,
    /// Where both have the row, the columns that differ.
    pub columns: Vec<String>,
    /// Both sides.
    pub what: String,
}

/// Where two tables differ, in the order of the keys.
pub fn differences(expected: &TextTable, actual: &TextTable) -> Vec<Difference> {
    let mut found = Vec::new();
    for (key, want) in &expected.rows {
        let Some(got) = actual.rows.get(key) else {
            let what = format!("missing; the source has {want:?}");
            found.push(Difference { key: key.clone(), columns: Vec::new(), what });
            continue;
        };
        let other: Vec<_> = want.iter().filter(|(column, value)| got.get(*column) != Some(value)).collect();
        if !other.is_empty() {
            let tell = |(column, value): &(&String, &Option<String>)| {
                format!("{column}: source {value:?}, destination {:?}", got.get(*column).and_then(Option::as_ref))
            };
            let what = other.iter().map(tell).collect::<Vec<_>>().join("; ");
            let columns = other.iter().map(|(column, _)| (*column).clone()).collect();
            found.push(Difference { key: key.clone(), columns, what });
        }
    }
    let extra = actual.rows.iter().filter(|(key, _)| !expected.rows.contains_key(*key));
    found.extend(extra.map(|(key, got)| Difference {
        key: key.clone(),
        columns: Vec::new(),
        what: format!("not at the source; the destination has {got:?}"),
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(rows: &[(&str, Option<&str>)]) -> TextTable {
        let columns = [("order_id".to_owned(), Kind::Integer), ("note".to_owned(), Kind::Text)];
        let row = |(key, note): &(&str, Option<&str>)| {
            let cells = [("order_id", Some(*key)), ("note", *note)];
            cells.into_iter().map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).collect()
        };
        table(Table::Orders, &columns, rows.iter().map(row))
    }

    #[test]
    fn what_is_missing_other_or_too_much_is_found_and_null_is_not_empty() {
        let source = orders(&[("1", Some("a")), ("2", None), ("3", Some("c"))]);
        assert!(differences(&source, &source).is_empty());
        let other = orders(&[("1", Some("b")), ("2", Some("")), ("4", None)]);
        let found: Vec<String> = differences(&source, &other).into_iter().map(|found| found.what).collect();
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].contains("note: source Some(\"a\"), destination Some(\"b\")"), "{found:?}");
        assert!(found[1].contains("None") && found[2].starts_with("missing"), "{found:?}");
        assert!(found[3].starts_with("not at the source"), "{found:?}");
    }
}
