//! What was recorded: the topics' records, and the source tables when the recording ended.

use std::path::PathBuf;

use serde_json::Value;
use settle_core::position::Partition;
use settle_core::record::{Header, Record};

use crate::database::Shown;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures").join(name)
}

/// A capture, as `kcat -J` prints it.
pub fn capture(path: &str) -> Vec<Record> {
    let text = std::fs::read_to_string(folder(path)).unwrap();
    let mut records: Vec<Record> = text.lines().map(record).collect();
    records.sort_by_key(|record| (record.partition.number, record.offset));
    records
}

fn record(line: &str) -> Record {
    let line: Value = serde_json::from_str(line).unwrap();
    let bytes = |value: &Value| value.as_str().map(|text| text.as_bytes().to_vec().into());
    let headers = line["headers"].as_array().map_or(&[][..], Vec::as_slice);
    Record {
        partition: Partition::new(
            line["topic"].as_str().unwrap(),
            i32::try_from(line["partition"].as_i64().unwrap()).unwrap(),
        ),
        offset: line["offset"].as_i64().unwrap(),
        timestamp_ms: line["ts"].as_i64(),
        key: bytes(&line["key"]),
        payload: bytes(&line["payload"]),
        headers: headers
            .chunks(2)
            .map(|pair| Header { name: pair[0].as_str().unwrap().into(), value: bytes(&pair[1]) })
            .collect(),
    }
}

/// The source table when the recording ended; an empty field is NULL.
pub fn table(path: &str) -> Vec<Shown> {
    let rows = csv(&std::fs::read_to_string(folder(path)).unwrap());
    let (names, rows) = rows.split_first().unwrap();
    rows.iter()
        .filter(|row| row.len() == names.len())
        .map(|row| {
            let cells = row.iter().map(|cell| Some(cell.clone()).filter(|cell| !cell.is_empty()));
            names.iter().cloned().zip(cells).collect()
        })
        .collect()
}

fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                cell.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}
