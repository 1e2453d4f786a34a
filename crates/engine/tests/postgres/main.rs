//! PostgreSQL, on the real engine: what may go wrong on the way into a table, and the topics recorded from real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod database;
mod failures;
mod instances;
#[allow(dead_code, reason = "another engine's tests use the rest")]
#[path = "../sqlite/log.rs"]
mod log;
mod lost;
mod recorded;
mod replays;
mod schemas;
mod tables;
mod tls;
mod tombstones;
mod values;
