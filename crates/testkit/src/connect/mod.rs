//! Kafka Connect for tests: configurations of the Debezium connectors, a small REST client, and a worker that may be killed.
//!
//! The shared worker ([`Client::shared`]) is everybody's: a test registers a connector of its own there ([`Connector`]) and never
//! stops the worker. A test that kills one starts its own ([`Worker`]).

mod client;
mod config;
mod worker;

pub use client::{Client, Connector, Refused};
pub use config::Config;
pub use worker::Worker;
