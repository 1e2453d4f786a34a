//! A database of MariaDB, the sink that writes it, and an independent look at what is in it.

use std::collections::BTreeMap;
use std::path::Path;

use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Row, Value};
use settle_core::batch::Batch;
use settle_core::position::{Partition, TopicId};
use settle_core::record::Record;
use settle_core::sink::{Durable, Outcome, PlacedPartition, Places, Sink, SinkError};
use settle_core::tally::Tally;
use settle_engine::config::target::{Deletes, TableRule, Target};
use settle_engine::sinks::mysql::{Address, MySql, MySqlConfig, create_tables_ddl};
use settle_testkit::mariadb;

use crate::log::{batch, batches};

/// A row by column, as text: NULL is none, bytes are hexadecimal, bits a number.
pub type Shown = BTreeMap<String, Option<String>>;

/// Settle's columns, as it makes them where deletes are hard.
pub const META: &str = "`_op` VARCHAR(1), `_source_ts_ms` BIGINT, `_version_hi` BIGINT NOT NULL DEFAULT 0, \
                        `_version_lo` BIGINT NOT NULL DEFAULT 0";

pub struct Database {
    pub inner: mariadb::Database,
}

impl Database {
    pub async fn new() -> Self {
        Self { inner: mariadb::Database::create("mysql").await }
    }

    pub fn config(&self) -> MySqlConfig {
        let address = Address::parse(&self.inner.url(), Path::new("")).unwrap();
        MySqlConfig { lock_timeout_ms: 10_000, ..MySqlConfig::at(address) }
    }

    /// Runs SQL as somebody else.
    pub async fn run(&self, sql: &str) {
        self.inner.execute(sql).await;
    }

    /// A sink, opened for the partitions of these records.
    pub async fn sink(&self, target: Target, records: &[Record]) -> MySql {
        self.open(self.config(), target, records).await.unwrap().0
    }

    pub async fn open(
        &self,
        config: MySqlConfig,
        target: Target,
        records: &[Record],
    ) -> Result<(MySql, Places), SinkError> {
        let mut sink = MySql::new(config, target);
        let places = sink.open(&parts(records)).await?;
        Ok((sink, places))
    }

    /// Makes the tables of these records, as `settle ddl` prints them.
    pub async fn make(&self, target: &Target, records: &[Record]) {
        for statement in create_tables_ddl(&self.config(), target, &batch(records)).await.unwrap() {
            self.run(&statement).await;
        }
    }

    /// The table's rows in order of their key, without Settle's own columns.
    pub async fn rows(&self, table: &str) -> Vec<Shown> {
        let own = |row: Shown| row.into_iter().filter(|(name, _)| !name.starts_with('_')).collect();
        self.all(table).await.into_iter().map(own).collect()
    }

    /// The table's rows with every column.
    pub async fn all(&self, table: &str) -> Vec<Shown> {
        let mut connection = self.inner.connect().await;
        let sql = format!("SELECT * FROM `{}` ORDER BY 1, 2", table.replace('`', "``"));
        let mut answer = connection.exec_iter(sql, ()).await.unwrap();
        let columns: Vec<(String, ColumnType, u16)> = answer
            .columns_ref()
            .iter()
            .map(|column| (column.name_str().into_owned(), column.column_type(), column.character_set()))
            .collect();
        let rows: Vec<Row> = answer.collect().await.unwrap();
        drop(answer);
        connection.disconnect().await.unwrap();
        let shown = |row: Row| -> Shown {
            let cell = |((name, kind, set), value): (&(String, ColumnType, u16), Value)| {
                (name.clone(), shown(value, *kind, *set))
            };
            columns.iter().zip(row.unwrap()).map(cell).collect()
        };
        rows.into_iter().map(shown).collect()
    }

    pub async fn count(&self, table: &str) -> String {
        self.one(&format!("SELECT COUNT(*) FROM `{table}`")).await
    }

    /// The first column of the first row.
    pub async fn one(&self, sql: &str) -> String {
        self.inner.rows(sql).await.remove(0).remove(0).unwrap_or_else(|| "NULL".to_owned())
    }

    pub async fn ddl_of(&self, table: &str) -> String {
        self.inner.rows(&format!("SHOW CREATE TABLE `{table}`")).await.remove(0).remove(1).unwrap()
    }
}

/// The character set of bytes.
const BINARY: u16 = 63;

fn shown(value: Value, kind: ColumnType, set: u16) -> Option<String> {
    Some(match value {
        Value::NULL => return None,
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Double(number) => format!("{number:?}"),
        Value::Bytes(bytes) if kind == ColumnType::MYSQL_TYPE_BIT => {
            bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)).to_string()
        }
        Value::Bytes(bytes) if set == BINARY && !matches!(kind, ColumnType::MYSQL_TYPE_NEWDECIMAL) => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
        Value::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        Value::Date(year, month, day, ..) if kind == ColumnType::MYSQL_TYPE_DATE => {
            format!("{year:04}-{month:02}-{day:02}")
        }
        Value::Date(year, month, day, hour, minute, second, micros) => {
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
        }
        Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let sign = if negative { "-" } else { "" };
            format!("{sign}{:02}:{minutes:02}:{seconds:02}.{micros:06}", days * 24 + u32::from(hours))
        }
    })
}

pub fn parts(records: &[Record]) -> Vec<PlacedPartition> {
    let mut partitions: Vec<Partition> = records.iter().map(|record| record.partition.clone()).collect();
    partitions.sort();
    partitions.dedup();
    let placed = |partition: Partition| PlacedPartition {
        topic_id: TopicId::of_first_line(&partition.topic, b"first"),
        partition,
    };
    partitions.into_iter().map(placed).collect()
}

/// A row as [`Database::rows`] shows it.
pub fn row(columns: &[(&str, &str)]) -> Shown {
    columns.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
}

pub fn target() -> Target {
    Target { create: true, ..Target::default() }
}

/// A target whose table `public.<table>` has these columns.
pub fn with_columns(table: &str, columns: &[(&str, &str)]) -> Target {
    let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
    let rule = TableRule { columns, ..TableRule::default() };
    Target { tables: [(format!("public.{table}"), rule)].into(), ..target() }
}

pub fn soft() -> Target {
    Target { deletes: Some(Deletes::Soft), ..target() }
}

/// Applies a batch, checks that the proof covers it, and says what became of its rows.
pub async fn apply(sink: &mut MySql, batch: &Batch) -> Result<Outcome, SinkError> {
    let proof: Durable = sink.apply(batch).await?;
    assert_eq!(proof.spans(), batch.spans());
    let mut tally: Tally = batch.tally();
    tally.applied += proof.outcome.applied;
    tally.stale += proof.outcome.stale;
    assert!(tally.balances(), "{tally:?}");
    Ok(proof.outcome)
}

/// Applies records in batches of `size`, as one run with the floors that the database knows.
pub async fn apply_all(database: &Database, target: &Target, records: &[Record], size: usize) -> Outcome {
    let (mut sink, places) = database.open(database.config(), target.clone(), records).await.unwrap();
    let floors: Vec<_> = places.floors.into_iter().map(|(place, floor)| (place.partition, floor)).collect();
    let mut sum = Outcome::default();
    for batch in batches(records, size, &floors) {
        let outcome = apply(&mut sink, &batch).await.unwrap();
        sum.applied += outcome.applied;
        sum.stale += outcome.stale;
    }
    sum
}
