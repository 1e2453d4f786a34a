//! The I/O of Settle: sources, sinks, and the loop between them.

pub mod capture;
pub mod config;
pub mod dead_letter;
pub mod finding;
pub mod kafka;
mod owner;
pub mod pipeline;
pub mod run;
pub mod sampling;
pub mod shutdown;
pub mod sinks;
pub mod source;
pub mod topics;
