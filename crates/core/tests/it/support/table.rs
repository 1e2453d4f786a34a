//! The source's own tables, as they were when the recording ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::capture::testdata;
use super::destination::Columns;

/// A table as text, NULL and the empty text alike.
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn expected(folder: &str, table: &str) -> Self {
        let text = fs::read_to_string(testdata(format!("fixtures/{folder}/{table}.expected.csv"))).unwrap();
        let mut rows = csv(&text);
        Self { columns: rows.remove(0), rows }
    }

    /// Differences to what a destination holds, in every column that its rows carry.
    pub fn differences(&self, got: &BTreeMap<&str, &Columns>) -> Vec<String> {
        let key = key_columns(got);
        let place = |row: &[String]| -> Vec<String> {
            key.iter().map(|name| row[self.columns.iter().position(|c| c == name).unwrap()].clone()).collect()
        };
        let mut wanted: BTreeMap<Vec<String>, &Vec<String>> = self.rows.iter().map(|row| (place(row), row)).collect();
        let mut differences = Vec::new();
        for (json, columns) in got {
            let id: Vec<String> = key.iter().map(|name| shown(&columns[name])).collect();
            let Some(row) = wanted.remove(&id) else {
                differences.push(format!("{json} is not in the source"));
                continue;
            };
            for (name, wanted) in self.columns.iter().zip(row) {
                match columns.get(name) {
                    Some(got) if !same(got, wanted) => differences.push(format!("{json}.{name}: {got} for {wanted}")),
                    _ => {}
                }
            }
        }
        differences.extend(wanted.into_keys().map(|id| format!("{id:?} is missing")));
        differences
    }

    /// Columns of the source that some row did not carry.
    pub fn not_carried(&self, got: &BTreeMap<&str, &Columns>) -> BTreeSet<&str> {
        let lacks = |name: &&String| got.values().any(|columns| !columns.contains_key(*name));
        self.columns.iter().filter(lacks).map(String::as_str).collect()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }
}

fn key_columns(got: &BTreeMap<&str, &Columns>) -> Vec<String> {
    let Some(key) = got.keys().next() else { return Vec::new() };
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(key).unwrap();
    fields.keys().cloned().collect()
}

/// A JSON value as the source's own client would print it.
fn shown(json: &str) -> String {
    match serde_json::from_str(json).unwrap() {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text,
        _ => json.to_owned(),
    }
}

fn same(json: &str, wanted: &str) -> bool {
    let got = shown(json);
    let instant_of_text = instant(&got).is_some_and(|got| Some(got) == instant(wanted));
    let instant_of_number = millis(&got).is_some_and(|got| Some(got) == instant_ms(wanted));
    got == wanted || instant_of_text || instant_of_number
}

/// Date, time and digits behind the second of a time stamp in UTC, however it is spelt.
fn instant(text: &str) -> Option<(String, String)> {
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00")).unwrap_or(text);
    let (date, time) = text.split_once(['T', ' '])?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let is_date = date.len() == 10 && date.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    (is_date && time.len() == 8).then(|| (format!("{date} {time}"), fraction.trim_end_matches('0').to_owned()))
}

/// A time stamp cut to the milliseconds that the connector sends.
fn instant_ms(text: &str) -> Option<(String, String)> {
    let (second, fraction) = instant(text)?;
    Some((second, fraction.chars().take(3).collect::<String>().trim_end_matches('0').to_owned()))
}

/// Milliseconds since 1970 as a time stamp.
fn millis(text: &str) -> Option<(String, String)> {
    let ms: i64 = text.parse().ok().filter(|ms| *ms > 100_000_000_000)?;
    let (day, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(day);
    let time = format!("{:02}:{:02}:{:02}", rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    let fraction = format!("{:03}", rest % 1000).trim_end_matches('0').to_owned();
    Some((format!("{year:04}-{month:02}-{day:02} {time}"), fraction))
}

/// The calendar date of a day since 1970, by counting.
fn civil(mut day: i64) -> (i64, usize, i64) {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while day >= if leap(year) { 366 } else { 365 } {
        day -= if leap(year) { 366 } else { 365 };
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 0;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        month += 1;
        if day < length {
            break;
        }
        day -= length;
    }
    (year, month, day + 1)
}

/// Comma-separated values with doubled quotes.
fn csv(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut quoted = false;
    let mut chars = text.trim_end_matches('\n').chars().peekable();
    while let Some(c) = chars.next() {
        let row = rows.last_mut().unwrap();
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                row.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            '\r' if !quoted => {}
            c => row.last_mut().unwrap().push(c),
        }
    }
    rows
}

#[test]
fn values_are_compared_as_the_source_prints_them() {
    assert!(same("null", "") && same("7", "7") && same("\"a\"", "a"));
    assert!(same("\"2026-11-30T16:38:56.3600Z\"", "2026-11-30 16:38:56.36+00"));
    assert!(same("1796057147182", "2026-11-30 16:45:47.182038"));
    assert!(!same("\"2026-11-30T16:38:56.360Z\"", "2026-11-30 16:38:56.361+00"));
    assert!(!same("1796057147183", "2026-11-30 16:45:47.182038"));
    assert!(!same("7", "8") && !same("null", "0") && !same("\"10.50\"", "10.5"));
    assert_eq!(csv("a,b\n\"x \"\"y\"\", z\",\n"), [["a", "b"], ["x \"y\", z", ""]]);
}
