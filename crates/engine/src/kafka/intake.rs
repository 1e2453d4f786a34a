//! One assigned partition being read: its queue, how far it was delivered, where it ends.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::Message;
use rdkafka::consumer::Consumer as _;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::record::Record;

use super::client::Consumer;
use super::context::{Context, Trouble};
use super::record::record_of;
use super::start::Start;
use crate::source::{Chunk, SourceError, SourceEvent, SourceFailure};

/// Records sent at once, at most.
const CHUNK_RECORDS: usize = 500;
/// Bytes sent at once; the record that reaches it is the last.
const CHUNK_BYTES: usize = 1 << 20;

/// What a look into the queue found.
pub(super) enum Look {
    /// Nothing is there now.
    Nothing,
    /// This is to be sent.
    Event(SourceEvent),
    /// librdkafka reports an error of the partition.
    Trouble(Trouble),
    /// The run must stop.
    Failed(SourceError),
}

/// A partition being read.
pub(super) struct Intake {
    pub(super) partition: Partition,
    pub(super) topic_id: Option<TopicId>,
    generation: u64,
    queue: PartitionQueue<Context>,
    /// Everything below was delivered, or is not in the log.
    next: Offset,
    /// The group never committed an offset of it, and nothing was delivered: it starts wherever
    /// the log does.
    fresh: bool,
    /// End of a bounded run.
    bound: Option<Offset>,
    /// The bound was reached: nothing more is delivered.
    ended: bool,
    /// What cut the last chunk short; it comes after that chunk.
    ahead: Option<Look>,
    /// Nothing is taken before these are committed.
    waits_for: Vec<(Partition, Offset)>,
}

impl Intake {
    /// Splits the partition's queue off, so that its records never come through the main queue:
    /// must happen before the partition is assigned. None if librdkafka does not know it.
    pub(super) fn open(consumer: &Arc<Consumer>, generation: u64, at: &Start) -> Option<Self> {
        let Start { partition, topic_id, start, committed, bound, waits_for, .. } = at.clone();
        let mut queue = consumer.split_partition_queue(&partition.topic, partition.number)?;
        let wake = consumer.context().wake.clone();
        queue.set_nonempty_callback(move || wake.notify_one());
        let mut intake = Self {
            partition,
            topic_id,
            generation,
            queue,
            next: start,
            fresh: committed.is_none(),
            bound,
            ended: false,
            ahead: None,
            waits_for,
        };
        // An end that lies behind us needs no broker to confirm it.
        if bound.is_some_and(|bound| bound <= start) {
            intake.ahead = intake.reach(start);
        }
        Some(intake)
    }

    /// What must be committed before it is read.
    pub(super) fn waits_for(&self) -> &[(Partition, Offset)] {
        &self.waits_for
    }

    /// It may be read now.
    pub(super) fn go(&mut self) {
        self.waits_for.clear();
    }

    /// The next offset to deliver.
    pub(super) fn next(&self) -> Offset {
        self.next
    }

    /// True if it is still free to start later.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The log starts later than it did when the partition was assigned.
    pub(super) fn skip_to(&mut self, start: Offset) {
        self.next = self.next.max(start);
    }

    /// Takes what is there, up to one event. Never waits.
    pub(super) fn look(&mut self, context: &Context) -> Look {
        if !self.waits_for.is_empty() {
            return Look::Nothing;
        }
        if let Some(ahead) = self.ahead.take() {
            return ahead;
        }
        let mut records: Vec<Record> = Vec::new();
        let mut bytes = 0;
        while !self.ended && self.ahead.is_none() && records.len() < CHUNK_RECORDS && bytes < CHUNK_BYTES {
            match self.poll(context) {
                Polled::Nothing => break,
                Polled::Passed => {}
                Polled::Record(record) => {
                    bytes += record.size();
                    records.push(record);
                }
                Polled::Other(look) => self.ahead = Some(look),
            }
        }
        if records.is_empty() {
            return self.ahead.take().unwrap_or(Look::Nothing);
        }
        self.fresh = false;
        let (partition, generation) = (self.partition.clone(), self.generation);
        Look::Event(SourceEvent::Records(Chunk { partition, generation, records }))
    }

    fn poll(&mut self, context: &Context) -> Polled {
        let taken = match self.queue.poll(Duration::ZERO) {
            None => return Polled::Nothing,
            Some(Ok(message)) => take(&message, &self.partition, self.next, self.bound),
            Some(Err(KafkaError::PartitionEOF(_))) => match context.end() {
                Some(Ok(end)) => Taken::End(end),
                unknown => return Polled::Other(Look::Failed(self.unknown_end(unknown))),
            },
            Some(Err(error)) => return Polled::Other(trouble(context, &error)),
        };
        match taken {
            Taken::Seen => Polled::Passed,
            Taken::Record(Err(error)) => Polled::Other(Look::Failed(error)),
            Taken::Record(Ok(record)) => {
                self.next = record.offset + 1;
                Polled::Record(record)
            }
            Taken::End(end) => self.reach(end).map_or(Polled::Passed, Polled::Other),
        }
    }

    /// Everything below `end` was delivered. A bounded run takes note of its own end only.
    fn reach(&mut self, end: Offset) -> Option<Look> {
        if end < self.next && self.bound.is_none() {
            return None;
        }
        let (end, bounded) = match self.bound {
            Some(bound) if end < bound => return None,
            Some(bound) => (bound.max(self.next), true),
            None => (end, false),
        };
        self.next = end;
        self.ended = bounded;
        self.fresh = false;
        let (partition, generation) = (self.partition.clone(), self.generation);
        Some(Look::Event(SourceEvent::ReachedEnd { partition, generation, end, bounded }))
    }

    fn unknown_end(&self, reason: Option<Result<Offset, String>>) -> SourceError {
        let words = match reason {
            Some(Err(words)) => words,
            _ => "nothing".to_owned(),
        };
        SourceError::new(
            SourceFailure::Contract,
            format!(
                "librdkafka tells the end of {} in words that settle does not know (\"{words}\"); build settle with the \
                 librdkafka that its Cargo.lock names",
                self.partition
            ),
        )
    }
}

/// What one poll gave.
enum Polled {
    Nothing,
    Passed,
    Record(Record),
    Other(Look),
}

/// What a message or the end of the partition means here.
enum Taken {
    /// It was delivered before: librdkafka fetches from a little back where a rebalance of other
    /// partitions met a poll.
    Seen,
    Record(Result<Record, SourceError>),
    /// Everything below is known to have been delivered.
    End(Offset),
}

fn take(message: &BorrowedMessage<'_>, partition: &Partition, next: Offset, bound: Option<Offset>) -> Taken {
    let offset = message.offset();
    if offset < next {
        Taken::Seen
    } else if bound.is_some_and(|bound| offset >= bound) {
        Taken::End(offset)
    } else {
        Taken::Record(record_of(partition, message))
    }
}

fn trouble(context: &Context, error: &KafkaError) -> Look {
    match context.latest_trouble() {
        Some(trouble) => Look::Trouble(trouble),
        None => Look::Failed(SourceError::new(SourceFailure::Contract, format!("reading from Kafka failed: {error}"))),
    }
}
