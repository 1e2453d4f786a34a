//! The one file that knows all the parts: from a checked configuration to a source and a sink.

use settle_core::sink::{Sink, SinkError};

use crate::capture::{self, CaptureConfig};
use crate::config::source::Origin;
use crate::config::{Config, SinkConfig};
use crate::kafka::{self, KafkaConfig};
use crate::sinks::clickhouse::{ClickHouse, ClickHouseConfig};
use crate::sinks::sqlite::{Sqlite, SqliteConfig};
use crate::source::{Source, SourceError};

/// Starts the source.
pub fn source(config: &Config, until_end: bool) -> Result<Source, SourceError> {
    match &config.source.origin {
        Origin::Kafka { .. } => kafka::start(kafka_config(config, until_end)),
        Origin::File { .. } | Origin::Stdin { .. } => capture::start(capture_config(config)),
    }
}

/// Makes the sink; it connects when it is opened.
pub fn sink(config: &Config) -> Result<Box<dyn Sink>, SinkError> {
    let target = config.target.clone();
    Ok(match &config.sink {
        SinkConfig::ClickHouse { .. } => Box::new(ClickHouse::new(clickhouse_config(config), target)?),
        SinkConfig::Sqlite { path, busy_timeout_ms } => {
            Box::new(Sqlite::new(SqliteConfig { path: path.clone(), busy_timeout_ms: *busy_timeout_ms }, target)?)
        }
    })
}
