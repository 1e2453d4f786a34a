//! One transaction: begun, seen as a session by the shared pieces, and ended so that it is known how.

use std::sync::atomic::{AtomicU64, Ordering};

use settle_core::sink::BoxFuture;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage};

use super::connection::Connection;
use super::failure::{self, Outcome};
use super::stage::Stages;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::session::{Session, SqlValue};

/// A connection within a transaction. Dropped before its end it takes the connection with it.
#[derive(Debug)]
pub(super) struct Transaction {
    connection: Connection,
    /// What the session says of itself as long as it is in this transaction.
    mark: String,
    /// The session's own tables in which rows wait.
    pub(super) stages: Stages,
}

impl Transaction {
    /// Begins one. Deferrable constraints are looked at when it is committed: rows come in the order of
    /// their keys, and a value may go from one row to another.
    pub(super) async fn begin(mut connection: Connection, stages: Stages, operation: &str) -> Outcome<Self> {
        static BEGUN: AtomicU64 = AtomicU64::new(0);
        let mark = format!("{}-{}", connection.name(), BEGUN.fetch_add(1, Ordering::Relaxed));
        let begin = format!("BEGIN READ WRITE; SET LOCAL settle.mark = '{mark}'; SET CONSTRAINTS ALL DEFERRED");
        connection.busy = true;
        connection.run(operation, &begin).await?;
        Ok(Self { connection, mark, stages })
    }

    /// Begins one that sees the database as it is now, and changes nothing.
    pub(super) async fn begin_reading(mut connection: Connection, operation: &str) -> Outcome<Self> {
        connection.busy = true;
        connection.run(operation, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        Ok(Self { connection, mark: String::new(), stages: Stages::default() })
    }

    /// The connection.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Commits. The server answers COMMIT of a failed transaction with a ROLLBACK that looks like success,
    /// and one outside of any transaction with success: the statement before it fails in the first, and
    /// does not find the mark in the second.
    ///
    /// While it waits for synchronous standbys no time-out may run: the wait would be given up, and the
    /// transaction be reported as committed.
    pub(super) async fn commit(self, operation: &str) -> Outcome<(Connection, Stages)> {
        const COMMIT: &str =
            "SET LOCAL statement_timeout = 0; SELECT pg_catalog.current_setting('settle.mark', true); COMMIT";
        let Self { mut connection, mark, stages } = self;
        let answers = match connection.within(operation, connection.client.simple_query(COMMIT)).await {
            Ok(answers) => answers,
            // What the server refused, it has rolled back.
            Err(error) if failure::is_refusal(&error) => return Err(error),
            Err(error) => return Err(error.effect_unknown()),
        };
        let is_ours = answers.iter().any(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0) == Some(&*mark),
            _ => false,
        });
        if !is_ours {
            let context = "the session was not in the transaction that it began: something between here and the server \
                           shares its sessions; let it keep one for each client (in PgBouncer, pool_mode = session)";
            return Err(failure::contract(operation, context).effect_unknown());
        }
        connection.busy = false;
        Ok((connection, stages))
    }

    /// Ends it without a trace, and the tables of the session with it.
    pub(super) async fn roll_back(self, operation: &str) -> Outcome<Connection> {
        let Self { mut connection, .. } = self;
        connection.run(operation, "ROLLBACK; DISCARD TEMP").await?;
        connection.busy = false;
        Ok(connection)
    }
}

impl Session for Transaction {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute<'a>(
        &'a mut self,
        operation: &'a str,
        sql: &'a str,
        values: &'a [SqlValue],
    ) -> BoxFuture<'a, Outcome<u64>> {
        Box::pin(async move {
            let typed = typed(values);
            self.connection.within(operation, self.connection.client.execute_typed(sql, &typed)).await
        })
    }

    fn query<'a>(
        &'a mut self,
        operation: &'a str,
        sql: &'a str,
        values: &'a [SqlValue],
    ) -> BoxFuture<'a, Outcome<Vec<Vec<SqlValue>>>> {
        Box::pin(async move {
            let found = self.connection.rows(operation, sql, &typed(values)).await?;
            found.iter().map(|row| cells(operation, row)).collect()
        })
    }
}

fn typed(values: &[SqlValue]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    const NONE: &Option<String> = &None;
    values
        .iter()
        .map(|value| match value {
            SqlValue::Null => (NONE as &(dyn ToSql + Sync), Type::TEXT),
            SqlValue::Int(number) => (number as &(dyn ToSql + Sync), Type::INT8),
            SqlValue::Text(text) => (text as &(dyn ToSql + Sync), Type::TEXT),
            SqlValue::Bytes(bytes) => (bytes as &(dyn ToSql + Sync), Type::BYTEA),
        })
        .collect()
}

fn cells(operation: &str, row: &Row) -> Outcome<Vec<SqlValue>> {
    let cell = |at: usize| {
        let known = match *row.columns()[at].type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at).map(|cell| cell.map(SqlValue::Int)),
            Type::INT4 => row.try_get::<_, Option<i32>>(at).map(|cell| cell.map(|number| SqlValue::Int(number.into()))),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at).map(|cell| cell.map(SqlValue::Bytes)),
            _ => row.try_get::<_, Option<String>>(at).map(|cell| cell.map(SqlValue::Text)),
        };
        known.map(|cell| cell.unwrap_or(SqlValue::Null)).map_err(|error| failure::of(error, operation.to_owned()))
    };
    (0..row.columns().len()).map(cell).collect()
}
