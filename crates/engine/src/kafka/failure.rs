//! What librdkafka's errors mean for a run.
//!
//! One function decides; a code that is not known here stops the run, so that nothing is waited
//! for or skipped by accident.

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use crate::source::{SourceError, SourceFailure};

/// What to do about an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// librdkafka tries again by itself.
    Heals,
    /// The broker may be away: ask it.
    Outage,
    /// The broker may not let us in: ask it.
    Rejected,
    /// We are let in, but not to what we ask for, until somebody grants it.
    Denied,
    /// A topic may be gone: look.
    TopicGone,
    /// The next offset to read is not in the log.
    OutOfRange,
    /// Another process took our place in the group.
    Fenced,
    /// Nothing heals it.
    Stop,
}

/// The one place that knows what a code means.
pub(super) fn judge(code: RDKafkaErrorCode) -> Verdict {
    use RDKafkaErrorCode as C;
    match code {
        C::AllBrokersDown
        | C::BrokerTransportFailure
        | C::Resolve
        | C::BrokerDestroy
        | C::DestroyBroker
        | C::NetworkException
        | C::BrokerNotAvailable
        | C::UnknownBroker
        | C::OperationTimedOut
        | C::RequestTimedOut
        | C::MessageTimedOut
        | C::TimedOutQueue => Verdict::Outage,

        C::Authentication | C::SSL | C::SaslAuthenticationFailed | C::UnsupportedSASLMechanism => Verdict::Rejected,

        C::TopicAuthorizationFailed | C::GroupAuthorizationFailed | C::ClusterAuthorizationFailed => Verdict::Denied,

        C::UnknownTopicOrPartition | C::UnknownTopic | C::UnknownPartition => Verdict::TopicGone,

        C::AutoOffsetReset | C::OffsetOutOfRange => Verdict::OutOfRange,

        C::Fatal | C::Fenced | C::FencedInstanceId => Verdict::Fenced,

        // Leaders move, coordinators load, groups rebalance, throttles pass.
        C::PollExceeded
        | C::AssignmentLost
        | C::WaitingForCoordinator
        | C::CoordinatorLoadInProgress
        | C::CoordinatorNotAvailable
        | C::NotCoordinator
        | C::RebalanceInProgress
        | C::IllegalGeneration
        | C::UnknownMemberId
        | C::MemberIdRequired
        | C::StaleMemberEpoch
        | C::LeaderNotAvailable
        | C::NotLeaderForPartition
        | C::PreferredLeaderNotAvailable
        | C::ReplicaNotAvailable
        | C::FencedLeaderEpoch
        | C::UnknownLeaderEpoch
        | C::UnknownTopicId
        | C::OffsetNotAvailable
        | C::UnstableOffsetCommit
        | C::KafkaStorageError
        | C::FetchSessionIdNotFound
        | C::InvalidFetchSessionEpoch
        | C::ListenerNotFound
        | C::ThrottlingQuotaExceeded
        | C::GroupMaxSizeReached
        | C::RebootstrapRequired
        | C::InProgress
        | C::PreviousInProgress
        | C::Retry
        | C::Interrupted
        | C::WaitCache => Verdict::Heals,

        _ => Verdict::Stop,
    }
}

/// The error of a call that was made to find something out.
pub(super) fn of_call(what: &str, brokers: &str, error: &KafkaError) -> SourceError {
    let code = error.rdkafka_error_code();
    let (kind, message) = match code.map(judge) {
        Some(Verdict::Outage) => {
            (SourceFailure::Unreachable, format!("{what}: Kafka at {brokers} does not answer ({})", text(error)))
        }
        Some(Verdict::Denied | Verdict::Rejected) => (
            SourceFailure::Unreachable,
            format!(
                "{what}: Kafka at {brokers} refuses ({}); check the credentials, and that they may describe and read \
                 the topics and use the group",
                text(error)
            ),
        ),
        // Brokers learn of a new topic one after the other; whether one is gone, only a listing tells.
        Some(Verdict::TopicGone) => (
            SourceFailure::Unreachable,
            format!("{what}: Kafka at {brokers} does not know the topic ({})", text(error)),
        ),
        Some(Verdict::Heals) => {
            (SourceFailure::Unreachable, format!("{what}: Kafka at {brokers} is not ready ({})", text(error)))
        }
        _ => (SourceFailure::Contract, format!("{what}: Kafka at {brokers} says: {}", text(error))),
    };
    SourceError::new(kind, message)
}

/// The code in librdkafka's words, without the name of the call that rdkafka puts in front.
fn text(error: &KafkaError) -> String {
    error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string())
}
