//! A source database as its clients see it: where it is, and one session with it.
//!
//! PostgreSQL, MySQL and MariaDB stand behind one small interface: statements as text, answers as
//! text. Invariant: neither a password nor a row value stands in what is printed of these types.

mod address;
mod failure;
mod quoting;
mod session;

pub use address::{Address, AddressError, Engine};
pub use failure::{DatabaseError, FailureKind};
pub(crate) use quoting::{name, quoted};
pub use session::Session;
