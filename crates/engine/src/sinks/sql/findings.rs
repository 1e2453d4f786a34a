//! What may be wrong with a target table, whatever the engine.

use settle_core::batch::TableRows;

use super::added;
use super::dialect::Dialect;
use super::keyed::Keyed;
use super::outline::Outline;
use super::session::{Outcome, contract};
use crate::config::target::Deletes;
use crate::finding::Finding;
use crate::sinks::plan::Plan;

/// With errors among them a table is refused.
pub(crate) fn refuse_errors(operation: &str, findings: &[Finding]) -> Outcome<()> {
    let errors: Vec<String> = findings.iter().filter(|f| f.is_error()).map(Finding::to_string).collect();
    if errors.is_empty() { Ok(()) } else { Err(contract(operation, errors.join(". Also: "))) }
}

/// The table lacks a column of the key.
pub(crate) fn lacks_key_column(shown: &str, name: &str) -> Finding {
    Finding::error(
        format!("{shown} has no column \"{name}\", which is part of the key of the records"),
        "add it to the table's primary key, or let Settle make the table",
    )
}

/// The table lacks columns that Settle adds; these statements add them.
pub(crate) fn lacks_versions(shown: &str, missing: &[String]) -> Option<Finding> {
    (!missing.is_empty()).then(|| {
        Finding::error(
            format!("{shown} lacks columns in which Settle keeps the version of each row"),
            format!("run {}; rows that are there count as older than everything", missing.join("; ")),
        )
    })
}

/// Foreign keys that no row of Settle is held against.
pub(crate) fn references(dialect: Dialect, shown: &str, to: &[String]) -> Option<Finding> {
    (!to.is_empty()).then(|| {
        Finding::warning(
            format!(
                "{shown} has foreign keys to {}, which are not enforced on rows that Settle writes",
                dialect.list(to.iter().map(String::as_str))
            ),
            "the source enforces them, and rows of different tables come in any order",
        )
    })
}

/// Columns that must have a value which a record may not carry: those of the table for which `is_demanding`
/// is true, by their place.
pub(crate) fn demanding_columns(
    dialect: Dialect,
    plan: &Plan,
    table: &impl Outline,
    key: &[String],
    is_demanding: impl Fn(usize) -> bool,
) -> Option<Finding> {
    let ours = added::columns(dialect, plan);
    let is_other = |name: &str| {
        !key.iter().any(|key| dialect.same(key, name)) && !ours.iter().any(|own| dialect.same(&own.name, name))
    };
    let columns = table.columns().enumerate();
    let demanding: Vec<&str> =
        columns.filter(|(at, name)| is_demanding(*at) && is_other(name)).map(|(_, name)| name).collect();
    if demanding.is_empty() {
        return None;
    }
    let what = format!(
        "table \"{}\" has columns that are NOT NULL without a default: {}",
        table.name(),
        dialect.list(demanding)
    );
    Some(if plan.deletes == Deletes::Soft {
        Finding::error(what, "give them a default: the mark of a deleted row that was never seen carries the key alone")
    } else {
        Finding::warning(what, "a record that does not carry them is refused; give them a default if that can happen")
    })
}

/// Columns that the records carry and the table computes: a table that mirrors the source's computes the
/// same, and no other can be told from it.
pub(crate) fn computed_columns(keyed: Keyed<'_, impl Outline>, rows: TableRows<'_>) -> Vec<Finding> {
    let Keyed { dialect, plan, table, key } = keyed;
    let names = table.columns().enumerate().filter(|(at, _)| table.is_generated(*at));
    let mut computed: Vec<(&str, bool)> = names.map(|(_, name)| (name, false)).collect();
    if computed.is_empty() {
        return Vec::new();
    }
    for row in rows.rows().filter(|row| !row.is_delete()) {
        for carried in row.change().columns().iter().filter(|carried| key.iter().all(|k| *k.source != *carried.name)) {
            let Some(name) = plan.column(&carried.name, false) else { continue };
            if let Some((_, is_sent)) = computed.iter_mut().find(|(column, _)| dialect.same(column, name)) {
                *is_sent = true;
            }
        }
    }
    let sent = computed.into_iter().filter(|(_, is_sent)| *is_sent);
    sent.map(|(name, _)| {
        let what = format!(
            "column \"{name}\" of table \"{}\" is computed by the database: what the source sends for it is not stored",
            table.name()
        );
        Finding::warning(what, "exclude it ([tables.\"…\"] exclude), or make it an ordinary column")
    })
    .collect()
}
