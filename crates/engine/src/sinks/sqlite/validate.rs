//! Whether a table that is there can be written so that every row ends as the source has it.

use settle_core::key::Key;
use settle_core::schema::{RowSchema, SourceType};
use settle_core::value::Kind;

use super::column::Affinity;
use super::ddl::add_written;
use super::name::{list, quoted, same, tombstones};
use super::table::{BINARY, Column, Description};
use crate::finding::Finding;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::{added, findings};

/// What is wrong with `table` as the target of rows with this key, and what may surprise.
///
/// Without a schema only values tell what the keys of the records are. Where the table has rows,
/// `by_values` is false: keys like theirs were taken, and one record with another is alone with it.
pub(super) fn target(
    plan: &Plan,
    table: &Description,
    key: &Key,
    schema: Option<&RowSchema>,
    by_values: bool,
) -> Vec<Finding> {
    let shown = format!("table \"{}\"", table.name);
    if table.form != "table" {
        let fix = "name an ordinary table: [tables.\"…\"] name";
        return vec![Finding::error(format!("{shown} is a {} to SQLite, which takes no upserts", table.form), fix)];
    }
    let mut findings = Vec::new();
    let columns: Vec<String> =
        key.names().map(|source| plan.column(source, true).unwrap_or(source).to_owned()).collect();
    for (name, (source, json)) in columns.iter().zip(key.fields()) {
        match table.column(name) {
            None => findings.push(findings::lacks_key_column(&shown, name)),
            Some(column) => {
                let source_type = schema.and_then(|schema| schema.field(source, 0)).map(|field| &field.source_type);
                findings.extend(key_column(&shown, column));
                if by_values || source_type.is_some() {
                    findings.extend(key_values(&shown, column, (source, json), source_type));
                }
            }
        }
    }
    findings.extend(identity(&shown, table, &columns));
    findings.extend(meta(plan, &shown, table));
    let is_demanding = |at: usize| {
        let column = &table.columns[at];
        column.not_null && !column.has_default && !column.generated
    };
    findings.extend(findings::demanding_columns(Dialect::Sqlite, plan, table, &columns, is_demanding));
    findings.extend(findings::references(Dialect::Sqlite, &shown, &table.references));
    if !table.triggers.is_empty() {
        findings.push(Finding::warning(
            format!("{shown} has triggers: {}", list_of(&table.triggers)),
            "an INSERT trigger also runs for a record that is delivered again; make sure that it changes nothing then",
        ));
    }
    findings
}

fn list_of(names: &[String]) -> String {
    list(names.iter().map(String::as_str))
}

fn key_column(shown: &str, column: &Column) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named = format!("key column \"{}\" of {shown}", column.name);
    if column.generated {
        findings.push(Finding::error(format!("{named} is computed by SQLite"), "make it an ordinary column"));
    }
    if column.collation != BINARY {
        findings.push(Finding::error(
            format!("{named} compares with {}: keys that the source tells apart would be one row", column.collation),
            "make the table again with COLLATE BINARY for it",
        ));
    }
    findings
}

/// Whether the column tells apart what the records tell apart.
fn key_values(
    shown: &str,
    column: &Column,
    (source, json): (&str, &str),
    source_type: Option<&SourceType>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named = format!("key column \"{}\" of {shown}", column.name);
    if merges(column, json, source_type) {
        findings.push(Finding::error(
            format!(
                "{named} is {} to SQLite, and \"{source}\" of the records is text that it would turn into numbers",
                affinity(column)
            ),
            "make the table again with TEXT for it: '7' and '07' would be one row",
        ));
    } else if column.storage.affinity == Affinity::Real && !is_float(json, source_type) {
        findings.push(Finding::error(
            format!("{named} is REAL, and \"{source}\" of the records is no float"),
            "make the table again with INTEGER or TEXT for it: numbers above 2^53 would be one row",
        ));
    }
    findings
}

/// Whether the column would store this key value as a number though it is text.
pub(super) fn merges(column: &Column, json: &str, source: Option<&SourceType>) -> bool {
    let is_text = match source {
        None => json.starts_with('"'),
        Some(SourceType::Decimal { .. } | SourceType::VariableDecimal | SourceType::Bits { .. }) => false,
        Some(_) => json.starts_with('"'),
    };
    let stays_text = matches!(
        column.storage.kind,
        Kind::Date | Kind::Time { .. } | Kind::Timestamp { .. } | Kind::Uuid | Kind::Bytes
    );
    is_text && column.storage.affinity.is_numeric() && !stays_text
}

fn is_float(json: &str, source: Option<&SourceType>) -> bool {
    match source {
        None => json.contains(['.', 'e', 'E']),
        Some(source) => matches!(source, SourceType::Float32 | SourceType::Float64),
    }
}

fn affinity(column: &Column) -> &'static str {
    match column.storage.affinity {
        Affinity::Integer => "INTEGER",
        Affinity::Text => "TEXT",
        Affinity::Blob => "BLOB",
        Affinity::Real => "REAL",
        Affinity::Numeric => "NUMERIC",
    }
}

/// The primary key, or a unique index, must be exactly the key; another one would refuse or merge
/// rows that the source has.
fn identity(shown: &str, table: &Description, key: &[String]) -> Vec<Finding> {
    let is_key = |columns: &[String]| {
        columns.len() == key.len() && columns.iter().all(|column| key.iter().any(|name| same(name, column)))
    };
    let (matching, others): (Vec<_>, Vec<_>) =
        table.uniques.iter().partition(|unique| unique.columns.as_deref().is_some_and(is_key));
    let mut findings = Vec::new();
    if matching.is_empty() {
        let index = format!(
            "CREATE UNIQUE INDEX {} ON {} ({})",
            quoted(&format!("{}_key", table.name)),
            quoted(&table.name),
            list_of(key)
        );
        findings.push(Finding::error(
            format!(
                "{shown} has no primary key or unique index over exactly the key of the records ({})",
                list_of(key)
            ),
            format!("run {index}; or let Settle make the table"),
        ));
    }
    for unique in &matching {
        if !unique.binary {
            findings.push(Finding::error(
                format!("index \"{}\" of {shown} does not compare its text byte by byte", unique.name),
                "make it again with COLLATE BINARY: keys that differ by case would be one row",
            ));
        }
    }
    for other in others {
        let columns =
            other.columns.as_deref().map_or_else(|| "an expression or a part of the rows".to_owned(), list_of);
        findings.push(Finding::error(
            format!(
                "{shown} has \"{}\", unique over {columns}, beside the key of the records ({})",
                other.name,
                list_of(key)
            ),
            "drop it: rows come in an order in which two may hold its value for a while",
        ));
    }
    findings
}

/// The columns that Settle adds.
fn meta(plan: &Plan, shown: &str, table: &Description) -> Vec<Finding> {
    let mut findings: Vec<Finding> = findings::lacks_versions(shown, &missing_meta(plan, table)).into_iter().collect();
    for name in [plan.version_hi(), plan.version_lo(), plan.meta.is_deleted.clone()] {
        let Some(column) = table.column(&name) else { continue };
        if column.generated || !column.not_null || column.storage.affinity != Affinity::Integer {
            findings.push(Finding::error(
                format!("column \"{name}\" of {shown} is not of the form INTEGER NOT NULL"),
                "drop it and run ALTER TABLE … ADD COLUMN … INTEGER NOT NULL DEFAULT 0; or name Settle's columns otherwise: [sink.meta]",
            ));
        }
    }
    findings
}

/// The statements that add the missing columns of Settle.
pub(super) fn missing_meta(plan: &Plan, table: &Description) -> Vec<String> {
    added::missing(Dialect::Sqlite, plan, table, &quoted(&table.name))
}

/// What is wrong with the table of tombstones.
pub(super) fn tombstone_table(
    plan: &Plan,
    of: &str,
    table: &Description,
    key: &[&Column],
    is_purged: bool,
) -> Vec<Finding> {
    let names: Vec<String> = key.iter().map(|column| column.name.clone()).collect();
    let has = |name: &str| table.column(name).is_some();
    let complete = names.iter().all(|name| has(name)) && has(&plan.version_hi()) && has(&plan.version_lo());
    let identity = identity(&format!("table \"{}\"", table.name), table, &names);
    if complete && table.form == "table" && identity.is_empty() {
        return written(plan, table, &names, is_purged).into_iter().collect();
    }
    vec![Finding::error(
        format!(
            "table \"{}\" is not the one in which Settle keeps the versions of deleted rows of \"{of}\"",
            tombstones(of)
        ),
        "rename it, or give the target another name: [tables.\"…\"] name",
    )]
}

/// Whether its column that says when a tombstone was written is of use.
fn written(plan: &Plan, table: &Description, key: &[String], is_purged: bool) -> Option<Finding> {
    let name = &plan.meta.written_ms;
    let shown = format!("table \"{}\"", table.name);
    match table.column(name) {
        Some(column)
            if column.storage.affinity != Affinity::Integer
                || column.generated
                || column.not_null
                || key.iter().any(|key| same(key, name)) =>
        {
            Some(Finding::error(
                format!("column \"{name}\" of {shown} is not the one in which Settle keeps when a row was deleted"),
                "make it INTEGER, without NOT NULL; or name Settle's column otherwise: [sink.meta] written_ms",
            ))
        }
        None if is_purged => Some(Finding::error(
            format!("{shown} has no column \"{name}\", by which [sink] tombstone_retention goes"),
            format!("run {}", add_written(plan, &table.name)),
        )),
        _ => None,
    }
}
