//! What the sink needs to know of its server.

use super::address::Address;
use crate::sinks::unique::Unique;

/// How long one statement may take, unless told otherwise.
pub(crate) const REQUEST_TIMEOUT_MS: u64 = 120_000;
/// How long a lock of another session is waited for, unless told otherwise.
pub(crate) const LOCK_TIMEOUT_MS: u64 = 30_000;

/// What happens to a key whose columns take texts for equal that are not the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFolding {
    /// The table is refused.
    #[default]
    Refuse,
    /// It is taken: the source's key folds in the same way, so that it has no two such keys.
    Allow,
}

/// Where the tables are, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MySqlConfig {
    /// Server, database and user.
    pub address: Address,
    /// Unique indexes beside the key's.
    pub unique: Unique,
    /// Keys that compare by a collation.
    pub key_folding: KeyFolding,
    /// How long one statement may take, milliseconds.
    pub request_timeout_ms: u64,
    /// How long a lock of another session is waited for before the batch is tried again, milliseconds:
    /// MySQL counts in seconds.
    pub lock_timeout_ms: u64,
    /// Consumer group whose positions are kept with the rows.
    pub group: String,
}

impl MySqlConfig {
    /// The database at `address`, with defaults for the rest.
    pub fn at(address: Address) -> Self {
        Self {
            address,
            unique: Unique::default(),
            key_folding: KeyFolding::default(),
            request_timeout_ms: REQUEST_TIMEOUT_MS,
            lock_timeout_ms: LOCK_TIMEOUT_MS,
            group: "settle".to_owned(),
        }
    }
}
