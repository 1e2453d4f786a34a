//! Destinations, one folder each.

pub mod finding;
pub mod plan;
pub mod sqlite;
