//! Destinations, one folder each.

pub mod clickhouse;
pub mod plan;
pub mod sqlite;
mod unsent;
