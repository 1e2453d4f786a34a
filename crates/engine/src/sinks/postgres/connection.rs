//! One connection: how it is made, and what is asked over it.
//!
//! Every wait has a bound: the server's own time-outs, and one of ours behind them for a server, or
//! something between, that does not answer at all.

use std::time::Duration;

use settle_core::sink::{FailureKind, SinkError};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Row, SimpleQueryMessage, Socket};

use super::config::{ForeignKeys, PostgresConfig};
use super::failure::{During, Outcome, contract};
use super::tls;
use crate::sinks::sql::dialect::Dialect;

/// Longest wait for a new connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer than the server itself we wait for it to end a statement.
const GRACE: Duration = Duration::from_secs(10);
/// After this time a session that holds a transaction open and does nothing is ended by the server: a
/// frozen instance does not hold the partitions' locks for ever.
const IDLE_IN_TRANSACTION_MS: u64 = 60_000;
/// The least version that has everything we ask for.
const LEAST_VERSION: i32 = 120_000;

/// An open connection.
pub(super) struct Connection {
    pub(super) client: Client,
    /// What tells it from every other.
    name: String,
    driver: JoinHandle<()>,
    patience: Duration,
    /// True while a transaction is open.
    pub(super) busy: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, and prepares the session.
    pub(super) async fn open(config: &PostgresConfig) -> Outcome<Self> {
        let operation = format!("connect to {}", config.address);
        let mut client = config.address.client.clone();
        // A peer that is gone is noticed, whatever the network says of it.
        let connect = *client.get_connect_timeout().unwrap_or(&CONNECT_TIMEOUT);
        client.connect_timeout(connect);
        client.keepalives_idle(Duration::from_secs(15));
        client.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        client.tcp_user_timeout(*client.get_tcp_user_timeout().unwrap_or(&Duration::from_secs(30)));
        if client.get_application_name().is_none() {
            client.application_name(format!("settle {}", config.group));
        }
        let patience = Duration::from_millis(config.request_timeout_ms) + GRACE;
        let connecting = async {
            match tls::connector(&config.address.tls)? {
                Some(tls) => start(&client, tls, &operation).await,
                None => start(&client, NoTls, &operation).await,
            }
        };
        let (client, driver) = timeout(connect, connecting).await.unwrap_or_else(|_| {
            let context = format!("no answer within {} s; is it PostgreSQL that listens there?", connect.as_secs());
            Err(SinkError::new(FailureKind::Unreachable, operation.as_str(), context))
        })?;
        let mut connection = Self { client, name: String::new(), driver, patience, busy: false };
        connection.run(&operation, &session(config)).await?;
        let known = connection.rows(&operation, KNOWN, &[]).await?;
        let [known] = known.as_slice() else {
            return Err(SinkError::new(FailureKind::Bug, operation, "the server does not say its version"));
        };
        if known.get::<_, i32>(0) < LEAST_VERSION {
            return Err(contract(operation, "the server is older than PostgreSQL 12; upgrade it"));
        }
        connection.name = known.get(1);
        Ok(connection)
    }

    /// Waits for an answer, but not for ever.
    pub(super) async fn within<T>(
        &self,
        operation: &str,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Outcome<T> {
        match timeout(self.patience, answer).await {
            Ok(answer) => answer.during(|| operation.to_owned()),
            Err(_) => Err(self.no_answer(operation)),
        }
    }

    /// What tells it from every other connection to the server.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How long an answer is waited for.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// What is said when none came.
    pub(super) fn no_answer(&self, operation: &str) -> SinkError {
        let context = format!("no answer within {} s", self.patience.as_secs());
        SinkError::new(FailureKind::Unreachable, operation, context)
    }

    /// Runs statements without values. No value stands in them.
    pub(super) async fn run(&self, operation: &str, sql: &str) -> Outcome<()> {
        self.within(operation, self.client.batch_execute(sql)).await
    }

    /// Runs one statement without values, and says how many rows it wrote.
    pub(super) async fn count(&self, operation: &str, sql: &str) -> Outcome<u64> {
        let answers = self.within(operation, self.client.simple_query(sql)).await?;
        let counts = answers.iter().filter_map(|answer| match answer {
            SimpleQueryMessage::CommandComplete(count) => Some(*count),
            _ => None,
        });
        counts.last().ok_or_else(|| SinkError::new(FailureKind::Bug, operation, "the server's answer has no end"))
    }

    /// Asks for rows, planned for these values.
    pub(super) async fn rows(
        &self,
        operation: &str,
        sql: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Outcome<Vec<Row>> {
        self.within(operation, self.client.query_typed(sql, values)).await
    }
}

/// In a transaction it ends at once, whatever the server is doing; else the client takes its leave.
impl Drop for Connection {
    fn drop(&mut self) {
        if self.busy {
            self.driver.abort();
        }
    }
}

async fn start<T>(config: &tokio_postgres::Config, tls: T, operation: &str) -> Outcome<(Client, JoinHandle<()>)>
where
    T: MakeTlsConnect<Socket> + Send + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
{
    let (client, connection) = config.connect(tls).await.during(|| operation.to_owned())?;
    let driver = tokio::spawn(async move {
        // What breaks the connection is told to the statement that runs on it.
        let _ = connection.await;
    });
    Ok((client, driver))
}

const KNOWN: &str = "SELECT pg_catalog.current_setting('server_version_num')::int4,
    pg_catalog.pg_backend_pid() || '-' || extract(epoch FROM pg_catalog.clock_timestamp())";

/// What a session is told at its start. `synchronous_commit` stays as the server has it: that is its
/// owner's choice. Settle's own tables are found in the schema ahead of the `search_path` that the user
/// has: triggers may need that.
fn session(config: &PostgresConfig) -> String {
    let mut sql = format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
         SET default_transaction_isolation = 'read committed'; SET TIME ZONE 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'; \
         SET extra_float_digits = 1; SET jit = off; \
         SELECT pg_catalog.set_config('search_path', {} || ', ' || pg_catalog.current_setting('search_path'), false)",
        config.request_timeout_ms,
        config.lock_timeout_ms,
        IDLE_IN_TRANSACTION_MS,
        literal(&Dialect::Postgres.quoted(&config.schema)),
    );
    if config.foreign_keys == ForeignKeys::Off {
        sql.push_str("; SET session_replication_role = replica");
    }
    sql
}

/// A text as SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
