//! The one file that knows all the parts: from a checked configuration to a source and a sink, and
//! what can be said of both before a run.

use settle_core::batch::TableRows;
use settle_core::sink::{Sink, SinkError};

use crate::capture::{self, CaptureConfig};
use crate::config::source::Origin;
use crate::config::{Config, SinkConfig};
use crate::kafka::{self, Bound, KafkaConfig, REVOKE_DEADLINE};
use crate::sampling::{self, Sample};
use crate::sinks::clickhouse::{self, ClickHouse, ClickHouseConfig, Columns};
use crate::sinks::mysql::{self, MySql, MySqlConfig};
use crate::sinks::postgres::{self, Postgres, PostgresConfig};
use crate::sinks::sqlite::{self, Sqlite, SqliteConfig};
use crate::source::{Source, SourceError};

/// Chunks of records between the source and the run loop.
pub(crate) const CHUNKS_AHEAD: usize = 4;

/// Starts the source.
pub fn source(config: &Config, until_end: bool) -> Result<Source, SourceError> {
    match reads(config) {
        Reads::Kafka(kafka) => {
            kafka::start(KafkaConfig { bounded: until_end.then_some(Bound::LastStable), ..kafka }, CHUNKS_AHEAD)
        }
        Reads::Capture(capture) => capture::start(capture),
    }
}

/// Makes the sink; it connects when it is opened.
pub fn sink(config: &Config) -> Result<Box<dyn Sink>, SinkError> {
    let target = config.target.clone();
    Ok(match writes(config) {
        Writes::ClickHouse(clickhouse) => Box::new(ClickHouse::new(clickhouse, target)?),
        Writes::Sqlite(sqlite) => Box::new(Sqlite::new(sqlite, target)?),
        Writes::MySql(mysql) => Box::new(MySql::new(mysql, target)),
        Writes::Postgres(postgres) => Box::new(Postgres::new(postgres, target)),
    })
}

/// Reads the first records of every partition, without joining the group. A topic that exists
/// counts also when nothing is in it.
pub async fn sample(config: &Config, limit: usize) -> Result<Sample, SourceError> {
    match reads(config) {
        Reads::Capture(capture) => Ok(sampling::read(capture::sample(&capture, limit)?)),
        Reads::Kafka(kafka) => {
            let mut records = Vec::new();
            let mut topics = Vec::new();
            for topic in kafka::probe(kafka.clone()).await?.topics {
                records.extend(kafka::sample(kafka.clone(), topic.name.clone(), limit).await?);
                topics.push((topic.name, topic.partitions));
            }
            Ok(Sample { topics, ..sampling::read(records) })
        }
    }
}

/// The statements that would make what a run makes for the sample: what Settle keeps for itself
/// first, then the target tables. None where the sample has no table.
pub async fn ddl(config: &Config, sample: &Sample) -> Result<Vec<String>, SinkError> {
    let target = &config.target;
    let of_each = |of: &dyn Fn(TableRows<'_>) -> Result<Vec<String>, SinkError>| {
        sample.batch.tables().map(of).collect::<Result<Vec<_>, _>>().map(|tables| tables.concat())
    };
    let (own, of_tables) = match writes(config) {
        Writes::ClickHouse(to) => {
            let (database, cluster) = (to.database.as_str(), to.cluster.as_deref());
            let of_table = |rows: TableRows<'_>| {
                let seen = sampling::seen(rows);
                let columns = rows.schema().map_or(Columns::Seen(&seen), |schema| Columns::Schema(schema));
                clickhouse::table_ddl(rows.table, &key(rows), columns, target, database, cluster)
            };
            (clickhouse::own_ddl(database, cluster), of_each(&of_table)?)
        }
        Writes::Sqlite(_) => (sqlite::own_tables_ddl(), of_each(&|rows| sqlite::create_table_ddl(target, rows))?),
        Writes::MySql(mysql) => {
            (mysql::own_tables_ddl(), mysql::create_tables_ddl(&mysql, target, &sample.batch).await?)
        }
        Writes::Postgres(to) => {
            let of_table = |rows: TableRows<'_>| postgres::create_table_ddl(target, &to.schema, rows);
            (postgres::own_tables_ddl(&to.schema), of_each(&of_table)?)
        }
    };
    if of_tables.is_empty() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for statement in own.into_iter().chain(of_tables) {
        // What tables share is said once.
        if !all.contains(&statement) {
            all.push(statement);
        }
    }
    Ok(all)
}

/// The key's columns, under their names in the source.
pub(crate) fn key<'a>(rows: TableRows<'a>) -> Vec<&'a str> {
    rows.rows().next().map(|row| row.key().names().collect()).unwrap_or_default()
}

/// What is read, in the words of the source that reads it.
pub(crate) enum Reads {
    Kafka(KafkaConfig),
    Capture(CaptureConfig),
}

pub(crate) fn reads(config: &Config) -> Reads {
    let group = config.source.group.clone();
    match config.source.origin.clone() {
        Origin::Kafka { brokers, topics, instance, properties } => Reads::Kafka(KafkaConfig {
            brokers,
            group,
            topics,
            instance,
            properties,
            revoke_deadline: REVOKE_DEADLINE,
            bounded: None,
            tombstone_retention: config.target.tombstone_retention,
        }),
        Origin::File { paths, topics, topic_id } => Reads::Capture(CaptureConfig { paths, topics, group, topic_id }),
        Origin::Stdin { topics, topic_id } => {
            Reads::Capture(CaptureConfig { paths: Vec::new(), topics, group, topic_id })
        }
    }
}

/// What is written, in the words of the sink that writes it.
pub(crate) enum Writes {
    ClickHouse(ClickHouseConfig),
    Sqlite(SqliteConfig),
    MySql(MySqlConfig),
    Postgres(PostgresConfig),
}

pub(crate) fn writes(config: &Config) -> Writes {
    match config.sink.clone() {
        SinkConfig::ClickHouse { url, database, user, password, cluster, settings, request_timeout_ms } => {
            Writes::ClickHouse(ClickHouseConfig {
                url,
                database,
                user,
                password,
                request_timeout_ms,
                cluster,
                settings,
                group: config.source.group.clone(),
            })
        }
        SinkConfig::Sqlite { path, busy_timeout_ms } => {
            let group = config.source.group.clone();
            Writes::Sqlite(SqliteConfig { path, busy_timeout_ms, group })
        }
        SinkConfig::Postgres { address, schema, unique, foreign_keys, request_timeout_ms, lock_timeout_ms } => {
            let group = config.source.group.clone();
            Writes::Postgres(PostgresConfig {
                address,
                schema,
                unique,
                foreign_keys,
                request_timeout_ms,
                lock_timeout_ms,
                group,
            })
        }
        SinkConfig::MySql { address, unique, key_folding, request_timeout_ms, lock_timeout_ms } => {
            let group = config.source.group.clone();
            Writes::MySql(MySqlConfig { address, unique, key_folding, request_timeout_ms, lock_timeout_ms, group })
        }
    }
}
