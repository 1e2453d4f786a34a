//! A folder with a pipeline in it, and the binary that runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rusqlite::Connection;
use serde::Deserialize;
use settle::compare::{TextTable, differences, sqlite_rows};

use crate::ends::{CAPTURE, SQLITE};
use crate::shop::Shop;

/// The run report.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Report {
    pub ended: String,
    pub read: u64,
    pub applied: u64,
    pub superseded: u64,
    pub stale: u64,
    pub control: u64,
    pub truncates: u64,
    pub dead_lettered: u64,
    pub unsettled: u64,
    pub redelivered: u64,
    pub retries: u64,
    pub revoked: u64,
    pub lost: u64,
    pub fenced: u64,
    pub committed: std::collections::BTreeMap<String, i64>,
}

/// A pipeline's folder; removed when dropped.
pub struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The configuration from a capture of `lines` into SQLite.
    pub fn capture_into_sqlite(&self, shop: &Shop, lines: &[String], batch: usize) {
        self.write("capture.jsonl", &lines.join("\n"));
        let precision = shop.time_precision;
        let columns = sqlite_columns(shop);
        self.configure(&format!(
            "{CAPTURE}time_precision_mode = \"{precision}\"\n{SQLITE}{columns}[batch]\nmax_rows = {batch}\n"
        ));
    }

    pub fn configure(&self, text: &str) {
        self.write("settle.toml", text);
    }

    /// Says something else in the configuration.
    pub fn reconfigure(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path("settle.toml")).unwrap();
        assert!(text.contains(from), "{from} is in the configuration");
        self.configure(&text.replace(from, to));
    }

    /// The folder's name, as messages have it.
    pub fn folder(&self) -> String {
        self.path("").display().to_string().trim_end_matches('/').to_owned()
    }

    /// `settle` with this folder's configuration.
    pub fn settle(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_settle"));
        command.arg(args[0]).arg("-c").arg(self.path("settle.toml")).args(&args[1..]);
        command.stdin(Stdio::null()).env_remove("SETTLE_LOG");
        command
    }

    /// The exit code of a command, and everything that it said.
    pub fn said(&self, args: &[&str]) -> (i32, String) {
        said(&self.settle(args).output().unwrap())
    }

    /// Runs to the end; panics with what it said if it fails.
    pub fn run(&self, args: &[&str]) -> Report {
        let output = self.output(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "settle run {args:?} ended with {}: {said}", output.status);
        report(&output)
    }

    pub fn output(&self, args: &[&str]) -> Output {
        let mut all = vec!["run", "--report", "json"];
        all.extend(args);
        self.settle(&all).output().unwrap()
    }

    /// A table of the SQLite database.
    pub fn sqlite_table(&self, shop: &Shop) -> TextTable {
        read_sqlite(&self.path("shop.db"), shop.name(), shop.key)
    }

    /// Compares the SQLite table with the source table; panics with what differs.
    pub fn assert_sqlite_equals_source(&self, shop: &Shop, context: &str) {
        let found = differences(&shop.expected(), &self.sqlite_table(shop), &shop.carried());
        assert!(found.is_empty(), "{} {}: {context}: {found:#?}", shop.folder, shop.topic);
    }
}

/// Temporal columns that arrive as integers need a declared type in SQLite; the others are sampled.
fn sqlite_columns(shop: &Shop) -> String {
    if shop.cut_to_ms.is_empty() {
        return String::new();
    }
    let columns: Vec<String> = shop
        .clickhouse
        .iter()
        .map(|(name, kind)| {
            let kind = match *kind {
                kind if kind.contains("Int") => "INTEGER",
                kind if kind.contains("DateTime64(3") => "TIMESTAMP(3)",
                _ => "TEXT",
            };
            format!("{name} = \"{kind}\"\n")
        })
        .collect();
    format!("[tables.\"{}\".columns]\n{}", shop.table, columns.concat())
}

/// An exit code, and everything that was said.
pub fn said(output: &Output) -> (i32, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// The report on standard output; its counters must balance.
pub fn report(output: &Output) -> Report {
    let report: Report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("no report ({e}): {}", String::from_utf8_lossy(&output.stderr)));
    let placed = report.applied + report.superseded + report.stale + report.control + report.truncates;
    assert_eq!(report.read, placed + report.dead_lettered + report.unsettled, "the counters balance: {report:?}");
    report
}

pub fn read_sqlite(path: &Path, table: &str, key: &[&str]) -> TextTable {
    let connection = Connection::open(path).unwrap();
    let mut read = TextTable::new(key);
    let rows = sqlite_rows(&connection, &format!("SELECT * FROM \"{table}\"")).unwrap();
    rows.into_iter().for_each(|row| read.add(row));
    read
}
