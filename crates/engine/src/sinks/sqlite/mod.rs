//! SQLite: a file on this machine, written by one guarded statement a row.
//!
//! Invariant: a batch is one transaction. Its rows, its tombstones, the truncate floors and the
//! floors of `settle_meta` become durable together, and the proof is minted behind `COMMIT`.
//! Every write compares versions inside the statement, so a batch may be applied again, in any cut
//! and after any crash, and changes nothing that is newer.

mod apply;
mod bind;
mod check;
mod column;
mod config;
mod connection;
mod contents;
mod ddl;
mod failure;
mod moment;
mod name;
mod positions;
mod prepared;
mod sample;
pub mod scratch;
mod session;
mod shape;
mod sink;
mod sweeps;
mod table;
mod validate;

pub use check::{check, create_table_ddl, own_tables_ddl, places};
pub use config::SqliteConfig;
pub use contents::SqliteContents;
pub use sink::Sqlite;
