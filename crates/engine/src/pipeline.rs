//! The one file that knows all the parts: from a checked configuration to a source and a sink.

use settle_core::sink::{Sink, SinkError};

use crate::capture::{self, CaptureConfig};
use crate::config::source::Origin;
use crate::config::{Config, SinkConfig};
use crate::kafka::{self, Bound, KafkaConfig, REVOKE_DEADLINE};
use crate::sinks::clickhouse::{ClickHouse, ClickHouseConfig};
use crate::sinks::sqlite::{Sqlite, SqliteConfig};
use crate::source::{Source, SourceError};

/// Chunks of records between the source and the run loop.
const CHUNKS_AHEAD: usize = 4;

/// Starts the source.
pub fn source(config: &Config, until_end: bool) -> Result<Source, SourceError> {
    match origin(config) {
        Reads::Kafka(kafka) => {
            kafka::start(KafkaConfig { bounded: until_end.then_some(Bound::LastStable), ..kafka }, CHUNKS_AHEAD)
        }
        Reads::Capture(capture) => capture::start(capture),
    }
}

/// Makes the sink; it connects when it is opened.
pub fn sink(config: &Config) -> Result<Box<dyn Sink>, SinkError> {
    let target = config.target.clone();
    Ok(match &config.sink {
        SinkConfig::ClickHouse { url, database, user, password, cluster, settings, request_timeout_ms } => {
            let config = ClickHouseConfig {
                url: url.clone(),
                database: database.clone(),
                user: user.clone(),
                password: password.clone(),
                request_timeout_ms: *request_timeout_ms,
                cluster: cluster.clone(),
                settings: settings.clone(),
            };
            Box::new(ClickHouse::new(config, target)?)
        }
        SinkConfig::Sqlite { path, busy_timeout_ms } => {
            Box::new(Sqlite::new(SqliteConfig { path: path.clone(), busy_timeout_ms: *busy_timeout_ms }, target)?)
        }
    })
}

/// What is read, in the words of the source that reads it.
pub enum Reads {
    /// Topics.
    Kafka(KafkaConfig),
    /// Captures, or standard input.
    Capture(CaptureConfig),
}

/// The source's own configuration.
pub fn origin(config: &Config) -> Reads {
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
        }),
        Origin::File { paths, topics, topic_id } => Reads::Capture(CaptureConfig { paths, topics, group, topic_id }),
        Origin::Stdin { topics, topic_id } => {
            Reads::Capture(CaptureConfig { paths: Vec::new(), topics, group, topic_id })
        }
    }
}
