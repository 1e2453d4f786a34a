//! Debezium connectors for Settle: their configuration, and Kafka Connect's REST interface.
//!
//! A configuration is a pure function of what was asked for and of what the database is like.
//! Invariant: a password goes to the worker and to the database, and nowhere else.

pub mod command;
mod configuration;
mod fitness;
mod mysql;
mod name;
mod neighbours;
mod postgres;
mod registration;
mod removal;
mod signal;
mod status;
mod worker;

pub use configuration::{Configuration, Settings};
pub use fitness::{Fitness, Server, inspect};
pub use name::name;
pub use registration::{Manner, Outcome, RegisterError, Registered, prepare, register, wait_running};
pub use removal::{RemovalError, delete, drop_slot};
pub use signal::{SignalError, Snapshot, SnapshotKind, signal, source_of};
pub use status::{Part, Status};
pub use worker::{Worker, WorkerError};
