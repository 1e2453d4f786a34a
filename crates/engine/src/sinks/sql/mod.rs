//! What the sinks that speak SQL share: the places of the log in the destination and the fence,
//! each written once.
//!
//! Invariant: everything here happens in the transaction of the [`session::Session`] that it is
//! given, which the sink began and commits: what is recorded of the log becomes durable with the
//! rows that it goes with, or not at all. The order in a transaction is one, so that two of them
//! wait for each other instead of dying: the lock rows of partitions ([`positions`]), the tables
//! ([`claims`]), then rows.

pub(crate) mod added;
pub(crate) mod claims;
pub(crate) mod dialect;
pub(crate) mod fields;
pub(crate) mod filled;
pub(crate) mod findings;
pub(crate) mod holds;
pub(crate) mod keyed;
pub(crate) mod meta;
pub(crate) mod outline;
pub(crate) mod own;
pub(crate) mod places;
pub(crate) mod positions;
pub(crate) mod session;
pub(crate) mod standings;
pub(crate) mod sweeps;
pub(crate) mod tombstones;
pub(crate) mod versioned;
