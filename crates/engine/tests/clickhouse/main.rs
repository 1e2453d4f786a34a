//! The ClickHouse sink against the engine: every test in a database of its own.
#![allow(missing_docs, reason = "tests")]

mod deletes;
mod evolution;
mod failures;
mod names;
mod places;
mod recorder;
mod records;
mod refusals;
mod stage;
mod tables;
mod types;
