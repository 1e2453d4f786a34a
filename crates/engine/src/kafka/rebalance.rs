//! Partitions come and go.
//!
//! They come with a position that is known to be right, and they go in one of two ways: *revoked*,
//! where the run loop drains and commits before another instance gets them, or *lost*, where
//! another may have them already and nothing of ours may be committed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use settle_core::position::{Offset, Partition};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::client;
use super::context::Rebalance;
use super::failure::of_call;
use super::intake::Intake;
use super::keeping;
use super::reader::{Away, Reader};
use super::start::{self, Start};
use super::thread::TELL_AFTER;
use crate::source::{SourceError, SourceEvent, SourceFailure, Stop};

/// Rest between two attempts to find out where partitions start.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How often a drain is broken off to see whether the assignment was lost meanwhile.
const LOST_CHECK: Duration = Duration::from_millis(100);
/// How long a commit under way may hold up a partition that goes.
const COMMIT_PATIENCE: Duration = Duration::from_secs(5);

impl Reader {
    pub(super) async fn carry_out(&mut self, rebalance: &Rebalance) -> Result<(), Stop> {
        match rebalance {
            Rebalance::Assign(list) => self.assign(list).await,
            Rebalance::Revoke(list) => self.revoke(list).await,
        }
    }

    async fn assign(&mut self, list: &TopicPartitionList) -> Result<(), Stop> {
        let starts = self.find_starts(list).await?;
        self.generation += 1;
        let generation = self.generation;
        let mut positions = TopicPartitionList::with_capacity(starts.len());
        for start in &starts {
            let intake = Intake::open(&self.consumer, generation, start).ok_or_else(|| {
                let message = format!("librdkafka gives no queue for {}", start.partition);
                SourceError::new(SourceFailure::Contract, message)
            })?;
            self.intakes.push(intake);
            let (topic, number) = (&start.partition.topic, start.partition.number);
            positions
                .add_partition_offset(topic, number, rdkafka::Offset::Offset(start.start))
                .map_err(|error| self.cannot("assigned", &error))?;
        }
        self.ownership.take(starts.iter().map(|start| (start.partition.clone(), start.committed)));
        self.consumer.incremental_assign(&positions).map_err(|error| self.cannot("assigned", &error))?;
        self.context().rebalanced();
        if starts.is_empty() {
            return Ok(());
        }
        let assignment = |start: Start| start.into_assignment(generation);
        self.say(SourceEvent::Assigned(starts.into_iter().map(assignment).collect()));
        Ok(())
    }

    /// Asks until the broker answers: a start that is only guessed could skip records.
    async fn find_starts(&mut self, list: &TopicPartitionList) -> Result<Vec<Start>, Stop> {
        let patience = Instant::now() + TELL_AFTER;
        loop {
            let found = match start::resolve(&self.consumer, &self.config, self.ends.as_ref(), list) {
                Ok(starts) => self.refuse_outlived(&starts).await?.map(|()| starts),
                Err(error) => Err(error),
            };
            match found {
                Ok(starts) => {
                    self.back();
                    return Ok(starts);
                }
                Err(error) if error.kind == SourceFailure::Unreachable => {
                    if Instant::now() >= patience {
                        let error = client::explain(&self.consumer, &self.config, error);
                        self.away(Away::Silent, error);
                    }
                    self.look_for_topics()?;
                    self.pause(RETRY_AFTER).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Refuses topics whose records may outlive the tombstones of their rows.
    async fn refuse_outlived(&self, starts: &[Start]) -> Result<Result<(), SourceError>, Stop> {
        let Some(retention) = self.config.tombstone_retention.filter(|_| !starts.is_empty()) else {
            return Ok(Ok(()));
        };
        let topics: BTreeSet<&str> = starts.iter().map(|start| &*start.partition.topic).collect();
        let topics: Vec<&str> = topics.into_iter().collect();
        let keeping = match self.attended(keeping::of_topics(&self.config, &topics)).await? {
            Ok(keeping) => keeping,
            Err(error) => {
                let what = "asking how long the topics are kept";
                return Ok(Err(of_call(what, &self.config.brokers, &error)));
            }
        };
        Ok(topics.iter().try_for_each(|topic| keeping::refuse_outlived(topic, keeping.get(*topic), retention)))
    }

    async fn revoke(&mut self, list: &TopicPartitionList) -> Result<(), Stop> {
        let partitions = partitions_of(list);
        // Nothing more of them is handed over from here on.
        self.intakes.retain(|intake| !partitions.contains(&intake.partition));
        self.unconfirmed.drop_partitions(&partitions);
        let drained = !self.consumer.assignment_lost() && !partitions.is_empty() && self.drain(&partitions).await?;
        self.ownership.give_up(&partitions);
        // A commit that is still under way must not reach the broker after the next owner's.
        let calm = timeout(COMMIT_PATIENCE, self.ownership.calm());
        if self.attended(calm).await?.is_err() {
            tracing::warn!(group = %self.config.group, "a commit of offsets did not end before its partitions were given up");
        }
        self.consumer.incremental_unassign(list).map_err(|error| self.cannot("given up", &error))?;
        self.context().rebalanced();
        if !drained && !partitions.is_empty() {
            self.say(SourceEvent::Lost(partitions));
        }
        Ok(())
    }

    /// Lets the run loop drain. False if it did not within the deadline, or the partitions were
    /// lost meanwhile.
    async fn drain(&mut self, partitions: &[Partition]) -> Result<bool, Stop> {
        let (done, answer) = oneshot::channel();
        self.say(SourceEvent::Revoked { partitions: partitions.to_vec(), done });
        let mut unsaid = std::mem::take(&mut self.unsaid);
        let asked = async {
            self.outlet.send_all(&mut unsaid).await?;
            Ok(answer.await.is_ok())
        };
        let lost = async {
            while !self.consumer.assignment_lost() {
                sleep(LOST_CHECK).await;
            }
        };
        let drained = async {
            tokio::select! { biased;
                drained = asked => drained,
                () = lost => Ok(false),
                () = sleep(self.config.revoke_deadline) => {
                    tracing::warn!(
                        partitions = partitions.len(),
                        deadline_s = self.config.revoke_deadline.as_secs(),
                        "revoked partitions did not drain in time; what was in flight will be delivered again"
                    );
                    Ok(false)
                }
            }
        };
        let drained = self.attended(drained).await;
        // A question that nobody waits for any more is not asked.
        unsaid.retain(|event| !matches!(event, SourceEvent::Revoked { done, .. } if done.is_closed()));
        self.unsaid = unsaid;
        drained?
    }

    /// Has librdkafka read one of our partitions from `offset`.
    pub(super) fn place(&self, partition: &Partition, offset: Offset) -> Result<(), SourceError> {
        let mut list = TopicPartitionList::with_capacity(1);
        // Not a seek: librdkafka takes none for a partition that it stopped reading.
        list.add_partition_offset(&partition.topic, partition.number, rdkafka::Offset::Offset(offset))
            .and_then(|()| self.consumer.incremental_unassign(&list))
            .and_then(|()| self.consumer.incremental_assign(&list))
            .map_err(|error| self.cannot("read on", &error))
    }

    fn cannot(&self, what: &str, error: &KafkaError) -> SourceError {
        let message = format!("partitions of group {} cannot be {what}: {error}", self.config.group);
        SourceError::new(SourceFailure::Contract, message)
    }
}

fn partitions_of(list: &TopicPartitionList) -> Vec<Partition> {
    list.elements()
        .iter()
        .map(|element| Partition { topic: Arc::from(element.topic()), number: element.partition() })
        .collect()
}
