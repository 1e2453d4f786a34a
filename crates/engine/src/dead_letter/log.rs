//! The log of dead letters, wherever it is kept: written by runs, read and marked by people.
//!
//! Several pipelines may keep theirs in one place. Each sees, drives again and marks its own: what
//! one has settled in its destination is not settled in another's.

use std::collections::BTreeMap;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use settle_core::key::Key;
use settle_core::policy::{Verdict, decide};
use settle_core::position::{Place, TopicId};
use settle_core::sink::{BoxFuture, FailureKind, SinkError};

use super::entry::{Entry, Item, Mark, Origin, Resolution, Stored, Values};
use super::file::DeadLetterFile;
use super::topic::{DeadLetterTopic, TopicWriter};
use super::{DeadLetters, Letter, Written, line};
use crate::config::dlq::{DlqConfig, DlqPlace};

/// The log of a pipeline's dead letters.
pub struct DeadLetterLog {
    group: String,
    store: Store,
}

enum Store {
    File(DeadLetterFile),
    Topic(TopicWriter),
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
    /// The letters of the group, in order of origin.
    pub letters: Vec<Found>,
    /// Open letters of other groups in the same place.
    pub of_others: BTreeMap<String, u64>,
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
    /// The log that `[dlq]` names, as this consumer group sees it. Nothing is contacted yet.
    pub fn new(config: &DlqConfig, group: &str) -> Self {
        let store = match config.place.clone() {
            DlqPlace::File { path } => Store::File(DeadLetterFile::new(path)),
            DlqPlace::Topic { brokers, topic, properties } => {
                Store::Topic(TopicWriter::new(DeadLetterTopic::new(brokers, topic, properties)))
            }
        };
        Self { group: group.to_owned(), store }
    }

    /// Refuses a place where letters cannot be kept, and waiting does not help: a file of something
    /// else, a folder that is not there. To be asked before a run; nothing is made or written.
    pub async fn look(&self) -> Result<(), SinkError> {
        match &self.store {
            Store::File(file) => {
                let file = file.clone();
                let looked = blocking(move || file.look()).await;
                looked.or_else(|error| if decide(error.kind) == Verdict::Stop { Err(error) } else { Ok(()) })
            }
            // It may be away, and is made where it is missing.
            Store::Topic(_) => Ok(()),
        }
    }

    /// Everything in it.
    pub async fn read(&self) -> Result<Contents, SinkError> {
        self.read_with(Values::Kept).await
    }

    /// Everything in it but the letters' values, which may be many bytes.
    pub async fn outline(&self) -> Result<Contents, SinkError> {
        self.read_with(Values::LeftOut).await
    }

    /// The open letters in numbers.
    pub async fn summary(&self) -> Result<Summary, SinkError> {
        self.outline().await.map(|contents| contents.summary())
    }

    async fn read_with(&self, values: Values) -> Result<Contents, SinkError> {
        let group = self.group.clone();
        match &self.store {
            Store::File(file) => {
                let file = file.clone();
                blocking(move || {
                    let mut folding = Folding::default();
                    let cut_off = file.read(values, |item| folding.take(item))?;
                    Ok(folding.into_contents(&group, cut_off))
                })
                .await
            }
            Store::Topic(writer) => {
                let topic = writer.topic().clone();
                blocking(move || {
                    let mut folding = Folding::default();
                    topic.read(values, |item| folding.take(item))?;
                    Ok(folding.into_contents(&group, 0))
                })
                .await
            }
        }
    }

    /// Says of these letters what was done about them, durably.
    pub async fn resolve(&mut self, letters: &[&Entry], resolution: Resolution) -> Result<(), SinkError> {
        let marks = letters.iter().map(|entry| {
            let mark = Stored::of_mark(entry, resolution);
            (entry.origin(), entry.record.timestamp_ms, mark)
        });
        self.append(marks.collect()).await.map(|_| ())
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
                let records: Vec<_> = records.into_iter().map(|(_, _, stored)| stored).collect();
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
                    (origin, record.timestamp_ms, Stored::of_letter(letter, &self.group, now))
                })
                .collect();
            let truncated = self.append(records).await?;
            Ok(Written { truncated })
        })
    }

    fn expect_letters(&mut self) {
        if let Store::Topic(topic) = &mut self.store {
            topic.expect_letters();
        }
    }

    fn without_row<'a>(
        &'a mut self,
        topic_id: TopicId,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<Option<Place>, SinkError>> {
        Box::pin(async move {
            let letters = self.outline().await?.letters;
            let found = letters.iter().find(|Found { entry, resolved, .. }| {
                let record = &entry.record;
                resolved.is_none()
                    && entry.topic_id == topic_id
                    && *record.partition.topic == *topic
                    && record.key.as_deref().and_then(Key::of_message).is_none()
            });
            Ok(found.map(|found| found.entry.record.place()))
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

/// One letter a group and origin. What was done about one counts until it is written again.
#[derive(Default)]
struct Folding {
    letters: BTreeMap<(String, Origin), Found>,
}

impl Folding {
    fn take(&mut self, item: Item) {
        match item {
            Item::Entry(entry) => {
                let whose = (entry.group.clone(), entry.origin());
                let times = self.letters.get(&whose).map_or(0, |found| found.times) + 1;
                self.letters.insert(whose, Found { entry: *entry, times, resolved: None });
            }
            Item::Mark(Mark { group, origin, resolution }) => {
                if let Some(found) = self.letters.get_mut(&(group, origin)) {
                    found.resolved = Some(resolution);
                }
            }
        }
    }

    fn into_contents(self, group: &str, cut_off: u64) -> Contents {
        let mut contents = Contents { cut_off, ..Contents::default() };
        for ((whose, _), found) in self.letters {
            if whose == group {
                contents.letters.push(found);
            } else if found.resolved.is_none() {
                *contents.of_others.entry(whose).or_default() += 1;
            }
        }
        contents
    }
}
