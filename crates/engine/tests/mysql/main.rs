//! MySQL and MariaDB, on a real MariaDB: what the suite does not ask of every sink, and the topics
//! recorded from real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod check;
mod connections;
mod contents;
mod database;
mod keys;
#[allow(dead_code, reason = "SQLite's tests use the rest")]
#[path = "../sqlite/log.rs"]
mod log;
mod lost;
mod recorded;
mod tables;
mod tombstones;
mod values;
