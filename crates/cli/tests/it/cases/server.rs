//! A database of its own in a server that a case is settled into: PostgreSQL, or MariaDB for MySQL.

use mysql_async::prelude::Queryable;
use mysql_async::{Row as Cells, Value};
use settle_testkit::proxy::WireProxy;
use settle_testkit::{mariadb, postgres};
use tokio_postgres::SimpleQueryMessage;

use super::stand::Row;
use crate::stage::Stage;

pub enum Server {
    Postgres(Box<postgres::Database>),
    MySql(mariadb::Database),
}

impl Server {
    pub fn name(&self) -> &str {
        match self {
            Self::Postgres(database) => database.name(),
            Self::MySql(database) => database.name(),
        }
    }

    /// `host:port`.
    fn place(&self) -> String {
        match self {
            Self::Postgres(database) => format!("{}:{}", database.host(), database.port()),
            Self::MySql(database) => format!("{}:{}", database.host(), database.port()),
        }
    }

    /// A proxy before it.
    pub async fn proxy(&self) -> WireProxy {
        WireProxy::before(&self.place()).await
    }

    /// The lines of `[sink]`, its server reached at `place`, or at its own where none is given.
    pub fn sink(&self, stage: &Stage, place: Option<&str>) -> String {
        let (kind, user, password) = match self {
            Self::Postgres(database) => ("postgres", database.user(), database.password()),
            Self::MySql(database) => ("mysql", database.user(), database.password()),
        };
        let password = stage.write("password", password);
        let place = place.map_or_else(|| self.place(), str::to_owned);
        format!(
            "[sink]\nkind = \"{kind}\"\nurl = \"{kind}://{user}@{place}/{}\"\npassword = \"file:{}\"\n",
            self.name(),
            password.display()
        )
    }

    pub async fn execute(&self, sql: &str) -> Result<(), String> {
        match self {
            Self::Postgres(database) => {
                database.connect().await.batch_execute(sql).await.map_err(|e| format!("{e:?} in {sql}"))
            }
            Self::MySql(database) => {
                let mut connection = database.connect().await;
                let done = connection.query_drop(sql).await.map_err(|e| format!("{e} in {sql}"));
                connection.disconnect().await.map_err(|e| e.to_string())?;
                done
            }
        }
    }

    pub async fn rows(&self, sql: &str) -> Vec<Row> {
        match self {
            Self::Postgres(database) => {
                let client = database.connect().await;
                client.batch_execute("SET TIME ZONE 'UTC'").await.unwrap();
                let answer = client.simple_query(sql).await.unwrap_or_else(|e| panic!("{e:?} in {sql}"));
                let named = |message| match message {
                    SimpleQueryMessage::Row(row) => {
                        let cell = |(at, column): (usize, &tokio_postgres::SimpleColumn)| {
                            (column.name().to_owned(), row.get(at).map(str::to_owned))
                        };
                        Some(row.columns().iter().enumerate().map(cell).collect())
                    }
                    _ => None,
                };
                answer.into_iter().filter_map(named).collect()
            }
            Self::MySql(database) => {
                let mut connection = database.connect().await;
                let rows: Vec<Cells> = connection.query(sql).await.unwrap_or_else(|e| panic!("{e} in {sql}"));
                connection.disconnect().await.unwrap();
                let named = |row: Cells| {
                    let names: Vec<String> =
                        row.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
                    names.into_iter().zip(row.unwrap().into_iter().map(text)).collect()
                };
                rows.into_iter().map(named).collect()
            }
        }
    }

    pub async fn has_table(&self, name: &str) -> bool {
        let name = name.replace('\'', "''");
        let sql = match self {
            Self::Postgres(_) => {
                format!("SELECT 1 FROM pg_tables WHERE schemaname = 'public' AND tablename = '{name}'")
            }
            Self::MySql(_) => format!(
                "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = database() AND TABLE_NAME = '{}'",
                name.replace('\\', "\\\\")
            ),
        };
        !self.rows(&sql).await.is_empty()
    }

    /// Sessions whose statement waits for a lock in it.
    pub async fn waiting(&self) -> u64 {
        match self {
            Self::Postgres(_) => {
                let sql = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() \
                           AND wait_event_type = 'Lock'";
                self.rows(sql).await[0]["n"].as_deref().and_then(|count| count.parse().ok()).expect("a count")
            }
            Self::MySql(database) => database.waiting().await,
        }
    }

    /// Another session keeps everybody from writing to `table` as long as what it gives is not dropped.
    pub async fn lock(&self, table: &str) -> Lock {
        match self {
            Self::Postgres(database) => {
                let client = database.connect().await;
                client.batch_execute(&format!("BEGIN; LOCK TABLE {table} IN SHARE MODE")).await.unwrap();
                Lock::Postgres(client)
            }
            Self::MySql(database) => {
                let mut connection = database.connect().await;
                // Of a session that waits for a row it does not see that its client is gone: of one that
                // waits for a whole table it does, and ends it.
                let lock = format!("START TRANSACTION; SELECT * FROM {table} FOR UPDATE");
                connection.query_drop(lock).await.unwrap();
                Lock::MySql(connection)
            }
        }
    }
}

/// A lock that another session holds.
pub enum Lock {
    Postgres(tokio_postgres::Client),
    MySql(mysql_async::Conn),
}

impl Lock {
    pub async fn release(self) {
        match self {
            Self::Postgres(client) => client.batch_execute("ROLLBACK").await.unwrap(),
            Self::MySql(mut connection) => {
                connection.query_drop("ROLLBACK").await.unwrap();
                connection.disconnect().await.unwrap();
            }
        }
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        // A query without parameters is answered in text.
        Value::Bytes(bytes) => Some(String::from_utf8(bytes).expect("a column of text")),
        other => panic!("a column that is not text: {other:?}"),
    }
}
