//! Shop traffic on a source database: for people who want to see Settle at work, and for tests.
//!
//! What is written is a plan, a pure function of a seed; the SQL and the sessions stand at its
//! edge. Invariant: the same seed, one writer and the same number of transactions leave the same
//! tables behind. Several writers have a stream of random numbers and a range of keys each, and
//! meet on shared rows; who of them comes first is up to the server.

mod cell;
pub mod command;
mod goods;
mod hazard;
mod kind;
mod moves;
mod options;
mod plan;
mod report;
mod run;
mod schema;
mod statement;
mod stock;
mod table;
mod writer;

pub use hazard::{Hazard, Hazards};
pub use kind::Kind;
pub use options::Options;
pub use report::Report;
pub use run::{SimulateError, prepare, run};
pub use table::Table;
