//! Destinations, one folder each.

pub mod clickhouse;
pub mod finding;
pub mod plan;
pub mod sqlite;
