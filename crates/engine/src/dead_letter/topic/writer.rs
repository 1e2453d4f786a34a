//! Letters and marks on their way into the topic.
//!
//! One is durable when every in-sync replica has it (`acks=all`).

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use settle_core::record::Header;
use settle_core::sink::{FailureKind, SinkError};

use super::context::Context;
use super::{DeadLetterTopic, PARTITION, PATIENCE};
use crate::dead_letter::entry::Stored;

/// The topic's own limit decides what is too big, not the client's, which is 1 MB by default. A
/// broker closes the connection above 100 MB (`socket.request.max.bytes`) and says nothing.
const MAX_BYTES: &str = "67108864";

/// How long the settings of the topic are waited for: some brokers keep silent about them.
const SETTINGS: Duration = Duration::from_secs(3);

/// Writes to the topic.
pub(in crate::dead_letter) struct TopicWriter {
    topic: DeadLetterTopic,
    /// Once the topic is known to be there.
    producer: Option<FutureProducer<Context>>,
    /// True once the topic's settings are known to be sound.
    is_sound: bool,
    /// True once letters are known to have been written to it.
    has_letters: bool,
}

impl TopicWriter {
    pub(in crate::dead_letter) fn new(topic: DeadLetterTopic) -> Self {
        Self { topic, producer: None, is_sound: false, has_letters: false }
    }

    /// The topic that it writes to.
    pub(in crate::dead_letter) fn topic(&self) -> &DeadLetterTopic {
        &self.topic
    }

    /// Letters were written to it, by whomever.
    pub(in crate::dead_letter) fn expect_letters(&mut self) {
        self.has_letters = true;
    }

    /// Writes all of them and waits until all are acknowledged. Says how many were too big.
    pub(in crate::dead_letter) async fn append(&mut self, records: &[Stored]) -> Result<u64, SinkError> {
        // A producer that failed is not used again: it may have given up for good.
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => self.topic.open(self.has_letters).await?,
        };
        if !self.is_sound {
            self.topic.look_at_settings().await?;
            self.is_sound = true;
        }
        let truncated = self.topic.append(&producer, records).await?;
        self.producer = Some(producer);
        self.has_letters = true;
        Ok(truncated)
    }
}

impl DeadLetterTopic {
    async fn append(&self, producer: &FutureProducer<Context>, records: &[Stored]) -> Result<u64, SinkError> {
        let sent = join_all(records.iter().map(|stored| self.send(producer, stored))).await;
        let mut truncated = 0;
        for (stored, sent) in records.iter().zip(sent) {
            match sent {
                Ok(()) => continue,
                // The broker refuses a whole request for one record in it: alone it may fit.
                Err(error) if is_too_big(&error) => match self.send(producer, stored).await {
                    Ok(()) => continue,
                    Err(error) if is_too_big(&error) => {
                        let cut = stored.clone().without_value();
                        self.send(producer, &cut).await.map_err(|error| self.failed(&error))?;
                        truncated += 1;
                    }
                    Err(error) => return Err(self.failed(&error)),
                },
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(truncated)
    }

    async fn send(&self, producer: &FutureProducer<Context>, stored: &Stored) -> Result<(), KafkaError> {
        let mut headers = OwnedHeaders::new_with_capacity(stored.headers.len());
        for Header { name, value } in &stored.headers {
            headers = headers.insert(rdkafka::message::Header { key: name, value: value.as_deref() });
        }
        let mut record: FutureRecord<'_, [u8], [u8]> =
            FutureRecord::to(&self.topic).partition(PARTITION).headers(headers);
        record.key = stored.key.as_deref();
        record.payload = stored.value.as_deref();
        let sent = producer.send(record, Timeout::After(PATIENCE)).await;
        sent.map(|_| ()).map_err(|(error, _)| error)
    }

    fn admin(&self) -> Result<AdminClient<Context>, SinkError> {
        self.client(&[]).create_with_context(self.context.clone()).map_err(|error| self.failed(&error))
    }

    /// Makes the topic where it is missing and that is allowed. `has_letters`: it was there before.
    async fn open(&self, has_letters: bool) -> Result<FutureProducer<Context>, SinkError> {
        let refused = |error: KafkaError| self.failed(&error);
        if !self.appears(Duration::ZERO).await? {
            // They must outlive a holiday, and those of one key must not replace each other.
            let wanted = NewTopic::new(&self.topic, 1, TopicReplication::Fixed(-1))
                .set("cleanup.policy", "delete")
                .set("retention.ms", "-1")
                .set("retention.bytes", "-1");
            let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
            let made = self.admin()?.create_topics([&wanted], &options).await.map_err(refused)?;
            match made.into_iter().next() {
                Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => {}
                Some(Err((_, code))) => {
                    let context = format!(
                        "the topic does not exist, and it could not be made ({code}); create it, or let this user \
                         create topics"
                    );
                    return Err(self.error(FailureKind::Contract, context));
                }
                Some(Ok(_)) | None if has_letters => tracing::warn!(
                    topic = self.topic,
                    "the topic for dead letters was gone and is made anew: the letters in it are lost, and what stands on \
                     them stays held in the destination until whole rows come; take a new snapshot of their tables, or \
                     read their records again from the log"
                ),
                Some(Ok(_)) | None => tracing::info!(topic = self.topic, "topic for dead letters created"),
            }
            // Brokers learn of a new topic one after the other.
            if !self.appears(PATIENCE).await? {
                let context = format!("Kafka at {} made the topic but does not show it yet", self.brokers);
                return Err(self.error(FailureKind::Unreachable, context));
            }
        }
        self.client(&[("message.max.bytes", MAX_BYTES)])
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", PATIENCE.as_millis().to_string())
            .create_with_context(self.context.clone())
            .map_err(refused)
    }

    /// True if the topic is there within this time.
    async fn appears(&self, within: Duration) -> Result<bool, SinkError> {
        let topic = self.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let until = Instant::now() + within;
            let consumer = topic.consumer()?;
            loop {
                let is_there = topic.is_there(&consumer)?;
                if is_there || Instant::now() >= until {
                    return Ok(is_there);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        looked.await.unwrap_or_else(|error| Err(self.error(FailureKind::Bug, error.to_string())))
    }

    /// Refuses a topic that would lose letters to each other, and warns of one that forgets them.
    /// Who may not see the topic's settings is trusted.
    async fn look_at_settings(&self) -> Result<(), SinkError> {
        let options = AdminOptions::new().request_timeout(Some(SETTINGS));
        let seen = self.admin()?.describe_configs([&ResourceSpecifier::Topic(&self.topic)], &options).await;
        let Some(settings) = seen.ok().and_then(|seen| seen.into_iter().next()?.ok()) else {
            tracing::debug!(topic = self.topic, "the settings of the topic cannot be seen");
            return Ok(());
        };
        let setting = |name: &str| settings.get(name).and_then(|entry| entry.value.as_deref());
        let policy = setting("cleanup.policy").unwrap_or_default();
        if policy.split(',').any(|policy| policy.trim() == "compact") {
            let context = format!(
                "its cleanup.policy is {policy}: of several letters with one key it would keep the last; set it to delete"
            );
            return Err(self.error(FailureKind::Contract, context));
        }
        for name in ["retention.ms", "retention.bytes"] {
            if let Some(limit) = setting(name).filter(|limit| *limit != "-1") {
                tracing::warn!(topic = self.topic, "{name} is {limit}: dead letters above it are lost; set it to -1");
            }
        }
        Ok(())
    }
}

fn is_too_big(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge)
}
