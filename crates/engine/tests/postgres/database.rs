//! A schema of its own in a real server, the sink that writes it, and an independent look at what is in it.

use std::collections::BTreeMap;
use std::path::Path;

use settle_core::batch::Batch;
use settle_core::position::{Partition, TopicId};
use settle_core::record::Record;
use settle_core::sink::{Durable, Outcome, PlacedPartition, Places, Sink, SinkError};
use settle_core::tally::Tally;
use settle_engine::config::target::{Deletes, TableRule, Target};
use settle_engine::sinks::postgres::{Address, Postgres, PostgresConfig};
use settle_testkit::kafka::unique;
use settle_testkit::services;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::log::batches;

/// A row by column, as text: NULL is none, bytes are hexadecimal.
pub type Shown = BTreeMap<String, Option<String>>;

/// The columns that Settle needs in a table that is made by hand.
pub const META: &str = "\"_op\" text, \"_source_ts_ms\" bigint, \"_version_hi\" bigint NOT NULL DEFAULT 0, \
                        \"_version_lo\" bigint NOT NULL DEFAULT 0";

pub struct Database {
    pub runtime: Runtime,
    client: Client,
    pub schema: String,
}

impl Database {
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(connect());
        let schema = unique("sink");
        let database = Self { runtime, client, schema };
        let make = format!(
            "CREATE SCHEMA {0}; SET search_path = {0}; SET TIME ZONE 'UTC'; SET extra_float_digits = 1",
            database.quoted_schema()
        );
        database.wait(database.client.batch_execute(&make)).unwrap();
        database
    }

    pub fn quoted_schema(&self) -> String {
        format!("\"{}\"", self.schema)
    }

    pub fn config(&self) -> PostgresConfig {
        PostgresConfig { schema: self.schema.clone(), lock_timeout_ms: 300, ..PostgresConfig::at(address()) }
    }

    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Runs SQL as somebody else, in the schema.
    pub fn run(&self, sql: &str) {
        self.wait(self.client.batch_execute(sql)).unwrap();
    }

    /// A sink, opened for the partitions of these records.
    pub fn sink(&self, target: Target, records: &[Record]) -> Postgres {
        self.open(target, records).unwrap().0
    }

    pub fn open(&self, target: Target, records: &[Record]) -> Result<(Postgres, Places), SinkError> {
        self.open_as(self.config(), target, records)
    }

    pub fn open_as(
        &self,
        config: PostgresConfig,
        target: Target,
        records: &[Record],
    ) -> Result<(Postgres, Places), SinkError> {
        let mut sink = Postgres::new(config, target);
        let places = self.wait(sink.open(&parts(records)))?;
        Ok((sink, places))
    }

    /// Applies a batch, checks that the proof covers it, and says what became of its rows.
    pub fn apply(&self, sink: &mut Postgres, batch: &Batch) -> Result<Outcome, SinkError> {
        let proof: Durable = self.wait(sink.apply(batch))?;
        assert_eq!(proof.spans(), batch.spans());
        let mut tally: Tally = batch.tally();
        tally.applied += proof.outcome.applied;
        tally.stale += proof.outcome.stale;
        assert!(tally.balances(), "{tally:?}");
        Ok(proof.outcome)
    }

    /// Applies records in batches of `size`, as one run with the floors that the database knows.
    pub fn apply_all(&self, target: &Target, records: &[Record], size: usize) -> Outcome {
        let (mut sink, places) = self.open(target.clone(), records).unwrap();
        let floors: Vec<_> = places.floors.into_iter().map(|(place, floor)| (place.partition, floor)).collect();
        let mut sum = Outcome::default();
        for batch in batches(records, size, &floors) {
            let outcome = self.apply(&mut sink, &batch).unwrap();
            sum.applied += outcome.applied;
            sum.stale += outcome.stale;
        }
        sum
    }

    /// The table's rows in an order of their own, without Settle's columns.
    pub fn rows(&self, table: &str) -> Vec<Shown> {
        let all = self.all(table);
        all.into_iter().map(|row| row.into_iter().filter(|(name, _)| !name.starts_with('_')).collect()).collect()
    }

    /// The same with every column.
    pub fn all(&self, table: &str) -> Vec<Shown> {
        let mut rows = self.select(&format!("SELECT * FROM \"{}\"", table.replace('"', "\"\"")));
        rows.sort();
        rows
    }

    pub fn select(&self, sql: &str) -> Vec<Shown> {
        let answers = self.wait(self.client.simple_query(sql)).unwrap();
        let rows = answers.into_iter().filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        rows.map(|row| {
            let cell = |at: usize| row.get(at).map(|text| text.strip_prefix("\\x").unwrap_or(text).to_owned());
            row.columns().iter().enumerate().map(|(at, column)| (column.name().to_owned(), cell(at))).collect()
        })
        .collect()
    }

    pub fn count(&self, table: &str) -> i64 {
        self.one(&format!("SELECT count(*) FROM \"{table}\"")).parse().unwrap()
    }

    /// True once a session waits for a lock on a table of the schema.
    pub async fn waits_for_a_lock(&self) -> bool {
        let sql = format!(
            "SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE NOT l.granted AND n.nspname = '{}'",
            self.schema
        );
        !self.client.query(&sql, &[]).await.unwrap().is_empty()
    }

    /// The only value of the only row.
    pub fn one(&self, sql: &str) -> String {
        let rows = self.select(sql);
        assert_eq!((rows.len(), rows[0].len()), (1, 1), "{sql}");
        rows[0].values().next().unwrap().clone().unwrap_or_else(|| "NULL".to_owned())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP SCHEMA {} CASCADE", self.quoted_schema());
        let dropped = self.runtime.block_on(self.client.batch_execute(&drop));
        assert!(dropped.is_ok() || std::thread::panicking(), "{dropped:?}");
    }
}

pub fn address() -> Address {
    Address::parse(services::postgres(), Path::new("")).unwrap()
}

async fn connect() -> Client {
    let (client, connection) = tokio_postgres::connect(services::postgres(), NoTls).await.unwrap();
    tokio::spawn(connection); // ends with the client
    client
}

/// A row as [`Database::rows`] shows it.
pub fn row(columns: &[(&str, &str)]) -> Shown {
    columns.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
}

pub fn parts(records: &[Record]) -> Vec<PlacedPartition> {
    let mut partitions: Vec<Partition> = records.iter().map(|record| record.partition.clone()).collect();
    partitions.sort();
    partitions.dedup();
    partitions.into_iter().map(placed).collect()
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

/// A target whose table `public.<table>` has these declared columns.
pub fn declared(table: &str, columns: &[(&str, &str)]) -> Target {
    let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
    with_rule(table, TableRule { columns, ..TableRule::default() })
}

pub fn soft(target: Target) -> Target {
    Target { deletes: Some(Deletes::Soft), ..target }
}
