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
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use settle_core::position::{Offset, Partition};
use settle_core::sink::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::context::Context;
use super::failure::{Verdict, judge, of_call};
use crate::source::{OffsetStore, SourceError, SourceFailure};

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
    fn begin(self: &Arc<Self>, offsets: &[(Partition, Offset)]) -> Option<Commit> {
        let mut state = self.state();
        let ahead = |(partition, offset): &&(Partition, Offset)| match state.owned.get(partition) {
            Some(known) => known.is_none_or(|known| known < *offset),
            None => {
                tracing::debug!(%partition, offset, "not committed: the partition is not ours any more");
                false
            }
        };
        let offsets: Vec<_> = offsets.iter().filter(ahead).cloned().collect();
        if offsets.is_empty() {
            return None;
        }
        state.commits_under_way += 1;
        Some(Commit { ownership: self.clone(), offsets })
    }
}

/// A commit under way.
struct Commit {
    ownership: Arc<Ownership>,
    offsets: Vec<(Partition, Offset)>,
}

impl Commit {
    /// Sends it and waits for the broker. Blocks.
    fn send(self, consumer: &BaseConsumer<Context>) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::with_capacity(self.offsets.len());
        for (partition, offset) in &self.offsets {
            list.add_partition_offset(&partition.topic, partition.number, rdkafka::Offset::Offset(*offset))?;
        }
        consumer.commit(&list, CommitMode::Sync)?;
        let mut state = self.ownership.state();
        for (partition, offset) in &self.offsets {
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

/// The group as the place where offsets are kept.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) brokers: String,
    pub(super) ownership: Arc<Ownership>,
    /// Weak: the consumer ends with the reader's thread, which leaves the group.
    pub(super) consumer: Arc<OnceLock<Weak<BaseConsumer<Context>>>>,
    pub(super) closing: watch::Sender<bool>,
    pub(super) closed: watch::Receiver<bool>,
}

impl Group {
    async fn commit(&self, offsets: &[(Partition, Offset)]) -> Result<(), SourceError> {
        let patience = Instant::now() + REBALANCE_PATIENCE;
        loop {
            // Whatever is not ours (any more) is left out anew at every attempt.
            let consumer = self.consumer.get().and_then(Weak::upgrade);
            let (Some(consumer), Some(commit)) = (consumer, self.ownership.begin(offsets)) else { return Ok(()) };
            let sent = tokio::task::spawn_blocking(move || {
                if consumer.assignment_lost() {
                    return Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::AssignmentLost));
                }
                commit.send(&consumer)
            });
            let error = match sent.await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(ended) => {
                    let message = format!("the commit of offsets of group {} broke off ({ended})", self.name);
                    return Err(SourceError::new(SourceFailure::Contract, message));
                }
            };
            let code = error.rdkafka_error_code();
            if !code.is_some_and(is_rebalance) || Instant::now() >= patience {
                return self.failed(&error);
            }
            tracing::debug!(group = %self.name, ?code, "the group is rebalancing, offsets are committed after it");
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    fn failed(&self, error: &KafkaError) -> Result<(), SourceError> {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::NoOffset) => Ok(()),
            Some(code) if judge(code) == Verdict::Fenced => Err(SourceError::new(
                SourceFailure::Fenced,
                format!("another process took our place in group {} ({code})", self.name),
            )),
            _ => Err(of_call(&format!("committing offsets of group {}", self.name), &self.brokers, error)),
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
    fn commit<'a>(&'a self, offsets: &'a [(Partition, Offset)]) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(self.commit(offsets))
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
        ownership.begin(offsets).map(|commit| commit.offsets.clone()).unwrap_or_default()
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
        let commit = ownership.begin(&[(partition(0), 3)]).unwrap();
        let waiting = tokio::time::timeout(Duration::from_millis(20), ownership.calm()).await;
        assert!(waiting.is_err(), "calm although a commit is under way");
        drop(commit);
        tokio::time::timeout(Duration::from_secs(5), ownership.calm()).await.unwrap();
    }
}
