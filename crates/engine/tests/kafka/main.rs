//! The Kafka source against a real broker.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod churn;
mod ends;
mod group;
mod growth;
mod identity;
mod outage;
mod reading;
mod refusals;
mod stage;
mod wire;
