//! MariaDB for tests: a database of its own for each, gone when the test ends, also by a panic.

use std::thread;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, Value};

use crate::kafka::unique;
use crate::services;

/// A fresh database, dropped with the value.
pub struct Database {
    opts: Opts,
    name: String,
}

impl Database {
    /// A new, empty database.
    pub async fn create(prefix: &str) -> Self {
        let name = unique(prefix);
        run(server(), &format!("CREATE DATABASE `{name}`")).await;
        let opts = OptsBuilder::from_opts(server()).db_name(Some(name.clone())).into();
        Self { opts, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `mysql://user:password@host:port/database`.
    pub fn url(&self) -> String {
        let server = services::mariadb();
        let (scheme, rest) = server.split_once("://").expect("the address of MariaDB is a URL");
        let (login, _) = rest.split_once('/').unwrap_or((rest, ""));
        format!("{scheme}://{login}/{}", self.name)
    }

    /// The server's host.
    pub fn host(&self) -> &str {
        self.opts.ip_or_hostname()
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.opts.tcp_port()
    }

    /// A user who may do anything in it, and replicate.
    pub fn user(&self) -> &str {
        self.opts.user().expect("the address of MariaDB has a user")
    }

    /// The user's password.
    pub fn password(&self) -> &str {
        self.opts.pass().unwrap_or_default()
    }

    /// A connection of its own.
    pub async fn connect(&self) -> Conn {
        Conn::new(self.opts.clone()).await.expect("MariaDB takes a connection")
    }

    /// Runs statements over a connection of their own. Panics on an error.
    pub async fn execute(&self, sql: &str) {
        run(self.opts.clone(), sql).await;
    }

    /// The rows of a query, each column as text.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let mut connection = self.connect().await;
        let answer: Result<Vec<Row>, _> = connection.query(sql).await;
        let rows = answer.unwrap_or_else(|failure| panic!("{failure}\nin: {sql:.2000}"));
        connection.disconnect().await.expect("the connection ends");
        let text = |value| match value {
            Value::NULL => None,
            // A query without parameters is answered in text.
            Value::Bytes(bytes) => Some(String::from_utf8(bytes).expect("a column of text")),
            other => panic!("a column that is not text: {other:?}"),
        };
        rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect()
    }

    /// How many of its sessions wait for a row that another has locked. Takes a moment: looked at more
    /// often, the server shows what it showed before.
    pub async fn waiting(&self) -> u64 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let sql = "SELECT count(*) FROM information_schema.PROCESSLIST p JOIN information_schema.INNODB_TRX x \
                   ON x.trx_mysql_thread_id = p.ID WHERE p.DB = database() AND x.trx_state = 'LOCK WAIT'";
        let rows = self.rows(sql).await;
        rows[0][0].as_deref().and_then(|count| count.parse().ok()).expect("a count")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS `{}`", self.name);
        // A runtime cannot wait inside another; a thread of its own can.
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(run(server(), &drop));
        })
        .join();
        assert!(dropped.is_ok() || thread::panicking(), "database {} could not be dropped", self.name);
    }
}

fn server() -> Opts {
    Opts::from_url(services::mariadb()).expect("the address of MariaDB is a URL")
}

async fn run(opts: Opts, sql: &str) {
    let mut connection = Conn::new(opts).await.expect("MariaDB takes a connection");
    let done = connection.query_drop(sql).await;
    done.unwrap_or_else(|failure| panic!("{failure}\nin: {sql:.2000}"));
    connection.disconnect().await.expect("the connection ends");
}
