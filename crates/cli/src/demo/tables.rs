//! Reads the demo's tables, compares and shows them.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use settle_engine::capture::{CaptureConfig, sample};

use super::Failure;
use super::log::{TOPICS, Topic};
use crate::compare::{TextTable, carried, differences, sqlite_rows};

/// Rows shown of each table.
const SHOWN_ROWS: usize = 3;
/// Columns fit a terminal.
const CELL: usize = 13;

/// Compares one table with the source's own, read from the folder; gives its number of rows.
pub(super) fn compare(folder: &Path, database: &Path, topic: &Topic) -> Result<usize, Failure> {
    let path = folder.join(topic.expected());
    let csv = std::fs::read_to_string(&path)
        .map_err(|error| Failure::Io { what: format!("{} cannot be read", path.display()), error })?;
    let expected = TextTable::from_csv(&csv, &[topic.key])
        .map_err(|e| Failure::Unexpected(format!("{} is no CSV ({e})", path.display())))?;
    let actual = read(database, topic)?;
    let config = CaptureConfig {
        paths: vec![folder.join(topic.capture())],
        topics: Vec::new(),
        group: "demo".to_owned(),
        topic_id: None,
    };
    let records = sample(&config, usize::MAX).map_err(|e| Failure::Unexpected(e.to_string()))?;
    let carried = carried(&records).map_err(|e| Failure::Unexpected(e.to_string()))?;
    let found = differences(&expected, &actual, &carried);
    match found.first() {
        Some(first) => Err(Failure::Differs(format!("{}: {first} ({} in all)", topic.table, found.len()))),
        None => Ok(expected.rows.len()),
    }
}

fn read(database: &Path, topic: &Topic) -> Result<TextTable, Failure> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut table = TextTable::new(&[topic.key]);
    sqlite_rows(&connection, &format!("SELECT * FROM \"{}\"", topic.table))?.into_iter().for_each(|row| table.add(row));
    Ok(table)
}

/// Prints the first rows of every table.
pub(super) fn print(database: &Path) -> Result<(), Failure> {
    for topic in &TOPICS {
        let table = read(database, topic)?;
        println!("\n{} ({} rows)", topic.table, table.rows.len());
        let Some(first) = table.rows.values().next() else { continue };
        let mut names: Vec<&String> = first.keys().filter(|n| !n.starts_with('_')).collect();
        names.sort_by_key(|name| *name != topic.key);
        names.truncate(5);
        let line = |cells: Vec<&str>| {
            let cells: Vec<String> = cells.iter().map(|cell| format!("{:<CELL$}", shortened(cell))).collect();
            println!("  {}", cells.join(" ").trim_end());
        };
        line(names.iter().map(|n| n.as_str()).collect());
        for row in table.rows.values().take(SHOWN_ROWS) {
            line(names.iter().map(|n| row.get(*n).and_then(Option::as_deref).unwrap_or("NULL")).collect());
        }
    }
    Ok(())
}

/// At most a cell's width.
fn shortened(text: &str) -> String {
    if text.chars().count() <= CELL { text.to_owned() } else { text.chars().take(CELL - 1).chain(['…']).collect() }
}
