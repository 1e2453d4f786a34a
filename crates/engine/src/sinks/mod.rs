//! Destinations, one folder each.

pub mod clickhouse;
mod held;
pub mod mysql;
pub mod plan;
pub mod postgres;
pub(crate) mod sql;
pub mod sqlite;
pub mod unique;
mod unsent;
