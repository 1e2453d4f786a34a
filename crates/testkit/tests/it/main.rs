//! The test kit against the services themselves.

mod clickhouse;
mod kafka;
mod proxy;
