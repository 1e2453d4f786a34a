//! The thread's life: find the broker and the topics, read, leave.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::client::{self, Consumer};
use super::config::{Bound, KafkaConfig};
use super::confirmation::Asking;
use super::group::{self, Group, Ownership};
use super::outlet::Outlet;
use super::reader::Reader;
use super::start::{self, Ends};
use super::topics::{self, Topic};
use crate::source::{GroupOffsets, Source, SourceError, SourceEvent, SourceFailure, Stop};

/// Patience with one question: a broker that is down should be reported soon. One that is only
/// slow is asked again over the connection that it opened meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);
/// A broker that is not ready for so long is told to be away; a topic that was just made has no
/// leader for a moment.
pub(super) const TELL_AFTER: Duration = Duration::from_secs(2);
/// Rest between two attempts.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How long a commit under way may hold up the end.
const COMMIT_PATIENCE: Duration = Duration::from_secs(5);

/// Starts reading on a thread of its own, with `capacity` events between it and the run loop.
///
/// Fails at once on settings that cannot work; whatever needs a broker is reported as an event.
pub fn start(config: KafkaConfig, capacity: usize) -> Result<Source, SourceError> {
    config.check()?;
    let first = client::create(&config, &config.client())?;
    // The settings of the consumer itself are tried out too, so that they fail here.
    config.consumer(1).create_native_config().map_err(|error| config.refused_by_library(&error))?;
    let unable = |error: std::io::Error| {
        SourceError::new(SourceFailure::Contract, format!("cannot start a thread to read from Kafka ({error})"))
    };
    let runtime = Builder::new_current_thread().enable_time().build().map_err(unable)?;

    let (events, receiver) = mpsc::channel(capacity.max(1));
    let (closing, asked_to_close) = watch::channel(false);
    let (ended, closed) = watch::channel(false);
    let (orders, ordered) = mpsc::channel(1);
    let shared = Arc::new(Shared::default());
    let group = Group {
        name: config.group.clone(),
        brokers: config.brokers.clone(),
        config: config.clone(),
        orders,
        closing,
        closed,
    };
    let offsets = GroupOffsets { move_command: Some(start::move_command(&config)) };
    let outlet = Outlet::new(events, asked_to_close);
    let committing = shared.clone();
    std::thread::Builder::new()
        .name("settle-commit".to_owned())
        .spawn(move || group::work(ordered, &committing.ownership, &committing.consumer))
        .map_err(unable)?;
    std::thread::Builder::new()
        .name("settle-kafka".to_owned())
        .spawn(move || {
            live(&runtime, config, first, outlet, &shared);
            ended.send_replace(true);
        })
        .map_err(unable)?;
    Ok(Source { events: receiver, offsets: Box::new(group), group: offsets })
}

/// What the threads that read and commit share.
#[derive(Default)]
struct Shared {
    ownership: Arc<Ownership>,
    /// Weak: the consumer ends with the thread that reads, which leaves the group.
    consumer: OnceLock<Weak<Consumer>>,
}

fn live(runtime: &Runtime, config: KafkaConfig, first: Consumer, outlet: Outlet, shared: &Shared) {
    runtime.block_on(async {
        let found = Search { config: &config, client: &first, outlet: &outlet }.find().await;
        let (topics, ends) = match found {
            Ok(found) => found,
            Err(stop) => return end(&outlet, stop).await,
        };
        match join(&config, &topics) {
            Ok(consumer) => {
                // The cell is set once in the life of a source.
                let _ = shared.consumer.set(Arc::downgrade(&consumer));
                let asking = Asking::new(Arc::new(first));
                Reader::new(config, ends, topics, outlet, shared.ownership.clone(), consumer, asking).live().await;
                // The last commit holds a reference to the consumer: only when it is gone, the
                // group has been left.
                let _ = tokio::time::timeout(COMMIT_PATIENCE, shared.ownership.calm()).await;
            }
            Err(error) => end(&outlet, Stop::Failed(error)).await,
        }
    });
}

async fn end(outlet: &Outlet, stop: Stop) {
    if let Stop::Failed(error) = stop {
        let told = outlet.send(SourceEvent::Failed(error));
        tokio::select! {
            _ = told => {}
            () = outlet.closed() => {}
        }
    }
}

/// Makes the consumer and joins the group.
fn join(config: &KafkaConfig, topics: &[Topic]) -> Result<Arc<Consumer>, SourceError> {
    let partitions: i32 = topics.iter().map(|topic| topic.partitions).sum();
    let settings = config.consumer(usize::try_from(partitions).unwrap_or(usize::MAX));
    let consumer = Arc::new(client::create(config, &settings)?);
    let names = topics::subscription(&config.topics);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    consumer.subscribe(&names).map_err(|error| {
        let message = format!("subscribing to {} failed: {error}", config.topics.join(", "));
        SourceError::new(SourceFailure::Contract, message)
    })?;
    Ok(consumer)
}

/// The search for broker, topics and ends, by a client that is in no group.
struct Search<'a> {
    config: &'a KafkaConfig,
    client: &'a Consumer,
    outlet: &'a Outlet,
}

impl Search<'_> {
    async fn find(self) -> Result<(Vec<Topic>, Option<Ends>), Stop> {
        let patience = Instant::now() + TELL_AFTER;
        let mut away = false;
        loop {
            let error = match self.ask() {
                Ok(found) => {
                    if away {
                        self.send(SourceEvent::Back).await?;
                    }
                    return Ok(found);
                }
                Err(error) => error,
            };
            if error.kind != SourceFailure::Unreachable {
                return Err(error.into());
            }
            if !away && Instant::now() >= patience {
                away = true;
                self.send(SourceEvent::Away(error)).await?;
            }
            tokio::select! { biased;
                () = self.outlet.closed() => return Err(Stop::NobodyListens),
                () = tokio::time::sleep(RETRY_AFTER) => {}
            }
        }
    }

    fn ask(&self) -> Result<(Vec<Topic>, Option<Ends>), SourceError> {
        let existing = client::list(self.client, self.config, PATIENCE)?;
        let topics = topics::select(&self.config.topics, &existing, &self.config.brokers)?;
        let ends = match &self.config.bounded {
            None => None,
            Some(Bound::At(ends)) => Some((**ends).clone()),
            Some(Bound::LastStable) => Some(
                start::ends(self.client, self.config, &topics)
                    .map_err(|error| client::explain(self.client, self.config, error))?,
            ),
        };
        Ok((topics, ends))
    }

    async fn send(&self, event: SourceEvent) -> Result<(), Stop> {
        tokio::select! { biased;
            () = self.outlet.closed() => Err(Stop::NobodyListens),
            sent = self.outlet.send(event) => sent,
        }
    }
}
