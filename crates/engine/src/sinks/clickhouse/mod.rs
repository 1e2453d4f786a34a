//! ClickHouse over HTTP: Arrow blocks into `ReplacingMergeTree(_version, _is_deleted)`.
//!
//! Rows are only ever inserted. The version decides which row of a key is seen: through FINAL and
//! the `_current` view at once, in the parts after merges. Deletes are rows too (markers), so a
//! late older row cannot resurrect what was deleted.
//!
//! Rooms: `sink` says what is done in which order; `server` is the server with its database,
//! `destination` the target tables, `meta` the places in the log; `rows` and `apply` bring a batch
//! into blocks, `encode` and `buffer` blocks into bytes; `client` and `failure` speak HTTP.

mod apply;
mod buffer;
mod check;
mod client;
mod column_type;
mod config;
mod contents;
mod ddl;
mod definition;
mod destination;
mod encode;
mod failure;
mod filled;
mod holds;
mod meta;
mod migration;
mod names;
mod naming;
mod privileges;
mod row_binary;
mod rows;
mod scan;
pub mod scratch;
mod server;
mod sink;
mod standings;
mod stored;
mod sweeps;
mod table;
mod trial;
mod truncates;
mod validate;

pub use check::CheckedTable;
pub use config::ClickHouseConfig;
pub use contents::ClickHouseContents;
pub use ddl::{CreateTable, create_table_ddl, own_ddl};
pub use definition::{Columns, table_ddl};
pub use sink::ClickHouse;
