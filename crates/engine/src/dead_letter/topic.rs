//! Dead letters in a Kafka topic.
//!
//! A letter is durable when every in-sync replica has it (`acks=all`). All records of one origin
//! lie in one partition, in order, whatever their key is: a mark comes behind its letter.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers as _, Message as _, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use rdkafka::util::Timeout;
use rdkafka::{Offset, TopicPartitionList};
use settle_core::record::Header;
use settle_core::sink::{FailureKind, SinkError};

use super::entry::{Item, Origin, Stored};

/// How long one question, and one delivery, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a reader waits for the next record below the end.
const SILENCE: Duration = Duration::from_secs(30);

/// A topic of dead letters.
pub(super) struct DeadLetterTopic {
    brokers: String,
    topic: String,
    properties: BTreeMap<String, String>,
    opened: Option<Opened>,
}

/// A topic that is known to be there.
struct Opened {
    producer: FutureProducer,
    partitions: u64,
}

impl DeadLetterTopic {
    pub(super) fn new(brokers: String, topic: String, properties: BTreeMap<String, String>) -> Self {
        Self { brokers, topic, properties, opened: None }
    }

    fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        for (name, value) in &self.properties {
            client.set(name, value);
        }
        client.set("bootstrap.servers", &self.brokers);
        client
    }

    /// Writes all of them and waits until all are acknowledged. Says how many were too big.
    pub(super) async fn append(&mut self, records: &[(Origin, Stored)]) -> Result<u64, SinkError> {
        if self.opened.is_none() {
            self.opened = Some(self.open().await?);
        }
        let Some(opened) = &self.opened else { return Ok(0) };
        let sent = join_all(records.iter().map(|(origin, stored)| self.send(opened, origin, stored))).await;
        let mut truncated = 0;
        for ((origin, stored), sent) in records.iter().zip(sent) {
            match sent {
                Ok(()) => continue,
                // The broker refuses a whole request for one record in it: alone it may fit.
                Err(error) if is_too_big(&error) => match self.send(opened, origin, stored).await {
                    Ok(()) => continue,
                    Err(error) if is_too_big(&error) => {
                        let cut = stored.clone().without_value();
                        self.send(opened, origin, &cut).await.map_err(|error| self.failed(&error))?;
                        truncated += 1;
                    }
                    Err(error) => return Err(self.failed(&error)),
                },
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(truncated)
    }

    async fn send(&self, opened: &Opened, origin: &Origin, stored: &Stored) -> Result<(), KafkaError> {
        let mut headers = OwnedHeaders::new_with_capacity(stored.headers.len());
        for Header { name, value } in &stored.headers {
            headers = headers.insert(rdkafka::message::Header { key: name, value: value.as_deref() });
        }
        let mut hasher = DefaultHasher::new();
        origin.to_string().hash(&mut hasher);
        let partition = i32::try_from(hasher.finish() % opened.partitions).unwrap_or(0);
        let mut record: FutureRecord<'_, [u8], [u8]> =
            FutureRecord::to(&self.topic).partition(partition).headers(headers);
        record.key = stored.key.as_deref();
        record.payload = stored.value.as_deref();
        let sent = opened.producer.send(record, Timeout::After(PATIENCE)).await;
        sent.map(|_| ()).map_err(|(error, _)| error)
    }

    /// Makes the topic where it is missing and that is allowed, and looks how many partitions it has.
    async fn open(&self) -> Result<Opened, SinkError> {
        let refused = |error: KafkaError| self.failed(&error);
        let producer: FutureProducer = self
            .client()
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", PATIENCE.as_millis().to_string())
            .create()
            .map_err(refused)?;
        let admin: AdminClient<DefaultClientContext> = self.client().create().map_err(refused)?;
        // One partition: dead letters are few, and read in order. They must outlive a holiday.
        let wanted = NewTopic::new(&self.topic, 1, TopicReplication::Fixed(-1)).set("retention.ms", "-1");
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let made = admin.create_topics([&wanted], &options).await.map_err(refused)?;
        let why_not = match made.into_iter().next() {
            Some(Err((_, code))) if code != RDKafkaErrorCode::TopicAlreadyExists => Some(code),
            Some(Ok(_)) => {
                tracing::info!(topic = self.topic, "topic for dead letters created");
                None
            }
            _ => None,
        };
        let (client, topic) = (producer.clone(), self.topic.clone());
        let looked = tokio::task::spawn_blocking(move || partitions(&client, &topic)).await;
        let partitions = looked.map_err(|error| self.error(FailureKind::Bug, error.to_string()))?.map_err(refused)?;
        if partitions == 0 {
            let why = why_not.map(|code| format!(" ({code})")).unwrap_or_default();
            let context = format!(
                "the topic does not exist, and it could not be made{why}; create it, or let this user create topics"
            );
            return Err(self.error(FailureKind::Contract, context));
        }
        Ok(Opened { producer, partitions })
    }

    /// Everything in it, up to the end that it has now. A topic that is not there is empty. Blocks.
    pub(super) fn read(&self) -> Result<Vec<Item>, SinkError> {
        let refused = |error: KafkaError| self.failed(&error);
        let consumer: BaseConsumer = self
            .client()
            .set("enable.partition.eof", "true")
            .set("group.id", "settle-dlq")
            .create()
            .map_err(refused)?;
        let metadata = consumer.fetch_metadata(Some(&self.topic), PATIENCE).map_err(refused)?;
        let partitions: Vec<i32> = metadata.topics().iter().flat_map(|t| t.partitions()).map(|p| p.id()).collect();
        let mut assignment = TopicPartitionList::new();
        for number in &partitions {
            assignment.add_partition_offset(&self.topic, *number, Offset::Beginning).map_err(refused)?;
        }
        consumer.assign(&assignment).map_err(refused)?;
        let mut items = Vec::new();
        let mut open = partitions.len();
        let mut heard = Instant::now();
        while open > 0 {
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    let place = format!("{}:{}", message.partition(), message.offset());
                    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
                    let headers = headers.map(|h| Header { name: h.key.into(), value: h.value.map(copied) }).collect();
                    let stored =
                        Stored { key: message.key().map(copied), value: message.payload().map(copied), headers };
                    items.push(stored.read().map_err(|problem| {
                        let context = format!("record {place}: {problem}; is `topic` in [dlq] the right one?");
                        self.error(FailureKind::Contract, context)
                    })?);
                }
                Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
                // What passes by itself is waited for; the rest is said when nothing comes.
                Some(Err(error)) if heard.elapsed() >= SILENCE => return Err(self.failed(&error)),
                Some(Err(_)) => continue,
                None if heard.elapsed() >= SILENCE => {
                    let context = format!("Kafka at {} sends nothing of it", self.brokers);
                    return Err(self.error(FailureKind::Unreachable, context));
                }
                None => continue,
            }
            heard = Instant::now();
        }
        Ok(items)
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

fn copied(bytes: &[u8]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(bytes)
}

fn partitions(producer: &FutureProducer, topic: &str) -> Result<u64, KafkaError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let metadata = producer.client().fetch_metadata(Some(topic), PATIENCE)?;
        let count = metadata.topics().iter().map(|topic| topic.partitions().len() as u64).sum();
        // Brokers learn of a new topic one after the other.
        if count > 0 || Instant::now() >= until {
            return Ok(count);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_too_big(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge)
}
