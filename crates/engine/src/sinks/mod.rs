//! Destinations, one folder each.

pub mod clickhouse;
