//! One connection, used for one statement at a time.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use tokio::task::JoinHandle;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::{Address, DatabaseError, Engine, FailureKind};

/// How long to wait for a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session. Statements and answers are text: what the two servers have in common.
pub struct Session(Inner);

enum Inner {
    Postgres { client: tokio_postgres::Client, driver: JoinHandle<()> },
    MySql(Box<mysql_async::Conn>),
}

impl Session {
    /// Connects and logs in.
    pub async fn open(address: &Address) -> Result<Self, DatabaseError> {
        let opened = tokio::time::timeout(PATIENCE, Self::connect(address)).await.unwrap_or_else(|_| {
            let what = format!("no answer within {} s", PATIENCE.as_secs());
            Err(DatabaseError::new(FailureKind::Unreachable, what))
        });
        opened.map_err(|error| error.while_doing(format!("connecting to {address}")))
    }

    async fn connect(address: &Address) -> Result<Self, DatabaseError> {
        if let Some(config) = address.postgres() {
            let (client, connection) = config.connect(NoTls).await?;
            let driver = tokio::spawn(async move {
                // What breaks the connection is told to the statement that runs on it.
                let _ = connection.await;
            });
            let mut session = Self(Inner::Postgres { client, driver });
            session.execute("SET TIME ZONE 'UTC'").await?;
            return Ok(session);
        }
        let opts = address.mysql().cloned().unwrap_or_default();
        let mut session = Self(Inner::MySql(Box::new(mysql_async::Conn::new(opts).await?)));
        session.execute("SET NAMES utf8mb4").await?;
        // Without NO_BACKSLASH_ESCAPES, which would read our literals otherwise.
        session.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE'").await?;
        Ok(session)
    }

    /// What kind of server it is.
    pub fn engine(&self) -> Engine {
        match &self.0 {
            Inner::Postgres { .. } => Engine::Postgres,
            Inner::MySql(_) => Engine::MySql,
        }
    }

    /// Runs one statement; the number of rows that it changed.
    pub async fn execute(&mut self, sql: &str) -> Result<u64, DatabaseError> {
        match &mut self.0 {
            Inner::Postgres { client, .. } => {
                let answers = client.simple_query(sql).await?;
                Ok(answers
                    .iter()
                    .map(|answer| match answer {
                        SimpleQueryMessage::CommandComplete(rows) => *rows,
                        _ => 0,
                    })
                    .sum())
            }
            Inner::MySql(connection) => {
                connection.query_drop(sql).await?;
                Ok(connection.affected_rows())
            }
        }
    }

    /// Runs one query; its rows as text, NULL as none.
    pub async fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, DatabaseError> {
        match &mut self.0 {
            Inner::Postgres { client, .. } => {
                let answers = client.simple_query(sql).await?;
                let row = |row: &tokio_postgres::SimpleQueryRow| {
                    (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()
                };
                Ok(answers
                    .iter()
                    .filter_map(|answer| match answer {
                        SimpleQueryMessage::Row(found) => Some(row(found)),
                        _ => None,
                    })
                    .collect())
            }
            Inner::MySql(connection) => {
                let rows: Vec<mysql_async::Row> = connection.query(sql).await?;
                Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
            }
        }
    }

    /// The first column of every row; NULL is left out.
    pub async fn column(&mut self, sql: &str) -> Result<Vec<String>, DatabaseError> {
        Ok(self.rows(sql).await?.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }

    /// The first column of the first row.
    pub async fn value(&mut self, sql: &str) -> Result<Option<String>, DatabaseError> {
        Ok(self.column(sql).await?.into_iter().next())
    }

    /// Says good-bye. A session that is dropped instead is rolled back by the server.
    pub async fn close(self) {
        match self.0 {
            Inner::Postgres { client, driver } => {
                drop(client);
                let _ = tokio::time::timeout(PATIENCE, driver).await;
            }
            Inner::MySql(connection) => {
                let _ = tokio::time::timeout(PATIENCE, connection.disconnect()).await;
            }
        }
    }
}

/// A value of the text protocol.
fn text(value: mysql_async::Value) -> Option<String> {
    match value {
        mysql_async::Value::NULL => None,
        mysql_async::Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}
