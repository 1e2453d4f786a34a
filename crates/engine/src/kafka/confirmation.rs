//! What was read waits here until its topic is known to be the one that was assigned.
//!
//! librdkafka reads on by name: in a topic that was deleted and made anew it goes on at the old offset,
//! in a log that it is not. So the broker is asked for the topic's id *after* records were taken: a
//! topic that is gone never comes back under its id, so one that still has it had it when they were
//! fetched. Only then they are handed on. One question covers everything that was taken before it was
//! asked, and the next is asked when it is answered: it costs a pipeline its answer's time once, and
//! no throughput.
//!
//! What cannot be told: a broker that serves records of the new topic while another, which is asked,
//! has not heard of it yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use settle_core::position::{Partition, TopicId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::client::{self, Consumer};
use super::context::Trouble;
use super::failure::{Verdict, judge};
use super::reader::Reader;
use super::start;
use super::topic_id::known_topic_ids;
use crate::source::{SourceError, SourceEvent, Stop};

/// So many events wait at most; each holds up to a chunk of records.
const MAX_WAITING: usize = 32;
/// Rest between two questions, so that a trickle of records is no flood of them.
const ASK_AFTER: Duration = Duration::from_millis(5);
/// Rest behind a question that had no answer, or had not all of it.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

type Ids = BTreeMap<String, Option<TopicId>>;

/// An event, and the topic that it is of.
struct Waiting {
    partition: Partition,
    topic_id: TopicId,
    event: SourceEvent,
    confirmed: bool,
}

/// Events in the order in which they were taken.
#[derive(Default)]
pub(super) struct Unconfirmed {
    waiting: VecDeque<Waiting>,
    /// So many of them, from the front, were there when the question at hand was asked.
    asked: usize,
}

/// A topic that is another one now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MadeAnew {
    topic: Arc<str>,
    before: TopicId,
    now: TopicId,
}

impl Unconfirmed {
    /// True if nothing more is to be taken.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING
    }

    /// Takes what was read of a partition. Without an id nothing can be confirmed.
    pub(super) fn push(&mut self, partition: Partition, topic_id: Option<TopicId>, event: SourceEvent) {
        let (topic_id, confirmed) = (topic_id.unwrap_or(TopicId(uuid::Uuid::nil())), topic_id.is_none());
        self.waiting.push_back(Waiting { partition, topic_id, event, confirmed });
    }

    /// True if something may be handed on.
    pub(super) fn has_confirmed(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.confirmed)
    }

    /// The next that may be handed on: what is of one topic is confirmed in order.
    pub(super) fn pop(&mut self) -> Option<SourceEvent> {
        let at = self.waiting.iter().position(|waiting| waiting.confirmed)?;
        if at < self.asked {
            self.asked -= 1;
        }
        self.waiting.remove(at).map(|waiting| waiting.event)
    }

    /// Nothing of these partitions is handed on any more.
    pub(super) fn drop_partitions(&mut self, partitions: &[Partition]) {
        let gone = |waiting: &Waiting| partitions.contains(&waiting.partition);
        self.asked -= self.waiting.iter().take(self.asked).filter(|waiting| gone(waiting)).count();
        self.waiting.retain(|waiting| !gone(waiting));
    }

    /// The topics to ask for, on behalf of everything that is here now.
    fn ask(&mut self) -> Vec<String> {
        self.asked = self.waiting.len();
        let unsure = self.waiting.iter().filter(|waiting| !waiting.confirmed);
        let mut names: Vec<String> = unsure.map(|waiting| waiting.partition.topic.to_string()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// True if there is something to ask for.
    fn has_unsure(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.confirmed)
    }

    /// The ids that the topics have, asked for when [`Self::ask`] said so. True if all are there.
    fn answer(&mut self, ids: &Ids) -> Result<bool, MadeAnew> {
        let mut all = true;
        let asked = std::mem::take(&mut self.asked);
        for waiting in self.waiting.iter_mut().take(asked).filter(|waiting| !waiting.confirmed) {
            match ids.get(&*waiting.partition.topic).copied().flatten() {
                Some(id) if id == waiting.topic_id => waiting.confirmed = true,
                Some(now) => {
                    let topic = waiting.partition.topic.clone();
                    return Err(MadeAnew { topic, before: waiting.topic_id, now });
                }
                None => all = false,
            }
        }
        Ok(all)
    }
}

/// Asks for the ids of topics, one question at a time, on threads of the runtime.
pub(super) struct Asking {
    /// In no group: it holds up no leave.
    client: Arc<Consumer>,
    answer: Option<oneshot::Receiver<Result<Ids, RDKafkaErrorCode>>>,
    /// Not before this.
    next: Instant,
}

impl Asking {
    pub(super) fn new(client: Arc<Consumer>) -> Self {
        Self { client, answer: None, next: Instant::now() }
    }
}

impl Reader {
    /// When the next question is to be asked, if one is.
    pub(super) fn asks_at(&self) -> Option<Instant> {
        (self.asking.answer.is_none() && self.unconfirmed.has_unsure()).then_some(self.asking.next)
    }

    /// Asks, and hears the answer.
    pub(super) async fn confirm(&mut self) -> Result<(), Stop> {
        match self.asking.answer.as_mut().map(oneshot::Receiver::try_recv) {
            Some(Ok(answer)) => {
                self.asking.answer = None;
                self.hear(answer).await?;
            }
            // The runtime ends, and so do we.
            Some(Err(oneshot::error::TryRecvError::Closed)) => self.asking.answer = None,
            Some(Err(oneshot::error::TryRecvError::Empty)) | None => {}
        }
        let now = Instant::now();
        if self.asks_at().is_some_and(|at| at <= now) {
            self.asking.next = now + ASK_AFTER;
            let names = self.unconfirmed.ask();
            let (client, wake) = (self.asking.client.clone(), self.context().wake.clone());
            let (told, answer) = oneshot::channel();
            self.asking.answer = Some(answer);
            tokio::task::spawn_blocking(move || {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let ids = known_topic_ids(client.client(), &names, PATIENCE);
                // What it has to say of an outage, the one that reads says, too.
                let _ = client::poll(&client);
                // A reader that has ended needs no answer.
                let _ = told.send(ids);
                wake.notify_one();
            });
        }
        Ok(())
    }

    async fn hear(&mut self, answer: Result<Ids, RDKafkaErrorCode>) -> Result<(), Stop> {
        let ids = match answer {
            Ok(ids) => ids,
            Err(code) => {
                self.asking.next = Instant::now() + ASK_AGAIN_AFTER;
                return match judge(code) {
                    Verdict::Heals => Ok(()),
                    Verdict::TopicGone => Ok(self.look_for_topics()?),
                    _ => {
                        let reason = format!("reading topic ids: {}", KafkaError::MetadataFetch(code));
                        self.on_trouble(None, Trouble { code, reason }).await
                    }
                };
            }
        };
        match self.unconfirmed.answer(&ids) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.asking.next = Instant::now() + ASK_AGAIN_AFTER;
                Ok(self.look_for_topics()?)
            }
            Err(MadeAnew { topic, before, now }) => {
                let error: SourceError = start::made_anew(&self.config, &self.topic(&topic), before, now);
                Err(error.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TopicId {
        TopicId::of_first_line("t", text.as_bytes())
    }

    fn ids(known: &[(&str, &str)]) -> Ids {
        known.iter().map(|(topic, text)| ((*topic).to_owned(), Some(id(text)))).collect()
    }

    /// An end stands for whatever was read up to it.
    fn push(unconfirmed: &mut Unconfirmed, topic: &str, end: i64) {
        let partition = Partition::new(topic, 0);
        let event = SourceEvent::ReachedEnd { partition: partition.clone(), generation: 1, end, bounded: false };
        unconfirmed.push(partition, Some(id("old")), event);
    }

    fn handed_on(unconfirmed: &mut Unconfirmed) -> Vec<(String, i64)> {
        std::iter::from_fn(|| unconfirmed.pop())
            .map(|event| match event {
                SourceEvent::ReachedEnd { partition, end, .. } => (partition.topic.to_string(), end),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn all(events: &[(&str, i64)]) -> Vec<(String, i64)> {
        events.iter().map(|(topic, end)| ((*topic).to_owned(), *end)).collect()
    }

    #[test]
    fn what_was_taken_before_the_question_is_handed_on_and_what_came_behind_it_waits() {
        let mut unconfirmed = Unconfirmed::default();
        push(&mut unconfirmed, "a", 1);
        assert_eq!(handed_on(&mut unconfirmed), []);
        assert_eq!(unconfirmed.ask(), ["a"]);
        push(&mut unconfirmed, "a", 2);
        assert_eq!(unconfirmed.answer(&ids(&[("a", "old")])), Ok(true));
        assert_eq!(handed_on(&mut unconfirmed), all(&[("a", 1)]));
        assert!(!unconfirmed.has_confirmed() && unconfirmed.has_unsure());
        unconfirmed.ask();
        assert_eq!(unconfirmed.answer(&ids(&[("a", "old")])), Ok(true));
        assert_eq!(handed_on(&mut unconfirmed), all(&[("a", 2)]));
    }

    #[test]
    fn nothing_that_was_taken_of_a_topic_that_is_another_one_is_handed_on() {
        let mut unconfirmed = Unconfirmed::default();
        push(&mut unconfirmed, "a", 1);
        unconfirmed.ask();
        let told = unconfirmed.answer(&ids(&[("a", "new")]));
        assert_eq!(told, Err(MadeAnew { topic: "a".into(), before: id("old"), now: id("new") }));
        assert_eq!(handed_on(&mut unconfirmed), []);
    }

    #[test]
    fn a_topic_that_is_gone_holds_up_no_other() {
        let mut unconfirmed = Unconfirmed::default();
        for (topic, end) in [("gone", 1), ("a", 1), ("gone", 2), ("a", 2)] {
            push(&mut unconfirmed, topic, end);
        }
        assert_eq!(unconfirmed.ask(), ["a", "gone"]);
        assert_eq!(unconfirmed.answer(&ids(&[("a", "old")])), Ok(false));
        assert_eq!(handed_on(&mut unconfirmed), all(&[("a", 1), ("a", 2)]));
    }

    #[test]
    fn what_goes_to_another_instance_meanwhile_is_left_to_it() {
        let mut unconfirmed = Unconfirmed::default();
        for (topic, end) in [("a", 1), ("b", 1)] {
            push(&mut unconfirmed, topic, end);
        }
        unconfirmed.ask();
        unconfirmed.drop_partitions(&[Partition::new("a", 0)]);
        push(&mut unconfirmed, "a", 2);
        assert_eq!(unconfirmed.answer(&ids(&[("a", "old"), ("b", "old")])), Ok(true));
        assert_eq!(handed_on(&mut unconfirmed), all(&[("b", 1)]), "the second was not asked for");
    }
}
