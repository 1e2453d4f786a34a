//! The SQL that makes and changes tables.

use settle_core::batch::TableRows;
use settle_core::key::Key;
use settle_core::schema::infer;
use settle_core::sink::SinkError;

use super::column::{Family, KeyRoom, NewType};
use super::connection::Server;
use super::failure::{Outcome, contract};
use super::table::{Column, Description};
use crate::sampling;
use crate::sinks::plan::Plan;
use crate::sinks::sql::added;
use crate::sinks::sql::dialect::Dialect;

const SQL: Dialect = Dialect::MySql;

/// Where the columns of a table that is to be made are told from, beside the declared ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// From the records' schema alone.
    Schema,
    /// From the values seen, too: for people who go on from there.
    Values,
}

/// A column that is to be made.
#[derive(Clone, Debug)]
pub(super) struct NewColumn {
    pub(super) name: String,
    pub(super) kind: NewType,
}

/// The SQL that makes the table of these rows, and its columns beside Settle's.
pub(super) fn new_table(
    plan: &Plan,
    rows: TableRows<'_>,
    tell: Tell,
    server: &Server,
) -> Outcome<(String, Vec<NewColumn>)> {
    let operation = format!("create table \"{}\"", plan.table);
    let Some(key) = rows.rows().next().map(|row| row.key()) else {
        return Err(contract(operation, "no row to tell its columns from"));
    };
    let columns = columns(plan, rows, key, tell, &operation)?;
    for column in &columns {
        if let Some(why) = SQL.column_refusal(&column.name) {
            let how = "give it another name: [tables.\"…\"] rename";
            return Err(contract(operation, format!("column \"{}\": {why}; {how}", column.name)));
        }
        if added::columns(SQL, plan).iter().any(|meta| SQL.same(&column.name, &meta.name)) {
            return Err(added::taken(&operation, &column.name));
        }
    }
    let is_text = |column: &NewColumn| column.kind.is_open() || column.kind.storage().family == Family::Text;
    let keys = key_names(plan, key);
    let collation = match &server.exact_collation {
        Some(collation) => collation.as_str(),
        None if columns.iter().any(|column| keys.iter().any(|key| SQL.same(key, &column.name)) && is_text(column)) => {
            return Err(contract(
                operation,
                "a key is text, and the server has no collation that tells every text from every other; use MySQL 8.0.17 \
                 or MariaDB 10.2 or later, or make the table by hand",
            ));
        }
        None => "utf8mb4_bin",
    };
    let sql = create(plan, &keys, &columns, collation);
    Ok((sql, columns))
}

/// The table of tombstones of a table that is to be made.
pub(super) fn tombstones_of_new(plan: &Plan, rows: TableRows<'_>, columns: &[NewColumn], server: &Server) -> String {
    let keys: Vec<&str> = rows.rows().next().map(|row| key_names(plan, row.key())).unwrap_or_default();
    let room = room(&keys, columns);
    let typed = keys.iter().filter_map(|key| columns.iter().find(|column| SQL.same(key, &column.name)));
    let mut lines: Vec<String> =
        typed.map(|column| format!("  {} {} NOT NULL", SQL.quoted(&column.name), column.kind.key_sql(room))).collect();
    lines.extend([plan.version_hi(), plan.version_lo()].map(|half| format!("  {} BIGINT NOT NULL", SQL.quoted(&half))));
    lines.push(format!("  {} BIGINT NULL", SQL.quoted(&plan.meta.written_ms)));
    lines.push(format!("  PRIMARY KEY ({})", SQL.list(keys.iter().copied())));
    let collation = server.exact_collation.as_deref().unwrap_or("utf8mb4_bin");
    let name = SQL.quoted(&SQL.tombstones(&plan.table));
    format!("CREATE TABLE {name} (\n{}\n) {}", lines.join(",\n"), options(collation))
}

/// What the columns of a key have room for.
fn room(keys: &[&str], columns: &[NewColumn]) -> KeyRoom {
    let is_key = |column: &&NewColumn| keys.iter().any(|key| SQL.same(key, &column.name));
    let open = columns.iter().filter(is_key).filter(|column| column.kind.is_open()).count();
    KeyRoom::of(open, keys.len().saturating_sub(open))
}

fn key_names<'a>(plan: &'a Plan, key: &'a Key) -> Vec<&'a str> {
    key.names().map(|source| plan.column(source, true).unwrap_or(source)).collect()
}

fn columns(plan: &Plan, rows: TableRows<'_>, key: &Key, tell: Tell, operation: &str) -> Outcome<Vec<NewColumn>> {
    let mut columns: Vec<NewColumn> = Vec::new();
    let mut add = |source: &str, kind: Option<NewType>| -> Outcome<()> {
        let is_key = key.get(source).is_some();
        let Some(name) = plan.column(source, is_key) else { return Ok(()) };
        let kind = match plan.declared_type(name) {
            Some(declared) => Some(declared_type(operation, name, declared)?),
            None => kind,
        };
        let Some(kind) = kind else { return Ok(()) };
        if columns.iter().any(|column| SQL.same(&column.name, name)) {
            return Err(two_of_a_name(operation, name));
        }
        columns.push(NewColumn { name: name.to_owned(), kind });
        Ok(())
    };
    if let Some(schema) = rows.schema() {
        for field in &schema.fields {
            add(&field.name, Some(NewType::of_source(&field.source_type)))?;
        }
    } else if tell == Tell::Values {
        for (source, inferred) in sampling::seen(rows) {
            add(&source, NewType::of_values(inferred))?;
        }
    } else if plan.declared().next().is_none() {
        return Err(contract(
            operation,
            "the records carry no schema, and only values would tell the types of its columns; let `settle ddl` write the \
             statement, look at it and run it, declare the columns ([tables.\"…\"] columns), or set \
             value.converter.schemas.enable in the connector",
        ));
    }
    for (name, declared) in plan.declared() {
        if !columns.iter().any(|column| SQL.same(&column.name, name)) {
            columns.push(NewColumn { name: name.to_owned(), kind: declared_type(operation, name, declared)? });
        }
    }
    for (source, json) in key.fields() {
        let name = plan.column(source, true).unwrap_or(source);
        if !columns.iter().any(|column| SQL.same(&column.name, name)) {
            let kind = NewType::of_values(infer(json)).unwrap_or(NewType::Text);
            columns.push(NewColumn { name: name.to_owned(), kind });
        }
    }
    Ok(columns)
}

fn create(plan: &Plan, keys: &[&str], columns: &[NewColumn], collation: &str) -> String {
    let is_key = |column: &NewColumn| keys.iter().any(|key| SQL.same(key, &column.name));
    let room = room(keys, columns);
    let mut lines: Vec<String> = columns
        .iter()
        .map(|column| match is_key(column) {
            true => format!("  {} {} NOT NULL", SQL.quoted(&column.name), column.kind.key_sql(room)),
            // Said, since a TIMESTAMP would be NOT NULL otherwise. Only the key is NOT NULL: a column may
            // vanish at the source, and is then not carried.
            false => format!("  {} {} NULL", SQL.quoted(&column.name), column.kind.sql()),
        })
        .collect();
    lines.extend(added::columns(SQL, plan).iter().map(|meta| format!("  {}", meta.sql())));
    lines.push(format!("  PRIMARY KEY ({})", SQL.list(keys.iter().copied())));
    format!("CREATE TABLE {} (\n{}\n) {}", SQL.quoted(&plan.table), lines.join(",\n"), options(collation))
}

fn options(collation: &str) -> String {
    format!("ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE {collation}")
}

/// The table that keeps the versions of deleted rows of a table with these key columns.
pub(super) fn new_tombstones(table: &Description, key: &[&Column], plan: &Plan) -> String {
    let mut lines: Vec<String> =
        key.iter().map(|column| format!("  {} {} NOT NULL", SQL.quoted(&column.name), column.copied())).collect();
    for version in [plan.version_hi(), plan.version_lo()] {
        lines.push(format!("  {} BIGINT NOT NULL", SQL.quoted(&version)));
    }
    lines.push(format!("  {} BIGINT NULL", SQL.quoted(&plan.meta.written_ms)));
    lines.push(format!("  PRIMARY KEY ({})", SQL.list(key.iter().map(|column| column.name.as_str()))));
    let name = SQL.quoted(&SQL.tombstones(&table.name));
    format!("CREATE TABLE {name} (\n{}\n) {}", lines.join(",\n"), options("utf8mb4_bin"))
}

/// The SQL that adds the column that says when a tombstone was written. Those that are there say nothing.
pub(super) fn add_written(plan: &Plan, name: &str) -> String {
    format!("ALTER TABLE {} ADD COLUMN {} BIGINT NULL", SQL.quoted(name), SQL.quoted(&plan.meta.written_ms))
}

/// The SQL that adds a column.
pub(super) fn add_column(table: &str, name: &str, kind: &NewType) -> String {
    format!("ALTER TABLE {} ADD COLUMN {} {} NULL", SQL.quoted(table), SQL.quoted(name), kind.sql())
}

/// The type that a rule declares.
pub(super) fn declared_type(operation: &str, column: &str, declared: &str) -> Outcome<NewType> {
    NewType::declared(declared).ok_or_else(|| {
        contract(
            operation,
            format!(
                "the declared type of column \"{column}\" is no type of MySQL; use words and numbers, as VARCHAR(20)"
            ),
        )
    })
}

/// Two source columns that MySQL takes for one.
pub(super) fn two_of_a_name(operation: &str, column: &str) -> SinkError {
    contract(
        operation,
        format!(
            "two columns of the source are called \"{column}\" in MySQL, which does not tell upper from lower case; give \
             one of them another name: [tables.\"…\"] rename"
        ),
    )
}
