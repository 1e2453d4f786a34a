//! Compares a destination table with the source table, column by column.
//!
//! A row is compared in every column that its last event carries: a column that was added with a
//! default at the source re-sends nothing, so older rows have no event that holds it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use settle_core::change::Event;
use settle_core::key::Key;
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::Partition;
use settle_core::record::Record;
use settle_core::refusal::Refusal;
use settle_core::version::Version;

/// A row: column name → text, NULL as none.
pub type TextRow = BTreeMap<String, Option<String>>;

/// A table by primary key, the key as the texts of its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextTable {
    /// Key columns in order.
    pub key: Vec<String>,
    /// Rows.
    pub rows: BTreeMap<Vec<String>, TextRow>,
}

impl TextTable {
    /// An empty table with this key.
    pub fn new(key: &[&str]) -> Self {
        Self { key: key.iter().map(|k| (*k).to_owned()).collect(), rows: BTreeMap::new() }
    }

    /// Adds a row. A second row of one key is kept under another, so that it shows as a difference.
    pub fn add(&mut self, row: TextRow) {
        let value = |column: &String| plain(row.get(column).and_then(Option::as_deref).unwrap_or_default());
        let mut key: Vec<String> = self.key.iter().map(value).collect();
        while self.rows.contains_key(&key) {
            key.push("again".to_owned());
        }
        self.rows.insert(key, row);
    }

    /// Reads a CSV export with a header; an empty field is NULL.
    pub fn from_csv(text: &str, key: &[&str]) -> Result<Self, csv::Error> {
        let mut table = Self::new(key);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers()?.clone();
        for record in reader.records() {
            let record = record?;
            let value = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
            table.add(names.iter().map(str::to_owned).zip(record.iter().map(value)).collect());
        }
        Ok(table)
    }
}

/// The rows of a SQLite query as text.
pub fn sqlite_rows(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<TextRow>> {
    let mut statement = connection.prepare(sql)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map([], |row| {
        let cell = |(at, name): (usize, &String)| Ok((name.clone(), as_text(row.get_ref(at)?)));
        names.iter().enumerate().map(cell).collect()
    })?;
    rows.collect()
}

fn as_text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// Per key (as the texts of its columns), the columns that its last event carries.
pub type Carried = HashMap<Vec<String>, BTreeSet<String>>;

/// Reads from the log which columns the last event of every key carries.
pub fn carried(records: &[Record]) -> Result<Carried, Refusal> {
    let mut lanes: HashMap<Partition, Lane> = HashMap::new();
    let mut last: HashMap<Key, (Version, BTreeSet<String>)> = HashMap::new();
    for record in records {
        let partition = record.partition.clone();
        let lane = lanes
            .entry(partition.clone())
            .or_insert_with(|| Lane::new(partition, record.offset, &[], LoneTombstones::Refuse));
        if let Event::Change(change) = lane.feed(record.clone())?.event
            && last.get(&change.key).is_none_or(|(version, _)| change.version > *version)
        {
            let columns = change.columns().iter().map(|c| c.name.to_string()).collect();
            last.insert(change.key.clone(), (change.version, columns));
        }
    }
    let texts = |key: &Key| key.fields().map(|(_, json)| plain(json.trim_matches('"'))).collect();
    Ok(last.iter().map(|(key, (_, columns))| (texts(key), columns.clone())).collect())
}

/// What differs, a line each; empty if the tables are equal.
pub fn differences(expected: &TextTable, actual: &TextTable, carried: &Carried) -> Vec<String> {
    let mut found = Vec::new();
    for (key, want) in &expected.rows {
        let Some(got) = actual.rows.get(key) else {
            found.push(format!("row {} is missing", key.join(", ")));
            continue;
        };
        for (column, want) in want {
            if carried.get(key).is_some_and(|columns| !columns.contains(column)) {
                continue;
            }
            let got = got.get(column).and_then(Option::as_deref);
            if plain(want.as_deref().unwrap_or_default()) != plain(got.unwrap_or_default()) {
                found.push(format!("row {}: column {column} differs", key.join(", ")));
            }
        }
    }
    for key in actual.rows.keys().filter(|key| !expected.rows.contains_key(*key)) {
        found.push(format!("row {} should not be there", key.join(", ")));
    }
    found
}

/// One spelling of a value: PostgreSQL, MySQL, SQLite and ClickHouse write instants and booleans
/// differently.
pub fn plain(text: &str) -> String {
    let bytes = text.as_bytes();
    let instant = bytes.len() >= 19
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && matches!(bytes[10], b' ' | b'T')
        && bytes[13] == b':'
        && bytes[..4].iter().all(u8::is_ascii_digit);
    if !instant {
        return match text {
            "t" | "true" => "1".to_owned(),
            "f" | "false" => "0".to_owned(),
            other => other.to_owned(),
        };
    }
    let zone = text.trim_end_matches("Z").trim_end_matches("+00:00").trim_end_matches("+00");
    let zone = zone.replacen('T', " ", 1);
    match zone.split_once('.') {
        Some((seconds, fraction)) => {
            let fraction = fraction.trim_end_matches('0');
            if fraction.is_empty() { seconds.to_owned() } else { format!("{seconds}.{fraction}") }
        }
        None => zone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_has_one_spelling() {
        assert_eq!(plain("2026-11-30T16:39:22.289190Z"), plain("2026-11-30 16:39:22.28919+00"));
        assert_eq!(plain("2026-11-30 16:39:22.000"), plain("2026-11-30T16:39:22Z"));
        assert_ne!(plain("2026-11-30 16:39:22.1"), plain("2026-11-30 16:39:22.01"));
    }

    #[test]
    fn a_difference_is_seen_and_a_column_without_event_is_not_compared() {
        let expected = TextTable::from_csv("id,v,added\n1,a,5\n2,,5\n", &["id"]).unwrap();
        let mut actual = TextTable::from_csv("id,v,added\n1,a,\n2,x,\n3,c,\n", &["id"]).unwrap();
        let columns: BTreeSet<String> = ["id".to_owned(), "v".to_owned()].into();
        let carried: Carried = ["1", "2", "3"].map(|k| (vec![k.to_owned()], columns.clone())).into();
        assert_eq!(differences(&expected, &actual, &carried), ["row 2: column v differs", "row 3 should not be there"]);
        actual.rows.clear();
        assert_eq!(differences(&expected, &actual, &carried), ["row 1 is missing", "row 2 is missing"]);
    }
}
