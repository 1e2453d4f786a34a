//! The server that a sink has open: its client, where tables are, and what it can hold.

use serde::Deserialize;
use settle_core::sink::{FailureKind, SinkError};

use super::buffer::Calendar;
use super::client::Client;
use super::config::ClickHouseConfig;
use super::ddl;
use super::meta;
use super::names::{QualifiedName, identifier, literal};
use super::table::describe;

/// What a reading asks for that must see all that was acknowledged, also by another replica. Where
/// there is none it changes nothing.
pub(crate) const CONSISTENTLY: &str = " SETTINGS select_sequential_consistency = 1";

/// One server, probed.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) database: String,
    pub(crate) cluster: Option<String>,
    /// True where tables must have a replicated engine.
    pub(crate) replicated: bool,
    /// Years that its dates reach.
    pub(crate) calendar: Calendar,
}

#[derive(Deserialize)]
struct ProbeRow {
    version: String,
    first_day: String,
    last_day: String,
}

#[derive(Deserialize)]
struct DatabaseRow {
    engine: String,
}

impl Server {
    /// Nothing is sent yet.
    pub(crate) fn new(config: ClickHouseConfig) -> Result<Self, SinkError> {
        let client = Client::new(&config)?;
        Ok(Self {
            client,
            database: config.database,
            replicated: config.cluster.is_some(),
            cluster: config.cluster,
            calendar: Calendar::NARROW,
        })
    }

    pub(crate) fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    pub(crate) fn name(&self, table: &str) -> QualifiedName {
        QualifiedName::new(&self.database, table)
    }

    /// Asks for the version, which also tests the credentials, and whether dates beyond 1900 to
    /// 2299 are kept: older servers saturate them in silence.
    pub(crate) async fn probe(&mut self) -> Result<String, SinkError> {
        let sql = "SELECT version() AS version, toString(toDate32('0001-01-01')) AS first_day, \
                   toString(toDateTime64('9999-12-31 00:00:00', 3, 'UTC')) AS last_day";
        let rows: Vec<ProbeRow> = self.client.rows("connecting to ClickHouse", sql).await?;
        let row = rows.into_iter().next().ok_or_else(|| {
            SinkError::new(FailureKind::Contract, "connecting to ClickHouse", "the server answered nothing to a query")
        })?;
        let wide = row.first_day == "0001-01-01" && row.last_day.starts_with("9999-12-31");
        self.calendar = if wide { Calendar::WIDE } else { Calendar::NARROW };
        Ok(row.version)
    }

    /// The database's engine; none where it does not exist.
    pub(crate) async fn database_engine(&mut self) -> Result<Option<String>, SinkError> {
        let operation = format!("looking for the database {}", identifier(&self.database));
        let sql = format!("SELECT engine FROM system.databases WHERE name = {}", literal(&self.database));
        let rows: Vec<DatabaseRow> = self.client.rows(&operation, &sql).await?;
        let engine = rows.into_iter().next().map(|row| row.engine);
        // Its tables are replicated by the database itself, but only with a replicated engine.
        self.replicated = self.cluster.is_some() || engine.as_deref() == Some("Replicated");
        Ok(engine)
    }

    /// Makes sure that database and `settle_meta` exist.
    pub(crate) async fn prepare(&mut self, create: bool) -> Result<(), SinkError> {
        if self.database_engine().await?.is_none() {
            let sql = ddl::create_database(&self.database, self.cluster());
            self.create(create, &format!("creating the database {}", identifier(&self.database)), &sql).await?;
            self.database_engine().await?;
        }
        let name = self.name(meta::TABLE);
        if describe(&self.client, &name).await?.is_none() {
            let sql = meta::create_table(&self.database, self.cluster(), self.replicated);
            self.create(create, &format!("creating {name}"), &sql).await?;
        }
        Ok(())
    }

    async fn create(&self, allowed: bool, operation: &str, sql: &str) -> Result<(), SinkError> {
        if !allowed {
            let context = format!("it does not exist, and [sink] create is false; run {sql}");
            return Err(SinkError::new(FailureKind::Contract, operation, context));
        }
        self.client.run(operation, sql).await?;
        tracing::info!("{operation}: done");
        Ok(())
    }
}
