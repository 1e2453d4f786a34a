//! The tables that Settle keeps of its own in a SQL database.

use super::dialect::Dialect;
use super::{meta, positions};

/// Their names.
pub(crate) const TABLES: [&str; 2] = [meta::TABLE, positions::TABLE];

/// The SQL that makes them; `within` says a table's name as SQL.
pub(crate) fn create(dialect: Dialect, within: impl Fn(&str) -> String) -> [String; 2] {
    [meta::create(dialect, &within(meta::TABLE)), positions::create(dialect, &within(positions::TABLE))]
}
