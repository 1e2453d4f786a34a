//! One statement of a transaction, as data; its text in each dialect.

use crate::database::{Engine, name};
use crate::simulate::Table;
use crate::simulate::cell::Cell;

/// What an update does to a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    To(Cell),
    /// Adds to what is there: the result does not depend on what the writer knows.
    Plus(Cell),
}

/// Rows by the values of some columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) columns: &'static [&'static str],
    pub(crate) values: Vec<Vec<Cell>>,
}

impl Rows {
    /// One row by the key of its table.
    pub(crate) fn one(table: Table, key: impl IntoIterator<Item = i64>) -> Self {
        Self::many(table, [key])
    }

    /// Rows by the key of their table.
    pub(crate) fn many<K: IntoIterator<Item = i64>>(table: Table, keys: impl IntoIterator<Item = K>) -> Self {
        let values = keys.into_iter().map(|key| key.into_iter().map(Cell::Int).collect()).collect();
        Self { columns: table.key(), values }
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    Insert(Table, Vec<Vec<Cell>>),
    Replace(Table, Vec<Vec<Cell>>),
    Update(Table, Vec<(&'static str, Change)>, Rows),
    Delete(Table, Rows),
    Truncate(Table),
    Savepoint,
    BackToSavepoint,
    /// Sets the session's clock to this second; none sets it right again. MySQL and MariaDB.
    Clock(Option<u64>),
}

impl Statement {
    /// Its text.
    pub(crate) fn sql(&self, engine: Engine) -> String {
        let quote = |part: &str| name(&[part], engine);
        match self {
            Self::Insert(table, rows) => format!("INSERT INTO {}", values(*table, rows, engine)),
            Self::Replace(table, rows) => format!("REPLACE INTO {}", values(*table, rows, engine)),
            Self::Update(table, changes, rows) => {
                let changes: Vec<String> = changes
                    .iter()
                    .map(|(column, change)| {
                        let column = quote(column);
                        match change {
                            Change::To(cell) => format!("{column} = {}", cell.literal(engine)),
                            Change::Plus(cell) => format!("{column} = {column} + {}", cell.literal(engine)),
                        }
                    })
                    .collect();
                let table = quote(table.name());
                let hint = rows.hint(engine);
                format!("UPDATE {table}{hint} SET {} WHERE {}", changes.join(", "), rows.sql(engine))
            }
            Self::Delete(table, rows) => {
                let table = quote(table.name());
                match rows.hint(engine) {
                    "" => format!("DELETE FROM {table} WHERE {}", rows.sql(engine)),
                    // The form with one table takes no hint.
                    hint => format!("DELETE {table} FROM {table}{hint} WHERE {}", rows.sql(engine)),
                }
            }
            Self::Truncate(table) => format!("TRUNCATE TABLE {}", quote(table.name())),
            Self::Savepoint => "SAVEPOINT before_doubt".to_owned(),
            Self::BackToSavepoint => "ROLLBACK TO SAVEPOINT before_doubt".to_owned(),
            Self::Clock(Some(second)) => format!("SET timestamp = {second}"),
            Self::Clock(None) => "SET timestamp = DEFAULT".to_owned(),
        }
    }
}

impl Rows {
    /// MySQL and MariaDB read all of a small table, and wait for whoever holds any row of it, where many keys are
    /// asked for, unless they are told not to.
    fn hint(&self, engine: Engine) -> &'static str {
        match engine {
            Engine::MySql if self.values.len() > 1 => " FORCE INDEX (PRIMARY)",
            _ => "",
        }
    }

    fn sql(&self, engine: Engine) -> String {
        if let [column] = self.columns {
            let values: Vec<String> = self.values.iter().flatten().map(|cell| cell.literal(engine)).collect();
            return format!("{} IN ({})", name(&[column], engine), values.join(", "));
        }
        // Not row values: MariaDB would read, and lock, the whole table.
        let one = |row: &Vec<Cell>| {
            let parts = self.columns.iter().zip(row);
            let equal =
                |(column, cell): (&&str, &Cell)| format!("{} = {}", name(&[column], engine), cell.literal(engine));
            format!("({})", parts.map(equal).collect::<Vec<_>>().join(" AND "))
        };
        self.values.iter().map(one).collect::<Vec<_>>().join(" OR ")
    }
}

fn values(table: Table, rows: &[Vec<Cell>], engine: Engine) -> String {
    let columns: Vec<String> = table.columns().map(|column| name(&[column], engine)).collect();
    let rows: Vec<String> = rows
        .iter()
        .map(|row| format!("({})", row.iter().map(|cell| cell.literal(engine)).collect::<Vec<_>>().join(", ")))
        .collect();
    format!("{} ({}) VALUES {}", name(&[table.name()], engine), columns.join(", "), rows.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_in_both_dialects() {
        let items = Rows::many(Table::OrderItems, [[7, 1], [7, 2]]);
        let delete = Statement::Delete(Table::OrderItems, items);
        assert_eq!(
            delete.sql(Engine::Postgres),
            r#"DELETE FROM "order_items" WHERE ("order_id" = 7 AND "line" = 1) OR ("order_id" = 7 AND "line" = 2)"#
        );
        assert_eq!(
            delete.sql(Engine::MySql),
            "DELETE `order_items` FROM `order_items` FORCE INDEX (PRIMARY) \
             WHERE (`order_id` = 7 AND `line` = 1) OR (`order_id` = 7 AND `line` = 2)"
        );
        let update = Statement::Update(
            Table::Customers,
            vec![("city", Change::To(Cell::text("Bonn"))), ("credit", Change::Plus(Cell::decimal(150, 2)))],
            Rows::one(Table::Customers, [4]),
        );
        assert_eq!(
            update.sql(Engine::MySql),
            "UPDATE `customers` SET `city` = 'Bonn', `credit` = `credit` + 1.50 WHERE `customer_id` IN (4)"
        );
        let insert = Statement::Insert(Table::Signal, vec![vec![Cell::text("a"), Cell::text("log"), Cell::Null]]);
        assert_eq!(
            insert.sql(Engine::Postgres),
            r#"INSERT INTO "debezium_signal" ("id", "type", "data") VALUES ('a', 'log', NULL)"#
        );
    }
}
