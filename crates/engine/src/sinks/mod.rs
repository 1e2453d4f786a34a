//! Destinations, one folder each.

pub mod clickhouse;
mod held;
pub mod plan;
pub mod sqlite;
mod unsent;
