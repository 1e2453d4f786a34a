//! `[sink]`, checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::source::{choice, named, scalar};
use super::{Secret, raw};
use crate::sinks::mysql::{self, KeyFolding, MySqlConfig};
use crate::sinks::postgres::{self, ForeignKeys, LOCK_TIMEOUT_MS, REQUEST_TIMEOUT_MS, SCHEMA};
use crate::sinks::unique::Unique;

/// Which destination.
#[derive(Clone, Debug)]
pub enum SinkConfig {
    /// `kind = "clickhouse"`
    ClickHouse {
        /// HTTP interface, as `http://127.0.0.1:8123`.
        url: String,
        /// Database that holds the tables.
        database: String,
        /// User; the server's default where none.
        user: Option<String>,
        /// Password.
        password: Option<Secret>,
        /// `ON CLUSTER` of the DDL.
        cluster: Option<String>,
        /// Settings sent with every insert.
        settings: BTreeMap<String, String>,
        /// How long one request may take, milliseconds.
        request_timeout_ms: u64,
    },
    /// `kind = "sqlite"`
    Sqlite {
        /// Database file; made where it is missing.
        path: PathBuf,
        /// How long to wait for another writer, milliseconds.
        busy_timeout_ms: u64,
    },
    /// `kind = "postgres"`
    Postgres {
        /// `url`, as `postgres://user@host:5432/database?sslmode=verify-full`, with the password.
        address: postgres::Address,
        /// Schema of the target tables; `public` where none is named.
        schema: String,
        /// `unique`: unique indexes beside the key's, `"refuse"` or `"allow"`.
        unique: Unique,
        /// `foreign_keys`: `"refuse"`, or `"off"` for sessions that do not look at them.
        foreign_keys: ForeignKeys,
        /// How long one statement may take, milliseconds.
        request_timeout_ms: u64,
        /// How long a lock of another session is waited for, milliseconds.
        lock_timeout_ms: u64,
    },
    /// `kind = "mysql"`: MySQL and MariaDB.
    MySql {
        /// Server, database and user: `url` and `password`.
        address: mysql::Address,
        /// Unique indexes beside the key's: `unique = "refuse"` or `"allow"`.
        unique: Unique,
        /// Keys whose collation takes texts for equal that are not: `key_folding = "refuse"` or `"allow"`.
        key_folding: KeyFolding,
        /// How long one statement may take, milliseconds.
        request_timeout_ms: u64,
        /// How long to wait for a lock of another session, milliseconds.
        lock_timeout_ms: u64,
    },
}

impl SinkConfig {
    /// The `kind` of the file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ClickHouse { .. } => "clickhouse",
            Self::Sqlite { .. } => "sqlite",
            Self::Postgres { .. } => "postgres",
            Self::MySql { .. } => "mysql",
        }
    }

    /// Where it is, for people: no user, no password.
    pub fn address(&self) -> String {
        match self {
            Self::ClickHouse { url, database, .. } => format!("{url} database {database}"),
            Self::Sqlite { path, .. } => path.display().to_string(),
            Self::Postgres { address, schema, .. } => format!("{address} schema {schema}"),
            Self::MySql { address, .. } => address.to_string(),
        }
    }
}

/// SQLite counts these milliseconds in 31 bits.
const MAX_BUSY_TIMEOUT_MS: u64 = (1 << 31) - 1;

pub(crate) fn check(raw: &raw::Sink, base: &Path) -> Result<SinkConfig, String> {
    if !["clickhouse", "mysql", "postgres", "sqlite"].contains(&raw.kind.as_str()) {
        return Err(format!(
            "[sink] kind = \"{}\" is not known; use \"clickhouse\", \"mysql\" (MariaDB too), \"postgres\" or \"sqlite\"",
            raw.kind
        ));
    }
    if let Some(key) = foreign(raw).first() {
        return Err(format!("[sink] {key} does not belong to kind = \"{}\"; remove it", raw.kind));
    }
    match raw.kind.as_str() {
        "sqlite" => {
            let path = raw.path.as_ref().ok_or("[sink] path is missing: name the database file")?;
            let busy_timeout_ms = raw.busy_timeout_ms.unwrap_or(5_000);
            if busy_timeout_ms > MAX_BUSY_TIMEOUT_MS {
                return Err(format!("[sink] busy_timeout_ms must be at most {MAX_BUSY_TIMEOUT_MS} (24 days)"));
            }
            Ok(SinkConfig::Sqlite { path: base.join(path), busy_timeout_ms })
        }
        "postgres" => postgres(raw, base),
        "mysql" => mysql(raw, base),
        _ => clickhouse(raw),
    }
}

/// Keys that are set and belong to other kinds.
fn foreign(raw: &raw::Sink) -> Vec<&'static str> {
    let keys = [
        ("url", raw.url.is_some(), &["clickhouse", "mysql", "postgres"][..]),
        ("database", raw.database.is_some(), &["clickhouse"]),
        ("user", raw.user.is_some(), &["clickhouse"]),
        ("password", raw.password.is_some(), &["clickhouse", "mysql", "postgres"]),
        ("cluster", raw.cluster.is_some(), &["clickhouse"]),
        ("settings", raw.settings.is_some(), &["clickhouse"]),
        ("request_timeout_ms", raw.request_timeout_ms.is_some(), &["clickhouse", "mysql", "postgres"]),
        ("path", raw.path.is_some(), &["sqlite"]),
        ("busy_timeout_ms", raw.busy_timeout_ms.is_some(), &["sqlite"]),
        ("schema", raw.schema.is_some(), &["postgres"]),
        ("unique", raw.unique.is_some(), &["mysql", "postgres"]),
        ("key_folding", raw.key_folding.is_some(), &["mysql"]),
        ("foreign_keys", raw.foreign_keys.is_some(), &["postgres"]),
        ("lock_timeout_ms", raw.lock_timeout_ms.is_some(), &["mysql", "postgres"]),
        ("tombstone_retention", raw.tombstone_retention.is_some(), &["mysql", "postgres", "sqlite"]),
    ];
    let others = keys.into_iter().filter(|(_, _, kinds)| !kinds.contains(&raw.kind.as_str()));
    named(&others.map(|(key, is_set, _)| (key, is_set)).collect::<Vec<_>>())
}

fn password(raw: &raw::Sink) -> Result<Option<Secret>, String> {
    raw.password.as_deref().map(|text| Secret::read("[sink] password", text)).transpose()
}

fn unique(raw: &raw::Sink) -> Result<Unique, String> {
    let known = [("refuse", Unique::Refuse), ("allow", Unique::Allow)];
    Ok(choice("[sink] unique", raw.unique.as_deref(), &known)?.unwrap_or_default())
}

fn postgres(raw: &raw::Sink, base: &Path) -> Result<SinkConfig, String> {
    let url = raw.url.as_deref().ok_or("[sink] url is missing, as \"postgres://user@host:5432/database\"")?;
    let password = password(raw)?;
    let foreign_keys = [("refuse", ForeignKeys::Refuse), ("off", ForeignKeys::Off)];
    let [request_timeout_ms, lock_timeout_ms] = [
        ("request_timeout_ms", raw.request_timeout_ms.unwrap_or(REQUEST_TIMEOUT_MS)),
        ("lock_timeout_ms", raw.lock_timeout_ms.unwrap_or(LOCK_TIMEOUT_MS)),
    ]
    .map(|(key, value)| match i32::try_from(value) {
        // To PostgreSQL 0 is no bound at all.
        Ok(1..) => Ok(value),
        _ => Err(format!("[sink] {key} must be between 1 and {}", i32::MAX)),
    });
    Ok(SinkConfig::Postgres {
        address: postgres::Address::read(url, password.as_ref(), base)?,
        schema: raw.schema.clone().unwrap_or_else(|| SCHEMA.to_owned()),
        unique: unique(raw)?,
        foreign_keys: choice("[sink] foreign_keys", raw.foreign_keys.as_deref(), &foreign_keys)?.unwrap_or_default(),
        request_timeout_ms: request_timeout_ms?,
        lock_timeout_ms: lock_timeout_ms?,
    })
}

fn clickhouse(raw: &raw::Sink) -> Result<SinkConfig, String> {
    let url = raw.url.clone().ok_or("[sink] url is missing, as \"http://127.0.0.1:8123\"")?;
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err("[sink] url must start with http:// or https:// (Settle speaks ClickHouse's HTTP interface)".into());
    }
    if url.contains('@') {
        return Err("[sink] url must not hold credentials: use user and password = \"env:NAME\"".into());
    }
    let mut settings = BTreeMap::new();
    for (name, value) in raw.settings.iter().flatten() {
        let text = scalar(value).ok_or_else(|| format!("[sink.settings] {name} is neither text, number nor bool"))?;
        settings.insert(name.clone(), text);
    }
    Ok(SinkConfig::ClickHouse {
        url: url.trim_end_matches('/').to_owned(),
        database: raw.database.clone().ok_or("[sink] database is missing")?,
        user: raw.user.clone(),
        password: password(raw)?,
        cluster: raw.cluster.clone(),
        settings,
        request_timeout_ms: raw.request_timeout_ms.unwrap_or(120_000),
    })
}

fn mysql(raw: &raw::Sink, base: &Path) -> Result<SinkConfig, String> {
    let url = raw.url.as_deref().ok_or("[sink] url is missing, as \"mysql://user@host:3306/database\"")?;
    let folding = [("refuse", KeyFolding::Refuse), ("allow", KeyFolding::Allow)];
    let default = MySqlConfig::at(mysql::Address::read(url, password(raw)?.as_ref(), base)?);
    Ok(SinkConfig::MySql {
        unique: unique(raw)?,
        key_folding: choice("[sink] key_folding", raw.key_folding.as_deref(), &folding)?.unwrap_or_default(),
        request_timeout_ms: raw.request_timeout_ms.unwrap_or(default.request_timeout_ms),
        lock_timeout_ms: raw.lock_timeout_ms.unwrap_or(default.lock_timeout_ms),
        address: default.address,
    })
}
