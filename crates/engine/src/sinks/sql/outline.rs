//! A table of the destination as the shared pieces see it.

use super::dialect::Dialect;

/// What every engine knows of a table.
pub(crate) trait Outline {
    /// As the engine has it.
    fn name(&self) -> &str;

    /// The names of its columns, in order.
    fn columns(&self) -> impl Iterator<Item = &str>;

    /// True where the engine computes the column at this place.
    fn is_generated(&self, at: usize) -> bool;

    /// The place of the column called `name`.
    fn place(&self, dialect: Dialect, name: &str) -> Option<usize> {
        self.columns().position(|column| dialect.same(column, name))
    }

    /// The column called `name`, as the engine has it.
    fn known<'a>(&'a self, dialect: Dialect, name: &str) -> Option<&'a str> {
        self.columns().find(|column| dialect.same(column, name))
    }
}
