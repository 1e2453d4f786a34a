//! What librdkafka tells us while it is polled, kept until the reader's thread takes it.
//!
//! Callbacks run inside a poll and only note what happened. A rebalance in particular is answered
//! *after* the poll that brought it: librdkafka waits for the answer either way, and meanwhile the
//! thread can go on polling (so that a drain never exceeds `max.poll.interval.ms`) and hold no
//! lock while it waits for the run loop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use rdkafka::{ClientContext, TopicPartitionList};
use settle_core::position::Offset;
use tokio::sync::Notify;

/// A change of the assignment that librdkafka waits to have carried out.
#[derive(Clone)]
pub(super) enum Rebalance {
    /// These are ours now.
    Assign(TopicPartitionList),
    /// These are to be given up.
    Revoke(TopicPartitionList),
}

impl Rebalance {
    /// Carries it out as it is, without draining or positions of our own: for a consumer that is
    /// being closed, which librdkafka would otherwise wait for without end.
    pub(super) fn let_go(&self, consumer: &BaseConsumer<Context>) {
        let done = match self {
            Self::Assign(list) => consumer.incremental_assign(list),
            Self::Revoke(list) => consumer.incremental_unassign(list),
        };
        if let Err(error) = done {
            tracing::debug!(%error, "closing consumer could not change its assignment");
        }
    }
}

/// An error that librdkafka reported by itself.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// Its code.
    pub(super) code: RDKafkaErrorCode,
    /// Its words: broker, address, cause.
    pub(super) reason: String,
}

/// The callbacks' side of a client.
pub(super) struct Context {
    inbox: Mutex<Inbox>,
    /// Woken whenever a queue gets something.
    pub(super) wake: Arc<Notify>,
}

#[derive(Default)]
struct Inbox {
    rebalances: VecDeque<Rebalance>,
    troubles: VecDeque<Trouble>,
    end: Option<Result<Offset, String>>,
    calls: u64,
    closing: bool,
}

impl Context {
    pub(super) fn new() -> Self {
        Self { inbox: Mutex::default(), wake: Arc::new(Notify::new()) }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // Every change below is complete before anything can panic.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of callbacks so far: a poll that returned nothing may still have called one.
    pub(super) fn calls(&self) -> u64 {
        self.inbox().calls
    }

    /// The rebalance to carry out next. It stays until [`Context::rebalanced`].
    pub(super) fn rebalance(&self) -> Option<Rebalance> {
        self.inbox().rebalances.front().cloned()
    }

    /// The rebalance given last was carried out.
    pub(super) fn rebalanced(&self) {
        self.inbox().rebalances.pop_front();
    }

    /// The oldest error not yet taken.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.inbox().troubles.pop_front()
    }

    /// The error of the poll that just returned one.
    pub(super) fn latest_trouble(&self) -> Option<Trouble> {
        self.inbox().troubles.pop_back()
    }

    /// The end that the poll which just returned `PartitionEOF` stands for.
    pub(super) fn end(&self) -> Option<Result<Offset, String>> {
        self.inbox().end.take()
    }

    /// From here on rebalances are carried out at once; gives those that were not yet.
    pub(super) fn close(&self) -> Vec<Rebalance> {
        let mut inbox = self.inbox();
        inbox.closing = true;
        inbox.rebalances.drain(..).collect()
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let rebalance = match err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Rebalance::Assign(list.clone()),
            _ => Rebalance::Revoke(list.clone()),
        };
        let mut inbox = self.inbox();
        inbox.calls += 1;
        if inbox.closing {
            drop(inbox);
            rebalance.let_go(consumer);
        } else {
            inbox.rebalances.push_back(rebalance);
        }
    }
}

impl ClientContext for Context {
    /// librdkafka's log is for finding out more: what follows from it is reported by us, once.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.inbox().calls += 1;
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(target: "librdkafka", facility, "{message}");
            }
            _ => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.inbox().calls += 1;
        tracing::debug!(target: "librdkafka", "{}", String::from_utf8_lossy(statistics));
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let Some(code) = error.rdkafka_error_code() else { return };
        let mut inbox = self.inbox();
        inbox.calls += 1;
        if code == RDKafkaErrorCode::PartitionEOF {
            inbox.end = Some(end_in(reason));
            return;
        }
        tracing::debug!(target: "librdkafka", ?code, "{reason}");
        // An outage repeats itself, many times a second: the newest of each kind is kept.
        inbox.troubles.retain(|trouble| trouble.code != code);
        inbox.troubles.push_back(Trouble { code, reason: reason.to_owned() });
    }
}

/// The offset in "Fetch from broker 1 reached end of partition at offset 42 (HighwaterMark 43)".
///
/// rdkafka's `PartitionEOF` has no offset, and one is needed: below the end may lie markers and
/// records of aborted transactions that are never delivered, so the last record does not tell how
/// far was read; and the broker's end may be asked for, but not *which* end an EOF stood for: a
/// leader that just took over can report one below an end known before, and committing the known
/// one would skip the records between. librdkafka puts the offset of this very EOF into its
/// message, in the form checked here and by a test against a broker. Any other form stops the run.
fn end_in(reason: &str) -> Result<Offset, String> {
    let digits = reason
        .split_once("end of partition at offset ")
        .and_then(|(_, rest)| rest.split_once(" ("))
        .map(|(digits, _)| digits);
    digits.and_then(|digits| digits.parse().ok()).filter(|end| *end >= 0).ok_or_else(|| reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_from_librdkafkas_words_and_nothing_else() {
        let reason = "Fetch from broker 1 reached end of partition at offset 42 (HighwaterMark 43)";
        assert_eq!(end_in(reason), Ok(42));
        for other in
            ["Fetch from broker 1 reached end of partition", "end of partition at offset x (HighwaterMark 1)", ""]
        {
            assert!(end_in(other).is_err(), "{other}");
        }
    }

    #[test]
    fn an_outage_that_repeats_itself_does_not_grow() {
        let context = Context::new();
        for number in 0..1000 {
            context.error(KafkaError::Global(RDKafkaErrorCode::AllBrokersDown), &number.to_string());
        }
        context.error(KafkaError::Global(RDKafkaErrorCode::Resolve), "resolve");
        context.error(KafkaError::Global(RDKafkaErrorCode::AllBrokersDown), "1000");
        assert_eq!(context.inbox().troubles.len(), 2);
        assert_eq!(context.latest_trouble().unwrap().reason, "1000");
        assert_eq!(context.trouble().unwrap().reason, "resolve");
    }
}
