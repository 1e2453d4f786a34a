//! A database of its own for a proof: the live one's tables without their rows, and its places in
//! the log.

use settle_core::sink::SinkError;

use super::config::ClickHouseConfig;
use super::contents::ClickHouseContents;
use super::meta;
use super::names::{QualifiedName, identifier, identifiers};
use super::server::Server;
use super::table::{Table, describe};
use crate::config::Target;

/// Makes the database `name` beside that of `live`, with the same tables. Fails if it exists.
pub async fn make(live: ClickHouseConfig, target: Target, name: &str) -> Result<(), SinkError> {
    let contents = ClickHouseContents::new(live, target)?;
    let client = &contents.server.client;
    client
        .run(&format!("creating the database {}", identifier(name)), &format!("CREATE DATABASE {}", identifier(name)))
        .await?;
    for table in contents.versioned_tables().await? {
        clone(&contents.server, &table, name).await?;
    }
    let Some(places) = describe(client, &contents.server.name(meta::TABLE)).await? else { return Ok(()) };
    clone(&contents.server, &places, name).await?;
    let copy = format!("INSERT INTO {} SELECT * FROM {}", QualifiedName::new(name, meta::TABLE), places.name);
    client.run("copying settle_meta", &copy).await
}

/// The same columns and order of rows. The engine is written out: a replicated one names a path
/// that must not be shared, and rows must not expire.
async fn clone(server: &Server, table: &Table, database: &str) -> Result<(), SinkError> {
    let name = QualifiedName::new(database, &table.name.table);
    let partition = match table.partition_key.as_str() {
        "" => String::new(),
        expression => format!(" PARTITION BY {expression}"),
    };
    let sql = format!(
        "CREATE TABLE {name} AS {} ENGINE = ReplacingMergeTree({}){partition} ORDER BY ({})",
        table.name,
        identifiers(table.engine.arguments.iter().map(String::as_str)),
        table.sorting_key.join(", "),
    );
    server.client.run(&format!("creating {name}"), &sql).await
}

/// Removes the database with everything in it.
pub async fn remove(live: ClickHouseConfig, name: &str) -> Result<(), SinkError> {
    let server = Server::new(live)?;
    let name = identifier(name);
    server.client.run(&format!("removing the database {name}"), &format!("DROP DATABASE IF EXISTS {name} SYNC")).await
}
