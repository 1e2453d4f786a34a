//! Stretches of the log, read as no group: nothing is joined, nothing is committed.
//!
//! One stretch after the other, each as an assignment of its own that ends at its end, so that the
//! run loop takes each up with the floors that hold at its start. Invariant: what is asked for lies
//! in the log, or nothing is read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use settle_core::position::{Span, TopicId};
use settle_core::sink::BoxFuture;
use tokio::sync::mpsc::{self, Sender};

use super::client::{self, Consumer};
use super::config::KafkaConfig;
use super::context::Trouble;
use super::failure::{Verdict, judge, of_call};
use super::intake::{Intake, Look};
use super::start::{self, Start};
use super::topic_id::topic_ids;
use crate::source::{
    Assignment, CommitPoint, GroupOffsets, OffsetStore, PartitionProgress, Source, SourceError, SourceEvent,
    SourceFailure, Stop,
};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A broker that sends nothing for so long, below an end that it named itself, is told to be away.
const SILENCE: Duration = Duration::from_secs(10);
/// Rest where nothing is there yet.
const REST: Duration = Duration::from_millis(5);

/// Reads the stretches on a thread of its own, and ends.
pub fn read(config: KafkaConfig, spans: Vec<Span>, capacity: usize) -> Result<Source, SourceError> {
    config.check()?;
    let mut settings = config.consumer(1);
    // What is asked for is there. A broker answers in order: while it waits for records behind the end of a
    // stretch, every question about the next one waits, too.
    settings.set("fetch.wait.max.ms", "10");
    let consumer = Arc::new(client::create(&config, &settings)?);
    let (events, receiver) = mpsc::channel(capacity.max(1));
    std::thread::Builder::new()
        .name("settle-range".to_owned())
        .spawn(move || {
            let reading = Reading { config: &config, consumer: &consumer, events: &events, is_away: false };
            let last = match reading.read(&spans) {
                Ok(()) => SourceEvent::Ended,
                Err(Stop::Failed(error)) => SourceEvent::Failed(error),
                Err(Stop::NobodyListens) => return,
            };
            // The loop may be gone already; then nobody needs to know.
            let _ = events.blocking_send(last);
        })
        .map_err(|error| {
            let message = format!("cannot start a thread to read from Kafka ({error})");
            SourceError::new(SourceFailure::Contract, message)
        })?;
    Ok(Source { events: receiver, offsets: Box::new(Nowhere), group: GroupOffsets::default() })
}

/// A pass that is no group's keeps no offsets.
struct Nowhere;

impl OffsetStore for Nowhere {
    fn commit<'a>(&'a self, _: &'a [CommitPoint]) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(async { Ok(()) })
    }

    fn progress<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Vec<PartitionProgress>>, SourceError>> {
        Box::pin(async { Ok(None) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // The thread ends by itself: it finds nobody listening.
        Box::pin(async {})
    }
}

struct Reading<'a> {
    config: &'a KafkaConfig,
    consumer: &'a Arc<Consumer>,
    events: &'a Sender<SourceEvent>,
    is_away: bool,
}

impl Reading<'_> {
    fn read(mut self, spans: &[Span]) -> Result<(), Stop> {
        for (generation, span) in (1..).zip(spans) {
            let topic_id = self.check(span)?;
            self.read_span(span, topic_id, generation)?;
        }
        Ok(())
    }

    /// Refuses a stretch that the log does not hold.
    fn check(&self, span: &Span) -> Result<Option<TopicId>, SourceError> {
        let Span { partition, start, end } = span;
        let topic: &str = &partition.topic;
        let ids = topic_ids(self.consumer.client(), &[topic], PATIENCE)
            .map_err(|code| self.cannot("reading topic ids", &KafkaError::MetadataFetch(code)))?;
        let (first, last) = start::watermarks(self.consumer, self.config, partition)?;
        if *start < first || *end > last {
            let message = format!("{partition} holds the offsets {first} to {last}, not {start} to {end}");
            return Err(SourceError::new(SourceFailure::Contract, message));
        }
        Ok(ids.get(topic).copied().flatten())
    }

    fn read_span(&mut self, span: &Span, topic_id: Option<TopicId>, generation: u64) -> Result<(), Stop> {
        let Span { partition, start, end } = span.clone();
        let at = Start { topic_id, committed: Some(start), ..Start::alone(partition.clone(), start, end) };
        let mut intake = Intake::open(self.consumer, generation, &at).ok_or_else(|| {
            let message = format!("librdkafka gives no queue for {partition}");
            SourceError::new(SourceFailure::Contract, message)
        })?;
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(&partition.topic, partition.number, rdkafka::Offset::Offset(start))
            .and_then(|()| self.consumer.assign(&list))
            .map_err(|error| self.cannot(&format!("reading {partition}"), &error))?;
        let assignment = Assignment::plain(partition, topic_id, start, true, generation);
        self.send(SourceEvent::Assigned(vec![assignment]))?;
        let mut heard = Instant::now();
        loop {
            client::poll(self.consumer)?;
            while let Some(trouble) = self.consumer.context().trouble() {
                self.on_trouble(&trouble)?;
            }
            match intake.look(self.consumer.context()) {
                Look::Event(event) => {
                    heard = Instant::now();
                    if std::mem::take(&mut self.is_away) {
                        self.send(SourceEvent::Back)?;
                    }
                    let is_end = matches!(event, SourceEvent::ReachedEnd { .. });
                    self.send(event)?;
                    if is_end {
                        return Ok(());
                    }
                }
                Look::Failed(error) => return Err(error.into()),
                Look::Trouble(trouble) => self.on_trouble(&trouble)?,
                Look::Nothing if self.events.is_closed() => return Err(Stop::NobodyListens),
                Look::Nothing => {
                    if heard.elapsed() >= SILENCE && !self.is_away {
                        let message = format!("Kafka at {} sends nothing of {}", self.config.brokers, intake.partition);
                        self.away(SourceError::new(SourceFailure::Unreachable, message))?;
                    }
                    std::thread::sleep(REST);
                }
            }
        }
    }

    fn on_trouble(&mut self, trouble: &Trouble) -> Result<(), Stop> {
        match judge(trouble.code) {
            Verdict::Heals => Ok(()),
            Verdict::Outage | Verdict::Rejected | Verdict::Denied => self.away(client::outage(self.config, trouble)),
            _ => {
                let message = format!("reading from Kafka failed: {}", trouble.reason);
                Err(SourceError::new(SourceFailure::Contract, message).into())
            }
        }
    }

    fn away(&mut self, error: SourceError) -> Result<(), Stop> {
        if std::mem::replace(&mut self.is_away, true) {
            return Ok(());
        }
        self.send(SourceEvent::Away(error))
    }

    fn send(&self, event: SourceEvent) -> Result<(), Stop> {
        self.events.blocking_send(event).map_err(|_| Stop::NobodyListens)
    }

    fn cannot(&self, what: &str, error: &KafkaError) -> SourceError {
        of_call(what, &self.config.brokers, error)
    }
}
