//! What the sink needs to know of its file.

use std::path::PathBuf;

/// How long another writer is waited for, unless told otherwise.
const BUSY_TIMEOUT_MS: u64 = 5_000;

/// Where the database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteConfig {
    /// Database file; made where it is missing, its folder is not.
    pub path: PathBuf,
    /// How long a batch waits for another writer's lock before it is tried again, milliseconds.
    pub busy_timeout_ms: u64,
    /// Consumer group whose positions are kept with the rows.
    pub group: String,
}

impl SqliteConfig {
    /// The file at `path`, with the default time-out and group.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), busy_timeout_ms: BUSY_TIMEOUT_MS, group: "settle".to_owned() }
    }
}
