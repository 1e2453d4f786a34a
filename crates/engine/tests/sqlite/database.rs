//! A database file, the sink that writes it, and an independent look at what is in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;
use rusqlite::types::Value as Stored;
use settle_core::batch::Batch;
use settle_core::position::{Partition, TopicId};
use settle_core::record::Record;
use settle_core::sink::{Durable, Outcome, PlacedPartition, Places, Sink, SinkError};
use settle_core::tally::Tally;
use settle_engine::config::target::{Deletes, TableRule, Target};
use settle_engine::sinks::sqlite::{Sqlite, SqliteConfig};
use tempfile::TempDir;

use crate::log::batches;

/// A row by column, as text: NULL is none, blobs are hexadecimal.
pub type Shown = BTreeMap<String, Option<String>>;

pub struct Database {
    folder: TempDir,
}

impl Database {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    pub fn config(&self) -> SqliteConfig {
        SqliteConfig { busy_timeout_ms: 5, ..SqliteConfig::at(self.path()) }
    }

    /// A connection of somebody else.
    pub fn other(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// Runs SQL as somebody else.
    pub fn run(&self, sql: &str) {
        self.other().execute_batch(sql).unwrap();
    }

    /// A sink, opened for the partitions of these records.
    pub fn sink(&self, target: Target, records: &[Record]) -> Sqlite {
        self.open(target, records).unwrap().0
    }

    pub fn open(&self, target: Target, records: &[Record]) -> Result<(Sqlite, Places), SinkError> {
        let mut partitions: Vec<Partition> = records.iter().map(|record| record.partition.clone()).collect();
        partitions.sort();
        partitions.dedup();
        let parts: Vec<PlacedPartition> = partitions.into_iter().map(placed).collect();
        let mut sink = Sqlite::new(self.config(), target)?;
        let places = wait(sink.open(&parts))?;
        Ok((sink, places))
    }

    /// The table's rows in order of their key, without Settle's own columns.
    pub fn rows(&self, table: &str) -> Vec<Shown> {
        let all = self.all(table);
        all.into_iter().map(|row| row.into_iter().filter(|(name, _)| !name.starts_with('_')).collect()).collect()
    }

    /// The table's rows with every column.
    pub fn all(&self, table: &str) -> Vec<Shown> {
        let connection = self.other();
        let sql = format!("SELECT * FROM \"{}\" ORDER BY 1, 2", table.replace('"', "\"\""));
        let mut select = connection.prepare(&sql).unwrap();
        let names: Vec<String> = select.column_names().map(str::to_owned).collect();
        let rows = select
            .query_map([], |row| {
                names.iter().enumerate().map(|(at, name)| Ok((name.clone(), shown(row.get(at)?)))).collect()
            })
            .unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    pub fn count(&self, table: &str) -> i64 {
        self.one(&format!("SELECT count(*) FROM \"{table}\""))
    }

    pub fn one<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.other().query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

fn shown(stored: Stored) -> Option<String> {
    match stored {
        Stored::Null => None,
        Stored::Integer(number) => Some(number.to_string()),
        Stored::Real(number) => Some(format!("{number:?}")),
        Stored::Text(text) => Some(text),
        Stored::Blob(bytes) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

/// A row as [`Database::rows`] shows it.
pub fn row(columns: &[(&str, &str)]) -> Shown {
    columns.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
}

pub fn placed(partition: Partition) -> PlacedPartition {
    PlacedPartition { topic_id: TopicId::of_first_line(&partition.topic, b"first"), partition }
}

pub fn target() -> Target {
    Target { create: true, ..Target::default() }
}

/// A target whose table `public.<table>` has this rule.
pub fn with_rule(table: &str, rule: TableRule) -> Target {
    Target { tables: [(format!("public.{table}"), rule)].into(), ..target() }
}

pub fn soft() -> Target {
    Target { deletes: Some(Deletes::Soft), ..target() }
}

/// Waits for a future of the sink, which does its work on this thread.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Applies a batch, checks that the proof covers it, and says what became of its rows.
pub fn apply(sink: &mut Sqlite, batch: &Batch) -> Result<Outcome, SinkError> {
    let proof: Durable = wait(sink.apply(batch))?;
    assert_eq!(proof.spans(), batch.spans());
    let mut tally: Tally = batch.tally();
    tally.applied += proof.outcome.applied;
    tally.stale += proof.outcome.stale;
    assert!(tally.balances(), "{tally:?}");
    Ok(proof.outcome)
}

/// Applies records in batches of `size`, as one run with the floors that the database knows.
pub fn apply_all(database: &Database, target: &Target, records: &[Record], size: usize) -> Outcome {
    let (mut sink, places) = database.open(target.clone(), records).unwrap();
    let floors: Vec<_> = places.floors.into_iter().map(|(place, floor)| (place.partition, floor)).collect();
    let mut sum = Outcome::default();
    for batch in batches(records, size, &floors) {
        let outcome = apply(&mut sink, &batch).unwrap();
        sum.applied += outcome.applied;
        sum.stale += outcome.stale;
    }
    sum
}
