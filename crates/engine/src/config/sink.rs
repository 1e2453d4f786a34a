//! `[sink]`, checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::source::{named, scalar};
use super::{Secret, raw};

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
}

impl SinkConfig {
    /// The `kind` of the file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ClickHouse { .. } => "clickhouse",
            Self::Sqlite { .. } => "sqlite",
        }
    }

    /// Where it is, for people: no user, no password.
    pub fn address(&self) -> String {
        match self {
            Self::ClickHouse { url, database, .. } => format!("{url} database {database}"),
            Self::Sqlite { path, .. } => path.display().to_string(),
        }
    }
}

/// SQLite counts these milliseconds in 31 bits.
const MAX_BUSY_TIMEOUT_MS: u64 = (1 << 31) - 1;

pub(crate) fn check(raw: &raw::Sink, base: &Path) -> Result<SinkConfig, String> {
    let clickhouse_only = [
        ("url", raw.url.is_some()),
        ("database", raw.database.is_some()),
        ("user", raw.user.is_some()),
        ("password", raw.password.is_some()),
        ("cluster", raw.cluster.is_some()),
        ("settings", raw.settings.is_some()),
        ("request_timeout_ms", raw.request_timeout_ms.is_some()),
    ];
    let sqlite_only = [("path", raw.path.is_some()), ("busy_timeout_ms", raw.busy_timeout_ms.is_some())];
    let foreign = match raw.kind.as_str() {
        "clickhouse" => named(&sqlite_only),
        "sqlite" => named(&clickhouse_only),
        other => return Err(format!("[sink] kind = \"{other}\" is not known; use \"clickhouse\" or \"sqlite\"")),
    };
    if let Some(key) = foreign.first() {
        return Err(format!("[sink] {key} does not belong to kind = \"{}\"; remove it", raw.kind));
    }
    if raw.kind == "sqlite" {
        let path = raw.path.as_ref().ok_or("[sink] path is missing: name the database file")?;
        let busy_timeout_ms = raw.busy_timeout_ms.unwrap_or(5_000);
        if busy_timeout_ms > MAX_BUSY_TIMEOUT_MS {
            return Err(format!("[sink] busy_timeout_ms must be at most {MAX_BUSY_TIMEOUT_MS} (24 days)"));
        }
        return Ok(SinkConfig::Sqlite { path: base.join(path), busy_timeout_ms });
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
        password: raw.password.as_deref().map(|p| Secret::read("[sink] password", p)).transpose()?,
        cluster: raw.cluster.clone(),
        settings,
        request_timeout_ms: raw.request_timeout_ms.unwrap_or(120_000),
    })
}
