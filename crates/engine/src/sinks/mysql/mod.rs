//! MySQL and MariaDB: guarded upserts of many rows, in one transaction a batch.
//!
//! Invariant: a batch is one transaction. Its rows, its tombstones, the truncate floors, the offsets and
//! the floors of `settle_meta` become durable together, and the proof is minted behind `COMMIT`. Every
//! write compares versions inside the statement, and every transaction waits at the lock rows of its
//! partitions first, so a batch may be applied again, in any cut and after any crash, and changes
//! nothing that is newer. DDL, which commits by itself, is done before.

mod address;
mod apply;
mod bind;
mod check;
mod column;
mod config;
mod connection;
mod contents;
mod ddl;
mod document;
mod failure;
mod ident;
mod labels;
mod moved;
mod pieces;
mod prepared;
mod privileges;
mod purge;
mod rows;
pub mod scratch;
mod shape;
mod shown;
mod sink;
mod stored;
mod sweeps;
mod table;
mod validate;

pub use address::Address;
pub use check::{check, create_tables_ddl, own_tables_ddl, places};
pub use config::{KeyFolding, MySqlConfig};
pub use contents::MySqlContents;
pub use sink::MySql;
