//! What the tests stand on: recordings, made-up records, a destination, the truth.

pub mod capture;
pub mod destination;
pub mod line;
#[allow(dead_code, reason = "the unit tests of core use the rest")]
pub mod sample;
pub mod schedule;
pub mod source;
pub mod table;
pub mod truth;
