//! What librdkafka says beside its answers: kept for the error that follows, not printed. It calls
//! the end of a partition an error, and repeats an outage many times a second.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// The callbacks of all clients of a topic.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    trouble: Arc<Mutex<Option<String>>>,
}

impl Context {
    /// Why no broker answers, where librdkafka said it.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(target: "librdkafka", facility, "{message}");
            }
            _ => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        use RDKafkaErrorCode as C;
        tracing::debug!(target: "librdkafka", %error, "{reason}");
        // "All brokers are down" comes behind the cause and says less.
        if !matches!(error.rdkafka_error_code(), Some(C::PartitionEOF | C::AllBrokersDown)) {
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Context {}
