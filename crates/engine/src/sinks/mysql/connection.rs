//! The connection: its session is set up as everything here relies on, and every statement has a
//! time limit.

use std::borrow::Cow;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row, Value};
use settle_core::sink::{BoxFuture, FailureKind, SinkError};

use super::config::MySqlConfig;
use super::failure::{self, Outcome, contract};
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::session::{Session, SqlValue};

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long what reads or changes a whole table may take.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// What differs between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// Largest piece that it takes, bytes.
    pub(super) max_packet: usize,
    /// It folds the case of names of tables.
    pub(super) folds_tables: bool,
    /// The collation under which a text equals itself and nothing else, spaces at its end included; none
    /// where the server has none.
    pub(super) exact_collation: Option<String>,
}

impl Server {
    /// The name that the server gives a table.
    pub(super) fn table<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.folds_tables { name.to_lowercase().into() } else { name.into() }
    }

    /// Whether two names of tables are one.
    pub(super) fn same_table(&self, a: &str, b: &str) -> bool {
        a == b || self.folds_tables && a.to_lowercase() == b.to_lowercase()
    }
}

/// What a statement did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// A row that was inserted counts 1, one that was changed by an upsert 2.
    pub(super) affected: u64,
    /// What the server says besides.
    pub(super) info: String,
}

/// A refused statement: the row at fault, where it had several and the server says which.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) error: SinkError,
    pub(super) row: Option<usize>,
}

impl From<Refused> for SinkError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    conn: Conn,
    pub(super) server: Server,
    usual: Duration,
    limit: Duration,
}

impl Connection {
    /// Connects, logs in and sets the session up.
    pub(super) async fn open(config: &MySqlConfig) -> Outcome<Self> {
        let operation = format!("connect to {}", config.address);
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, Conn::new(config.address.opts())).await;
        let conn =
            opened.map_err(|_| silent(&operation, CONNECT_TIMEOUT))?.map_err(|error| failure::of(error, &operation))?;
        let server = Server { max_packet: 0, folds_tables: false, exact_collation: None };
        let limit = Duration::from_millis(config.request_timeout_ms);
        let mut connection = Self { conn, server, usual: limit, limit };
        connection.set_up(config, &operation).await?;
        Ok(connection)
    }

    async fn set_up(&mut self, config: &MySqlConfig, operation: &str) -> Outcome<()> {
        let patience = config.lock_timeout_ms.div_ceil(1000).max(1);
        // NO_AUTO_VALUE_ON_ZERO: 0 is a key like another. No SIMULTANEOUS_ASSIGNMENT: upserts assign one
        // column after the other. Without NO_BACKSLASH_ESCAPES and ANSI_QUOTES names are quoted as we do.
        let settings = format!(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,\
             NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00', autocommit = 1, foreign_key_checks = 0, \
             unique_checks = 1, sql_safe_updates = 0, innodb_lock_wait_timeout = {patience}, lock_wait_timeout = {patience}"
        );
        for statement in
            ["SET NAMES utf8mb4", &settings, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"]
        {
            self.execute_text(operation, statement).await?;
        }
        let sql = "SELECT CAST(@@max_allowed_packet AS SIGNED), CAST(@@lower_case_table_names AS SIGNED)";
        let mut facts = self.rows(operation, sql, Vec::new()).await?.into_iter().flatten();
        let (Some(Value::Int(packet)), Some(Value::Int(folds))) = (facts.next(), facts.next()) else {
            return Err(contract(operation, "the server does not say how large a packet it takes; is it MySQL?"));
        };
        let sql = "SELECT COLLATION_NAME FROM information_schema.COLLATIONS \
                   WHERE COLLATION_NAME IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')";
        let mut known: Vec<String> =
            self.rows(operation, sql, Vec::new()).await?.into_iter().flatten().filter_map(text).collect();
        known.sort();
        self.server = Server {
            max_packet: usize::try_from(packet).unwrap_or(0),
            folds_tables: folds != 0,
            // MariaDB's own, where it knows both.
            exact_collation: known.pop(),
        };
        Ok(())
    }

    /// From now on a statement may take as long as a whole table needs; or the usual time again. Nothing else is
    /// sent in between: a server that went away would be waited for as long.
    pub(super) fn be_patient(&mut self, patient: bool) {
        self.limit = if patient { PATIENCE } else { self.usual };
    }

    /// Runs a statement without values, as DDL is: it is not prepared.
    pub(super) async fn execute_text(&mut self, operation: &str, sql: &str) -> Outcome<()> {
        let limit = self.limit;
        let ran = tokio::time::timeout(limit, self.conn.query_drop(sql)).await;
        ran.map_err(|_| silent(operation, limit))?.map_err(|error| failure::of(error, operation))
    }

    /// Runs DDL that may take as long as a whole table needs.
    pub(super) async fn alter(&mut self, operation: &str, sql: &str) -> Outcome<()> {
        self.be_patient(true);
        let altered = self.execute_text(operation, sql).await;
        self.be_patient(false);
        altered
    }

    /// Runs a statement.
    pub(super) async fn run(&mut self, operation: &str, sql: &str, values: Vec<Value>) -> Result<Done, Refused> {
        let limit = self.limit;
        let ran = tokio::time::timeout(limit, self.conn.exec_drop(sql, params(values))).await;
        ran.map_err(|_| Refused { error: silent(operation, limit), row: None })?.map_err(|error| {
            let row = failure::row_at_fault(&error);
            Refused { error: failure::of(error, operation), row }
        })?;
        Ok(Done { affected: self.conn.affected_rows(), info: self.conn.info().into_owned() })
    }

    /// Runs a query.
    pub(super) async fn rows(&mut self, operation: &str, sql: &str, values: Vec<Value>) -> Outcome<Vec<Vec<Value>>> {
        let limit = self.limit;
        let rows: Result<Vec<Row>, _> = tokio::time::timeout(limit, self.conn.exec(sql, params(values)))
            .await
            .map_err(|_| silent(operation, limit))?;
        let rows = rows.map_err(|error| failure::of(error, operation))?;
        Ok(rows.into_iter().map(Row::unwrap).collect())
    }

    /// Runs a query whose rows are taken one by one, however many they are. The time limit is that of each
    /// row.
    pub(super) async fn each_row(
        &mut self,
        operation: &str,
        sql: &str,
        each: &mut (dyn FnMut(Vec<Value>) -> Outcome<()> + Send),
    ) -> Outcome<()> {
        let limit = self.limit;
        let mut rows = tokio::time::timeout(limit, self.conn.exec_iter(sql, Params::Empty))
            .await
            .map_err(|_| silent(operation, limit))?
            .map_err(|error| failure::of(error, operation))?;
        loop {
            let next = tokio::time::timeout(limit, rows.next()).await.map_err(|_| silent(operation, limit))?;
            match next.map_err(|error| failure::of(error, operation))? {
                Some(row) => each(row.unwrap())?,
                None => return Ok(()),
            }
        }
    }

    /// What the columns of a query would be: names and types, as the server sends them.
    pub(super) async fn columns(&mut self, operation: &str, sql: &str) -> Outcome<Vec<Shown>> {
        let limit = self.limit;
        let statement = tokio::time::timeout(limit, self.conn.exec_iter(sql, Params::Empty))
            .await
            .map_err(|_| silent(operation, limit))?;
        let answer = statement.map_err(|error| failure::of(error, operation))?;
        let shown = answer.columns_ref().iter().map(|column| Shown {
            name: column.name_str().into_owned(),
            kind: column.column_type() as u8,
            length: column.column_length(),
            flags: column.flags().bits(),
            character_set: column.character_set(),
            decimals: column.decimals(),
        });
        let shown = shown.collect();
        answer.drop_result().await.map_err(|error| failure::of(error, operation))?;
        Ok(shown)
    }

    /// Begins a transaction.
    pub(super) async fn begin(&mut self, operation: &str) -> Outcome<()> {
        self.execute_text(operation, "START TRANSACTION").await
    }

    /// Ends it. Where the answer is lost, so is whether it took effect.
    pub(super) async fn commit(&mut self, operation: &str) -> Outcome<()> {
        self.execute_text(operation, "COMMIT").await.map_err(|error| match error.kind {
            // Refused for another transaction: it is rolled back.
            FailureKind::Conflict => error,
            _ => error.effect_unknown(),
        })
    }

    /// Takes everything back.
    pub(super) async fn roll_back(&mut self, operation: &str) -> Outcome<()> {
        self.execute_text(operation, "ROLLBACK").await
    }

    /// Says good-bye. A connection that is dropped instead is rolled back by the server.
    pub(super) async fn close(self) {
        let _ = tokio::time::timeout(CONNECT_TIMEOUT, self.conn.disconnect()).await;
    }
}

/// A column as a query shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    name: String,
    kind: u8,
    length: u32,
    flags: u16,
    character_set: u16,
    decimals: u8,
}

fn params(values: Vec<Value>) -> Params {
    if values.is_empty() { Params::Empty } else { Params::Positional(values) }
}

fn silent(operation: &str, limit: Duration) -> SinkError {
    let context = format!("no answer within {} s", limit.as_secs_f32());
    SinkError::new(FailureKind::Unreachable, operation, context)
}

/// A column of text.
pub(super) fn text(value: Value) -> Option<String> {
    match value {
        Value::Bytes(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

impl Session for Connection {
    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    fn execute<'a>(
        &'a mut self,
        operation: &'a str,
        sql: &'a str,
        values: &'a [SqlValue],
    ) -> BoxFuture<'a, Outcome<u64>> {
        Box::pin(async move { Ok(self.run(operation, sql, bound(values)).await?.affected) })
    }

    fn query<'a>(
        &'a mut self,
        operation: &'a str,
        sql: &'a str,
        values: &'a [SqlValue],
    ) -> BoxFuture<'a, Outcome<Vec<Vec<SqlValue>>>> {
        Box::pin(async move {
            let rows = self.rows(operation, sql, bound(values)).await?;
            let cell = |value| match value {
                Value::NULL => Ok(SqlValue::Null),
                Value::Int(number) => Ok(SqlValue::Int(number)),
                Value::Bytes(bytes) => Ok(match String::from_utf8(bytes) {
                    Ok(text) => SqlValue::Text(text),
                    Err(error) => SqlValue::Bytes(error.into_bytes()),
                }),
                _ => Err(contract(operation, "a column is of another type than Settle made it with")),
            };
            rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect()
        })
    }
}

fn bound(values: &[SqlValue]) -> Vec<Value> {
    let value = |value: &SqlValue| match value {
        SqlValue::Null => Value::NULL,
        SqlValue::Int(number) => Value::Int(*number),
        SqlValue::Text(text) => Value::Bytes(text.as_bytes().to_vec()),
        SqlValue::Bytes(bytes) => Value::Bytes(bytes.clone()),
    };
    values.iter().map(value).collect()
}
