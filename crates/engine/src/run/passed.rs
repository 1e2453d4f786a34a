//! What is done only when every partition of a topic has passed a place: the last DELETE of a
//! truncate, the sweep of ghosts.
//!
//! Partitions are read side by side, also by other instances, so what lies before the place in the
//! source may still be on its way. The ends of the topic are read *after* the place was met; it is
//! passed once the group has committed all of them. That is asked seldom, and only while something
//! waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use settle_core::position::{Offset, Partition};
use settle_core::sink::Pending;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::source::{OffsetStore, PartitionProgress, SourceError};

/// Rest between two questions.
const ASK_AFTER: Duration = Duration::from_secs(2);

/// Something that waits.
struct Waiting {
    what: Pending,
    /// It waited already when the question at hand was asked: only then are the ends behind it.
    asked: bool,
    /// Ends of the topic behind the place, once they are known.
    ends: Option<BTreeMap<Partition, Offset>>,
}

type Asked = JoinHandle<Result<Option<Vec<PartitionProgress>>, SourceError>>;

/// All that waits.
pub(super) struct Passing {
    store: Arc<dyn OffsetStore>,
    waiting: Vec<Waiting>,
    asked: Option<(Arc<str>, Asked)>,
    next: Instant,
}

impl Passing {
    pub(super) fn new(store: Arc<dyn OffsetStore>) -> Self {
        Self { store, waiting: Vec::new(), asked: None, next: Instant::now() }
    }

    /// Waits for this from now on.
    pub(super) fn wait_for(&mut self, what: Pending) {
        if self.waiting.iter().all(|waiting| waiting.what != what) {
            self.waiting.push(Waiting { what, asked: false, ends: None });
        }
    }

    /// True if nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next answer, as what may be done now; for ever where nothing waits. Cancel-safe.
    pub(super) async fn next(&mut self) -> Vec<Pending> {
        if self.asked.is_none() {
            let Some(topic) = self.waiting.first().map(|waiting| waiting.what.topic().clone()) else {
                return std::future::pending().await;
            };
            tokio::time::sleep_until(self.next).await;
            self.ask(topic);
        }
        let Some((topic, asked)) = &mut self.asked else { return Vec::new() };
        let (topic, answer) = (topic.clone(), asked.await);
        self.asked = None;
        self.next = Instant::now() + ASK_AFTER;
        // The topics take turns.
        if !self.waiting.is_empty() {
            self.waiting.rotate_left(1);
        }
        match answer {
            Ok(Ok(Some(progress))) => self.passed(&topic, &progress),
            Ok(Ok(None)) => Vec::new(),
            Ok(Err(error)) => {
                tracing::debug!(error = %error, "how far the group is could not be asked, asking again");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }

    /// Asks at once about everything that waits: the run is at its end. `all_read`: the source has
    /// ended, and everything of it is committed.
    pub(super) async fn at_the_end(&mut self, all_read: bool) -> Vec<Pending> {
        if all_read {
            return self.waiting.drain(..).map(|waiting| waiting.what).collect();
        }
        let mut topics: Vec<Arc<str>> = self.waiting.iter().map(|waiting| waiting.what.topic().clone()).collect();
        topics.sort_unstable();
        topics.dedup();
        let mut done = Vec::new();
        self.waiting.iter_mut().for_each(|waiting| waiting.asked = true);
        for topic in topics {
            if let Ok(Some(progress)) = self.store.progress(&topic).await {
                done.extend(self.passed(&topic, &progress));
            }
        }
        done
    }

    fn ask(&mut self, topic: Arc<str>) {
        self.waiting.iter_mut().for_each(|waiting| waiting.asked = true);
        let (store, asking) = (self.store.clone(), topic.clone());
        self.asked = Some((topic, tokio::spawn(async move { store.progress(&asking).await })));
    }

    /// Takes out what is passed.
    fn passed(&mut self, topic: &Arc<str>, progress: &[PartitionProgress]) -> Vec<Pending> {
        let mut done = Vec::new();
        self.waiting.retain_mut(|waiting| {
            if waiting.what.topic() != topic || !waiting.asked {
                return true;
            }
            let now = || progress.iter().map(|part| (part.partition.clone(), part.end)).collect();
            let ends = waiting.ends.get_or_insert_with(now);
            let committed = |partition: &Partition| {
                progress.iter().find(|part| part.partition == *partition).and_then(|part| part.committed)
            };
            // A partition that holds nothing is never committed.
            let first = |partition: &Partition| {
                progress.iter().find(|part| part.partition == *partition).map_or(0, |part| part.start)
            };
            let passed =
                ends.iter().all(|(partition, end)| committed(partition).unwrap_or_else(|| first(partition)) >= *end);
            if passed {
                done.push(waiting.what.clone());
            }
            !passed
        });
        done
    }
}
