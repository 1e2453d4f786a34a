//! The test kit against the services themselves.

mod clickhouse;
mod connect;
mod database;
mod kafka;
mod proxy;
mod wire;
