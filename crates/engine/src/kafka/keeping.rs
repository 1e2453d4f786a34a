//! How long the broker keeps what is in a topic, and whether the versions of deleted rows outlive that.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;

use super::config::KafkaConfig;
use super::start::PATIENCE;
use crate::config::duration;
use crate::source::{SourceError, SourceFailure};

/// What a tombstone must be older beside: brokers look for old segments every few minutes, and clocks differ.
const SPARE_MS: u64 = 3_600_000;

/// How long a topic keeps its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// `delete`, `compact`, or both with a comma between.
    pub cleanup_policy: String,
    /// Milliseconds; none for ever.
    pub retention_ms: Option<u64>,
    /// How long records are added to a segment, which goes as a whole, milliseconds; none without a bound.
    pub segment_ms: Option<u64>,
}

impl Keeping {
    /// True where records that newer ones of their key replace may go.
    pub fn compacts(&self) -> bool {
        self.cleanup_policy.contains("compact")
    }

    /// True where records go by their age or by the size of the log.
    pub fn deletes(&self) -> bool {
        self.cleanup_policy.contains("delete")
    }

    /// The age at which a record is surely gone, milliseconds; or why there is none, with the fix.
    fn bound_ms(&self) -> Result<u64, &'static str> {
        if self.compacts() {
            // Compaction puts an old record into one segment with new ones, by whose age it goes.
            return Err("is compacted, so a record of it may stay for any time; set cleanup.policy=delete for it");
        }
        match (self.retention_ms.filter(|_| self.deletes()), self.segment_ms) {
            (Some(retention), Some(segment)) => Ok(retention.saturating_add(segment)),
            (None, _) => Err("keeps its records for any time; set cleanup.policy=delete and a retention.ms for it (a \
                              retention.bytes alone bounds no time)"),
            (_, None) => Err("has no bound for the time that a segment is written; set a segment.ms for it"),
        }
    }
}

/// Refuses to purge tombstones that are older than `retention` where the topic may still hold a record
/// from before one of them: it would bring a deleted row back.
pub(crate) fn refuse_outlived(topic: &str, keeping: Option<&Keeping>, retention: Duration) -> Result<(), SourceError> {
    let refused = |why: String| {
        let asked = duration::text(millis(retention));
        let message = format!(
            "[sink] tombstone_retention = \"{asked}\" is not safe for topic {topic}, an old record of which could bring a \
             deleted row back: {why}; or remove tombstone_retention, and tombstones are kept for ever"
        );
        Err(SourceError::new(SourceFailure::Contract, message))
    };
    let Some(keeping) = keeping else {
        return refused(
            "how long it is kept the broker does not say; let this user describe the configuration of the topic \
             (DescribeConfigs)"
                .to_owned(),
        );
    };
    let bound = match keeping.bound_ms() {
        Ok(bound) => bound,
        Err(why) => return refused(format!("it {why}")),
    };
    let least = bound.saturating_add(SPARE_MS);
    if millis(retention) >= least {
        return Ok(());
    }
    refused(format!(
        "it may keep a record for {} (retention.ms and segment.ms together); set tombstone_retention to at least \"{}\"",
        duration::text(bound),
        duration::text_rounded_up(least)
    ))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What the broker keeps of each topic, as far as it tells: a topic that we may not describe is left out.
pub(super) async fn of_topics(config: &KafkaConfig, topics: &[&str]) -> Result<BTreeMap<String, Keeping>, KafkaError> {
    let admin: AdminClient<DefaultClientContext> = config.admin().create()?;
    let wanted: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let answers = admin.describe_configs(&wanted, &options).await?;
    Ok(answers.into_iter().filter_map(|answer| kept(&answer.ok()?)).collect())
}

fn kept(resource: &ConfigResource) -> Option<(String, Keeping)> {
    let OwnedResourceSpecifier::Topic(topic) = &resource.specifier else { return None };
    let value = |name: &str| resource.entries.iter().find(|entry| entry.name == name)?.value.clone();
    // -1 stands for ever.
    let ms = |name: &str| value(name).and_then(|text| text.parse().ok());
    let keeping = Keeping {
        cleanup_policy: value("cleanup.policy")?,
        retention_ms: ms("retention.ms"),
        segment_ms: ms("segment.ms"),
    };
    Some((topic.clone(), keeping))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn told(keeping: Option<(&str, Option<u64>, Option<u64>)>, days: u64) -> Option<String> {
        let keeping = keeping.map(|(policy, retention, segment)| Keeping {
            cleanup_policy: policy.to_owned(),
            retention_ms: retention.map(|days| days * DAY_MS),
            segment_ms: segment.map(|days| days * DAY_MS),
        });
        let refused = refuse_outlived("t", keeping.as_ref(), Duration::from_millis(days * DAY_MS));
        refused.err().map(|error| error.to_string())
    }

    #[test]
    fn tombstones_outlive_the_retention_and_a_segment_or_are_not_purged() {
        assert_eq!(told(Some(("delete", Some(7), Some(7))), 15), None);
        assert_eq!(
            told(Some(("delete", Some(7), Some(7))), 14).unwrap(),
            "[sink] tombstone_retention = \"14d\" is not safe for topic t, an old record of which could bring a deleted row \
             back: it may keep a record for 14d (retention.ms and segment.ms together); set tombstone_retention to at least \
             \"15d\"; or remove tombstone_retention, and tombstones are kept for ever"
        );
    }

    #[test]
    fn a_log_whose_records_may_stay_for_ever_lets_no_tombstone_go() {
        for (keeping, why) in [
            (Some(("delete", None, Some(7))), "keeps its records for any time"),
            (Some(("", Some(7), Some(7))), "keeps its records for any time"),
            (Some(("delete", Some(7), None)), "segment.ms"),
            (Some(("compact", Some(7), Some(7))), "is compacted"),
            (Some(("compact,delete", Some(7), Some(7))), "is compacted"),
            (None, "DescribeConfigs"),
        ] {
            let told = told(keeping, 10_000).unwrap();
            assert!(told.contains(why), "{keeping:?}: {told}");
        }
    }
}
