//! SQLite, on the real engine: what may go wrong on the way into a table, and the topics recorded from real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod check;
mod database;
mod evolution;
mod fence;
mod holds;
mod key_changes;
mod locks;
mod log;
mod lost;
mod places;
mod recorded;
mod replays;
mod tables;
mod tombstones;
mod truncates;
mod unavailable;
mod values;
