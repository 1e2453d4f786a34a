//! Kafka as a source.
//!
//! One thread (`settle-kafka`) polls librdkafka and speaks to the run loop through the channel of
//! [`crate::source::Source`]. Its invariants:
//!
//! - the main queue is polled whatever the run loop does, so a slow destination never costs the
//!   assignment;
//! - each partition has a queue of its own, looked into only while the channel has room: that is
//!   the whole back-pressure, no pause (which would throw prefetched records away);
//! - records of an assignment come after its `Assigned` and before its `Revoked` or `Lost`;
//! - records are handed on once their topic is known to be the one that was assigned;
//! - an end is reported only where librdkafka said that it read up to it;
//! - a commit is sent only for a partition that is ours, and never lowers an offset.

mod client;
mod config;
mod confirmation;
mod context;
mod failure;
mod group;
mod growth;
mod health;
mod intake;
mod keeping;
mod outlet;
mod outlook;
mod probe;
mod range;
mod reader;
mod rebalance;
pub(crate) mod record;
mod start;
mod survey;
mod thread;
mod topic_id;
mod topics;

pub use config::{Bound, KafkaConfig, REVOKE_DEADLINE};
pub use keeping::Keeping;
pub(crate) use keeping::refuse_outlived;
pub use outlook::{Outlook, PartitionOutlook, TopicOutlook, outlook};
pub use probe::{Probe, ProbedTopic, probe, sample, sample_from};
pub use range::read;
pub(crate) use start::move_command;
pub use survey::{delete_group, members, offsets_since, survey};
pub use thread::start;
