//! Whether a table that is there can be written so that every row ends as the source has it.

use settle_core::key::Key;
use settle_core::schema::{Conventions, DecimalMode, RowSchema, SourceType};

use super::column::Wire;
use super::config::ForeignKeys;
use super::ddl::{add_written, within};
use super::table::{self, Column, Description};
use crate::finding::Finding;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::{added, findings};
use crate::sinks::unique::Unique;

const SQL: Dialect = Dialect::Postgres;

/// What a table is held against.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) plan: &'a Plan,
    pub(super) key: &'a Key,
    pub(super) schema: Option<&'a RowSchema>,
    pub(super) conventions: &'a Conventions,
    pub(super) unique: Unique,
    pub(super) foreign_keys: ForeignKeys,
}

/// True for what rows can be written to.
pub(super) fn is_table(table: &Description) -> bool {
    matches!(table.form, 'r' | 'p')
}

/// What is wrong with `table` as the target of rows with this key, and what may surprise.
pub(super) fn target(asked: &Asked<'_>, table: &Description) -> Vec<Finding> {
    let shown = format!("table \"{}\"", table.name);
    if !is_table(table) {
        let what = match table.form {
            'v' => "a view",
            'm' => "a materialized view",
            'f' => "a foreign table",
            _ => "no table",
        };
        return vec![Finding::error(
            format!("{shown} is {what}, and its rows cannot be told apart by a unique index"),
            "name an ordinary table: [tables.\"…\"] name",
        )];
    }
    let mut findings = form(&shown, table);
    let columns: Vec<String> =
        asked.key.names().map(|source| asked.plan.column(source, true).unwrap_or(source).to_owned()).collect();
    for (name, (source, json)) in columns.iter().zip(asked.key.fields()) {
        match table.column(name) {
            None => findings.push(findings::lacks_key_column(&shown, name)),
            Some(column) => {
                findings.extend(key_column(&shown, column));
                let source_type =
                    asked.schema.and_then(|schema| schema.field(source, 0)).map(|field| &field.source_type);
                findings.extend(key_values(&shown, column, (source, json), source_type, asked.conventions));
            }
        }
    }
    findings.extend(identity(&shown, table, &columns, asked.unique));
    findings.extend(meta(asked.plan, &shown, table));
    let is_demanding = |at: usize| {
        let column = &table.columns[at];
        column.not_null && !column.has_default && !column.generated
    };
    findings.extend(findings::demanding_columns(SQL, asked.plan, table, &columns, is_demanding));
    findings.extend(foreign_keys(&shown, table, asked.foreign_keys));
    if !table.triggers.is_empty() {
        findings.push(Finding::warning(
            format!("{shown} has triggers: {}", list_of(&table.triggers)),
            "a trigger that runs before an INSERT also runs for a record that is delivered again; make sure that it \
             changes nothing then, and keeps no row out",
        ));
    }
    findings
}

/// What the table is beside its columns.
fn form(shown: &str, table: &Description) -> Vec<Finding> {
    let mut findings = Vec::new();
    if table.form == 'r' && table.has_children {
        findings.push(Finding::error(
            format!("{shown} has tables that inherit from it, whose rows no unique index of it knows"),
            "name another table: [tables.\"…\"] name; or take the children out: ALTER TABLE … NO INHERIT",
        ));
    }
    if table.persistence != 'p' {
        let unlogged = table.persistence == 'u';
        findings.push(Finding::error(
            format!("{shown} is {}", if unlogged { "UNLOGGED: a crash of the server empties it" } else { "temporary" }),
            if unlogged { "run ALTER TABLE … SET LOGGED" } else { "name an ordinary table: [tables.\"…\"] name" },
        ));
    }
    if table.has_rules {
        findings.push(Finding::error(
            format!("{shown} has rules (CREATE RULE), with which PostgreSQL takes no upserts"),
            "drop them, or make triggers of them",
        ));
    }
    if table.hides_rows {
        findings.push(Finding::error(
            format!("row-level security of {shown} applies to this user: rows may be hidden from it"),
            "run ALTER ROLE … BYPASSRLS for it, or ALTER TABLE … DISABLE ROW LEVEL SECURITY",
        ));
    }
    findings
}

fn list_of(names: &[String]) -> String {
    SQL.list(names.iter().map(String::as_str))
}

fn key_column(shown: &str, column: &Column) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named = format!("key column \"{}\" of {shown}", column.name);
    if column.generated {
        findings.push(Finding::error(format!("{named} is computed by PostgreSQL"), "make it an ordinary column"));
    }
    if let Err(why) = column.wire {
        findings.push(Finding::error(format!("{named} is of type {}: {why}", column.declared), ""));
    }
    let of_text = "run ALTER TABLE … ALTER COLUMN … TYPE text";
    if column.base_name == "bpchar" {
        findings.push(Finding::error(
            format!(
                "{named} is of type {}, which takes texts that differ by spaces at their end for one",
                column.declared
            ),
            of_text,
        ));
    }
    if column.base_name == "citext" {
        findings.push(Finding::error(
            format!("{named} is of type citext, which takes texts that differ by case for one"),
            of_text,
        ));
    }
    if let Some((name, false)) = &column.collation {
        findings.push(Finding::error(
            format!("{named} has the collation {name}, which takes different texts for one"),
            "run ALTER TABLE … ALTER COLUMN … TYPE text COLLATE \"C\"",
        ));
    }
    findings
}

/// Whether the column tells apart what the records tell apart. A text that comes without a schema is the
/// fault of its record, not of the topic: it is looked at where it is written ([`merges_text`]).
fn key_values(
    shown: &str,
    column: &Column,
    (source, json): (&str, &str),
    source_type: Option<&SourceType>,
    conventions: &Conventions,
) -> Option<Finding> {
    let named = format!("key column \"{}\" of {shown}", column.name);
    let wire = column.wire.as_ref().ok()?;
    let merges = source_type.filter(|known| **known == SourceType::Text).and_then(|_| merges_text(wire, conventions));
    if let Some(fix) = merges {
        let what = format!("{named} is {}, and \"{source}\" of the records is text", column.declared);
        return Some(Finding::error(what, fix));
    }
    let is_float = match source_type {
        Some(known) => matches!(known, SourceType::Float32 | SourceType::Float64),
        None => json.contains(['.', 'e', 'E']),
    };
    match wire {
        Wire::Float4 | Wire::Float8 if !is_float => Some(Finding::error(
            format!("{named} is {}, and \"{source}\" of the records is no float", column.declared),
            "give it the type of the source: two large numbers would be one row",
        )),
        _ => None,
    }
}

/// Whether texts that the source tells apart would be one number in such a column of a key, and what helps.
pub(super) fn merges_text(wire: &Wire, conventions: &Conventions) -> Option<&'static str> {
    // Decimals that come as text are numbers, where that is said.
    let are_numbers = matches!(conventions.decimal, Some(DecimalMode::String | DecimalMode::Precise));
    match wire {
        Wire::Int2 | Wire::Int4 | Wire::Int8 => Some("make the column text: '7' and '7.0' would be one row"),
        Wire::Numeric(_) if !are_numbers => Some(
            "make the column text: '7' and '7.0' would be one row; if it is a decimal, say so: decimal_handling_mode = \
             \"string\" in [source]",
        ),
        _ => None,
    }
}

/// The primary key, or a unique index, must be exactly the key; another one would refuse rows that the
/// source has.
fn identity(shown: &str, table: &Description, key: &[String], allowed: Unique) -> Vec<Finding> {
    let is_key = |unique: &table::Unique| {
        let columns = unique.columns.as_deref();
        columns.is_some_and(|columns| columns.len() == key.len() && columns.iter().all(|column| key.contains(column)))
    };
    let (matching, others): (Vec<_>, Vec<_>) = table.uniques.iter().partition(|unique| is_key(unique));
    let mut findings = Vec::new();
    if !matching.iter().any(|unique| unique.is_usable) {
        let waits = matching
            .first()
            .map_or(String::new(), |unique| format!(" (\"{}\" is deferrable, or not built to its end)", unique.name));
        let index = format!(
            "CREATE UNIQUE INDEX ON {} ({})",
            SQL.quoted(&table.name),
            SQL.list(key.iter().map(String::as_str))
        );
        findings.push(Finding::error(
            format!(
                "{shown} has no primary key or unique index over exactly the key of the records ({}){waits}",
                list_of(key)
            ),
            format!("run {index}; or let Settle make the table"),
        ));
    }
    for unique in matching.iter().filter(|unique| !unique.deterministic) {
        findings.push(Finding::error(
            format!("index \"{}\" of {shown} has a collation that takes different texts for one", unique.name),
            "make it again with COLLATE \"C\"",
        ));
    }
    for other in others {
        let columns =
            other.columns.as_deref().map_or_else(|| "an expression or a part of the rows".to_owned(), list_of);
        let what = format!(
            "{shown} has \"{}\", unique over {columns}, beside the key of the records ({})",
            other.name,
            list_of(key)
        );
        findings.push(match allowed {
            Unique::Refuse => Finding::error(
                what,
                "drop it: rows come in an order in which two may hold its value for a while; or take the risk with [sink] \
                 unique = \"allow\"",
            ),
            Unique::Allow => Finding::warning(
                what,
                "a row is refused while another still holds its value, and then stops the run or goes to the [dlq]; one \
                 that is DEFERRABLE is only looked at when a batch is committed",
            ),
        });
    }
    findings
}

/// The columns that Settle adds.
fn meta(plan: &Plan, shown: &str, table: &Description) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        findings::lacks_versions(shown, &missing_meta(plan, "", table)).into_iter().collect();
    let text = |wire: &Wire| matches!(wire, Wire::Text(_));
    let int = |wire: &Wire| *wire == Wire::Int8;
    let flag = |wire: &Wire| *wire == Wire::Bool;
    type Is<'a> = &'a dyn Fn(&Wire) -> bool;
    let wanted: [(String, &str, Is<'_>, bool); 5] = [
        (plan.meta.op.clone(), "text", &text, false),
        (plan.meta.source_ts_ms.clone(), "bigint", &int, false),
        (plan.version_hi(), "bigint NOT NULL", &int, true),
        (plan.version_lo(), "bigint NOT NULL", &int, true),
        (plan.meta.is_deleted.clone(), "boolean NOT NULL", &flag, true),
    ];
    for (name, kind, is_kind, not_null) in wanted {
        let Some(column) = table.column(&name) else { continue };
        let fits = column.wire.as_ref().is_ok_and(is_kind) && !column.generated && !column.identity_always;
        if !fits || not_null && !column.not_null {
            findings.push(Finding::error(
                format!("column \"{name}\" of {shown} is not of the form {kind}"),
                "drop it and let Settle add its own; or name Settle's columns otherwise: [sink.meta]",
            ));
        }
    }
    findings
}

/// The statements that add the missing columns of Settle. Without a schema the table's name stands alone.
pub(super) fn missing_meta(plan: &Plan, schema: &str, table: &Description) -> Vec<String> {
    let name = if schema.is_empty() { SQL.quoted(&table.name) } else { within(schema, &table.name) };
    added::missing(SQL, plan, table, &name)
}

/// Rows of different tables come in any order, and a delete here is one row's.
fn foreign_keys(shown: &str, table: &Description, allowed: ForeignKeys) -> Option<Finding> {
    if table.foreign_keys.is_empty() {
        return None;
    }
    let named: Vec<String> = table.foreign_keys.iter().map(|(name, of)| format!("\"{name}\" of {of}")).collect();
    let what = format!("{shown} is bound by foreign keys: {}", named.join(", "));
    Some(match allowed {
        ForeignKeys::Refuse => Finding::error(
            what,
            "drop them, the source enforces its own and rows of different tables come in any order; or make them NOT \
             ENFORCED (PostgreSQL 18); or set [sink] foreign_keys = \"off\", for which this user needs the right to SET \
             session_replication_role",
        ),
        ForeignKeys::Off => Finding::warning(
            format!("{what}, which are not enforced on rows that Settle writes"),
            "[sink] foreign_keys = \"off\" keeps triggers of the tables from running, too, unless they are ENABLE ALWAYS \
             or ENABLE REPLICA",
        ),
    })
}

/// What is wrong with the table of tombstones.
pub(super) fn graves(plan: &Plan, of: &str, table: &Description, key: &[&Column], is_purged: bool) -> Vec<Finding> {
    let names: Vec<String> = key.iter().map(|column| column.name.clone()).collect();
    let same = |column: &&Column| table.column(&column.name).is_some_and(|own| own.wire == column.wire);
    let counted = |name: &str| table.column(name).is_some_and(|own| own.wire == Ok(Wire::Int8));
    let complete = key.iter().all(same) && counted(&plan.version_hi()) && counted(&plan.version_lo());
    let shown = format!("table \"{}\"", table.name);
    let mut findings = Vec::new();
    if !complete || !is_table(table) || !identity(&shown, table, &names, Unique::Refuse).is_empty() {
        findings.push(Finding::error(
            format!("{shown} is not the one in which Settle keeps the versions of deleted rows of \"{of}\""),
            "rename it, or give the target another name: [tables.\"…\"] name; if the type of a key column was changed, \
             change it there, too",
        ));
    }
    let name = &plan.meta.written_ms;
    match table.column(name) {
        Some(column) if column.wire != Ok(Wire::Int8) || column.not_null || names.contains(name) => {
            findings.push(Finding::error(
                format!("column \"{name}\" of {shown} is not the one in which Settle keeps when a row was deleted"),
                "make it bigint, without NOT NULL; or name Settle's column otherwise: [sink.meta] written_ms",
            ));
        }
        None if is_purged => findings.push(Finding::error(
            format!("{shown} has no column \"{name}\", by which [sink] tombstone_retention goes"),
            format!("run {}", add_written(plan, "", &table.name)),
        )),
        _ => {}
    }
    findings.extend(form(&shown, table));
    findings
}
