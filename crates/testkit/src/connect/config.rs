//! Connector configurations that suit a test: small pauses, text for decimals, topics that are made on the first record.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::{mariadb, postgres, services};

/// The configuration of one connector, without its name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Config(BTreeMap<String, String>);

impl Config {
    /// All tables of `database` into topics `<prefix>.<schema>.<table>` of three partitions. Slot and publication are named
    /// `prefix`, which must be lower case and new to the server; they go with the database.
    pub fn postgres(database: &postgres::Database, prefix: &str) -> Self {
        Self::source(prefix)
            .with("connector.class", "io.debezium.connector.postgresql.PostgresConnector")
            .with("plugin.name", "pgoutput")
            .with("database.hostname", database.host())
            .with("database.port", &database.port().to_string())
            .with("database.user", database.user())
            .with("database.password", database.password())
            .with("database.dbname", database.name())
            .with("slot.name", prefix)
            .with("publication.name", prefix)
            // A killed worker's connection may hold the slot a moment longer.
            .with("slot.max.retries", "60")
            .with("slot.retry.delay.ms", "500")
    }

    /// All tables of `database` into topics `<prefix>.<database>.<table>` of three partitions; schema changes into `prefix`.
    pub fn mariadb(database: &mariadb::Database, prefix: &str) -> Self {
        Self::source(prefix)
            .with("connector.class", "io.debezium.connector.mariadb.MariaDbConnector")
            .with("database.hostname", database.host())
            .with("database.port", &database.port().to_string())
            .with("database.user", database.user())
            .with("database.password", database.password())
            .with("database.server.id", &replica_id(prefix).to_string())
            .with("database.include.list", database.name())
            .with("schema.history.internal.kafka.bootstrap.servers", services::kafka())
            .with("schema.history.internal.kafka.topic", &format!("{prefix}.schema-history"))
    }

    fn source(prefix: &str) -> Self {
        Self(BTreeMap::new())
            .with("topic.prefix", prefix)
            .with("topic.creation.default.replication.factor", "1")
            .with("topic.creation.default.partitions", "3")
            .with("decimal.handling.mode", "string")
            .with("time.precision.mode", "connect")
            .with("poll.interval.ms", "50")
            .with("retriable.restart.connector.wait.ms", "500")
    }

    /// The same with one setting more, or another value of it.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.0.insert(key.to_owned(), value.to_owned());
        self
    }
}

/// Two replicas of one id throw each other out, so each prefix has its own; 1 is the server's.
fn replica_id(prefix: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    prefix.hash(&mut hasher);
    2 + hasher.finish() % (1 << 31)
}
