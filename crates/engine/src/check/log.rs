//! Findings of the log that a run would read: its topics or captures, and where the group stands in
//! them.

use std::collections::BTreeMap;

use settle_core::lane::LoneTombstones;
use settle_core::position::{Offset, Partition, TopicId};

use super::count;
use crate::config::SourceConfig;
use crate::finding::Finding;
use crate::kafka::{Keeping, SurveyedTopic};
use crate::sampling::{Sample, Seen};
use crate::source::Assignment;
use crate::{capture, kafka};

/// Ends of up to so many partitions are shown each.
const ENDS_SHOWN: usize = 6;
/// A log that goes sooner than this is worth a word.
const SHORT_RETENTION_MS: u64 = 24 * 3_600_000;

/// Where a run would begin in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which partition.
    pub(crate) partition: Partition,
    /// Its log.
    pub(crate) topic_id: Option<TopicId>,
    /// First offset of the log.
    pub(crate) first: Offset,
    /// Behind the last.
    pub(crate) end: Offset,
    /// Where the group stands.
    pub(crate) committed: Option<Offset>,
}

impl Place {
    /// As a run is told of it.
    pub(crate) fn assignment(&self) -> Assignment {
        Assignment {
            partition: self.partition.clone(),
            topic_id: self.topic_id,
            start: self.committed.unwrap_or(self.first),
            resumed: self.committed.is_some(),
            generation: 0,
        }
    }
}

/// What a survey of Kafka says.
pub(crate) fn of_kafka(survey: &kafka::Survey, sample: &Sample, config: &SourceConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    for topic in &survey.topics {
        let places: Vec<Place> = topic.partitions.iter().map(|part| part.place(topic.id)).collect();
        let seen = sample.seen.get(topic.name.as_str());
        findings.push(Finding::note(format!(
            "{}{}",
            of_topic(&topic.name, &places, seen),
            kept(topic.keeping.as_ref())
        )));
        if topic.id.is_none() {
            findings.push(Finding::warning(
                format!(
                    "the broker gives topic {} no id, so a topic made anew under its name is not recognised",
                    topic.name
                ),
                "use Kafka 2.8 or later; until then use a new group whenever the topic is made anew",
            ));
        }
        findings.extend(topic.partitions.iter().filter_map(|part| part.refused.as_ref()).map(Finding::of_source));
        findings.extend(begins_late(topic, &places, seen));
        if let Some(keeping) = &topic.keeping {
            findings.extend(keeps(&topic.name, keeping, config.lone_tombstones));
        }
    }
    let places: Vec<Place> = survey
        .topics
        .iter()
        .flat_map(|topic| {
            topic.partitions.iter().filter(|part| part.refused.is_none()).map(|part| part.place(topic.id))
        })
        .collect();
    if !places.is_empty() {
        findings.push(group(&config.group, &places));
    }
    match survey.members {
        Some(0) => {}
        Some(members) => findings.push(Finding::note(format!(
            "group {} has {} now: a run shares the partitions with them",
            config.group,
            count(members as u64, "member", "members")
        ))),
        None => findings.push(Finding::note(format!("the broker does not say who is in group {} now", config.group))),
    }
    findings
}

/// What a survey of captures says.
pub(crate) fn of_captures(survey: &capture::Survey, sample: &Sample, config: &SourceConfig) -> Vec<Finding> {
    let mut topics: BTreeMap<&str, Vec<Place>> = BTreeMap::new();
    for part in &survey.partitions {
        topics.entry(&part.partition.topic).or_default().push(part.place());
    }
    let mut findings = Vec::new();
    for (topic, places) in &topics {
        findings.push(Finding::note(of_topic(topic, places, sample.seen.get(*topic))));
    }
    findings.extend(survey.refused.iter().chain(&survey.unwritable).map(Finding::of_source));
    let places: Vec<Place> = topics.into_values().flatten().collect();
    if !places.is_empty() {
        findings.push(group(&config.group, &places));
    }
    findings
}

impl kafka::SurveyedPartition {
    pub(crate) fn place(&self, topic_id: Option<TopicId>) -> Place {
        let Self { partition, first, end, committed, .. } = self;
        Place { partition: partition.clone(), topic_id, first: *first, end: *end, committed: *committed }
    }
}

impl capture::SurveyedPartition {
    pub(crate) fn place(&self) -> Place {
        let Self { partition, topic_id, committed, first, end, .. } = self;
        Place { partition: partition.clone(), topic_id: *topic_id, first: *first, end: *end, committed: *committed }
    }
}

/// A topic's partitions, ends, and how much of it was sampled.
fn of_topic(name: &str, places: &[Place], seen: Option<&Seen>) -> String {
    let ends = if places.len() <= ENDS_SHOWN {
        let ends: Vec<String> = places.iter().map(|place| format!("{} to {}", place.first, place.end)).collect();
        format!("offsets {}", ends.join(", "))
    } else {
        let most: i64 = places.iter().map(|place| place.end - place.first).sum();
        format!("{most} offsets")
    };
    let sampled = count(seen.map_or(0, |seen| seen.records), "record", "records");
    let partitions = count(places.len() as u64, "partition", "partitions");
    format!("topic {name}: {partitions}, {ends}; {sampled} sampled")
}

fn kept(keeping: Option<&Keeping>) -> String {
    let Some(keeping) = keeping else { return "; how long it is kept the broker does not say".to_owned() };
    let mut text = String::new();
    if keeping.compacts() {
        text.push_str("; compacted");
    }
    if keeping.deletes() {
        match keeping.retention_ms {
            Some(ms) => text.push_str(&format!("; kept for {}", time(ms))),
            None => text.push_str("; kept for ever"),
        }
    }
    text
}

/// A time in its greatest unit.
fn time(ms: u64) -> String {
    let minutes = ms / 60_000;
    match minutes {
        m if m >= 2 * 24 * 60 => count(m / (24 * 60), "day", "days"),
        m if m >= 2 * 60 => count(m / 60, "hour", "hours"),
        m if m >= 1 => count(m, "minute", "minutes"),
        _ => format!("{ms} ms"),
    }
}

/// What of the topic's settings may cost changes.
fn keeps(topic: &str, keeping: &Keeping, lone_tombstones: LoneTombstones) -> Vec<Finding> {
    let mut findings = Vec::new();
    if keeping.compacts() && lone_tombstones == LoneTombstones::Refuse {
        findings.push(Finding::warning(
            format!(
                "topic {topic} is compacted: a delete that compaction removed before it was read leaves its tombstone \
                 alone, and there a run stops"
            ),
            "read within min.compaction.lag.ms, or set lone_tombstones = \"skip\" in [source]: rows deleted so stay",
        ));
    }
    if keeping.deletes()
        && let Some(ms) = keeping.retention_ms.filter(|ms| *ms < SHORT_RETENTION_MS)
    {
        findings.push(Finding::warning(
            format!(
                "topic {topic} keeps its records for {} only: a run that is behind by more loses changes",
                time(ms)
            ),
            "raise retention.ms of the topic above the longest outage that must be survived",
        ));
    }
    findings
}

/// A new group that meets a log whose beginning is gone.
fn begins_late(topic: &SurveyedTopic, places: &[Place], seen: Option<&Seen>) -> Option<Finding> {
    let late = places.iter().any(|place| place.committed.is_none() && place.first > 0);
    let has_snapshot = seen.is_some_and(|seen| seen.snapshot > 0);
    let records = seen.is_some_and(|seen| !seen.is_control_only());
    (late && records && !has_snapshot).then(|| {
        Finding::warning(
            format!(
                "the log of topic {} does not begin at 0 any more, and no snapshot was seen in it: rows that have not \
                 changed since are not in it",
                topic.name
            ),
            "take a new snapshot of its tables at the source, if the destination does not hold them already",
        )
    })
}

fn group(group: &str, places: &[Place]) -> Finding {
    let new = places.iter().filter(|place| place.committed.is_none()).count();
    let ahead = places.iter().filter_map(|place| u64::try_from(place.end - place.committed?).ok()).sum();
    let stands = format!("group {group} goes on where it stands, with {} ahead", count(ahead, "offset", "offsets"));
    Finding::note(match new {
        _ if new == places.len() => {
            format!("group {group} has no offsets here: it starts at the beginning of each partition")
        }
        0 => stands,
        1 => format!("{stands}; 1 partition has none, and is read from its beginning"),
        new => format!("{stands}; {new} partitions have none, and are read from their beginning"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(first: Offset, end: Offset, committed: Option<Offset>) -> Place {
        Place { partition: Partition::new("t", 0), topic_id: None, first, end, committed }
    }

    #[test]
    fn where_the_group_stands_is_told() {
        let told = |places: &[Place]| group("g", places).what;
        assert_eq!(
            told(&[place(0, 9, None)]),
            "group g has no offsets here: it starts at the beginning of each partition"
        );
        assert_eq!(told(&[place(0, 9, Some(8))]), "group g goes on where it stands, with 1 offset ahead");
        assert_eq!(
            told(&[place(0, 9, Some(9)), place(0, 3, None)]),
            "group g goes on where it stands, with 0 offsets ahead; 1 partition has none, and is read from its beginning"
        );
    }

    #[test]
    fn times_are_told_in_their_greatest_unit() {
        assert_eq!(time(604_800_000), "7 days");
        assert_eq!(time(86_400_000), "24 hours");
        assert_eq!(time(90_000), "1 minute");
        assert_eq!(time(1_000), "1000 ms");
    }

    #[test]
    fn what_the_broker_keeps_may_cost_changes() {
        let keeping = |policy: &str, ms| Keeping { cleanup_policy: policy.to_owned(), retention_ms: ms };
        let found = |keeping: &Keeping, lone| keeps("t", keeping, lone).len();
        assert_eq!(found(&keeping("delete", Some(604_800_000)), LoneTombstones::Refuse), 0);
        assert_eq!(found(&keeping("delete", Some(3_600_000)), LoneTombstones::Refuse), 1);
        assert_eq!(found(&keeping("compact", Some(3_600_000)), LoneTombstones::Refuse), 1);
        assert_eq!(found(&keeping("compact", None), LoneTombstones::Skip), 0);
        assert_eq!(found(&keeping("compact,delete", Some(1)), LoneTombstones::Refuse), 2);
    }
}
