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
use settle_core::sink::{Passed, Pending};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::source::{OffsetStore, PartitionProgress, SourceError};

/// Rest between two questions.
const ASK_AFTER: Duration = Duration::from_secs(2);
/// Where it ends: each answer by which nothing is passed doubles it.
const ASK_SELDOM: Duration = Duration::from_secs(30);

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
    rest: Duration,
}

impl Passing {
    pub(super) fn new(store: Arc<dyn OffsetStore>) -> Self {
        Self { store, waiting: Vec::new(), asked: None, next: Instant::now(), rest: ASK_AFTER }
    }

    /// Waits for this from now on. A topic's truncates are two at most: one whose ends are known, and
    /// the last of those behind it, in which the others are carried out, too.
    pub(super) fn wait_for(&mut self, what: Pending) {
        if self.waiting.iter().any(|waiting| waiting.what == what) {
            return;
        }
        self.rest = ASK_AFTER;
        self.next = self.next.min(Instant::now() + ASK_AFTER);
        let merges = self.waiting.iter_mut().find(|waiting| waiting.ends.is_none() && of_one_log(&waiting.what, &what));
        let Some(earlier) = merges else {
            self.waiting.push(Waiting { what, asked: false, ends: None });
            return;
        };
        if let (Pending::Truncate { version, .. }, Pending::Truncate { version: another, .. }) =
            (&mut earlier.what, what)
        {
            *version = (*version).max(another);
            earlier.asked = false;
        }
    }

    /// True if nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next answer, as what may be done now; for ever where nothing waits. Cancel-safe.
    pub(super) async fn next(&mut self) -> Vec<Passed> {
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
        // The topics take turns.
        if !self.waiting.is_empty() {
            self.waiting.rotate_left(1);
        }
        let passed = match answer {
            Ok(Ok(Some(progress))) => self.passed(&topic, &progress),
            Ok(Ok(None)) => Vec::new(),
            Ok(Err(error)) => {
                tracing::debug!(error = %error, "how far the group is could not be asked, asking again");
                Vec::new()
            }
            Err(_) => Vec::new(),
        };
        if !passed.is_empty() {
            self.rest = ASK_AFTER;
        }
        self.next = Instant::now() + self.rest;
        self.rest = (self.rest * 2).min(ASK_SELDOM);
        passed
    }

    /// Asks at once about everything that waits: the run is at its end. `all_read`: the source has
    /// ended, everything of it is committed, and these are its ends.
    pub(super) async fn at_the_end(&mut self, all_read: Option<Vec<(Partition, Offset)>>) -> Vec<Passed> {
        if let Some(ends) = all_read {
            let passed = |Waiting { what, .. }| {
                let ends = ends.iter().filter(|(partition, _)| partition.topic == *what.topic()).cloned().collect();
                Passed { what, ends }
            };
            return self.waiting.drain(..).map(passed).collect();
        }
        let mut topics: Vec<Arc<str>> = self.waiting.iter().map(|waiting| waiting.what.topic().clone()).collect();
        topics.sort_unstable();
        topics.dedup();
        let mut done = Vec::new();
        self.waiting.iter_mut().for_each(|waiting| waiting.asked = true);
        for topic in topics {
            let Ok(Some(progress)) = self.store.progress(&topic).await else { continue };
            loop {
                let passed = self.passed(&topic, &progress);
                // What waited behind a truncate that is passed is measured next.
                if passed.is_empty() {
                    break;
                }
                done.extend(passed);
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
    fn passed(&mut self, topic: &Arc<str>, progress: &[PartitionProgress]) -> Vec<Passed> {
        let mut done = Vec::new();
        let measured: Vec<Pending> =
            self.waiting.iter().filter(|waiting| waiting.ends.is_some()).map(|waiting| waiting.what.clone()).collect();
        self.waiting.retain_mut(|waiting| {
            let is_next = waiting.ends.is_some() || measured.iter().all(|earlier| !of_one_log(earlier, &waiting.what));
            if waiting.what.topic() != topic || !waiting.asked || !is_next {
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
                let ends = ends.iter().map(|(partition, end)| (partition.clone(), *end)).collect();
                done.push(Passed { what: waiting.what.clone(), ends });
            }
            !passed
        });
        done
    }
}

/// Truncates of one topic: what has passed the later one has passed the other.
fn of_one_log(one: &Pending, other: &Pending) -> bool {
    match (one, other) {
        (Pending::Truncate { topic_id, .. }, Pending::Truncate { topic_id: another, .. }) => topic_id == another,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use settle_core::position::TopicId;
    use settle_core::sink::BoxFuture;
    use settle_core::version::Version;

    use super::*;
    use crate::source::CommitPoint;

    struct Nowhere;

    impl OffsetStore for Nowhere {
        fn commit<'a>(&'a self, _: &'a [CommitPoint]) -> BoxFuture<'a, Result<(), SourceError>> {
            Box::pin(async { Ok(()) })
        }

        fn progress<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Vec<PartitionProgress>>, SourceError>> {
            Box::pin(async { Ok(None) })
        }

        fn close(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    fn truncate(at: u64) -> Pending {
        let topic_id = TopicId::of_first_line("t", b"");
        Pending::Truncate { topic: "t".into(), topic_id, version: Version::from_halves(at, 0) }
    }

    /// Partitions 0 and 1, each as end and what is committed of it.
    fn progress(parts: [(Offset, Option<Offset>); 2]) -> Vec<PartitionProgress> {
        let part = |(number, (end, committed))| PartitionProgress {
            partition: Partition::new("t", number),
            start: 0,
            end,
            committed,
        };
        (0..).zip(parts).map(part).collect()
    }

    fn asked(passing: &mut Passing, parts: [(Offset, Option<Offset>); 2]) -> Vec<Pending> {
        passing.waiting.iter_mut().for_each(|waiting| waiting.asked = true);
        let passed = passing.passed(&"t".into(), &progress(parts));
        passed.into_iter().map(|passed| passed.what).collect()
    }

    #[test]
    fn every_partition_must_reach_the_end_that_it_had_behind_the_place() {
        let mut passing = Passing::new(Arc::new(Nowhere));
        passing.wait_for(truncate(1));
        assert_eq!(passing.passed(&"t".into(), &progress([(9, Some(9)), (0, None)])), [], "asked before it waited");
        assert_eq!(asked(&mut passing, [(9, Some(8)), (5, None)]), []);
        assert_eq!(asked(&mut passing, [(20, Some(20)), (20, Some(4))]), []);
        assert_eq!(
            asked(&mut passing, [(30, Some(9)), (30, Some(5))]),
            [truncate(1)],
            "what comes later does not count"
        );
        assert!(passing.is_idle());
        passing.wait_for(truncate(2));
        assert_eq!(asked(&mut passing, [(9, Some(9)), (0, None)]), [truncate(2)], "an empty partition has no offset");
    }

    #[tokio::test]
    async fn any_number_of_truncates_is_kept_as_two_and_all_are_carried_out() {
        let mut passing = Passing::new(Arc::new(Nowhere));
        (1..=50).for_each(|at| passing.wait_for(truncate(at)));
        assert_eq!(asked(&mut passing, [(9, Some(0)), (9, Some(0))]), []);
        (51..=99).rev().for_each(|at| passing.wait_for(truncate(at)));
        assert_eq!(passing.waiting.len(), 2);
        assert_eq!(asked(&mut passing, [(20, Some(20)), (20, Some(9))]), [truncate(50)]);
        // Only now are the ends behind the others known.
        assert_eq!(asked(&mut passing, [(30, Some(30)), (30, Some(9))]), []);
        passing.wait_for(truncate(100));
        assert_eq!(asked(&mut passing, [(40, Some(40)), (30, Some(30))]), [truncate(99)]);
        let ends = vec![(Partition::new("t", 0), 7), (Partition::new("other", 0), 8)];
        let passed = Passed { what: truncate(100), ends: ends[..1].to_vec() };
        assert_eq!(passing.at_the_end(Some(ends)).await, [passed]);
    }
}
