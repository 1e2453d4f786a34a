//! Destinations, one folder each.

pub mod clickhouse;
mod held;
pub mod plan;
pub mod postgres;
#[allow(dead_code, reason = "dialects whose sinks are being built")]
pub(crate) mod sql;
pub mod sqlite;
mod unsent;
