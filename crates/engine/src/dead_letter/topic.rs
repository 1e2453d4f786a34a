//! Dead letters in a Kafka topic.
//!
//! All of them lie in one partition, the first: dead letters are few, and what was done about one
//! must stand behind it, also when the topic has, or gets, more partitions.

mod reader;
mod writer;

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use settle_core::sink::{FailureKind, SinkError};

pub(super) use writer::TopicWriter;

/// How long one question, and one delivery, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The partition that dead letters lie in.
const PARTITION: i32 = 0;

/// A topic of dead letters, and how it is reached.
#[derive(Clone, Debug)]
pub(super) struct DeadLetterTopic {
    brokers: String,
    topic: String,
    properties: BTreeMap<String, String>,
}

impl DeadLetterTopic {
    pub(super) fn new(brokers: String, topic: String, properties: BTreeMap<String, String>) -> Self {
        Self { brokers, topic, properties }
    }

    /// A client, with the given properties where none are configured.
    fn client(&self, defaults: &[(&str, &str)]) -> ClientConfig {
        let mut client = ClientConfig::new();
        for (name, value) in defaults {
            client.set(*name, *value);
        }
        for (name, value) in &self.properties {
            client.set(name, value);
        }
        client.set("bootstrap.servers", &self.brokers);
        client
    }

    /// A client that only looks and reads: it makes no topic by asking for it, as a producer may,
    /// and leaves no offsets behind.
    fn consumer(&self) -> Result<BaseConsumer, SinkError> {
        let made = self
            .client(&[])
            .set("group.id", "settle-dlq")
            .set("allow.auto.create.topics", "false")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .create();
        made.map_err(|error| self.failed(&error))
    }

    /// True if the topic is there. Blocks.
    fn is_there(&self, consumer: &BaseConsumer) -> Result<bool, SinkError> {
        let metadata = consumer.fetch_metadata(Some(&self.topic), PATIENCE).map_err(|error| self.failed(&error))?;
        let Some(topic) = metadata.topics().iter().find(|topic| topic.name() == self.topic) else { return Ok(false) };
        match topic.error().map(RDKafkaErrorCode::from) {
            None => Ok(!topic.partitions().is_empty()),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => Ok(false),
            Some(code) => Err(self.failed(&KafkaError::MetadataFetch(code))),
        }
    }

    fn failed(&self, error: &KafkaError) -> SinkError {
        use RDKafkaErrorCode as C;
        let code = match error {
            KafkaError::AdminOp(code) => Some(*code),
            error => error.rdkafka_error_code(),
        };
        let (kind, context) = match code {
            Some(
                C::TopicAuthorizationFailed
                | C::ClusterAuthorizationFailed
                | C::SaslAuthenticationFailed
                | C::Authentication
                | C::SSL,
            ) => (
                FailureKind::Denied,
                format!("Kafka at {} refuses ({error}); let this user write, and read, the topic", self.brokers),
            ),
            Some(C::UnknownTopicOrPartition | C::UnknownTopic | C::UnknownPartition) => {
                (FailureKind::Unreachable, format!("Kafka at {} does not know the topic; create it", self.brokers))
            }
            Some(C::InvalidConfig) | None => {
                (FailureKind::Contract, format!("{error}; see [dlq.properties] and [source.properties]"))
            }
            Some(C::MessageSizeTooLarge) => (
                FailureKind::Contract,
                format!("even without its value a letter is too big ({error}); raise max.message.bytes of the topic"),
            ),
            Some(_) => (
                FailureKind::Unreachable,
                format!("Kafka at {} does not take or give it ({error}); is it running?", self.brokers),
            ),
        };
        self.error(kind, context)
    }

    fn error(&self, kind: FailureKind, context: String) -> SinkError {
        SinkError::new(kind, format!("dead letters in topic {}", self.topic), context)
    }
}
