//! PostgreSQL: rows staged by binary COPY, then one guarded upsert and one guarded delete a table.
//!
//! Invariant: a batch is one transaction. Its rows, its tombstones, what `settle_meta` says of the log
//! and the group's positions become durable together, and the proof is minted behind a COMMIT that is
//! known to have committed. Every write compares versions inside its statement, behind the lock rows of
//! the batch's partitions, so a batch may be applied again, in any cut and after any crash, and changes
//! nothing that is newer.

mod address;
mod apply;
mod check;
mod column;
mod config;
mod connection;
mod contents;
mod ddl;
mod encode;
mod failure;
mod layout;
mod moment;
mod moved;
mod numeric;
mod own;
mod prepared;
mod purge;
mod rows;
pub mod scratch;
mod sink;
mod stage;
mod statements;
mod sweep;
mod table;
mod tls;
mod transaction;
mod validate;

pub use address::{Address, TlsFiles, Trust};
pub use check::{check, create_table_ddl, own_tables_ddl, places};
pub use config::{ForeignKeys, PostgresConfig};
pub(crate) use config::{LOCK_TIMEOUT_MS, REQUEST_TIMEOUT_MS, SCHEMA};
pub use contents::PostgresContents;
pub use sink::Postgres;
