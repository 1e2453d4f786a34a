//! Findings of the log that a run would read: its topics or captures, and where the group stands in
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

use settle_core::lane::LoneTombstones;
use settle_core::position::Offset;

use super::count;
use crate::config::{SourceConfig, duration};
use crate::finding::Finding;
use crate::kafka::{Keeping, TopicOutlook};
use crate::sampling::{Sample, Seen};
use crate::source::{Assignment, SourceError};
use crate::{capture, kafka};

/// Ends of up to so many partitions are shown each.
const ENDS_SHOWN: usize = 6;
/// A log that goes sooner than this is worth a word.
const SHORT_RETENTION_MS: u64 = 24 * 3_600_000;

/// Where a run would begin in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// As the run is given it.
    pub(crate) assignment: Assignment,
    /// First offset of the log.
    pub(crate) first: Offset,
    /// Behind the last.
    pub(crate) end: Offset,
}

impl Place {
    /// Where the group stands; none where it never committed.
    pub(crate) fn committed(&self) -> Option<Offset> {
        self.assignment.resumed.then_some(self.assignment.start)
    }
}

/// The places of a Kafka log at which a run would not refuse to begin.
pub(crate) fn places_of(topic: &TopicOutlook) -> impl Iterator<Item = Place> {
    topic.partitions.iter().filter_map(|part| {
        let assignment = part.assignment.as_ref().ok()?.clone();
        Some(Place { assignment, first: part.first, end: part.end })
    })
}

/// What is found of Kafka topics.
pub(crate) fn of_kafka(
    outlook: &kafka::Outlook,
    sample: &Sample,
    config: &SourceConfig,
    tombstone_retention: Option<Duration>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for topic in &outlook.topics {
        let ends: Vec<(Offset, Offset)> = topic.partitions.iter().map(|part| (part.first, part.end)).collect();
        let seen = sample.seen.get(topic.name.as_str());
        let kept = kept(topic.keeping.as_ref());
        findings.push(Finding::note(format!("{}{kept}", of_topic(&topic.name, &ends, seen))));
        if topic.id.is_none() {
            findings.push(Finding::warning(
                format!(
                    "the broker gives topic {} no id, so a topic made anew under its name is not recognised, and its \
                     epochs cannot be recorded",
                    topic.name
                ),
                "use Kafka 2.8 or later; until then use a new group whenever the topic is made anew",
            ));
        }
        findings
            .extend(topic.partitions.iter().filter_map(|part| part.assignment.as_ref().err()).map(Finding::of_source));
        findings.extend(grown(topic));
        findings.extend(begins_late(topic, seen));
        if let Some(keeping) = &topic.keeping {
            findings.extend(keeps(&topic.name, keeping, config.lone_tombstones));
        }
        findings.extend(outlived(topic, tombstone_retention).as_ref().map(Finding::of_source));
    }
    let places: Vec<Place> = outlook.topics.iter().flat_map(places_of).collect();
    if !places.is_empty() {
        findings.push(group(&config.group, &places));
    }
    match outlook.members {
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

/// What is found of captures.
pub(crate) fn of_captures(
    outlook: &capture::Outlook,
    sample: &Sample,
    config: &SourceConfig,
    tombstone_retention: Option<Duration>,
) -> Vec<Finding> {
    let mut topics: BTreeMap<&str, Vec<(Offset, Offset)>> = BTreeMap::new();
    for part in &outlook.partitions {
        topics.entry(&part.assignment.partition.topic).or_default().push((part.first, part.end));
    }
    let mut findings = Vec::new();
    for (topic, ends) in &topics {
        findings.push(Finding::note(of_topic(topic, ends, sample.seen.get(*topic))));
    }
    findings.extend(outlook.refused.iter().chain(&outlook.unwritable).map(Finding::of_source));
    findings.extend(tombstone_retention.map(of_old_captures));
    let places: Vec<Place> = outlook.partitions.iter().map(capture::PartitionOutlook::place).collect();
    if !places.is_empty() {
        findings.push(group(&config.group, &places));
    }
    findings
}

/// Why a run would refuse to read the topic and purge tombstones of that age.
pub(crate) fn outlived(topic: &TopicOutlook, tombstone_retention: Option<Duration>) -> Option<SourceError> {
    kafka::refuse_outlived(&topic.name, topic.keeping.as_ref(), tombstone_retention?).err()
}

/// Nothing says how old a capture is that will be read.
pub(crate) fn of_old_captures(tombstone_retention: Duration) -> Finding {
    let ms = u64::try_from(tombstone_retention.as_millis()).unwrap_or(u64::MAX);
    Finding::note(format!(
        "tombstones are purged when they are older than {}: see to it that no capture that is read holds older records, \
         which could bring deleted rows back",
        duration::text(ms)
    ))
}

impl capture::PartitionOutlook {
    pub(crate) fn place(&self) -> Place {
        Place { assignment: self.assignment.clone(), first: self.first, end: self.end }
    }
}

/// Partitions that came after the group began, and wait for the others.
fn grown(topic: &TopicOutlook) -> Option<Finding> {
    let waiting = places_of(topic).filter(|place| place.assignment.waits).count() as u64;
    (waiting > 0).then(|| {
        Finding::note(format!(
            "topic {} has grown by {}: a run reads them when the others are committed up to the end that they have now",
            topic.name,
            count(waiting, "partition", "partitions")
        ))
    })
}

/// A topic's partitions, ends, and how much of it was sampled.
fn of_topic(name: &str, ends: &[(Offset, Offset)], seen: Option<&Seen>) -> String {
    let partitions = count(ends.len() as u64, "partition", "partitions");
    let ends = if ends.len() <= ENDS_SHOWN {
        let ends: Vec<String> = ends.iter().map(|(first, end)| format!("{first} to {end}")).collect();
        format!("offsets {}", ends.join(", "))
    } else {
        format!("{} offsets", ends.iter().map(|(first, end)| end - first).sum::<i64>())
    };
    let sampled = count(seen.map_or(0, |seen| seen.records), "record", "records");
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
fn begins_late(topic: &TopicOutlook, seen: Option<&Seen>) -> Option<Finding> {
    let late = places_of(topic).any(|place| place.committed().is_none() && place.first > 0);
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
    let new = places.iter().filter(|place| place.committed().is_none()).count();
    let ahead = places.iter().filter_map(|place| u64::try_from(place.end - place.committed()?).ok()).sum();
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
    use settle_core::position::Partition;

    use super::*;

    fn place(first: Offset, end: Offset, committed: Option<Offset>) -> Place {
        let partition = Partition::new("t", 0);
        let assignment = Assignment::plain(partition, None, committed.unwrap_or(first), committed.is_some(), 0);
        Place { assignment, first, end }
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
        let keeping =
            |policy: &str, ms| Keeping { cleanup_policy: policy.to_owned(), retention_ms: ms, segment_ms: None };
        let found = |keeping: &Keeping, lone| keeps("t", keeping, lone).len();
        assert_eq!(found(&keeping("delete", Some(604_800_000)), LoneTombstones::Refuse), 0);
        assert_eq!(found(&keeping("delete", Some(3_600_000)), LoneTombstones::Refuse), 1);
        assert_eq!(found(&keeping("compact", Some(3_600_000)), LoneTombstones::Refuse), 1);
        assert_eq!(found(&keeping("compact", None), LoneTombstones::Skip), 0);
        assert_eq!(found(&keeping("compact,delete", Some(1)), LoneTombstones::Refuse), 2);
    }
}
