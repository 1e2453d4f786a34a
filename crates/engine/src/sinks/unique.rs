//! Unique indexes beside the key's, in databases that check them statement by statement.

/// What happens to a table that has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unique {
    /// It is refused: rows come in an order in which two may hold a value for a while.
    #[default]
    Refuse,
    /// It is taken, and a row that breaks it is refused by the server.
    Allow,
}
