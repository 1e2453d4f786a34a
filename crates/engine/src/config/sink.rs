//! `[sink]`, checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::source::{choice, scalar};
use super::{Secret, raw};
use crate::sinks::mysql::{Address, KeyFolding, MySqlConfig, Unique};

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
    /// `kind = "mysql"`: MySQL and MariaDB.
    MySql {
        /// Server, database and user: `url` and `password`.
        address: Address,
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
            Self::MySql { .. } => "mysql",
        }
    }

    /// Where it is, for people: no user, no password.
    pub fn address(&self) -> String {
        match self {
            Self::ClickHouse { url, database, .. } => format!("{url} database {database}"),
            Self::Sqlite { path, .. } => path.display().to_string(),
            Self::MySql { address, .. } => address.to_string(),
        }
    }
}

pub(crate) fn check(raw: &raw::Sink, base: &Path) -> Result<SinkConfig, String> {
    if !["clickhouse", "mysql", "sqlite"].contains(&raw.kind.as_str()) {
        let known = "use \"clickhouse\", \"mysql\" (MariaDB too) or \"sqlite\"";
        return Err(format!("[sink] kind = \"{}\" is not known; {known}", raw.kind));
    }
    // Each key with the kinds that it belongs to.
    let keys = [
        ("url", raw.url.is_some(), &["clickhouse", "mysql"][..]),
        ("database", raw.database.is_some(), &["clickhouse"]),
        ("user", raw.user.is_some(), &["clickhouse"]),
        ("password", raw.password.is_some(), &["clickhouse", "mysql"]),
        ("cluster", raw.cluster.is_some(), &["clickhouse"]),
        ("settings", raw.settings.is_some(), &["clickhouse"]),
        ("request_timeout_ms", raw.request_timeout_ms.is_some(), &["clickhouse", "mysql"]),
        ("path", raw.path.is_some(), &["sqlite"]),
        ("busy_timeout_ms", raw.busy_timeout_ms.is_some(), &["sqlite"]),
        ("lock_timeout_ms", raw.lock_timeout_ms.is_some(), &["mysql"]),
        ("unique", raw.unique.is_some(), &["mysql"]),
        ("key_folding", raw.key_folding.is_some(), &["mysql"]),
    ];
    let foreign = keys.iter().find(|(_, is_given, kinds)| *is_given && !kinds.contains(&raw.kind.as_str()));
    if let Some((key, ..)) = foreign {
        return Err(format!("[sink] {key} does not belong to kind = \"{}\"; remove it", raw.kind));
    }
    if raw.kind == "sqlite" {
        let path = raw.path.as_ref().ok_or("[sink] path is missing: name the database file")?;
        return Ok(SinkConfig::Sqlite { path: base.join(path), busy_timeout_ms: raw.busy_timeout_ms.unwrap_or(5_000) });
    }
    let password = raw.password.as_deref().map(|p| Secret::read("[sink] password", p)).transpose()?;
    if raw.kind == "mysql" {
        return mysql(raw, password.as_ref(), base);
    }
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
        password,
        cluster: raw.cluster.clone(),
        settings,
        request_timeout_ms: raw.request_timeout_ms.unwrap_or(120_000),
    })
}

fn mysql(raw: &raw::Sink, password: Option<&Secret>, base: &Path) -> Result<SinkConfig, String> {
    let url = raw.url.as_deref().ok_or("[sink] url is missing, as \"mysql://user@host:3306/database\"")?;
    let unique = [("refuse", Unique::Refuse), ("allow", Unique::Allow)];
    let folding = [("refuse", KeyFolding::Refuse), ("allow", KeyFolding::Allow)];
    let default = MySqlConfig::at(Address::read(url, password, base)?);
    Ok(SinkConfig::MySql {
        unique: choice("[sink] unique", raw.unique.as_deref(), &unique)?.unwrap_or_default(),
        key_folding: choice("[sink] key_folding", raw.key_folding.as_deref(), &folding)?.unwrap_or_default(),
        request_timeout_ms: raw.request_timeout_ms.unwrap_or(default.request_timeout_ms),
        lock_timeout_ms: raw.lock_timeout_ms.unwrap_or(default.lock_timeout_ms),
        address: default.address,
    })
}
