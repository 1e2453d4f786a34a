//! What a proof makes and leaves: a schema of its own beside the live one, and no trace in that.

use settle_core::sink::SinkError;

use super::config::PostgresConfig;
use super::connection::Connection;
use super::ddl::within;
use super::failure::Outcome;
use super::own;
use super::stage::Stages;
use super::transaction::Transaction;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::positions;

const SQL: Dialect = Dialect::Postgres;

/// Removes what a group left in `settle_positions`: for a group that was made for one pass.
pub async fn forget_group(config: &PostgresConfig, group: &str) -> Result<(), SinkError> {
    let operation = format!("forget the group {group} in {}", config.address);
    let connection = Connection::open(config).await?;
    if own::present(&connection, &config.schema).await?.len() < own::TABLES.len() {
        return Ok(());
    }
    let mut session = Transaction::begin(connection, Stages::default(), &operation).await?;
    positions::forget(&mut session, group).await?;
    session.commit(&operation).await.map(drop)
}

/// The name of a schema beside the live one, told from others by `name`.
pub fn beside(schema: &str, name: &str) -> String {
    let beside = format!("{schema}__{name}");
    if SQL.table_refusal(&beside).is_none() { beside } else { name.to_owned() }
}

/// A schema that holds the tables that Settle fills, without rows, and the same `settle_meta`: where
/// the log can be applied anew and compared.
pub async fn make(from: &PostgresConfig, schema: &str) -> Result<(), SinkError> {
    let operation = format!("lay out the schema \"{schema}\"");
    let connection = Connection::open(from).await?;
    let had_meta = own::present(&connection, &from.schema).await?.len() == own::TABLES.len();
    connection.run(&operation, &format!("CREATE SCHEMA {}", SQL.quoted(schema))).await?;
    if !had_meta {
        return Ok(());
    }
    let made = lay_out(&connection, &operation, &from.schema, schema).await;
    if made.is_err() {
        // What was made of it before must not stay.
        if let Err(also) = remove(from, schema).await {
            tracing::warn!(error = %also, schema, "a scratch schema could not be removed");
        }
    }
    made
}

async fn lay_out(connection: &Connection, operation: &str, live: &str, scratch: &str) -> Outcome<()> {
    let claimed = "SELECT subject FROM settle_meta WHERE kind = 'table' ORDER BY subject";
    let mut tables: Vec<String> = own::TABLES.map(str::to_owned).to_vec();
    for row in connection.rows(operation, claimed, &[]).await? {
        let table: String = row.get(0);
        tables.extend([SQL.tombstones(&table), table]);
    }
    for table in &tables {
        if super::table::describe(connection, live, table).await?.is_none() {
            continue;
        }
        // Triggers, foreign keys and privileges are not copied: they change no row that Settle writes.
        let like = format!("CREATE TABLE {} (LIKE {} INCLUDING ALL)", within(scratch, table), within(live, table));
        connection.run(operation, &like).await?;
    }
    let [meta, _] = own::TABLES;
    connection
        .run(operation, &format!("INSERT INTO {} SELECT * FROM {}", within(scratch, meta), within(live, meta)))
        .await
}

/// Removes it.
pub async fn remove(config: &PostgresConfig, schema: &str) -> Result<(), SinkError> {
    let operation = format!("remove the schema \"{schema}\"");
    let connection = Connection::open(config).await?;
    connection.run(&operation, &format!("DROP SCHEMA IF EXISTS {} CASCADE", SQL.quoted(schema))).await
}
