//! What Settle keeps of its own in the schema: made where it is missing.

use tokio_postgres::types::Type;

use super::connection::{Connection, literal};
use super::failure::{Outcome, contract};
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::{meta, positions};

const SQL: Dialect = Dialect::Postgres;

/// The tables.
pub(super) const TABLES: [&str; 2] = ["settle_meta", "settle_positions"];

/// The SQL that makes them.
pub(super) fn create() -> [&'static str; 2] {
    [meta::create(SQL), positions::create(SQL)]
}

/// Which of these tables are in the schema; an error where there is no such schema.
pub(super) async fn present(connection: &Connection, schema: &str) -> Outcome<Vec<String>> {
    let operation = format!("look for settle_meta in schema \"{schema}\"");
    let sql = "SELECT n.oid, (SELECT pg_catalog.array_agg(c.relname::text) FROM pg_catalog.pg_class c
        WHERE c.relnamespace = n.oid AND c.relname = ANY ($2)) FROM pg_catalog.pg_namespace n WHERE n.nspname = $1";
    let names: &[&str] = &TABLES;
    let found = connection.rows(&operation, sql, &[(&schema, Type::TEXT), (&names, Type::TEXT_ARRAY)]).await?;
    let Some(found) = found.first() else {
        let context = format!(
            "there is no schema \"{schema}\"; run CREATE SCHEMA {}, or name another: [sink] schema",
            SQL.quoted(schema)
        );
        return Err(contract(operation, context));
    };
    Ok(found.get::<_, Option<Vec<String>>>(1).unwrap_or_default())
}

/// Makes what is missing, in a transaction of its own: one that waits for another instance here holds
/// nothing that the other may wait for.
pub(super) async fn make(connection: &Connection, schema: &str) -> Outcome<()> {
    let operation = format!("create settle_meta and settle_positions in schema \"{schema}\"");
    if present(connection, schema).await?.len() < TABLES.len() {
        let [meta, positions] = create();
        connection.run(&operation, &format!("BEGIN; {}; {meta}; {positions}; COMMIT", alone(schema))).await?;
    }
    Ok(())
}

/// Lets one session at a time make tables in a schema: two that make the same one at once fail, whatever
/// they say of its existence.
pub(super) fn alone(schema: &str) -> String {
    let schema = literal(schema);
    format!("SELECT pg_catalog.pg_advisory_xact_lock(1397052500, pg_catalog.hashtext({schema}))")
}
