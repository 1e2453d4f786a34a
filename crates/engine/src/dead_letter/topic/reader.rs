//! Everything that lies in the topic.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use settle_core::record::Header;
use settle_core::sink::{FailureKind, SinkError};

use super::{DeadLetterTopic, PARTITION};
use crate::dead_letter::entry::{Item, Stored, Values};
use crate::kafka::record;

/// How long a reader waits for the next record below the end.
const SILENCE: Duration = Duration::from_secs(30);

impl DeadLetterTopic {
    /// Gives everything in it, up to the end that it has now, to `take`. A topic that is not there
    /// is empty. Blocks.
    pub(in crate::dead_letter) fn read(&self, values: Values, mut take: impl FnMut(Item)) -> Result<(), SinkError> {
        let refused = |error: KafkaError| self.failed(&error);
        let consumer = self.consumer()?;
        if !self.is_there(&consumer)? {
            return Ok(());
        }
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(&self.topic, PARTITION, Offset::Beginning).map_err(refused)?;
        consumer.assign(&assignment).map_err(refused)?;
        let mut heard = Instant::now();
        loop {
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    heard = Instant::now();
                    let foreign = |problem: &str| {
                        let place = format!("{}:{}", message.partition(), message.offset());
                        let context = format!("record {place}: {problem}; is `topic` in [dlq] the right one?");
                        self.error(FailureKind::Contract, context)
                    };
                    let stored = stored(&message).ok_or_else(|| foreign("it has a header whose name is not UTF-8"))?;
                    take(values.of(stored).read().map_err(|problem| foreign(&problem.to_string()))?);
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
                // What passes by itself is waited for; the rest is said when nothing comes.
                Some(Err(error)) if heard.elapsed() >= SILENCE => return Err(self.failed(&error)),
                None if heard.elapsed() >= SILENCE => {
                    let context = format!("Kafka at {} sends nothing of it", self.brokers);
                    return Err(self.error(FailureKind::Unreachable, context));
                }
                Some(Err(_)) | None => {}
            }
        }
    }
}

/// What the message holds; none where a header's name is not UTF-8.
fn stored(message: &BorrowedMessage<'_>) -> Option<Stored> {
    let header =
        |(name, value): (&str, Option<&[u8]>)| Header { name: name.into(), value: value.map(Bytes::copy_from_slice) };
    Some(Stored {
        key: message.key().map(Bytes::copy_from_slice),
        value: message.payload().map(Bytes::copy_from_slice),
        headers: record::headers(message)?.into_iter().map(header).collect(),
    })
}
