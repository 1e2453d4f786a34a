//! Destinations, one folder each.

pub mod clickhouse;
mod held;
pub mod mysql;
pub mod plan;
#[allow(dead_code, reason = "dialects whose sinks are being built")]
pub(crate) mod sql;
pub mod sqlite;
mod unsent;
