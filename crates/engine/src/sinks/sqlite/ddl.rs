//! The SQL that makes and changes tables.

use settle_core::batch::TableRows;
use settle_core::key::Key;
use settle_core::schema::infer;

use super::column::NewType;
use super::failure::{Outcome, contract};
use super::name::{list, quoted, same, tombstones};
use super::sample;
use super::table::{Column, Description};
use crate::config::target::Evolution;
use crate::sinks::plan::Plan;
use crate::sinks::sql::added;
use crate::sinks::sql::dialect::Dialect;

/// A table that is to be made.
#[derive(Debug)]
pub(super) struct NewTable {
    /// SQL that makes it.
    pub(super) sql: String,
    /// True where its columns were told from values: worth showing.
    pub(super) sampled: bool,
}

/// A column that is to be made.
struct NewColumn {
    name: String,
    kind: NewType,
}

/// The table for these rows: from their Connect schema, from the declared columns, or from the
/// values seen. `evolution` matters where a column held only NULL: it is left to be added once its
/// type shows, or gets none.
pub(super) fn new_table(plan: &Plan, evolution: Evolution, rows: TableRows<'_>) -> Outcome<NewTable> {
    let operation = || format!("create table \"{}\"", plan.table);
    let Some(key) = rows.rows().next().map(|row| row.key()) else {
        return Err(contract(operation(), "no row to tell its columns from"));
    };
    let mut columns: Vec<NewColumn> = Vec::new();
    let mut sampled = false;
    let mut add = |source: &str, kind: &dyn Fn() -> Option<NewType>| -> Outcome<()> {
        let is_key = key.get(source).is_some();
        let Some(name) = plan.column(source, is_key) else { return Ok(()) };
        let kind = match plan.declared_type(name) {
            Some(declared) => Some(declared_type(&operation(), name, declared)?),
            None => kind(),
        };
        let Some(kind) = kind else { return Ok(()) };
        if columns.iter().any(|column| same(&column.name, name)) {
            return Err(two_of_a_name(&operation(), name));
        }
        columns.push(NewColumn { name: name.to_owned(), kind });
        Ok(())
    };
    if let Some(schema) = rows.schema() {
        for field in &schema.fields {
            add(&field.name, &|| Some(NewType::of_source(&field.source_type)))?;
        }
    } else if plan.declared().next().is_none() {
        sampled = true;
        let seen = sample::columns(rows);
        for (source, inferred) in &seen {
            let waits = inferred.is_none() && evolution == Evolution::Add;
            add(source, &|| (!waits).then(|| NewType::of_values(*inferred)))?;
        }
    }
    for (name, declared) in plan.declared() {
        if !columns.iter().any(|column| same(&column.name, name)) {
            columns.push(NewColumn { name: name.to_owned(), kind: declared_type(&operation(), name, declared)? });
        }
    }
    for (source, json) in key.fields() {
        let name = plan.column(source, true).unwrap_or(source);
        if !columns.iter().any(|column| same(&column.name, name)) {
            let kind = NewType::of_values(infer(json));
            columns.push(NewColumn { name: name.to_owned(), kind });
        }
    }
    for meta in added::columns(Dialect::Sqlite, plan) {
        if columns.iter().any(|column| same(&column.name, &meta.name)) {
            return Err(added::taken(&operation(), &meta.name));
        }
    }
    Ok(NewTable { sql: create(plan, key, &columns), sampled })
}

fn create(plan: &Plan, key: &Key, columns: &[NewColumn]) -> String {
    let strict = columns.iter().all(|column| column.kind.is_strict());
    let keys: Vec<&str> = key.names().map(|source| plan.column(source, true).unwrap_or(source)).collect();
    let mut lines: Vec<String> = columns
        .iter()
        .map(|column| {
            // Only the key is NOT NULL: a column may vanish at the source, and is then not carried.
            let is_key = keys.iter().any(|key| same(key, &column.name));
            format!("  {}", definition(&column.name, column.kind.sql(strict), is_key))
        })
        .collect();
    lines.extend(added::columns(Dialect::Sqlite, plan).iter().map(|meta| format!("  {}", meta.sql())));
    lines.push(format!("  PRIMARY KEY ({})", list(keys)));
    // Not WITHOUT ROWID: measured with random keys, writes to it are two to three times slower.
    let options = if strict { " STRICT" } else { "" };
    format!("CREATE TABLE {} (\n{}\n){options}", quoted(&plan.table), lines.join(",\n"))
}

fn definition(name: &str, kind: &str, not_null: bool) -> String {
    let mut text = quoted(name);
    for part in [kind, if not_null { "NOT NULL" } else { "" }] {
        if !part.is_empty() {
            text.push(' ');
            text.push_str(part);
        }
    }
    text
}

/// The table that keeps the versions of deleted rows of a table with these key columns.
pub(super) fn new_tombstones(table: &Description, key: &[&Column], plan: &Plan) -> String {
    let mut lines: Vec<String> =
        key.iter().map(|column| format!("  {}", definition(&column.name, &column.declared, true))).collect();
    for version in [plan.version_hi(), plan.version_lo()] {
        lines.push(format!("  {} INTEGER NOT NULL", quoted(&version)));
    }
    lines.push(format!("  {} INTEGER", quoted(&plan.meta.written_ms)));
    lines.push(format!("  PRIMARY KEY ({})", list(key.iter().map(|column| column.name.as_str()))));
    let options = if table.strict { " STRICT" } else { "" };
    let name = quoted(&tombstones(&table.name));
    format!("CREATE TABLE {name} (\n{}\n){options}", lines.join(",\n"))
}

/// The SQL that adds the column that says when a tombstone was written. Those that are there say nothing.
pub(super) fn add_written(plan: &Plan, name: &str) -> String {
    format!("ALTER TABLE {} ADD COLUMN {} INTEGER", quoted(name), quoted(&plan.meta.written_ms))
}

/// The SQL that adds a column.
pub(super) fn add_column(table: &Description, name: &str, kind: &NewType) -> String {
    let column = definition(name, kind.sql(table.strict), false);
    format!("ALTER TABLE {} ADD COLUMN {column}", quoted(&table.name))
}

/// The type that a rule declares.
pub(super) fn declared_type(operation: &str, column: &str, declared: &str) -> Outcome<NewType> {
    NewType::declared(declared).ok_or_else(|| {
        contract(
            operation,
            format!("the declared type of column \"{column}\" is no type; use words and numbers, as VARCHAR(20)"),
        )
    })
}

/// Two source columns that SQLite takes for one.
pub(super) fn two_of_a_name(operation: &str, column: &str) -> settle_core::sink::SinkError {
    contract(
        operation,
        format!(
            "two columns of the source are called \"{column}\" in SQLite, which does not tell upper from lower case; \
             give one of them another name: [tables.\"…\"] rename"
        ),
    )
}
