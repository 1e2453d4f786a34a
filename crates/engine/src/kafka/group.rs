//! Our place in the consumer group: which partitions are ours, and commits for those alone.
//!
//! The broker checks that a commit comes from a member of the group, not that the partition is
//! that member's. So a late commit for a partition that went to another instance would be taken,
//! and set that instance's offset back. Ownership is therefore kept here: a commit is filtered by
//! it, and a partition is handed back only when no commit is under way any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use settle_core::position::{Offset, Partition};
use settle_core::sink::BoxFuture;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::client::Consumer;
use super::config::KafkaConfig;
use super::failure::{Verdict, judge, of_call};
use super::survey::survey;
use crate::log::LogPartition;
use crate::source::{CommitPoint, OffsetStore, PartitionProgress, SourceError, SourceFailure};

/// How long a commit is waited for; it goes on after that, and a later one comes after it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a commit waits for a rebalance to pass.
const REBALANCE_PATIENCE: Duration = Duration::from_secs(30);
/// Rest between two attempts.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The partitions that are ours, with the greatest offset known to be committed.
#[derive(Default)]
pub(super) struct Ownership {
    state: Mutex<State>,
    calm: Notify,
}

#[derive(Default)]
struct State {
    owned: BTreeMap<Partition, Option<Offset>>,
    commits_under_way: usize,
}

impl Ownership {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change below is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are ours; `committed` is what the group has for them.
    pub(super) fn take(&self, partitions: impl IntoIterator<Item = (Partition, Option<Offset>)>) {
        self.state().owned.extend(partitions);
    }

    /// These are not ours any more: commits for them are dropped from here on.
    pub(super) fn give_up(&self, partitions: &[Partition]) {
        let mut state = self.state();
        for partition in partitions {
            state.owned.remove(partition);
        }
    }

    /// Waits until no commit is under way.
    pub(super) async fn calm(&self) {
        loop {
            let calm = self.calm.notified();
            if self.state().commits_under_way == 0 {
                return;
            }
            calm.await;
        }
    }

    /// What may be committed of `offsets`: ours, and ahead of what is committed.
    fn begin(self: &Arc<Self>, points: &[CommitPoint]) -> Option<Commit> {
        let mut state = self.state();
        let ahead = |CommitPoint { partition, offset, .. }: &&CommitPoint| match state.owned.get(partition) {
            Some(known) => known.is_none_or(|known| known < *offset),
            None => {
                tracing::debug!(%partition, offset, "not committed: the partition is not ours any more");
                false
            }
        };
        let points: Vec<_> = points.iter().filter(ahead).cloned().collect();
        if points.is_empty() {
            return None;
        }
        state.commits_under_way += 1;
        Some(Commit { ownership: self.clone(), points })
    }
}

/// A commit under way.
struct Commit {
    ownership: Arc<Ownership>,
    points: Vec<CommitPoint>,
}

impl Commit {
    /// Sends it and waits for the broker. Blocks.
    fn send(self, consumer: &Consumer) -> Result<(), KafkaError> {
        if consumer.assignment_lost() {
            return Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::AssignmentLost));
        }
        let mut list = TopicPartitionList::with_capacity(self.points.len());
        for CommitPoint { partition, offset, metadata } in &self.points {
            let mut element = list.add_partition(&partition.topic, partition.number);
            element.set_offset(rdkafka::Offset::Offset(*offset))?;
            element.set_metadata(metadata);
        }
        consumer.commit(&list, CommitMode::Sync)?;
        let mut state = self.ownership.state();
        for CommitPoint { partition, offset, .. } in &self.points {
            if let Some(known) = state.owned.get_mut(partition) {
                *known = Some(known.map_or(*offset, |known| known.max(*offset)));
            }
        }
        Ok(())
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        self.ownership.state().commits_under_way -= 1;
        self.ownership.calm.notify_waiters();
    }
}

/// A commit that was asked for.
pub(super) struct Order {
    points: Vec<CommitPoint>,
    answer: oneshot::Sender<Result<(), KafkaError>>,
}

/// Commits what is ordered, one after the other, until the group is dropped.
///
/// On a thread of its own: librdkafka waits for a coordinator that is away as long as a session
/// lasts, and neither a runtime that is shut down nor the end of the process should wait with it.
pub(super) fn work(mut orders: mpsc::Receiver<Order>, ownership: &Arc<Ownership>, consumer: &OnceLock<Weak<Consumer>>) {
    while let Some(Order { points, answer }) = orders.blocking_recv() {
        // Filtered now and not when it was ordered: a partition may have gone meanwhile.
        let committed = match (ownership.begin(&points), consumer.get().and_then(Weak::upgrade)) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(KafkaError::Canceled),
            (Some(commit), Some(consumer)) => commit.send(&consumer),
        };
        // Whoever asked may have lost patience.
        let _ = answer.send(committed);
    }
}

/// The group as the place where offsets are kept.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) brokers: String,
    pub(super) config: KafkaConfig,
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) closing: watch::Sender<bool>,
    pub(super) closed: watch::Receiver<bool>,
}

impl Group {
    async fn commit(&self, points: &[CommitPoint]) -> Result<(), SourceError> {
        let rebalance_deadline = Instant::now() + REBALANCE_PATIENCE;
        loop {
            let error = match timeout(PATIENCE, self.order(points)).await {
                Ok(Some(Ok(()))) => return Ok(()),
                Ok(Some(Err(error))) => error,
                Ok(None) => {
                    let message = format!("offsets of group {} cannot be committed: the source is closed", self.name);
                    return Err(SourceError::new(SourceFailure::Unreachable, message));
                }
                Err(_) => KafkaError::ConsumerCommit(RDKafkaErrorCode::OperationTimedOut),
            };
            let code = error.rdkafka_error_code();
            if !code.is_some_and(is_rebalance) || Instant::now() >= rebalance_deadline {
                return self.failed(&error);
            }
            tracing::debug!(group = %self.name, ?code, "the group is rebalancing, offsets are committed after it");
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Orders a commit and waits for it; none if nobody works any more.
    async fn order(&self, points: &[CommitPoint]) -> Option<Result<(), KafkaError>> {
        let (answer, committed) = oneshot::channel();
        self.orders.send(Order { points: points.to_vec(), answer }).await.ok()?;
        committed.await.ok()
    }

    fn failed(&self, error: &KafkaError) -> Result<(), SourceError> {
        let doing = format!("committing offsets of group {}", self.name);
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::NoOffset) => Ok(()),
            Some(code) if judge(code) == Verdict::Fenced => Err(SourceError::new(
                SourceFailure::Fenced,
                format!("another process took our place in group {} ({code})", self.name),
            )),
            None if matches!(error, KafkaError::Canceled) => {
                Err(SourceError::new(SourceFailure::Unreachable, format!("{doing}: the source is closed")))
            }
            _ => Err(of_call(&doing, &self.brokers, error)),
        }
    }
}

/// The member's generation is over; what is still ours after the rebalance can be committed then.
/// Where it is over for good, ownership ends as soon as the reader learns of it.
fn is_rebalance(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as C;
    matches!(
        code,
        C::RebalanceInProgress | C::IllegalGeneration | C::UnknownMemberId | C::AssignmentLost | C::StaleMemberEpoch
    )
}

impl OffsetStore for Group {
    fn commit<'a>(&'a self, points: &'a [CommitPoint]) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(self.commit(points))
    }

    fn progress<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<Option<Vec<PartitionProgress>>, SourceError>> {
        Box::pin(async move {
            // A client of its own: the consumer's main queue is the reader's.
            let asked = KafkaConfig { topics: vec![topic.to_owned()], instance: None, ..self.config.clone() };
            let found = survey(asked).await?;
            let part = |LogPartition { partition, start, end, committed, .. }| PartitionProgress {
                partition,
                start,
                end,
                committed,
            };
            Ok(Some(found.into_iter().map(part).collect()))
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.closing.send_replace(true);
            let mut closed = self.closed.clone();
            // An error means that the thread is gone, which is what is waited for.
            let _ = closed.wait_for(|closed| *closed).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: i32) -> Partition {
        Partition::new("t", number)
    }

    fn allowed(ownership: &Arc<Ownership>, offsets: &[(Partition, Offset)]) -> Vec<(Partition, Offset)> {
        let points: Vec<_> = offsets.iter().map(|(p, offset)| CommitPoint::bare(p.clone(), *offset)).collect();
        let allowed = ownership.begin(&points).map(|commit| commit.points.clone()).unwrap_or_default();
        allowed.into_iter().map(|point| (point.partition, point.offset)).collect()
    }

    #[test]
    fn only_what_is_ours_and_ahead_is_committed() {
        let ownership = Arc::new(Ownership::default());
        ownership.take([(partition(0), None), (partition(1), Some(10))]);
        let asked = [(partition(0), 0), (partition(1), 10), (partition(2), 5)];
        assert_eq!(allowed(&ownership, &asked), [(partition(0), 0)]);
        assert_eq!(allowed(&ownership, &[(partition(1), 11)]), [(partition(1), 11)]);
        ownership.give_up(&[partition(0)]);
        assert_eq!(allowed(&ownership, &asked), []);
    }

    #[tokio::test]
    async fn giving_up_waits_for_the_commit_under_way() {
        let ownership = Arc::new(Ownership::default());
        ownership.take([(partition(0), None)]);
        let commit = ownership.begin(&[CommitPoint::bare(partition(0), 3)]).unwrap();
        let waiting = tokio::time::timeout(Duration::from_millis(20), ownership.calm()).await;
        assert!(waiting.is_err(), "calm although a commit is under way");
        drop(commit);
        tokio::time::timeout(Duration::from_secs(5), ownership.calm()).await.unwrap();
    }
}
