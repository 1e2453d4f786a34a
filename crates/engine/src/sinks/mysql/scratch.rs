//! What a proof makes and leaves: a database of its own beside the live one, and no trace in that.

use settle_core::sink::SinkError;

use super::config::MySqlConfig;
use super::connection::Connection;
use super::failure::contract;
use super::table::describe;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::positions;
use crate::sinks::sql::session::{Cells, Session};

const SQL: Dialect = Dialect::MySql;

/// Removes what a group left in `settle_positions`: for a group that was made for one pass.
pub async fn forget_group(config: &MySqlConfig, group: &str) -> Result<(), SinkError> {
    let mut connection = Connection::open(config).await?;
    if describe(&mut connection, "settle_positions").await?.is_some() {
        positions::forget(&mut connection, group).await?;
    }
    connection.close().await;
    Ok(())
}

/// A database that holds the same tables without rows, and the same `settle_meta`: where the log can be
/// applied anew and compared. `database` must not exist yet. Foreign keys and triggers are the user's
/// own and change no row that Settle writes; they are left behind.
pub async fn make(from: &MySqlConfig, database: &str) -> Result<(), SinkError> {
    let operation = format!("lay out the database {database}");
    let mut connection = Connection::open(from).await?;
    if let Some(why) = SQL.column_refusal(database) {
        return Err(contract(operation, format!("its name cannot be: {why}")));
    }
    let (live, scratch) = (SQL.quoted(from.address.database()), SQL.quoted(database));
    let create = format!("CREATE DATABASE {scratch} CHARACTER SET utf8mb4");
    connection.execute_text(&operation, &create).await.map_err(|error| SinkError {
        context: format!("{}; the user needs CREATE and DROP on databases of this name", error.context),
        ..error
    })?;
    let sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() \
               AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1";
    let mut had_meta = false;
    for row in connection.query(&operation, sql, &[]).await? {
        let name = Cells::of(&operation, row).text()?;
        if name == "settle_positions" {
            continue;
        }
        had_meta |= name == "settle_meta";
        let table = SQL.quoted(&name);
        connection.execute_text(&operation, &format!("CREATE TABLE {scratch}.{table} LIKE {live}.{table}")).await?;
    }
    if had_meta {
        let copy = format!("INSERT INTO {scratch}.`settle_meta` SELECT * FROM {live}.`settle_meta`");
        connection.execute_text(&operation, &copy).await?;
    }
    connection.close().await;
    Ok(())
}

/// The name of such a database: the live one's, cut where both together are too long.
pub fn name(live: &str, name: &str) -> String {
    let room = 64_usize.saturating_sub(name.chars().count() + 2);
    format!("{}__{name}", live.chars().take(room).collect::<String>())
}

/// Removes it.
pub async fn remove(from: &MySqlConfig, database: &str) -> Result<(), SinkError> {
    let mut connection = Connection::open(from).await?;
    let drop = format!("DROP DATABASE IF EXISTS {}", SQL.quoted(database));
    connection.execute_text(&format!("remove the database {database}"), &drop).await?;
    connection.close().await;
    Ok(())
}
