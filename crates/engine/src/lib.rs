//! The I/O of Settle: sources, sinks, and the loop between them.

pub mod config;
pub mod sinks;
pub mod source;
