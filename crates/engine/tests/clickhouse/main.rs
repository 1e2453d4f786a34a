//! The ClickHouse sink against the engine: every test in a database of its own.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests: a failure is a panic that says what was expected"
)]

mod deletes;
mod evolution;
mod failures;
mod holds;
mod migration;
mod names;
mod places;
mod recorder;
mod records;
mod refusals;
mod stage;
mod tables;
mod truncates;
mod types;
mod unsent;
