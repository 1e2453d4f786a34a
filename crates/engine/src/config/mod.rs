//! The configuration: one TOML file is one pipeline.

pub mod target;

pub use target::{Deletes, Evolution, MetaNames, TableRule, Target};
