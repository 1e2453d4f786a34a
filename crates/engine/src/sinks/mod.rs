//! Destinations, one folder each.

pub mod clickhouse;
pub mod plan;
pub(crate) mod sql;
pub mod sqlite;
mod unsent;
