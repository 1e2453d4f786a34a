//! The rules of `[tables."…"]` held against the sampled tables: a rule that matches nothing is a slip
//! of the pen, and does nothing in silence.

use std::collections::BTreeSet;

use settle_core::batch::TableRows;

use super::{listed, nearest};
use crate::config::{Deletes, TableRule, Target};
use crate::finding::Finding;
use crate::sampling::Sample;
use crate::sinks::plan::Plan;

/// Rules, and names in them, that match nothing in the sample.
pub(crate) fn findings(sample: &Sample, target: &Target) -> Vec<Finding> {
    let truncated = sample.batch.truncates().iter().map(|truncate| truncate.table.to_string());
    let seen: BTreeSet<String> = sample.batch.tables().map(|rows| rows.table.to_string()).chain(truncated).collect();
    // Nothing is known of rules where no table was seen.
    if seen.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (name, rule) in &target.tables {
        match sample.batch.tables().find(|rows| rows.table.to_string() == *name) {
            Some(rows) => findings.extend(of_rule(name, rule, rows, target)),
            None if seen.contains(name) => {}
            None => findings.push(unmatched(name, "of the sample, which holds", &seen)),
        }
    }
    findings
}

/// A rule that matches none of the tables `seen`: `of` says what they are of.
pub(crate) fn unmatched(name: &str, of: &str, seen: &BTreeSet<String>) -> Finding {
    let what = format!("[tables.\"{name}\"] matches no table {of} {}", listed(seen.iter().map(String::as_str)));
    let fix = match nearest(name, seen.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean [tables.\"{meant}\"]?"),
        None => "remove it, or see that its topic is among those that are read".to_owned(),
    };
    Finding::warning(what, fix)
}

fn of_rule(table: &str, rule: &TableRule, rows: TableRows<'_>, target: &Target) -> Vec<Finding> {
    let key: BTreeSet<&str> = rows.rows().next().map(|row| row.key().names().collect()).unwrap_or_default();
    let columns = carried(rows);
    // A sample of deletes carries keys alone.
    if columns.is_empty() {
        return Vec::new();
    }
    let known = || columns.iter().map(String::as_str);
    let mut findings = Vec::new();
    let lists = [("exclude", &rule.exclude), ("include", &rule.include)];
    let renamed: Vec<String> = rule.rename.keys().cloned().collect();
    for (word, names) in lists.into_iter().chain([("rename", &renamed)]) {
        for name in names.iter().filter(|name| !columns.contains(*name)) {
            findings.push(Finding::warning(
                format!(
                    "{word} in [tables.\"{table}\"] names \"{name}\", which no sampled record of the table carries"
                ),
                match nearest(name, known()) {
                    Some(meant) => format!("did you mean \"{meant}\"?"),
                    None => format!("the records carry {}", listed(known())),
                },
            ));
        }
    }
    for name in rule.exclude.iter().filter(|name| key.contains(name.as_str())) {
        findings.push(Finding::warning(
            format!(
                "exclude in [tables.\"{table}\"] names \"{name}\", which is part of the key and is written all the same"
            ),
            "remove it from the list",
        ));
    }
    let plan = Plan::of(target, rows.table, Deletes::Soft);
    let filled: BTreeSet<&str> = known().filter_map(|name| plan.column(name, key.contains(name))).collect();
    for (name, _) in plan.declared().filter(|(name, _)| !filled.contains(name)) {
        findings.push(Finding::warning(
            format!(
                "column \"{name}\" is declared in [tables.\"{table}\".columns], but nothing in the records fills it: its rows \
                 hold the default, or NULL"
            ),
            match nearest(name, filled.iter().copied().filter(|other| plan.declared_type(other).is_none())) {
                Some(meant) => format!("did you mean \"{meant}\"? (names here are those of the destination, behind `rename`)"),
                None => "remove it, unless it is meant to be filled later".to_owned(),
            },
        ));
    }
    findings
}

/// Every column that a sampled record of the table carries, or its schema names.
fn carried(rows: TableRows<'_>) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for row in rows.rows().filter(|row| !row.is_delete()) {
        for column in row.columns().iter() {
            if !names.contains(&*column.name) {
                names.insert(column.name.to_string());
            }
        }
        names.extend(row.left_out().iter().map(|column| column.name.to_string()));
    }
    if let Some(schema) = rows.schema() {
        names.extend(schema.fields.iter().map(|field| field.name.clone()));
    }
    names
}
