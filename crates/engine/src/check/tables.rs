//! Findings of the source tables in the sample: their keys, their types, and what their values look
//! like where nothing says it.

use settle_core::batch::TableRows;

use super::values::{self, Looks};
use super::{count, listed};
use crate::config::{Deletes, Target};
use crate::finding::Finding;
use crate::sampling::Sample;
use crate::sinks::plan::Plan;

/// What each table of the sample is.
pub(crate) fn findings(sample: &Sample, target: &Target) -> Vec<Finding> {
    let mut findings: Vec<Finding> = sample.batch.tables().flat_map(|rows| of_table(rows, target)).collect();
    findings.extend(sample.unavailable().into_iter().map(|(table, columns)| {
        Finding::note(format!(
            "{} of {table} did not come with every change (TOAST): the destination's value is kept, and a row of which it \
             never came stops the run; REPLICA IDENTITY FULL on the table makes the source send it always",
            listed(columns)
        ))
    }));
    findings
}

fn of_table(rows: TableRows<'_>, target: &Target) -> Vec<Finding> {
    let plan = Plan::of(target, rows.table, Deletes::Soft);
    let key: Vec<&str> = rows.rows().next().map(|row| row.key().names().collect()).unwrap_or_default();
    let types = if rows.schema().is_some() { "with schemas" } else { "without schemas" };
    let mut findings = vec![Finding::note(format!(
        "table {} goes to {}; key ({}), {} sampled, {types}",
        rows.table,
        plan.table,
        key.join(", "),
        count(rows.rows().len() as u64, "row", "rows"),
    ))];
    if rows.schema().is_none() {
        findings.extend(untyped(rows, &plan, &key, target));
    }
    findings
}

/// Columns whose values look like something that no declaration says.
fn untyped(rows: TableRows<'_>, plan: &Plan, key: &[&str], target: &Target) -> Vec<Finding> {
    let undeclared = |name: &str| {
        let target = plan.column(name, key.contains(&name))?;
        plan.declared_type(target).is_none().then_some(())
    };
    let looks = values::look(rows);
    let like = |wanted: Looks| -> Vec<&str> {
        looks
            .iter()
            .filter(|(name, look)| *look == wanted && undeclared(name).is_some())
            .map(|(name, _)| name.as_str())
            .collect()
    };
    let section = format!("[tables.\"{}\".columns]", rows.table);
    let mut findings = Vec::new();
    let base64 = like(Looks::Base64);
    if !base64.is_empty() && target.conventions.decimal != Some(settle_core::schema::DecimalMode::String) {
        findings.push(Finding::warning(
            format!(
                "{} of {} hold base64 text, as Debezium writes decimals in its default mode (and bytes), and nothing says \
                 so: a column made from the values seen, or one of text, keeps that text",
                listed(base64),
                rows.table
            ),
            format!(
                "set decimal.handling.mode=string in the connector; or set decimal_handling_mode = \"precise\" in [source] \
                 and declare the columns in {section}, decimals as DECIMAL(precision, scale), bytes as BLOB"
            ),
        ));
    }
    let scaled = like(Looks::ScaledDecimal);
    if !scaled.is_empty() {
        findings.push(Finding::warning(
            format!("{} of {} hold decimals of varying scale as objects ({{scale, value}})", listed(scaled), rows.table),
            format!(
                "set decimal.handling.mode=string in the connector; or set decimal_handling_mode = \"precise\" in [source] \
                 and declare the columns in {section}"
            ),
        ));
    }
    for (look, unit) in [(Looks::Milliseconds, "milliseconds"), (Looks::Microseconds, "microseconds")] {
        let columns = like(look);
        if !columns.is_empty() {
            findings.push(Finding::note(format!(
                "{} of {} hold integers that look like times in {unit} since 1970; if they are, declare the columns as \
                 timestamps in {section} and say time_precision_mode in [source]; else they are written as integers",
                listed(columns),
                rows.table
            )));
        }
    }
    findings
}
