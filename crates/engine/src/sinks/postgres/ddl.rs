//! The SQL that makes and changes tables.

use settle_core::batch::TableRows;
use settle_core::schema::{Inferred, SourceType, infer};
use settle_core::sink::SinkError;

use super::failure::{Outcome, contract};
use super::table::Column;
use crate::sinks::plan::Plan;
use crate::sinks::sql::added;
use crate::sinks::sql::dialect::Dialect;

const SQL: Dialect = Dialect::Postgres;

/// A table of a schema, as SQL.
pub(super) fn within(schema: &str, table: &str) -> String {
    format!("{}.{}", SQL.quoted(schema), SQL.quoted(table))
}

/// Where the columns of a new table are taken from, beside those that the rules declare.
#[derive(Clone, Copy)]
pub(super) enum Columns<'a> {
    /// The records' schema.
    Schema,
    /// Values that were seen: for `settle ddl`, whose output a user looks over.
    Seen(&'a [(String, Option<Inferred>)]),
}

/// A column that is to be made.
pub(super) struct NewColumn {
    name: String,
    kind: String,
}

/// The columns of the table for these rows, without those that Settle adds.
pub(super) fn new_columns(plan: &Plan, rows: TableRows<'_>, from: Columns<'_>) -> Outcome<Vec<NewColumn>> {
    let operation = || format!("create table \"{}\"", plan.table);
    let Some(key) = rows.rows().next().map(|row| row.key()) else {
        return Err(contract(operation(), "no row to tell its columns from"));
    };
    let mut columns: Vec<NewColumn> = Vec::new();
    let mut add = |source: &str, kind: String| -> Outcome<()> {
        let Some(name) = plan.column(source, key.get(source).is_some()) else { return Ok(()) };
        if columns.iter().any(|column| column.name == name) {
            return Err(two_of_a_name(&operation(), name));
        }
        let kind = match plan.declared_type(name) {
            Some(declared) => declared_type(&operation(), name, declared)?,
            None => kind,
        };
        columns.push(NewColumn { name: name.to_owned(), kind });
        Ok(())
    };
    match (rows.schema(), from) {
        (Some(schema), _) => {
            for field in &schema.fields {
                add(&field.name, type_of(&field.source_type))?;
            }
        }
        (None, Columns::Seen(seen)) => {
            for (source, inferred) in seen {
                add(source, type_of_values(*inferred).to_owned())?;
            }
        }
        (None, Columns::Schema) => {}
    }
    for (name, declared) in plan.declared() {
        if !columns.iter().any(|column| column.name == name) {
            columns.push(NewColumn { name: name.to_owned(), kind: declared_type(&operation(), name, declared)? });
        }
    }
    for (source, json) in key.fields() {
        let name = plan.column(source, true).unwrap_or(source);
        if columns.iter().any(|column| column.name == name) {
            continue;
        }
        let Columns::Seen(_) = from else {
            return Err(contract(
                operation(),
                format!(
                    "nothing says the type of the key column \"{name}\": the records come without a schema; declare it under \
                     [tables.\"{}\".columns], or make the table with what `settle ddl` prints",
                    rows.table
                ),
            ));
        };
        columns.push(NewColumn { name: name.to_owned(), kind: type_of_values(infer(json)).to_owned() });
    }
    for NewColumn { name, .. } in &columns {
        if let Some(why) = SQL.column_refusal(name) {
            let how = format!("rename or exclude it: [tables.\"{}\"]", rows.table);
            return Err(contract(operation(), format!("column \"{name}\": {why}; {how}")));
        }
        if added::columns(SQL, plan).iter().any(|meta| meta.name == *name) {
            return Err(added::taken(&operation(), name));
        }
    }
    Ok(columns)
}

/// The SQL of the table. `key` is in names of the source.
pub(super) fn create_table(plan: &Plan, schema: &str, key: &[&str], columns: &[NewColumn]) -> String {
    let keys: Vec<&str> = key.iter().map(|source| plan.column(source, true).unwrap_or(source)).collect();
    let mut lines: Vec<String> = columns
        .iter()
        .map(|column| {
            // Only the key is NOT NULL: a column may vanish at the source, and is then not carried.
            let not_null = if keys.contains(&column.name.as_str()) { " NOT NULL" } else { "" };
            format!("  {} {}{not_null}", SQL.quoted(&column.name), column.kind)
        })
        .collect();
    lines.extend(added::columns(SQL, plan).iter().map(|meta| format!("  {}", meta.sql())));
    lines.push(format!("  PRIMARY KEY ({})", SQL.list(keys)));
    format!("CREATE TABLE {} (\n{}\n)", within(schema, &plan.table), lines.join(",\n"))
}

/// The SQL of the table that keeps the versions of its deleted rows.
pub(super) fn create_tombstones(plan: &Plan, schema: &str, name: &str, key: &[&str], columns: &[NewColumn]) -> String {
    let keys = key.iter().map(|source| plan.column(source, true).unwrap_or(source));
    let kind = |name: &str| columns.iter().find(|column| column.name == name).map_or("text", |column| &*column.kind);
    tombstones(plan, schema, name, keys.map(|name| (name, kind(name).to_owned())).collect())
}

fn tombstones(plan: &Plan, schema: &str, name: &str, key: Vec<(&str, String)>) -> String {
    let mut lines: Vec<String> =
        key.iter().map(|(name, kind)| format!("  {} {kind} NOT NULL", SQL.quoted(name))).collect();
    for version in [plan.version_hi(), plan.version_lo()] {
        lines.push(format!("  {} bigint NOT NULL", SQL.quoted(&version)));
    }
    lines.push(format!("  {} bigint", SQL.quoted(&plan.meta.written_ms)));
    lines.push(format!("  PRIMARY KEY ({})", SQL.list(key.iter().map(|(name, _)| *name))));
    format!("CREATE TABLE {} (\n{}\n)", within(schema, name), lines.join(",\n"))
}

/// The SQL of the table that keeps the versions of deleted rows of one that is there.
pub(super) fn new_tombstones(plan: &Plan, schema: &str, name: &str, key: &[&Column]) -> String {
    let kind = |column: &Column| {
        let collation = column.collation.as_ref().map_or(String::new(), |(name, _)| format!(" COLLATE {name}"));
        format!("{}{collation}", column.base)
    };
    tombstones(plan, schema, name, key.iter().map(|column| (column.name.as_str(), kind(column))).collect())
}

/// The SQL that adds the column that says when a tombstone was written. Those that are there say nothing.
/// Without a schema the table's name stands alone.
pub(super) fn add_written(plan: &Plan, schema: &str, name: &str) -> String {
    let table = if schema.is_empty() { SQL.quoted(name) } else { within(schema, name) };
    format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {} bigint", SQL.quoted(&plan.meta.written_ms))
}

/// The SQL that adds a column.
pub(super) fn add_column(schema: &str, table: &str, name: &str, kind: &str) -> String {
    format!("ALTER TABLE {} ADD COLUMN {} {kind}", within(schema, table), SQL.quoted(name))
}

/// The type of a new column for a field of a Connect schema: one that holds every value of it exactly,
/// also when the source gives the column more digits one day.
pub(super) fn type_of(source: &SourceType) -> String {
    match source {
        SourceType::Bool => "boolean".into(),
        SourceType::Int { bits: 8 | 16 } => "smallint".into(),
        SourceType::Int { bits: 32 } | SourceType::Year => "integer".into(),
        SourceType::Int { .. } | SourceType::MicroDuration | SourceType::NanoDuration => "bigint".into(),
        SourceType::Float32 => "real".into(),
        SourceType::Float64 => "double precision".into(),
        SourceType::Bytes => "bytea".into(),
        SourceType::Decimal { .. } | SourceType::VariableDecimal => "numeric".into(),
        SourceType::EpochDays => "date".into(),
        SourceType::TimeOfDay { .. } => "time".into(),
        SourceType::Timestamp { .. } => "timestamp".into(),
        SourceType::ZonedTimestamp => "timestamptz".into(),
        SourceType::ZonedTime => "timetz".into(),
        SourceType::Interval => "interval".into(),
        SourceType::Uuid => "uuid".into(),
        // Not jsonb: it keeps neither the order of members nor what is said twice, and refuses \u0000.
        SourceType::Json | SourceType::Map => "json".into(),
        SourceType::Bits { .. } => "bit varying".into(),
        SourceType::Array(element) => match &**element {
            // Arrays of arrays are kept as they are written.
            SourceType::Array(_) | SourceType::Map | SourceType::Other(_) => "json".into(),
            plain => format!("{}[]", type_of(plain)),
        },
        SourceType::Text
        | SourceType::IsoText
        | SourceType::Enum { .. }
        | SourceType::NamedText(_)
        | SourceType::Other(_) => "text".into(),
    }
}

/// The type for values that came without a schema.
pub(super) fn type_of_values(inferred: Option<Inferred>) -> &'static str {
    match inferred {
        Some(Inferred::Bool) => "boolean",
        Some(Inferred::Int64) => "bigint",
        Some(Inferred::Float64) => "double precision",
        Some(Inferred::Json) => "json",
        Some(Inferred::Text) | None => "text",
    }
}

/// The type that a rule declares.
pub(super) fn declared_type(operation: &str, column: &str, declared: &str) -> Outcome<String> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '(' | ')' | ',' | '[' | ']' | '.' | '"');
    let mut depth = 0_i32;
    let balanced = declared.chars().all(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        // A comma outside of brackets would begin another column.
        depth >= 0 && (depth > 0 || c != ',')
    });
    if declared.trim().is_empty() || !declared.chars().all(allowed) || !balanced || depth != 0 {
        let context =
            format!("the declared type of column \"{column}\" is no type; use one of PostgreSQL, as numeric(12, 2)");
        return Err(contract(operation, context));
    }
    Ok(declared.trim().to_owned())
}

/// Two source columns with one target.
pub(super) fn two_of_a_name(operation: &str, column: &str) -> SinkError {
    contract(
        operation,
        format!(
            "two columns of the source are written to \"{column}\"; give one of them another name: [tables.\"…\"] rename"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_text_that_is_no_type_is_refused() {
        for text in ["text); DROP TABLE x; --", "text, x int", "text)", "int /* */", "", "numeric(1"] {
            assert!(declared_type("create", "c", text).is_err(), "{text}");
        }
        for text in ["numeric(12, 2)", "text[]", "shop.\"Mood\"", "timestamp(3) with time zone"] {
            assert_eq!(declared_type("create", "c", text).unwrap(), text);
        }
    }

    #[test]
    fn every_type_has_a_column_that_holds_it() {
        let text = |source| type_of(&source);
        assert_eq!(text(SourceType::Decimal { scale: 2, precision: Some(10) }), "numeric");
        assert_eq!(text(SourceType::Array(Box::new(SourceType::Uuid))), "uuid[]");
        assert_eq!(text(SourceType::Array(Box::new(SourceType::Array(Box::new(SourceType::Text))))), "json");
        assert_eq!(text(SourceType::Int { bits: 8 }), "smallint");
    }
}
