//! Whether a table that is there can be written so that every row ends as the source has it.

use settle_core::key::Key;
use settle_core::schema::{RowSchema, SourceType};

use super::column::Family;
use super::config::{KeyFolding, MySqlConfig};
use super::ddl::add_written;
use super::table::{Column, Description};
use crate::finding::Finding;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::{added, findings};
use crate::sinks::unique::Unique;

const SQL: Dialect = Dialect::MySql;

/// What is wrong with `table` as the target of rows with this key, and what may surprise.
pub(super) fn target(
    config: &MySqlConfig,
    plan: &Plan,
    table: &Description,
    key: &Key,
    schema: Option<&RowSchema>,
) -> Vec<Finding> {
    let shown = format!("table \"{}\"", table.name);
    if !table.is_table() {
        let fix = "name an ordinary table: [tables.\"…\"] name";
        return vec![Finding::error(format!("{shown} is a {} to the server", table.form.to_lowercase()), fix)];
    }
    let mut findings = Vec::new();
    if !table.is_transactional {
        findings.push(Finding::error(
            format!("{shown} is of the storage engine {}, which has no transactions", table.engine),
            format!("run ALTER TABLE {} ENGINE = InnoDB", SQL.quoted(&table.name)),
        ));
    }
    let columns: Vec<String> =
        key.names().map(|source| plan.column(source, true).unwrap_or(source).to_owned()).collect();
    for (name, (source, json)) in columns.iter().zip(key.fields()) {
        match table.column(name) {
            None => findings.push(findings::lacks_key_column(&shown, name)),
            Some(column) => {
                let source_type = schema.and_then(|schema| schema.field(source, 0)).map(|field| &field.source_type);
                findings.extend(key_column(config, &shown, column, (source, json), source_type));
            }
        }
    }
    findings.extend(identity(config, &shown, table, &columns));
    findings.extend(meta(plan, &shown, table));
    let is_demanding = |at: usize| {
        let column = &table.columns[at];
        !column.nullable && !column.has_default && !column.generated
    };
    findings.extend(findings::demanding_columns(SQL, plan, table, &columns, is_demanding));
    findings.extend(padded_columns(&shown, table, &columns));
    findings.extend(findings::references(SQL, &shown, &table.references));
    if !table.triggers.is_empty() {
        findings.push(Finding::warning(
            format!("{shown} has triggers: {}", list(&table.triggers)),
            "its rows are written one by one, so that they run for what changes a row and not for what comes again",
        ));
    }
    findings
}

fn list(names: &[String]) -> String {
    SQL.list(names.iter().map(String::as_str))
}

/// True where the column tells all texts apart that this source sends: a UUID has one spelling.
pub(super) fn is_exact(column: &Column, source_type: Option<&SourceType>) -> bool {
    column.folding().is_none() || matches!(source_type, Some(SourceType::Uuid))
}

fn key_column(
    config: &MySqlConfig,
    shown: &str,
    column: &Column,
    (source, json): (&str, &str),
    source_type: Option<&SourceType>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named = format!("key column \"{}\" of {shown}", column.name);
    if column.generated {
        findings.push(Finding::error(format!("{named} is computed by the server"), "make it an ordinary column"));
    }
    if column.storage.family == Family::Float && !is_float(json, source_type) {
        findings.push(Finding::error(
            format!("{named} is a float, and \"{source}\" of the records is none"),
            "make it an integer, a DECIMAL or a text: numbers above 2^53 would be one row",
        ));
    }
    let Some(folding) = column.folding().filter(|_| !is_exact(column, source_type)) else { return findings };
    let collation = column.collation.as_deref().map(|name| format!(" (collation {name})")).unwrap_or_default();
    let what = format!("{named}{collation} {folding}: keys that the source tells apart would be one row");
    findings.push(match config.key_folding {
        KeyFolding::Refuse => Finding::error(
            what,
            "make it a VARCHAR of the collation utf8mb4_nopad_bin (MariaDB) or utf8mb4_0900_bin (MySQL); if the \
             source's own key folds in the same way, set [sink] key_folding = \"allow\"",
        ),
        KeyFolding::Allow => Finding::warning(
            what,
            "[sink] key_folding = \"allow\": its rows are written one by one, and a change of a key to another spelling of \
             it may lose the row",
        ),
    });
    findings
}

fn is_float(json: &str, source: Option<&SourceType>) -> bool {
    match source {
        None => json.contains(['.', 'e', 'E']),
        Some(source) => matches!(source, SourceType::Float32 | SourceType::Float64),
    }
}

/// The unique indexes that are not the key's.
pub(super) fn others<'t>(table: &'t Description, key: &[String]) -> Vec<&'t super::table::Unique> {
    table
        .uniques
        .iter()
        .filter(|unique| !unique.columns.as_deref().is_some_and(|columns| is_key(columns, key)))
        .collect()
}

fn is_key(columns: &[String], key: &[String]) -> bool {
    columns.len() == key.len() && columns.iter().all(|column| key.iter().any(|name| SQL.same(name, column)))
}

/// The primary key, or a unique index, must be exactly the key; another one would refuse rows that the
/// source has.
fn identity(config: &MySqlConfig, shown: &str, table: &Description, key: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let others = others(table, key);
    if others.len() == table.uniques.len() {
        findings.push(Finding::error(
            format!("{shown} has no primary key or unique index over exactly the key of the records ({})", list(key)),
            format!(
                "run ALTER TABLE {} ADD UNIQUE KEY ({}); or let Settle make the table",
                SQL.quoted(&table.name),
                list(key)
            ),
        ));
    }
    for other in others {
        let columns = other.columns.as_deref().map_or_else(|| "an expression or a part of a column".to_owned(), list);
        let what = format!(
            "{shown} has \"{}\", unique over {columns}, beside the key of the records ({})",
            other.name,
            list(key)
        );
        findings.push(match config.unique {
            Unique::Refuse => Finding::error(
                what,
                "drop it: rows come in an order in which two may hold its value for a while; or set [sink] unique = \
                 \"allow\", and such a row is refused until the other is gone",
            ),
            Unique::Allow => Finding::warning(
                what,
                "[sink] unique = \"allow\": its rows are written one by one, and a row whose value another one holds is \
                 refused until that is gone",
            ),
        });
    }
    findings
}

/// The columns that Settle adds.
fn meta(plan: &Plan, shown: &str, table: &Description) -> Vec<Finding> {
    let mut findings: Vec<Finding> = findings::lacks_versions(shown, &missing_meta(plan, table)).into_iter().collect();
    for name in [plan.version_hi(), plan.version_lo()] {
        let Some(column) = table.column(&name) else { continue };
        let is_bigint = column.column_type.to_ascii_lowercase().starts_with("bigint");
        if column.generated || column.nullable || !is_bigint {
            findings.push(Finding::error(
                format!("column \"{name}\" of {shown} is not of the form BIGINT NOT NULL"),
                "drop it and run ALTER TABLE … ADD COLUMN … BIGINT NOT NULL DEFAULT 0; or name Settle's columns otherwise: \
                 [sink.meta]",
            ));
        }
    }
    if let Some(column) = table.column(&plan.meta.is_deleted)
        && (column.generated || column.nullable || column.storage.family != Family::Integer)
    {
        findings.push(Finding::error(
            format!("column \"{}\" of {shown} is not of the form TINYINT NOT NULL", column.name),
            "drop it and run ALTER TABLE … ADD COLUMN … TINYINT(1) NOT NULL DEFAULT 0; or name Settle's columns otherwise: \
             [sink.meta]",
        ));
    }
    findings
}

/// The statements that add the missing columns of Settle.
pub(super) fn missing_meta(plan: &Plan, table: &Description) -> Vec<String> {
    added::missing(SQL, plan, table, &SQL.quoted(&table.name))
}

/// Columns that do not keep all of a value.
fn padded_columns(shown: &str, table: &Description, key: &[String]) -> Option<Finding> {
    let padded = |column: &&Column| matches!(column.storage.family, Family::PaddedText | Family::PaddedBytes);
    let is_own = |column: &&Column| !key.iter().any(|key| SQL.same(key, &column.name));
    let names: Vec<&str> =
        table.columns.iter().filter(padded).filter(is_own).map(|column| column.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        Finding::warning(
            format!("{shown} has columns of the types CHAR or BINARY: {}", SQL.list(names)),
            "spaces, or zero bytes, at the end of a value are not told from none; VARCHAR and VARBINARY keep them",
        )
    })
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
    let alike = |column: &&Column| {
        table
            .column(&column.name)
            .is_some_and(|known| known.storage.is_alike(&column.storage) && known.collation == column.collation)
    };
    let has = |name: &str| table.column(name).is_some();
    let complete = key.iter().all(alike) && has(&plan.version_hi()) && has(&plan.version_lo());
    let is_its_key = !table.uniques.is_empty() && others(table, &names).is_empty();
    if complete && table.is_table() && table.is_transactional && is_its_key {
        return written(plan, table, &names, is_purged).into_iter().collect();
    }
    vec![Finding::error(
        format!(
            "table \"{}\" is not the one in which Settle keeps the versions of deleted rows of \"{of}\": its key has not \
             the columns, types and collations of that table's",
            table.name
        ),
        "alter it as the table was altered; or rename it, or give the target another name: [tables.\"…\"] name",
    )]
}

/// Whether its column that says when a tombstone was written is of use.
fn written(plan: &Plan, table: &Description, key: &[String], is_purged: bool) -> Option<Finding> {
    let name = &plan.meta.written_ms;
    let shown = format!("table \"{}\"", table.name);
    match table.column(name) {
        Some(column)
            if !column.column_type.to_ascii_lowercase().starts_with("bigint")
                || column.generated
                || !column.nullable
                || key.iter().any(|key| SQL.same(key, name)) =>
        {
            Some(Finding::error(
                format!("column \"{name}\" of {shown} is not the one in which Settle keeps when a row was deleted"),
                "make it BIGINT NULL; or name Settle's column otherwise: [sink.meta] written_ms",
            ))
        }
        None if is_purged => Some(Finding::error(
            format!("{shown} has no column \"{name}\", by which [sink] tombstone_retention goes"),
            format!("run {}", add_written(plan, &table.name)),
        )),
        _ => None,
    }
}
