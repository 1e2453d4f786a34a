//! A table as SQLite has it.

use rusqlite::{Connection, OptionalExtension};

use super::column::Storage;
use super::failure::{During, Outcome};
use super::name;
use crate::sinks::sql::outline::Outline;

/// One column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// As SQLite has it.
    pub(super) name: String,
    /// Its declared type.
    pub(super) declared: String,
    /// What it takes.
    pub(super) storage: Storage,
    pub(super) not_null: bool,
    pub(super) has_default: bool,
    /// Computed by SQLite: not written.
    pub(super) generated: bool,
    /// Place in the primary key, from 1; 0 for none.
    pub(super) primary_key: i64,
    /// How its text compares.
    pub(super) collation: String,
}

/// A unique index, or the primary key.
#[derive(Clone, Debug)]
pub(super) struct Unique {
    /// As SQLite has it.
    pub(super) name: String,
    /// Its columns; none where it is partial or over an expression.
    pub(super) columns: Option<Vec<String>>,
    /// True if text compares byte by byte in all of it.
    pub(super) binary: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Description {
    /// As SQLite has it: it may differ from the wanted name in the case of its letters.
    pub(super) name: String,
    /// `table`, `view`, `virtual`, `shadow`.
    pub(super) form: String,
    pub(super) strict: bool,
    pub(super) columns: Vec<Column>,
    pub(super) uniques: Vec<Unique>,
    /// Tables that a foreign key refers to.
    pub(super) references: Vec<String>,
    pub(super) triggers: Vec<String>,
}

impl Outline for Description {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    fn is_generated(&self, at: usize) -> bool {
        self.columns[at].generated
    }
}

impl Description {
    /// The column called `name`, as SQLite compares names.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| name::same(&column.name, name))
    }
}

/// Reads the table called `wanted`; none where there is no such table. `meant` are declared types
/// of columns.
pub(super) fn describe<'a>(
    connection: &Connection,
    wanted: &str,
    meant: impl Fn(&str) -> Option<&'a str>,
) -> Outcome<Option<Description>> {
    read(connection, wanted, meant).during(|| format!("read the columns of \"{wanted}\""))
}

fn read<'a>(
    connection: &Connection,
    wanted: &str,
    meant: impl Fn(&str) -> Option<&'a str>,
) -> rusqlite::Result<Option<Description>> {
    let found: Option<(String, String, bool)> = connection
        .prepare_cached(
            "SELECT name, type, strict FROM pragma_table_list WHERE schema = 'main' AND name = ?1 COLLATE NOCASE",
        )?
        .query_row([wanted], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((name, form, strict)) = found else { return Ok(None) };
    let mut columns = Vec::new();
    let mut select = connection.prepare_cached(
        "SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo(?1) ORDER BY cid",
    )?;
    let mut rows = select.query([&name])?;
    while let Some(row) = rows.next()? {
        let (column, declared): (String, String) = (row.get(0)?, row.get(1)?);
        let hidden: i64 = row.get(5)?;
        let collation = match form.as_str() {
            "table" => collation(connection, &name, &column)?,
            _ => BINARY.to_owned(),
        };
        columns.push(Column {
            storage: Storage::of(&declared, strict, meant(&column)),
            name: column,
            declared,
            not_null: row.get(2)?,
            has_default: row.get(3)?,
            primary_key: row.get(4)?,
            generated: matches!(hidden, 2 | 3),
            collation,
        });
    }
    let mut uniques = uniques(connection, &name)?;
    // An INTEGER PRIMARY KEY is the row's own number: it has no index.
    let indexed = primary_key_has_index(connection, &name)?;
    let key: Vec<String> = columns.iter().filter(|c| c.primary_key > 0).map(|c| c.name.clone()).collect();
    if !key.is_empty() && !indexed {
        uniques.push(Unique { name: "PRIMARY KEY".into(), columns: Some(key), binary: true });
    }
    let references = texts(connection, "SELECT DISTINCT \"table\" FROM pragma_foreign_key_list(?1) ORDER BY 1", &name)?;
    let triggers = texts(
        connection,
        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE ORDER BY 1",
        &name,
    )?;
    Ok(Some(Description { name, form, strict, columns, uniques, references, triggers }))
}

/// The collation under which SQLite compares text byte by byte.
pub(super) const BINARY: &str = "BINARY";

fn collation(connection: &Connection, table: &str, column: &str) -> rusqlite::Result<String> {
    let (_, collation, ..) = connection.column_metadata(Some("main"), table, column)?;
    Ok(collation.map_or(BINARY.to_owned(), |name| name.to_string_lossy().to_ascii_uppercase()))
}

fn primary_key_has_index(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk'")?.exists([table])
}

fn uniques(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Unique>> {
    let mut select = connection
        .prepare_cached("SELECT name, partial FROM pragma_index_list(?1) WHERE \"unique\" = 1 ORDER BY name")?;
    let indexes: Vec<(String, bool)> =
        select.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let mut uniques = Vec::new();
    for (name, partial) in indexes {
        let mut select = connection
            .prepare_cached("SELECT name, coll FROM pragma_index_xinfo(?1) WHERE \"key\" = 1 ORDER BY seqno")?;
        let parts: Vec<(Option<String>, String)> =
            select.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
        let binary = parts.iter().all(|(_, collation)| collation.eq_ignore_ascii_case(BINARY));
        let columns = parts.into_iter().map(|(column, _)| column).collect::<Option<Vec<_>>>().filter(|_| !partial);
        uniques.push(Unique { name, columns, binary });
    }
    Ok(uniques)
}

fn texts(connection: &Connection, sql: &str, table: &str) -> rusqlite::Result<Vec<String>> {
    connection.prepare_cached(sql)?.query_map([table], |row| row.get(0))?.collect()
}
