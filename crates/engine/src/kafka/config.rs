//! What is read from Kafka, and the librdkafka settings that follow.
//!
//! A user may set any librdkafka property except those that Settle's promises stand on: a commit
//! before the destination is durable, a silent offset reset or a read of aborted transactions
//! would each break one, so they are refused by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;

use crate::log::Ends;
use crate::source::{SourceError, SourceFailure};

/// How long a revoked partition may take to drain, where nothing else is said.
pub const REVOKE_DEADLINE: Duration = Duration::from_secs(20);

/// Where a bounded run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The last stable offset that each partition has when the source starts.
    LastStable,
    /// Ends that were fixed before, so that several runs end alike. A partition without one is not read.
    At(Arc<Ends>),
}

/// What to read, and as whom.
#[derive(Clone)]
pub struct KafkaConfig {
    /// Bootstrap servers: `host:port`, commas between.
    pub brokers: String,
    /// Consumer group: whose progress this is.
    pub group: String,
    /// Topic names, or globs with `*` and `?`.
    pub topics: Vec<String>,
    /// `group.instance.id`: a restarted process gets its partitions back without waiting for the
    /// session of the one before to time out.
    pub instance: Option<String>,
    /// Other librdkafka properties, passed through.
    pub properties: BTreeMap<String, String>,
    /// How long a revoked partition may take to drain.
    pub revoke_deadline: Duration,
    /// Ends each partition there; none reads for ever.
    pub bounded: Option<Bound>,
    /// Age at which tombstones are purged: topics that may keep a record for longer are refused.
    pub tombstone_retention: Option<Duration>,
}

impl fmt::Debug for KafkaConfig {
    /// Without the values of properties: passwords are among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("group", &self.group)
            .field("topics", &self.topics)
            .field("instance", &self.instance)
            .field("properties", &self.properties.keys())
            .field("revoke_deadline", &self.revoke_deadline)
            .field("bounded", &self.bounded)
            .field("tombstone_retention", &self.tombstone_retention)
            .finish()
    }
}

/// Properties that are Settle's own, and why or where to set them.
const OWNED: &[(&str, &str)] = &[
    ("bootstrap.servers", "use [source] brokers"),
    ("metadata.broker.list", "use [source] brokers"),
    ("group.id", "use [source] group"),
    ("group.instance.id", "use [source] instance"),
    ("enable.auto.commit", "an offset is committed only after the destination said that its rows are durable"),
    ("auto.commit.enable", "an offset is committed only after the destination said that its rows are durable"),
    ("enable.auto.offset.store", "an offset is committed only after the destination said that its rows are durable"),
    ("offset.store.method", "offsets live in the consumer group"),
    ("auto.offset.reset", "a new group starts at the beginning of the log, and an offset out of range stops the run"),
    ("isolation.level", "records of aborted transactions are never applied"),
    ("partition.assignment.strategy", "settle moves partitions one by one (cooperative-sticky)"),
    ("group.protocol", "settle drains revoked partitions by the classic group protocol"),
    ("enable.partition.eof", "settle needs to see the end of each partition"),
];

/// Prefetched bytes, over all partitions, that librdkafka may hold before it stops fetching.
const QUEUED_BYTES: usize = 24 << 20;
/// Prefetched records, over all partitions; each costs librdkafka some hundred bytes besides its own.
const QUEUED_RECORDS: usize = 40_000;
/// Bytes of one fetch, over all partitions. They are compressed, and each partition may take one
/// fetch beyond what it may hold.
const FETCH_BYTES: usize = 2 << 20;

impl KafkaConfig {
    /// Refuses what cannot work, before anything is contacted.
    pub fn check(&self) -> Result<(), SourceError> {
        for (name, why) in OWNED {
            if self.properties.contains_key(*name) {
                return Err(refused(format!("[source.properties] {name} cannot be set: {why}")));
            }
        }
        if self.topics.is_empty() {
            return Err(refused("no topics to read: list names or patterns, as [\"shop.public.*\"]".to_owned()));
        }
        for topic in &self.topics {
            super::topics::check(topic).map_err(refused)?;
        }
        self.check_tls()
    }

    /// TLS and SCRAM need OpenSSL, which takes minutes to build and is therefore a feature.
    fn check_tls(&self) -> Result<(), SourceError> {
        if cfg!(feature = "kafka-tls") {
            return Ok(());
        }
        let value = |name: &str| self.properties.get(name).map(|value| value.to_lowercase()).unwrap_or_default();
        let needs_it = [("security.protocol", "ssl"), ("sasl.mechanism", "scram"), ("sasl.mechanisms", "scram")]
            .into_iter()
            .find(|(name, word)| value(name).contains(word));
        match needs_it {
            None => Ok(()),
            Some((name, _)) => Err(refused(format!(
                "[source.properties] {name} = \"{}\" needs TLS, which this binary was built without; \
                 build it with: cargo build --release --features kafka-tls",
                self.properties.get(name).map_or("", String::as_str)
            ))),
        }
    }

    /// Settings of every client: enough for metadata, watermarks and topic ids.
    pub(super) fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client
            .set_log_level(RDKafkaLogLevel::Info)
            .set("client.id", "settle")
            // A broker that is back should be seen within a second, not librdkafka's ten.
            .set("reconnect.backoff.max.ms", "1000");
        for (name, value) in &self.properties {
            client.set(name, value);
        }
        if self.properties.contains_key("debug") {
            client.set_log_level(RDKafkaLogLevel::Debug);
        }
        // Watermarks asked for by a read_committed client end at the last stable offset.
        client.set("bootstrap.servers", &self.brokers).set("isolation.level", "read_committed");
        client
    }

    /// Settings of a client that asks for changes of the cluster: it reads nothing.
    pub(super) fn admin(&self) -> ClientConfig {
        let mut admin = self.client();
        admin.remove("isolation.level");
        admin
    }

    /// Settings of a consumer that may hold up to `partitions`.
    ///
    /// Each partition has a queue of its own, and librdkafka's limits are per queue, so the
    /// budget is divided.
    pub(super) fn consumer(&self, partitions: usize) -> ClientConfig {
        let share =
            |budget: usize, least: usize, most: usize| (budget / partitions.max(1)).clamp(least, most).to_string();
        let mut consumer = self.client();
        let defaults = [
            ("queued.max.messages.kbytes", share(QUEUED_BYTES / 1024, 64, 8 * 1024)),
            ("queued.min.messages", share(QUEUED_RECORDS, 500, 20_000)),
            ("fetch.message.max.bytes", share(FETCH_BYTES, 32 << 10, 1 << 20)),
            ("fetch.max.bytes", FETCH_BYTES.to_string()),
            // The default of a second leaves a fast reader waiting three quarters of the time.
            ("fetch.queue.backoff.ms", "5".to_owned()),
            // New topics that match a pattern are found within a minute.
            ("topic.metadata.refresh.interval.ms", "60000".to_owned()),
        ];
        for (name, value) in defaults {
            if !self.properties.contains_key(name) && !self.is_set_by_alias(name) {
                consumer.set(name, value);
            }
        }
        consumer
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("enable.partition.eof", "true");
        if let Some(instance) = &self.instance {
            consumer.set("group.instance.id", instance);
        }
        consumer
    }

    fn is_set_by_alias(&self, name: &str) -> bool {
        name == "fetch.message.max.bytes" && self.properties.contains_key("max.partition.fetch.bytes")
    }

    /// A property that librdkafka refused. Its own words may hold the value, so only passwords'
    /// names are repeated.
    pub(super) fn refused_by_library(&self, error: &KafkaError) -> SourceError {
        match error {
            KafkaError::ClientConfig(_, _, name, _) if is_secret(name) => {
                refused(format!("[source.properties] {name} is not accepted by librdkafka"))
            }
            KafkaError::ClientConfig(_, why, name, _) => {
                refused(format!("[source.properties] {name} is not accepted by librdkafka: {why}"))
            }
            KafkaError::ClientCreation(why) => {
                refused(format!("the Kafka client cannot be set up with these properties: {why}"))
            }
            other => refused(format!("the Kafka client cannot be set up: {other}")),
        }
    }
}

fn is_secret(name: &str) -> bool {
    ["password", "secret", "key", "token"].iter().any(|word| name.contains(word))
}

fn refused(message: String) -> SourceError {
    SourceError::new(SourceFailure::Contract, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(properties: &[(&str, &str)]) -> KafkaConfig {
        KafkaConfig {
            brokers: "127.0.0.1:9092".to_owned(),
            group: "g".to_owned(),
            topics: vec!["t".to_owned()],
            instance: None,
            properties: properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            revoke_deadline: REVOKE_DEADLINE,
            bounded: None,
            tombstone_retention: None,
        }
    }

    #[test]
    fn properties_that_promises_stand_on_are_refused_with_the_reason() {
        let message = config(&[("enable.auto.commit", "true")]).check().unwrap_err().to_string();
        assert_eq!(
            message,
            "[source.properties] enable.auto.commit cannot be set: an offset is committed only after the destination \
             said that its rows are durable"
        );
        for (name, _) in OWNED {
            assert!(config(&[(name, "x")]).check().is_err(), "{name}");
        }
        assert!(config(&[("session.timeout.ms", "6000")]).check().is_ok());
    }

    #[test]
    #[cfg(not(feature = "kafka-tls"))]
    fn tls_names_the_build_that_has_it() {
        for (name, value) in
            [("security.protocol", "SASL_SSL"), ("security.protocol", "ssl"), ("sasl.mechanism", "SCRAM-SHA-256")]
        {
            let message = config(&[(name, value)]).check().unwrap_err().to_string();
            assert!(message.contains(value), "{message}");
            assert!(message.ends_with("cargo build --release --features kafka-tls"), "{message}");
        }
        assert!(config(&[("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "PLAIN")]).check().is_ok());
    }

    #[test]
    fn a_property_of_the_user_beats_a_default_and_never_one_of_ours() {
        let consumer = config(&[("queued.min.messages", "7"), ("max.partition.fetch.bytes", "9999")]).consumer(3);
        assert_eq!(consumer.get("queued.min.messages"), Some("7"));
        assert_eq!(consumer.get("fetch.message.max.bytes"), None);
        assert_eq!(consumer.get("auto.offset.reset"), Some("error"));
        assert_eq!(consumer.get("isolation.level"), Some("read_committed"));
    }

    #[test]
    fn prefetched_bytes_are_bounded_whatever_the_number_of_partitions() {
        for partitions in [1, 3, 12, 100] {
            let consumer = config(&[]).consumer(partitions);
            let number = |name: &str| consumer.get(name).unwrap().parse::<usize>().unwrap();
            let queued = partitions * (number("queued.max.messages.kbytes") * 1024 + number("fetch.message.max.bytes"));
            assert!(queued + number("fetch.max.bytes") <= 64 << 20, "{partitions} partitions: {queued}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let config = config(&[("sasl.password", "hunter2")]);
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
