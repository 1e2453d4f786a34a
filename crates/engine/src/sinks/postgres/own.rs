//! What Settle keeps of its own in the schema: made where it is missing.

use settle_core::sink::{FailureKind, SinkError};
use tokio_postgres::types::Type;

use super::connection::{Connection, literal};
use super::ddl::within;
use super::failure::{Outcome, contract};
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::own;

pub(super) use crate::sinks::sql::own::TABLES;

const SQL: Dialect = Dialect::Postgres;

/// The SQL that makes them in a schema.
pub(super) fn create(schema: &str) -> [String; 2] {
    own::create(SQL, |table| within(schema, table))
}

/// Which of these tables are in the schema; an error where there is no such schema.
pub(super) async fn present(connection: &Connection, schema: &str) -> Outcome<Vec<String>> {
    let operation = format!("look for settle_meta in schema \"{schema}\"");
    let sql = "SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE'), (SELECT pg_catalog.array_agg(c.relname::text)
        FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relname = ANY ($2))
        FROM pg_catalog.pg_namespace n WHERE n.nspname = $1";
    let names: &[&str] = &TABLES;
    let found = connection.rows(&operation, sql, &[(&schema, Type::TEXT), (&names, Type::TEXT_ARRAY)]).await?;
    let Some(found) = found.first() else {
        let context = format!(
            "there is no schema \"{schema}\"; run CREATE SCHEMA {}, or name another: [sink] schema",
            SQL.quoted(schema)
        );
        return Err(contract(operation, context));
    };
    if !found.get::<_, bool>(0) {
        // PostgreSQL passes over such a schema without a word, and would make tables in another.
        let quoted = SQL.quoted(schema);
        let context = format!("this user may not use the schema; run GRANT USAGE, CREATE ON SCHEMA {quoted} TO it");
        return Err(SinkError::new(FailureKind::Denied, operation, context));
    }
    Ok(found.get::<_, Option<Vec<String>>>(1).unwrap_or_default())
}

/// Makes what is missing, in a transaction of its own: one that waits for another instance here holds
/// nothing that the other may wait for.
pub(super) async fn make(connection: &Connection, schema: &str) -> Outcome<()> {
    let operation = format!("create settle_meta and settle_positions in schema \"{schema}\"");
    if present(connection, schema).await?.len() < TABLES.len() {
        let [meta, positions] = create(schema);
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
