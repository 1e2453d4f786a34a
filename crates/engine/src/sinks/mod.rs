//! Destinations, one folder each.

pub mod clickhouse;
mod held;
pub mod mysql;
pub mod plan;
pub(crate) mod sql;
pub mod sqlite;
mod unsent;
