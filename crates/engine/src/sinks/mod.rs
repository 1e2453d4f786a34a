//! Destinations, one folder each.

pub mod clickhouse;
mod held;
pub mod plan;
pub mod postgres;
pub(crate) mod sql;
pub mod sqlite;
mod unsent;
