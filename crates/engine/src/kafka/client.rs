//! Clients of librdkafka: making them, polling them, asking for topics.

use std::time::Duration;

use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::types::RDKafkaErrorCode;

use super::config::KafkaConfig;
use super::context::{Context, Trouble};
use super::failure::{Verdict, judge, of_call};
use super::topics::Topic;
use crate::source::{SourceError, SourceFailure};

/// A client with our callbacks.
pub(super) type Consumer = BaseConsumer<Context>;

/// Callbacks served at once; a flood of log lines must not keep the thread from its work.
const MAX_CALLS: usize = 1000;

/// Makes a client. Nothing is contacted yet, but properties are checked by librdkafka.
pub(super) fn create(config: &KafkaConfig, settings: &ClientConfig) -> Result<Consumer, SourceError> {
    let mut consumer: Consumer =
        settings.create_with_context(Context::new()).map_err(|error| config.refused_by_library(&error))?;
    let wake = consumer.context().wake.clone();
    consumer.set_nonempty_callback(move || wake.notify_one());
    Ok(consumer)
}

/// Serves the main queue until nothing waits there: rebalances, errors and log lines go to the
/// context.
pub(super) fn poll(consumer: &Consumer) -> Result<(), SourceError> {
    for _ in 0..MAX_CALLS {
        let calls = consumer.context().calls();
        match consumer.poll(Duration::ZERO) {
            // Every partition is split off before it is assigned, so none may come this way, and
            // one that did would be lost in silence.
            Some(Ok(message)) => {
                let place = format!("{}:{}:{}", message.topic(), message.partition(), message.offset());
                let message = format!("librdkafka delivered {place} outside its partition's queue");
                return Err(SourceError::new(SourceFailure::Contract, message));
            }
            // Its code and words are in the context.
            Some(Err(_)) => {}
            // None stands for "nothing" and for "a callback was called" alike.
            None if consumer.context().calls() == calls => return Ok(()),
            None => {}
        }
    }
    Ok(())
}

/// All topics of the cluster.
pub(super) fn list(consumer: &Consumer, config: &KafkaConfig, patience: Duration) -> Result<Vec<Topic>, SourceError> {
    let metadata = consumer
        .fetch_metadata(None, patience)
        .map_err(|error| explain(consumer, config, of_call("listing topics", &config.brokers, &error)))?;
    let topics = metadata.topics().iter().filter(|topic| !topic.partitions().is_empty());
    Ok(topics
        .map(|topic| Topic {
            name: topic.name().to_owned(),
            partitions: i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX),
        })
        .collect())
}

/// True if a broker answers.
pub(super) fn answers(consumer: &Consumer, topic: Option<&str>, patience: Duration) -> bool {
    consumer.fetch_metadata(topic, patience).is_ok()
}

/// Gives an error of a call the cause that librdkafka noted beside it: which address, and why.
pub(super) fn explain(consumer: &Consumer, config: &KafkaConfig, error: SourceError) -> SourceError {
    if error.kind != SourceFailure::Unreachable || poll(consumer).is_err() {
        return error;
    }
    let mut cause: Option<Trouble> = None;
    while let Some(trouble) = consumer.context().trouble() {
        if cause.as_ref().is_none_or(|cause| telling(trouble.code) >= telling(cause.code)) {
            cause = Some(trouble);
        }
    }
    match cause.filter(|cause| telling(cause.code) > 0) {
        Some(trouble) => outage(config, &trouble),
        None => error,
    }
}

/// How much an error tells of why a broker does not answer.
pub(super) fn telling(code: RDKafkaErrorCode) -> u8 {
    match judge(code) {
        Verdict::Denied | Verdict::Rejected => 3,
        // That all brokers are down says less than why one is.
        Verdict::Outage if code == RDKafkaErrorCode::AllBrokersDown => 1,
        Verdict::Outage => 2,
        _ => 0,
    }
}

/// The broker is away, or refuses us.
pub(super) fn outage(config: &KafkaConfig, trouble: &Trouble) -> SourceError {
    let message = match judge(trouble.code) {
        Verdict::Rejected => format!(
            "Kafka at {} does not let us in: {}; check [source.properties] security.protocol, sasl.* and ssl.*",
            config.brokers, trouble.reason
        ),
        Verdict::Denied => format!(
            "Kafka at {} denies access: {}; settle must be allowed to describe and read the topics and to use group {}",
            config.brokers, trouble.reason, config.group
        ),
        _ => format!("Kafka at {} does not answer: {}", config.brokers, trouble.reason),
    };
    SourceError::new(SourceFailure::Unreachable, message)
}
