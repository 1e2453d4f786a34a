//! Findings of the sampled records: those that a run would stop at, who wrote them, and what is not
//! among them.

use std::collections::{BTreeMap, BTreeSet};

use settle_core::refusal::{Reason, Refusal};

use super::log::Place;
use super::{count, listed};
use crate::finding::{Cause, Finding};
use crate::sampling::{Sample, Seen};

/// Kinds of refused records that are listed.
const LISTED: usize = 5;

/// What the sample says of the records, beside their tables.
pub(crate) fn findings(sample: &Sample, places: &[Place]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if sample.seen.values().all(|seen| seen.records == 0) {
        findings.push(Finding::warning(
            "the source holds no records: nothing of them could be checked",
            "is it the right file or topic? check again when the connector has written to it",
        ));
        return findings;
    }
    findings.extend(origins(sample));
    for (topic, seen) in &sample.seen {
        findings.extend(of_topic(topic, seen));
    }
    if sample.seen.values().any(|seen| seen.streamed > 0) && sample.seen.values().all(|seen| seen.truncates == 0) {
        findings.push(Finding::note(
            "no truncate was seen: Debezium sends them only with skipped.operations=none; without them the rows of a table \
             that is emptied at the source stay in the destination",
        ));
    }
    findings.extend(sample.conflicts.iter().map(Finding::of_source));
    findings.extend(refused(sample, places));
    findings
}

/// Connectors and lineages.
fn origins(sample: &Sample) -> Vec<Finding> {
    let all = |seen: &Seen| !seen.is_control_only();
    let connectors: BTreeSet<_> = sample.seen.values().filter(|s| all(s)).flat_map(|s| &s.connectors).collect();
    let lineages: BTreeSet<_> = sample.seen.values().flat_map(|seen| &seen.lineages).collect();
    if connectors.is_empty() {
        return Vec::new();
    }
    let shown: Vec<String> = connectors.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let lineage: Vec<String> = lineages.iter().map(ToString::to_string).collect();
    let mut findings = vec![Finding::note(format!(
        "written by Debezium's connector for {}; source {} (source.name/source.db)",
        listed(shown.iter().map(String::as_str)).trim_end(),
        listed(lineage.iter().map(String::as_str))
    ))];
    if connectors.iter().any(|(name, _)| matches!(name.as_str(), "mysql" | "mariadb")) {
        findings.push(Finding::note(
            "MySQL and MariaDB send nothing for rows that ON DELETE CASCADE removes: they stay in the destination",
        ));
    }
    findings
}

fn of_topic(topic: &str, seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    let kinds = [
        (seen.heartbeats, "heartbeats"),
        (seen.transactions, "transaction boundaries"),
        (seen.schema_changes, "schema changes"),
        (seen.signals, "signals"),
        (seen.tombstones, "tombstones"),
    ];
    let names: Vec<&str> = kinds.iter().filter(|(number, _)| *number > 0).map(|(_, name)| *name).collect();
    if seen.is_control_only() {
        if !names.is_empty() {
            let names = names.join(", ");
            findings.push(Finding::note(format!("topic {topic} carries {names}: they are counted, and write nothing")));
        }
        return findings;
    }
    let incremental = match seen.incremental {
        0 => String::new(),
        number => format!(" ({number} of them incremental)"),
    };
    findings.push(Finding::note(format!(
        "topic {topic}: {} by a snapshot{incremental}, {} ({})",
        count(seen.snapshot, "row read", "rows read"),
        count(seen.streamed, "change", "changes"),
        count(seen.deletes, "delete", "deletes"),
    )));
    if seen.snapshot == 0 {
        findings.push(Finding::note(format!(
            "topic {topic} was sampled without a row of a snapshot: rows that never changed since the connector began are in \
             the log only if it took one (snapshot.mode)"
        )));
    }
    if seen.deletes > 0 && seen.tombstones == 0 {
        findings.push(Finding::note(format!(
            "topic {topic} has deletes without tombstones behind them (tombstones.on.delete=false): nothing is lost, but \
             compaction would never remove their keys"
        )));
    }
    findings
}

/// Refused records by their reason, each with the first place.
fn refused(sample: &Sample, places: &[Place]) -> Vec<Finding> {
    let mut kinds: BTreeMap<(bool, String), (u64, &Refusal)> = BTreeMap::new();
    let mut refusals: Vec<&Refusal> = sample.refusals.iter().collect();
    refusals.sort_by_key(|refusal| refusal.place.clone());
    // A new log begins once, with the first of its records: the others are of it.
    let mut anew = BTreeSet::new();
    refusals.retain(|refusal| !matches!(refusal.reason, Reason::NewLog(_)) || anew.insert(&refusal.place.partition));
    for refusal in refusals {
        let passed = places.iter().any(|place| {
            place.assignment.partition == refusal.place.partition
                && place.committed().is_some_and(|to| refusal.place.offset < to)
        });
        kinds.entry((passed, refusal.reason.to_string())).or_insert((0, refusal)).0 += 1;
    }
    let mut shown: Vec<_> = kinds.into_iter().collect();
    shown.sort_by_key(|((passed, _), (_, refusal))| (*passed, refusal.place.clone()));
    let more = shown.len().saturating_sub(LISTED);
    let others: u64 = shown.iter().skip(LISTED).map(|(_, (number, _))| number).sum();
    let others_stop = shown.iter().skip(LISTED).any(|((passed, _), _)| !passed);
    let mut findings: Vec<Finding> = shown
        .into_iter()
        .take(LISTED)
        .map(|((passed, _), (number, refusal))| {
            let alike = match number {
                1 => String::new(),
                number => format!(" ({} in the sample like it)", count(number - 1, "more", "more")),
            };
            let what = format!("{refusal}{alike}");
            if passed {
                return Finding::note(format!("{what}; the group has passed it, so a run does not meet it"));
            }
            let alone = sample.poison.contains(&refusal.place);
            Finding::error(what, "").because(if alone { Cause::Record } else { Cause::Contract })
        })
        .collect();
    if more > 0 {
        let what = format!("{others} more records are refused for other reasons ({more})");
        findings.push(if others_stop {
            Finding::error(what, "mend those above, and check again")
        } else {
            Finding::note(what)
        });
    }
    findings
}
