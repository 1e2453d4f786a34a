//! A table as the server has it.

use mysql_async::Value;

use super::column::{Family, Storage};
use super::connection::{Connection, text};
use super::failure::{Outcome, contract};
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::outline::Outline;

/// One column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// As the server has it.
    pub(super) name: String,
    /// Its type in the server's words, as `varchar(20)`.
    pub(super) column_type: String,
    pub(super) storage: Storage,
    pub(super) nullable: bool,
    pub(super) has_default: bool,
    /// Computed by the server: not written.
    pub(super) generated: bool,
    pub(super) character_set: Option<String>,
    /// How its text compares.
    pub(super) collation: Option<String>,
}

impl Column {
    /// How its collation takes texts for equal that are not; none where it takes none, or it is no text.
    pub(super) fn folding(&self) -> Option<&'static str> {
        let collation = self.collation.as_deref().unwrap_or("binary");
        let binary = collation == "binary" || collation.ends_with("_bin");
        match self.storage.family {
            Family::Text | Family::PaddedText | Family::Label if !binary => {
                Some("takes letters for equal that differ by case, or by accents")
            }
            Family::PaddedText => Some("does not keep spaces at the end of a text"),
            // Of the collations of MySQL that end so, only this one compares spaces at the end; MariaDB says it.
            Family::Text
                if collation != "binary" && !collation.contains("_nopad_") && collation != "utf8mb4_0900_bin" =>
            {
                Some("takes texts for equal that differ by spaces at their end")
            }
            Family::PaddedBytes => Some("takes bytes for equal that differ by zeros at their end"),
            _ => None,
        }
    }

    /// Its type as a copy of it is declared.
    pub(super) fn copied(&self) -> String {
        let mut words = self.column_type.clone();
        if let (Some(set), Some(collation)) = (&self.character_set, &self.collation) {
            words.push_str(&format!(" CHARACTER SET {set} COLLATE {collation}"));
        }
        words
    }
}

/// A unique index, or the primary key.
#[derive(Clone, Debug)]
pub(super) struct Unique {
    /// As the server has it.
    pub(super) name: String,
    /// Its columns; none where it is over a part of a column, or an expression.
    pub(super) columns: Option<Vec<String>>,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Description {
    /// As the server has it.
    pub(super) name: String,
    /// `BASE TABLE`, `VIEW`, `SYSTEM VERSIONED`, …
    pub(super) form: String,
    /// Its storage engine.
    pub(super) engine: String,
    /// What is written there can be taken back.
    pub(super) is_transactional: bool,
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
    /// The column called `name`, as MySQL compares names.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| Dialect::MySql.same(&column.name, name))
    }

    /// An ordinary table, whatever history it keeps.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.form.as_str(), "BASE TABLE" | "SYSTEM VERSIONED")
    }
}

/// Reads the table called `wanted`; none where there is no such table, or it cannot be seen.
pub(super) async fn describe(connection: &mut Connection, wanted: &str) -> Outcome<Option<Description>> {
    let operation = format!("read the columns of \"{wanted}\"");
    let sql = "SELECT t.TABLE_NAME, t.TABLE_TYPE, COALESCE(t.ENGINE, ''), COALESCE(e.TRANSACTIONS, 'NO') \
               FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE \
               WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = ?";
    let mut found = None;
    for row in connection.rows(&operation, sql, vec![wanted.into()]).await? {
        let [name, form, engine, transactions] = texts(&operation, row)?;
        // information_schema takes names for one that differ by case, also where the server does not.
        if connection.server.same_table(&name, wanted) {
            found = Some((name, form, engine, transactions == "YES"));
        }
    }
    let Some((name, form, engine, is_transactional)) = found else { return Ok(None) };
    Ok(Some(Description {
        columns: columns(connection, &operation, &name).await?,
        uniques: uniques(connection, &operation, &name).await?,
        references: names(
            connection,
            &operation,
            "SELECT DISTINCT REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND REFERENCED_TABLE_NAME IS NOT NULL ORDER BY 1",
            &name,
        )
        .await?,
        triggers: names(
            connection,
            &operation,
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS \
             WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = ? ORDER BY 1",
            &name,
        )
        .await?,
        name,
        form,
        engine,
        is_transactional,
    }))
}

async fn columns(connection: &mut Connection, operation: &str, table: &str) -> Outcome<Vec<Column>> {
    let sql = "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, \
               IF(COLUMN_DEFAULT IS NOT NULL OR EXTRA LIKE '%auto_increment%' OR EXTRA LIKE '%DEFAULT_GENERATED%', 'YES', 'NO'), \
               IF(COALESCE(GENERATION_EXPRESSION, '') <> '', 'YES', 'NO'), \
               COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''), TABLE_NAME \
               FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? \
               ORDER BY ORDINAL_POSITION";
    let mut columns = Vec::new();
    for row in connection.rows(operation, sql, vec![table.into()]).await? {
        let [name, data_type, column_type, nullable, default, generated, set, collation, of] = texts(operation, row)?;
        if of != table {
            continue;
        }
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        columns.push(Column {
            storage: Storage::of(&data_type, &column_type),
            name,
            column_type,
            nullable: nullable == "YES",
            has_default: default == "YES",
            generated: generated == "YES",
            character_set: some(set),
            collation: some(collation),
        });
    }
    Ok(columns)
}

async fn uniques(connection: &mut Connection, operation: &str, table: &str) -> Outcome<Vec<Unique>> {
    let sql = "SELECT INDEX_NAME, COALESCE(COLUMN_NAME, ''), IF(SUB_PART IS NULL, 'NO', 'YES'), TABLE_NAME \
               FROM information_schema.STATISTICS \
               WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX";
    let mut uniques: Vec<Unique> = Vec::new();
    for row in connection.rows(operation, sql, vec![table.into()]).await? {
        let [name, column, is_part, of] = texts(operation, row)?;
        if of != table {
            continue;
        }
        if uniques.last().is_none_or(|last| last.name != name) {
            uniques.push(Unique { name, columns: Some(Vec::new()) });
        }
        let Some(unique) = uniques.last_mut() else { continue };
        match (&mut unique.columns, column.is_empty() || is_part == "YES") {
            (Some(columns), false) => columns.push(column),
            (columns, _) => *columns = None,
        }
    }
    Ok(uniques)
}

async fn names(connection: &mut Connection, operation: &str, sql: &str, table: &str) -> Outcome<Vec<String>> {
    let rows = connection.rows(operation, sql, vec![table.into()]).await?;
    Ok(rows.into_iter().flatten().filter_map(text).collect())
}

/// The columns of a row, all of them texts.
fn texts<const N: usize>(operation: &str, row: Vec<Value>) -> Outcome<[String; N]> {
    let texts: Option<Vec<String>> = row.into_iter().map(text).collect();
    texts
        .and_then(|texts| texts.try_into().ok())
        .ok_or_else(|| contract(operation, "information_schema answers in a form that is not known"))
}
