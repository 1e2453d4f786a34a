//! What can be asked of a pipeline's two ends beside running it: what the log has, what the
//! destination holds, and a pass through a part of the log that is nobody's progress.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use settle_core::position::{Offset, Partition, Span};
use settle_core::sink::{PlacedPartition, SinkError};

use crate::capture;
use crate::config::{Config, SinkConfig};
use crate::contents::Contents;
use crate::epochs::RecordedEpoch;
use crate::kafka::{self, Bound, KafkaConfig};
use crate::log::{Ends, LogPartition, Member};
use crate::pipeline::{CHUNKS_AHEAD, Reads, Writes, reads, writes};
use crate::run::RunError;
use crate::sinks::clickhouse::{self, ClickHouse, ClickHouseContents};
use crate::sinks::mysql::{self, MySql, MySqlContents};
use crate::sinks::postgres::{self, Postgres, PostgresContents};
use crate::sinks::sqlite::{self, Sqlite, SqliteContents};
use crate::source::{GroupOffsets, Source, SourceError, SourceFailure};

/// Every partition that the pipeline reads, and where its group stands.
pub async fn survey(config: &Config) -> Result<Vec<LogPartition>, SourceError> {
    match reads(config) {
        Reads::Kafka(kafka) => kafka::survey(kafka).await,
        Reads::Capture(capture) => capture::survey(&again(capture)?),
    }
}

/// Refuses a log that is not the one which the pipeline settled, as a run does: a topic of these
/// partitions that was made anew, in which no new epoch begins. A pass of another group would not see it.
pub async fn refuse_made_anew(config: &Config, log: &[LogPartition]) -> Result<(), RunError> {
    let placed = |part: &LogPartition| {
        let partition = part.partition.clone();
        part.topic_id.map(|topic_id| PlacedPartition { topic_id, partition })
    };
    let parts: Vec<PlacedPartition> = log.iter().filter_map(placed).collect();
    let mut contents = contents(config).map_err(RunError::Sink)?;
    let places = contents.places(&parts).await.map_err(RunError::Sink)?;
    crate::run::refuse_made_anew(&parts, &places, &group_offsets(config))
}

/// The first offset of each of the partitions whose record is of `since_ms` (since 1970) or later;
/// none where there is none.
pub async fn offsets_since(
    config: &Config,
    partitions: Vec<Partition>,
    since_ms: i64,
) -> Result<BTreeMap<Partition, Option<Offset>>, SourceError> {
    match reads(config) {
        Reads::Kafka(kafka) => kafka::offsets_since(kafka, partitions, since_ms).await,
        Reads::Capture(capture) => capture::offsets_since(&again(capture)?, since_ms),
    }
}

/// State and members of the consumer group; none where the source has no groups.
pub async fn members(config: &Config) -> Result<Option<(String, Vec<Member>)>, SourceError> {
    match reads(config) {
        Reads::Kafka(kafka) => kafka::members(kafka).await.map(Some),
        Reads::Capture(_) => Ok(None),
    }
}

/// Reads as the configured group up to `ends`, and ends there.
pub fn source_below(config: &Config, ends: &Ends) -> Result<Source, SourceError> {
    match reads(config) {
        // As a static member it would stay in the group after it left, and keep it from being deleted.
        Reads::Kafka(kafka) => kafka::start(
            KafkaConfig { bounded: Some(Bound::At(Arc::new(ends.clone()))), instance: None, ..kafka },
            CHUNKS_AHEAD,
        ),
        Reads::Capture(capture) => capture::start_below(again(capture)?, ends.clone()),
    }
}

/// Reads these stretches and ends. It belongs to no group, and nothing is committed.
pub fn range(config: &Config, spans: Vec<Span>) -> Result<Source, SourceError> {
    match reads(config) {
        Reads::Kafka(kafka) => kafka::read(kafka, spans, CHUNKS_AHEAD),
        Reads::Capture(capture) => capture::read(again(capture)?, spans),
    }
}

fn again(config: capture::CaptureConfig) -> Result<capture::CaptureConfig, SourceError> {
    if config.paths.is_empty() {
        let message = "standard input can be read once only; keep the capture in a file, and name it with kind = \"file\" \
                       and path in [source]";
        return Err(SourceError::new(SourceFailure::Contract, message));
    }
    Ok(config)
}

/// The destination, to be looked at.
pub fn contents(config: &Config) -> Result<Box<dyn Contents>, SinkError> {
    let target = config.target.clone();
    Ok(match writes(config) {
        Writes::ClickHouse(clickhouse) => Box::new(ClickHouseContents::new(clickhouse, target)?),
        Writes::Sqlite(sqlite) => Box::new(SqliteContents::new(sqlite, target)),
        Writes::Postgres(postgres) => Box::new(PostgresContents::new(postgres, target)),
        Writes::MySql(mysql) => Box::new(MySqlContents::new(mysql, target)),
    })
}

/// The epochs that the destination has recorded.
pub async fn epochs(config: &Config) -> Result<Vec<RecordedEpoch>, SinkError> {
    let target = config.target.clone();
    match writes(config) {
        Writes::ClickHouse(clickhouse) => ClickHouse::new(clickhouse, target)?.epochs().await,
        Writes::Sqlite(sqlite) => Sqlite::new(sqlite, target)?.epochs(),
        Writes::Postgres(postgres) => Postgres::new(postgres, target).epochs().await,
        Writes::MySql(mysql) => MySql::new(mysql, target).epochs().await,
    }
}

/// Records where epochs begin: every run, replay and proof gives the records behind them their
/// epoch from then on.
pub async fn record_epochs(config: &Config, epochs: &[RecordedEpoch]) -> Result<(), SinkError> {
    let target = config.target.clone();
    match writes(config) {
        Writes::ClickHouse(clickhouse) => {
            let mut sink = ClickHouse::new(clickhouse, target)?;
            // Prepares what is missing.
            sink.epochs().await?;
            sink.record_epochs(epochs).await
        }
        Writes::Sqlite(sqlite) => {
            let mut sink = Sqlite::new(sqlite, target)?;
            sink.epochs()?;
            sink.record_epochs(epochs)
        }
        Writes::Postgres(postgres) => Postgres::new(postgres, target).record_epochs(epochs).await,
        Writes::MySql(mysql) => {
            let mut sink = MySql::new(mysql, target);
            sink.epochs().await?;
            sink.record_epochs(epochs).await
        }
    }
}

/// The command that moves the group to an offset of a partition, for people.
pub fn how_to_move(config: &Config, partition: &Partition, offset: Offset) -> String {
    group_offsets(config).how_to_move(partition, offset)
}

fn group_offsets(config: &Config) -> GroupOffsets {
    let move_command = match reads(config) {
        Reads::Kafka(kafka) => Some(kafka::move_command(&kafka)),
        Reads::Capture(_) => None,
    };
    GroupOffsets { move_command }
}

/// Why something that a command left could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// At the source.
    #[error("source: {0}")]
    Source(#[from] SourceError),
    /// In the destination.
    #[error("sink: {0}")]
    Sink(#[from] SinkError),
}

/// Removes every trace of a group that was made for one pass.
pub async fn forget_group(config: &Config, group: &str) -> Result<(), ForgetError> {
    match reads(config) {
        Reads::Kafka(kafka) => kafka::delete_group(kafka, group).await?,
        Reads::Capture(capture) => capture::forget_group(&capture, group)?,
    }
    forget_places(config, group).await?;
    Ok(())
}

/// Removes what a group left in the destination.
pub async fn forget_places(config: &Config, group: &str) -> Result<(), SinkError> {
    match writes(config) {
        Writes::ClickHouse(clickhouse) => ClickHouse::new(clickhouse, config.target.clone())?.forget_group(group).await,
        Writes::Sqlite(sqlite) => sqlite::scratch::forget_group(&sqlite, group),
        Writes::Postgres(postgres) => postgres::scratch::forget_group(&postgres, group).await,
        Writes::MySql(mysql) => mysql::scratch::forget_group(&mysql, group).await,
    }
}

/// A destination of the same form as the configured one, without its rows.
#[derive(Debug)]
pub struct Scratch {
    /// The pipeline into it.
    pub config: Config,
    live: Config,
}

impl Scratch {
    /// Lays it out: tables as they are in the live destination, and its places in the log. `name`
    /// tells it from others; a file is made in `folder`.
    pub async fn make(live: &Config, name: &str, folder: PathBuf) -> Result<Self, SinkError> {
        let mut config = live.clone();
        // What the live destination lacks is made here, whoever makes it there.
        config.target.create = true;
        match (writes(live), &mut config.sink) {
            (Writes::Sqlite(sqlite), SinkConfig::Sqlite { path, .. }) => {
                *path = folder.join(format!("{name}.db"));
                sqlite::scratch::make(&sqlite, path)?;
            }
            (Writes::Postgres(postgres), SinkConfig::Postgres { schema, .. }) => {
                *schema = postgres::scratch::beside(schema, name);
                postgres::scratch::make(&postgres, schema).await?;
            }
            (Writes::ClickHouse(clickhouse), SinkConfig::ClickHouse { database, cluster, .. }) => {
                *database = format!("{database}__{name}");
                *cluster = None;
                let made = clickhouse::scratch::make(clickhouse.clone(), live.target.clone(), database).await;
                if let Err(error) = made {
                    // What was made of it before must not stay.
                    if let Err(also) = clickhouse::scratch::remove(clickhouse, database).await {
                        tracing::warn!(error = %also, database, "a scratch database could not be removed");
                    }
                    return Err(error);
                }
            }
            (Writes::MySql(mysql), SinkConfig::MySql { address, .. }) => {
                let database = mysql::scratch::name(mysql.address.database(), name);
                *address = address.with_database(&database);
                if let Err(error) = mysql::scratch::make(&mysql, &database).await {
                    if let Err(also) = mysql::scratch::remove(&mysql, &database).await {
                        tracing::warn!(error = %also, database, "a scratch database could not be removed");
                    }
                    return Err(error);
                }
            }
            _ => {}
        }
        Ok(Self { config, live: live.clone() })
    }

    /// Removes it.
    pub async fn remove(&self) -> Result<(), SinkError> {
        match (writes(&self.live), &self.config.sink) {
            (Writes::ClickHouse(live), SinkConfig::ClickHouse { database, .. }) => {
                clickhouse::scratch::remove(live, database).await
            }
            (Writes::Postgres(live), SinkConfig::Postgres { schema, .. }) => {
                postgres::scratch::remove(&live, schema).await
            }
            (Writes::MySql(live), SinkConfig::MySql { address, .. }) => {
                mysql::scratch::remove(&live, address.database()).await
            }
            // The file goes with its folder.
            _ => Ok(()),
        }
    }
}
