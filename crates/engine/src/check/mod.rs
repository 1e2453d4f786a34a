//! What can be said before a run: whether it would start, and what may surprise.
//!
//! Invariant: what a run would refuse is found by the code with which the run refuses it, held
//! against a sample; what is only said here (a note, a warning) never keeps a run from starting.

mod dead_letters;
mod log;
mod records;
mod rules;
mod tables;
mod values;
mod whole;

use std::fs::OpenOptions;
use std::path::Path;

pub(crate) use rules::unmatched;
pub use whole::{check, refusals};

use crate::finding::{Cause, Finding, Severity};

/// Everything that was found, in the order in which a run meets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Of the source: topics or captures, the group.
    pub source: Vec<Finding>,
    /// Of the sampled records.
    pub records: Vec<Finding>,
    /// Of the source tables in them, and the rules for them.
    pub tables: Vec<Finding>,
    /// Of the destination.
    pub destination: Vec<Finding>,
    /// True where the source was not read at all: it can be read once only.
    pub unread: bool,
}

impl Checked {
    /// All findings, in order.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.source.iter().chain(&self.records).chain(&self.tables).chain(&self.destination)
    }

    /// What becomes of records that cannot be applied: where they are set aside (`[dlq]`) they stop
    /// no run, so that they are warnings.
    pub fn settle_records(&mut self, set_aside: bool) {
        let all = [&mut self.source, &mut self.records, &mut self.tables, &mut self.destination];
        for finding in all.into_iter().flatten().filter(|f| f.is_error() && f.cause == Cause::Record) {
            let fix = match set_aside {
                true => "a run sets it aside as [dlq] says, and goes on",
                false => {
                    "mend it at its origin or in the table; to set such records aside and go on, say where: [dlq] path = \
                     \"dead.jsonl\", or topic = \"NAME\""
                }
            };
            if set_aside {
                finding.severity = Severity::Warning;
            }
            if finding.fix.is_empty() {
                finding.fix = fix.to_owned();
            }
        }
    }
}

/// Whether a file could be made at `path`, or put in its place: one is made beside it, and removed.
pub(crate) fn can_be_made(path: &Path) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".check-{}", std::process::id()));
    let beside = path.with_file_name(name);
    OpenOptions::new().write(true).create_new(true).open(&beside)?;
    std::fs::remove_file(&beside)
}

/// The nearest of the known names, where one is near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|other| (strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase()), other))
        .min()
        .filter(|(distance, other)| *distance <= (name.len().max(other.len()) / 3).max(1))
        .map(|(_, other)| other)
}

/// Up to five names, and how many there are besides.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 5;
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A number with its noun.
pub fn count(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_are_set_aside_stop_no_run_and_contracts_still_do() {
        let record = Finding::error("record t:0:1: no JSON", "").because(Cause::Record);
        let contract = Finding::error("no key", "set one");
        for (set_aside, severity) in [(false, Severity::Error), (true, Severity::Warning)] {
            let mut checked = Checked { records: vec![record.clone(), contract.clone()], ..Checked::default() };
            checked.settle_records(set_aside);
            assert_eq!(checked.records[0].severity, severity);
            assert!(checked.records[0].fix.contains("[dlq]"));
            assert_eq!(checked.records[1], contract);
        }
    }

    #[test]
    fn a_slip_of_the_pen_is_seen_and_another_word_is_not() {
        let known = ["public.orders", "public.customers"];
        assert_eq!(nearest("public.order", known.into_iter()), Some("public.orders"));
        assert_eq!(nearest("Public.Customer", known.into_iter()), Some("public.customers"));
        assert_eq!(nearest("audit.log", known.into_iter()), None);
    }
}
