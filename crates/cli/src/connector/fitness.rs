//! Whether a database is fit to be captured: every finding with its fix, before anything is registered.

use settle_engine::finding::Finding;

use crate::connector::{Configuration, mysql, postgres};
use crate::database::{DatabaseError, Engine, Session};

/// What kind of server it is, which decides the connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// PostgreSQL.
    Postgres,
    /// MySQL.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Server {
    /// The connector's class.
    pub fn class(self) -> &'static str {
        match self {
            Self::Postgres => "io.debezium.connector.postgresql.PostgresConnector",
            Self::MySql => "io.debezium.connector.mysql.MySqlConnector",
            Self::MariaDb => "io.debezium.connector.mariadb.MariaDbConnector",
        }
    }

    /// What the URL says it is, unasked.
    pub fn of_url(configuration: &Configuration) -> Self {
        match configuration.address.engine() {
            Engine::Postgres => Self::Postgres,
            Engine::MySql if configuration.address.names_mariadb() => Self::MariaDb,
            Engine::MySql => Self::MySql,
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Fitness {
    /// The server.
    pub server: Server,
    /// PostgreSQL: somebody reads the slot at this moment.
    pub slot_is_read: bool,
    /// There are unsigned bigints among the captured columns.
    pub unsigned: bool,
    /// What is in the way, and what may surprise.
    pub findings: Vec<Finding>,
}

impl Fitness {
    /// True where a connector would not do what Settle needs.
    pub fn is_unfit(&self) -> bool {
        self.findings.iter().any(Finding::is_error)
    }
}

/// Asks the database.
pub async fn inspect(configuration: &Configuration) -> Result<Fitness, DatabaseError> {
    let mut session = Session::open(&configuration.address).await?;
    let fitness = match session.engine() {
        Engine::Postgres => postgres::inspect(&mut session, configuration).await,
        Engine::MySql => mysql::inspect(&mut session, configuration).await,
    };
    session.close().await;
    fitness.map_err(|error| error.while_doing(format!("looking at {}", configuration.address)))
}

/// What both kinds of servers are asked about a table.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    /// As the connector names it.
    pub(super) name: String,
    pub(super) has_key: bool,
}

/// What is true of tables on every server.
pub(super) fn of_tables(configuration: &Configuration, server: Server, all: &[Captured]) -> Vec<Finding> {
    let wanted = configuration.captured(server);
    let mut findings = Vec::new();
    for name in wanted.iter().filter(|name| all.iter().all(|table| table.name != **name)) {
        findings.push(Finding::error(format!("there is no table {name}"), "name it as the database does, or make it"));
    }
    let signal = configuration.signal.as_ref().map(|signal| configuration.qualified(signal, server));
    if let Some(signal) = &signal
        && wanted.is_empty()
        && all.iter().all(|table| table.name != *signal)
    {
        findings.push(Finding::error(
            format!("there is no signal table {signal}"),
            format!(
                "CREATE TABLE {signal} (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"
            ),
        ));
    }
    let keyless: Vec<&str> = all
        .iter()
        .filter(|table| wanted.is_empty() || wanted.contains(&table.name))
        .filter(|table| !table.has_key && !has_key(configuration, server, &table.name))
        .map(|table| table.name.as_str())
        .collect();
    if !keyless.is_empty() {
        findings.push(Finding::warning(
            format!("without a primary key: {}; records without a key are refused by a run", keyless.join(", ")),
            format!("name columns that identify a row, as in --key '{}:column,column'", keyless[0]),
        ));
    }
    if wanted.is_empty() && all.is_empty() {
        findings.push(Finding::error("the database has no tables", "is it the right one?"));
    }
    findings
}

fn has_key(configuration: &Configuration, server: Server, table: &str) -> bool {
    let named = |key: &String| key.split(':').next().map(|name| configuration.qualified(name, server));
    configuration.keys.iter().any(|key| named(key).is_some_and(|name| name == table))
}

/// A list for a message, cut where it is long.
pub(super) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len() {
        0..=SHOWN => names.join(", "),
        many => format!("{} and {} more", names[..SHOWN].join(", "), many - SHOWN),
    }
}
