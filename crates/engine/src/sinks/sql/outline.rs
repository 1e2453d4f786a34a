//! A table of the destination as the shared pieces see it.

use super::dialect::Dialect;

/// What every engine knows of a table.
pub(crate) trait Outline {
    /// As the engine has it.
    fn name(&self) -> &str;

    /// The names of its columns, in order.
    fn columns(&self) -> impl Iterator<Item = &str>;

    /// The column called `name`, as the engine has it.
    fn known<'a>(&'a self, dialect: Dialect, name: &str) -> Option<&'a str> {
        self.columns().find(|column| dialect.same(column, name))
    }
}
