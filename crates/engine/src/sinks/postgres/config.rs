//! What the sink needs to know of its server.

use super::address::Address;
use crate::sinks::unique::Unique;

/// How long one statement may take, unless told otherwise.
pub(crate) const REQUEST_TIMEOUT_MS: u64 = 120_000;
/// How long a lock of another session is waited for, unless told otherwise.
pub(crate) const LOCK_TIMEOUT_MS: u64 = 30_000;
/// The schema of the target tables, unless told otherwise.
pub(crate) const SCHEMA: &str = "public";

/// What happens to foreign keys of a target table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForeignKeys {
    /// The table is refused: rows of different tables come in any order.
    #[default]
    Refuse,
    /// Settle's sessions do not look at them (`session_replication_role = replica`).
    Off,
}

/// Where the tables are, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresConfig {
    /// Server, database and user.
    pub address: Address,
    /// Schema of the target tables, and of what Settle keeps beside them.
    pub schema: String,
    /// Unique indexes beside the key's.
    pub unique: Unique,
    /// Foreign keys.
    pub foreign_keys: ForeignKeys,
    /// How long one statement may take, milliseconds.
    pub request_timeout_ms: u64,
    /// How long a lock of another session is waited for before the batch is tried again, milliseconds.
    pub lock_timeout_ms: u64,
    /// Consumer group whose positions are kept with the rows.
    pub group: String,
}

impl PostgresConfig {
    /// The schema `public` at `address`, with defaults for the rest.
    pub fn at(address: Address) -> Self {
        Self {
            address,
            schema: SCHEMA.to_owned(),
            unique: Unique::default(),
            foreign_keys: ForeignKeys::default(),
            request_timeout_ms: REQUEST_TIMEOUT_MS,
            lock_timeout_ms: LOCK_TIMEOUT_MS,
            group: "settle".to_owned(),
        }
    }
}
