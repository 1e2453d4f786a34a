//! PostgreSQL for tests: a database of its own for each, gone with its replication slots when the test ends, also by a panic.

use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::kafka::unique;
use crate::services;

const LIMIT: Duration = Duration::from_secs(30);

/// A fresh database, dropped with the value.
pub struct Database {
    config: Config,
    name: String,
}

impl Database {
    /// A new, empty database.
    pub async fn create(prefix: &str) -> Self {
        let name = unique(prefix);
        let server = server();
        let admin = connect(&server).await;
        admin.batch_execute(&format!("CREATE DATABASE \"{name}\"")).await.expect("a database is created");
        let mut config = server;
        config.dbname(&name);
        Self { config, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `postgres://user:password@host:port/database`.
    pub fn url(&self) -> String {
        let server = services::postgres();
        let (scheme, rest) = server.split_once("://").expect("the address of PostgreSQL is a URL");
        let (login, _) = rest.split_once('/').unwrap_or((rest, ""));
        format!("{scheme}://{login}/{}", self.name)
    }

    /// The server's host.
    pub fn host(&self) -> &str {
        match self.config.get_hosts() {
            [Host::Tcp(host), ..] => host,
            _ => panic!("the address of PostgreSQL has no host"),
        }
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.config.get_ports().first().copied().unwrap_or(5432)
    }

    /// A user who may do anything in it, and replicate.
    pub fn user(&self) -> &str {
        self.config.get_user().expect("the address of PostgreSQL has a user")
    }

    /// The user's password.
    pub fn password(&self) -> &str {
        std::str::from_utf8(self.config.get_password().unwrap_or_default()).expect("a password of text")
    }

    /// A connection of its own.
    pub async fn connect(&self) -> Client {
        connect(&self.config).await
    }

    /// Runs statements over a connection of their own. Panics on an error.
    pub async fn execute(&self, sql: &str) {
        let done = self.connect().await.batch_execute(sql).await;
        done.unwrap_or_else(|failure| panic!("{failure:?}\nin: {sql:.2000}"));
    }

    /// The rows of a query, each column as text.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let answer = self.connect().await.simple_query(sql).await;
        let messages = answer.unwrap_or_else(|failure| panic!("{failure:?}\nin: {sql:.2000}"));
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()),
            _ => None,
        };
        messages.into_iter().filter_map(row).collect()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let name = self.name.clone();
        // A runtime cannot wait inside another; a thread of its own can.
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(drop_with_slots(&name))
        })
        .join();
        assert!(dropped.is_ok() || thread::panicking(), "database {} and its slots could not be dropped", self.name);
    }
}

fn server() -> Config {
    Config::from_str(services::postgres()).expect("the address of PostgreSQL is a URL")
}

async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("PostgreSQL takes a connection");
    tokio::spawn(connection); // ends with the client
    client
}

/// A slot keeps its database from being dropped, and a connector that still runs would take it again: so nobody may come in first.
async fn drop_with_slots(database: &str) {
    let admin = connect(&server()).await;
    admin.batch_execute(&format!("ALTER DATABASE \"{database}\" ALLOW_CONNECTIONS false")).await.expect("closed");
    let slots = format!("FROM pg_replication_slots WHERE database = '{database}'");
    let end = format!("SELECT pg_terminate_backend(active_pid) {slots} AND active_pid IS NOT NULL");
    let remove = format!("SELECT pg_drop_replication_slot(slot_name) {slots} AND active_pid IS NULL");
    let deadline = Instant::now() + LIMIT;
    loop {
        admin.batch_execute(&end).await.expect("users of slots are ended");
        match admin.batch_execute(&remove).await {
            Ok(()) => {}
            // It went from one user to another, or was temporary and is gone.
            Err(failure) if matches!(failure.code(), Some(&SqlState::OBJECT_IN_USE | &SqlState::UNDEFINED_OBJECT)) => {}
            Err(failure) => panic!("dropping the slots of {database}: {failure:?}"),
        }
        let left = admin.query(&format!("SELECT 1 {slots}"), &[]).await.expect("the slots are listed");
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{} slots of {database} stay in use", left.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    admin.batch_execute(&format!("DROP DATABASE \"{database}\" WITH (FORCE)")).await.expect("the database is dropped");
}
