//! The I/O of Settle: sources, sinks, and the loop between them.

pub mod capture;
pub mod check;
pub mod config;
pub mod contents;
pub mod dead_letter;
pub mod epochs;
pub mod finding;
pub mod inspection;
pub mod kafka;
pub mod log;
mod owner;
pub mod pipeline;
pub mod run;
pub mod sampling;
pub mod scan;
pub mod shutdown;
pub mod sinks;
pub mod source;
mod standing;
pub mod topics;
