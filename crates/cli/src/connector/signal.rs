//! Asking a connector for a snapshot while it streams: a row in its signal table.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::connector::{Settings, Worker, WorkerError};
use crate::database::{Address, DatabaseError, Engine, Session, name, quoted};

/// How the snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    /// In pieces, while changes go on.
    Incremental,
    /// In one piece, while streaming waits.
    Blocking,
}

/// A snapshot to ask for.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// How.
    pub kind: SnapshotKind,
    /// Of which tables, with or without their schema (PostgreSQL) or database.
    pub tables: Vec<String>,
    /// The signal table; the one that the connector reads where absent.
    pub signal: Option<String>,
}

/// Why it was not asked for.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
    /// The worker.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The connector reads no signals.
    #[error(
        "connector {0} reads no signal table; register it with --signal TABLE --replace, and make the table if it is \
         missing: CREATE TABLE debezium_signal (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"
    )]
    NoSignalTable(String),
    /// The connector does not say where its database is.
    #[error("the settings of connector {name} do not say {what} in plain text; name the database with --url")]
    Source {
        /// The connector.
        name: String,
        /// What is missing.
        what: &'static str,
    },
    /// A table that is not there.
    #[error("there is no table {0} in the database")]
    NoTable(String),
}

/// The database of a connector, by its settings.
pub fn source_of(name: &str, settings: &Settings) -> Result<Address, SignalError> {
    let plain = |key: &str, what: &'static str| {
        // `${provider:path:key}` is resolved by the worker alone.
        let value = settings.get(key).filter(|value| !value.contains("${"));
        value.ok_or_else(|| SignalError::Source { name: name.to_owned(), what })
    };
    let class = plain("connector.class", "its class")?;
    let (engine, database) = match class.contains("Postgres") {
        true => (Engine::Postgres, "database.dbname"),
        false => (Engine::MySql, "database.include.list"),
    };
    let default = if engine == Engine::Postgres { "5432" } else { "3306" };
    let port = match settings.get("database.port").unwrap_or(default).parse() {
        Ok(port) => port,
        Err(_) => return Err(SignalError::Source { name: name.to_owned(), what: "its port" }),
    };
    Ok(Address::of_parts(
        engine,
        plain("database.hostname", "its host")?,
        port,
        plain("database.user", "its user")?,
        plain("database.password", "its password")?,
        // A list of patterns: the first, as it was quoted.
        &plain(database, "its database")?.split(',').next().unwrap_or_default().replace('\\', ""),
    ))
}

/// Asks for a snapshot; gives the id of the signal. `address` is the connector's own database where absent.
pub async fn signal(
    worker: &Worker,
    connector: &str,
    address: Option<&Address>,
    snapshot: &Snapshot,
) -> Result<String, SignalError> {
    let Some(settings) = worker.settings(connector).await? else {
        return Err(worker.unknown(connector).await.into());
    };
    let read = settings.get("signal.data.collection").map(str::to_owned);
    let Some(table) = snapshot.signal.clone().or(read) else {
        return Err(SignalError::NoSignalTable(connector.to_owned()));
    };
    let address = match address {
        Some(address) => address.clone(),
        None => source_of(connector, &settings)?,
    };
    let mut session = Session::open(&address).await?;
    let sent = send(&mut session, &address, &table, snapshot).await;
    session.close().await;
    sent
}

async fn send(
    session: &mut Session,
    address: &Address,
    signal_table: &str,
    snapshot: &Snapshot,
) -> Result<String, SignalError> {
    let engine = session.engine();
    let home = if engine == Engine::Postgres { "public" } else { address.database() };
    let parts = |table: &str| match table.rsplit_once('.') {
        // A signal table may have its database in front, too.
        Some((schema, table)) => (schema.rsplit('.').next().unwrap_or(schema).to_owned(), table.to_owned()),
        None => (home.to_owned(), table.to_owned()),
    };
    let mut collections = Vec::new();
    for table in snapshot.tables.iter().map(String::as_str).chain([signal_table]) {
        let (schema, table) = parts(table);
        let known = format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
            quoted(&schema, engine),
            quoted(&table, engine)
        );
        // The connector would skip it with a line in its log.
        if session.value(&known).await?.is_none() {
            return Err(SignalError::NoTable(format!("{schema}.{table}")));
        }
        collections.push(format!("{schema}.{table}"));
    }
    collections.pop();
    let kind = match snapshot.kind {
        SnapshotKind::Incremental => "INCREMENTAL",
        SnapshotKind::Blocking => "BLOCKING",
    };
    let id = id();
    let data = serde_json::json!({"type": kind, "data-collections": collections}).to_string();
    let (schema, table) = parts(signal_table);
    let insert = format!(
        "INSERT INTO {} (id, type, data) VALUES ({}, 'execute-snapshot', {})",
        name(&[&schema, &table], engine),
        quoted(&id, engine),
        quoted(&data, engine)
    );
    session.execute(&insert).await.map_err(|error| error.while_doing(format!("writing into {schema}.{table}")))?;
    Ok(id)
}

/// An id that no signal had: the time, to the nanosecond.
fn id() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("settle-{}-{:09}", since.as_secs(), since.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let map: BTreeMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Settings::of(map)
    }

    #[test]
    fn the_database_of_a_connector_is_known_from_its_settings() {
        let postgres = settings(&[
            ("connector.class", "io.debezium.connector.postgresql.PostgresConnector"),
            ("database.hostname", "db"),
            ("database.user", "ann"),
            ("database.password", "s3cret"),
            ("database.dbname", "shop"),
        ]);
        assert_eq!(source_of("shop", &postgres).unwrap().to_string(), "postgres://ann@db:5432/shop");
        let maria = settings(&[
            ("connector.class", "io.debezium.connector.mariadb.MariaDbConnector"),
            ("database.hostname", "db"),
            ("database.port", "3307"),
            ("database.user", "ann"),
            ("database.password", "${file:/secrets:pw}"),
            ("database.include.list", "sh\\$op"),
        ]);
        let error = source_of("shop", &maria).unwrap_err().to_string();
        assert!(error.contains("its password in plain text; name the database with --url"), "{error}");
    }
}
