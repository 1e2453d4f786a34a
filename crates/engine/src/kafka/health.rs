//! Errors that librdkafka reports while reading: the broker away, access refused, topics gone.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use settle_core::position::TopicId;
use tokio::time::Instant;

use super::client;
use super::context::Trouble;
use super::failure::{Verdict, judge, of_call};
use super::reader::{Away, Reader};
use super::start;
use super::topic_id::topic_ids;
use super::topics;
use super::topics::Topic;
use crate::source::{SourceError, SourceEvent, SourceFailure, Stop};

/// How long a broker may take to show that it is there.
const PATIENCE: Duration = Duration::from_secs(2);
/// It is asked again no sooner than this.
const CHECK_AFTER: Duration = Duration::from_secs(1);
/// Topic ids are compared, and refused access is asked for again, this often.
const ROUND_AFTER: Duration = Duration::from_secs(10);

impl Reader {
    pub(super) async fn on_trouble(&mut self, intake: Option<usize>, trouble: Trouble) -> Result<(), Stop> {
        let Trouble { code, reason } = &trouble;
        match judge(*code) {
            Verdict::Heals => tracing::debug!(?code, "{reason}"),
            Verdict::Outage | Verdict::Rejected => {
                let known = self.health.suspicion.as_ref().map_or(0, |known| client::telling(known.code));
                if client::telling(*code) >= known {
                    self.health.suspicion = Some(trouble);
                }
            }
            Verdict::Denied => {
                let error = client::outage(&self.config, &trouble);
                self.away(Away::Denied, error);
            }
            Verdict::TopicGone => self.look_for_topics()?,
            Verdict::OutOfRange => match intake {
                Some(intake) => self.start_again(intake).await?,
                None => return Err(self.stop(reason).into()),
            },
            Verdict::Fenced => {
                let told = self.consumer.client().fatal_error();
                let words = told.map_or_else(|| reason.clone(), |(_, words)| words);
                let group = &self.config.group;
                let hint = match &self.config.instance {
                    Some(instance) => format!(
                        "another process joined group {group} as instance {instance}; give each an `instance` of its own in [source]"
                    ),
                    None => format!("our place in group {group} is gone"),
                };
                return Err(SourceError::new(SourceFailure::Fenced, format!("{hint}: {words}")).into());
            }
            Verdict::Stop => return Err(self.stop(reason).into()),
        }
        Ok(())
    }

    fn stop(&self, reason: &str) -> SourceError {
        let message = format!("reading from Kafka at {} failed: {reason}", self.config.brokers);
        SourceError::new(SourceFailure::Contract, message)
    }

    /// Asks the broker where there is reason to, and looks after the topics' ids.
    pub(super) fn check_health(&mut self) -> Result<(), SourceError> {
        let now = Instant::now();
        let silent = self.health.away == Some(Away::Silent);
        if (silent || self.health.suspicion.is_some()) && now >= self.health.next_check {
            let topic = self.topics.first().map(|topic| topic.name.as_str());
            let answers = client::answers(&self.consumer, topic, PATIENCE);
            self.health.next_check = Instant::now() + CHECK_AFTER;
            let suspicion = self.health.suspicion.take();
            match (answers, suspicion) {
                (true, _) if silent => self.back(),
                (false, Some(trouble)) => {
                    let error = client::outage(&self.config, &trouble);
                    self.away(Away::Silent, error);
                }
                _ => {}
            }
        }
        if !silent && now >= self.health.next_round {
            self.health.next_round = now + ROUND_AFTER;
            self.compare_ids()?;
            if self.health.away == Some(Away::Denied) {
                self.ask_for_access()?;
            }
        }
        Ok(())
    }

    /// Has every partition fetched anew. librdkafka tells once that it may not, and never that it
    /// may again; this way either the refusal is told again, or a record or the end comes.
    fn ask_for_access(&self) -> Result<(), SourceError> {
        self.intakes.iter().try_for_each(|intake| self.place(&intake.partition, intake.next()))
    }

    /// Tells once per outage.
    pub(super) fn away(&mut self, how: Away, error: SourceError) {
        if self.health.away.replace(how).is_none() {
            self.say(SourceEvent::Away(error));
        }
    }

    /// Tells that an outage is over, if there was one.
    pub(super) fn back(&mut self) {
        if self.health.away.take().is_some() {
            self.health.suspicion = None;
            self.say(SourceEvent::Back);
        }
    }

    /// Something was read, so access is granted.
    pub(super) fn shows_access(&mut self) {
        if self.health.away == Some(Away::Denied) {
            self.back();
        }
    }

    /// A topic is said to be missing: if one that was asked for is, the run cannot go on. One that
    /// only matched a pattern will be revoked.
    pub(super) fn look_for_topics(&self) -> Result<(), SourceError> {
        let existing = match client::list(&self.consumer, &self.config, PATIENCE) {
            Ok(existing) => existing,
            Err(error) if error.kind == SourceFailure::Unreachable => return Ok(()),
            Err(error) => return Err(error),
        };
        topics::select(&self.config.topics, &existing, &self.config.brokers).map(drop)
    }

    /// librdkafka says that the next offset is not in the log, and reads on only where told. A
    /// group that has no offset yet starts where the log does, also if retention moved that since
    /// it was asked; anything else would skip records unread.
    async fn start_again(&mut self, index: usize) -> Result<(), Stop> {
        let partition = self.intakes[index].partition.clone();
        let next = self.intakes[index].next();
        let (first, end) = loop {
            self.compare_ids()?;
            match start::watermarks(&self.consumer, &self.config, &partition) {
                Ok(ends) => break ends,
                Err(error) if error.kind == SourceFailure::Unreachable => {
                    self.away(Away::Silent, error);
                    self.pause(CHECK_AFTER).await?;
                }
                Err(error) => return Err(error.into()),
            }
        };
        if next < first && self.intakes[index].is_fresh() {
            self.intakes[index].skip_to(first);
        } else {
            // Its id was compared just now.
            start::check(&self.config, &self.topic(&partition.topic), &partition, next, (first, end), true)?;
        }
        self.place(&partition, self.intakes[index].next())?;
        Ok(())
    }

    /// A topic that was deleted and made anew is another log, and librdkafka would read on in it at
    /// the old offset.
    fn compare_ids(&self) -> Result<(), SourceError> {
        let known: BTreeMap<&str, TopicId> =
            self.intakes.iter().filter_map(|intake| Some((&*intake.partition.topic, intake.topic_id?))).collect();
        let names: Vec<&str> = known.keys().copied().collect();
        let current = match topic_ids(self.consumer.client(), &names, PATIENCE) {
            Ok(current) => current,
            Err(code) if judge(code) == Verdict::TopicGone => return self.look_for_topics(),
            Err(code) => {
                let error = of_call("reading topic ids", &self.config.brokers, &KafkaError::MetadataFetch(code));
                return if error.kind == SourceFailure::Unreachable { Ok(()) } else { Err(error) };
            }
        };
        for (topic, id) in known {
            if let Some(new) = current.get(topic).copied().flatten().filter(|new| *new != id) {
                return Err(start::made_anew(&self.config, &self.topic(topic), id, new));
            }
        }
        Ok(())
    }

    /// The topic as it was at the start, or as far as it is known.
    pub(super) fn topic(&self, name: &str) -> Topic {
        let known = self.topics.iter().find(|topic| topic.name == name).map_or(0, |topic| topic.partitions);
        let ours = self.intakes.iter().map(|intake| &intake.partition).filter(|p| *p.topic == *name);
        let partitions = ours.map(|p| p.number + 1).max().unwrap_or(0).max(known);
        Topic { name: name.to_owned(), partitions }
    }
}
