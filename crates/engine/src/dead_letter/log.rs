//! The log of dead letters, wherever it is kept: written by runs, read and marked by people.

use std::collections::BTreeMap;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use settle_core::sink::{BoxFuture, FailureKind, SinkError};

use super::entry::{Entry, Item, Origin, Resolution, Stored};
use super::file::DeadLetterFile;
use super::topic::DeadLetterTopic;
use super::{DeadLetters, Letter, Written, line};
use crate::config::dlq::{DlqConfig, DlqPlace};

/// The log of a pipeline's dead letters.
pub struct DeadLetterLog {
    store: Store,
}

enum Store {
    File(DeadLetterFile),
    Topic(DeadLetterTopic),
}

/// One dead letter, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// As it was written last.
    pub entry: Entry,
    /// How often it was written: a record that is delivered again fails again.
    pub times: u64,
    /// What was done about it since it was written last.
    pub resolved: Option<Resolution>,
}

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its letters, in order of origin.
    pub letters: Vec<Found>,
    /// Lines that a crash cut off while they were written; their records were not committed.
    pub cut_off: u64,
}

/// The open letters in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Letters that nothing was done about.
    pub open: u64,
    /// The same by class.
    pub by_class: BTreeMap<String, u64>,
    /// When the oldest of them failed last.
    pub oldest: Option<DateTime<Utc>>,
}

impl Contents {
    /// The open letters in numbers.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for found in self.letters.iter().filter(|found| found.resolved.is_none()) {
            summary.open += 1;
            *summary.by_class.entry(found.entry.class.clone()).or_default() += 1;
            let failed_at = found.entry.failed_at;
            summary.oldest = Some(summary.oldest.map_or(failed_at, |oldest| oldest.min(failed_at)));
        }
        summary
    }
}

impl DeadLetterLog {
    /// The log that `[dlq]` names. Nothing is contacted yet.
    pub fn new(config: &DlqConfig) -> Self {
        let store = match config.place.clone() {
            DlqPlace::File { path } => Store::File(DeadLetterFile::new(path)),
            DlqPlace::Topic { brokers, topic, properties } => {
                Store::Topic(DeadLetterTopic::new(brokers, topic, properties))
            }
        };
        Self { store }
    }

    /// Everything in it.
    pub async fn read(&self) -> Result<Contents, SinkError> {
        let (items, cut_off) = match &self.store {
            Store::File(file) => {
                let file = file.clone();
                blocking(move || file.read()).await?
            }
            Store::Topic(topic) => (tokio::task::block_in_place(|| topic.read())?, 0),
        };
        Ok(Contents { letters: folded(items), cut_off })
    }

    /// Says of these letters what was done about them, durably.
    pub async fn resolve(&mut self, letters: &[&Entry], resolution: Resolution) -> Result<(), SinkError> {
        let records = letters
            .iter()
            .map(|entry| {
                let origin = entry.origin();
                let mark = Stored::of_mark(&origin, entry.record.key.clone(), resolution);
                (origin, entry.record.timestamp_ms, mark)
            })
            .collect();
        self.append(records).await.map(|_| ())
    }

    async fn append(&mut self, records: Vec<(Origin, Option<i64>, Stored)>) -> Result<u64, SinkError> {
        match &mut self.store {
            Store::File(file) => {
                let mut lines = Vec::new();
                for (origin, timestamp_ms, stored) in &records {
                    line::write(&mut lines, &origin.place, *timestamp_ms, stored)
                        .map_err(|error| SinkError::new(FailureKind::Bug, "write a dead letter", error))?;
                }
                let file = file.clone();
                blocking(move || file.append(&lines)).await.map(|()| 0)
            }
            Store::Topic(topic) => {
                let records: Vec<_> = records.into_iter().map(|(origin, _, stored)| (origin, stored)).collect();
                topic.append(&records).await
            }
        }
    }
}

impl DeadLetters for DeadLetterLog {
    fn write<'a>(&'a mut self, letters: &'a [Letter]) -> BoxFuture<'a, Result<Written, SinkError>> {
        Box::pin(async move {
            let now = SystemTime::now();
            let records = letters
                .iter()
                .map(|letter| {
                    let record = &letter.dead.record;
                    let origin = Origin { topic_id: letter.topic_id, place: record.place() };
                    (origin, record.timestamp_ms, Stored::of_letter(letter, now))
                })
                .collect();
            let truncated = self.append(records).await?;
            Ok(Written { truncated })
        })
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SinkError> + Send + 'static,
) -> Result<T, SinkError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(SinkError::new(FailureKind::Bug, "dead letters", error.to_string())))
}

/// One letter an origin. What was done about one counts until it is written again.
fn folded(items: Vec<Item>) -> Vec<Found> {
    let mut letters: BTreeMap<Origin, Found> = BTreeMap::new();
    for item in items {
        match item {
            Item::Entry(entry) => {
                let origin = entry.origin();
                let times = letters.get(&origin).map_or(0, |found| found.times) + 1;
                letters.insert(origin, Found { entry: *entry, times, resolved: None });
            }
            Item::Mark(origin, resolution) => {
                if let Some(found) = letters.get_mut(&origin) {
                    found.resolved = Some(resolution);
                }
            }
        }
    }
    letters.into_values().collect()
}
