//! Why a statement failed, by what can be done about it.

use settle_core::causes::chain;

/// What can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The server is away, or the connection broke: the effect of the last statement is unknown.
    Unreachable,
    /// Another transaction was in the way (deadlock, serialization, lock wait): try it again.
    Conflict,
    /// Another transaction was first with this key.
    Duplicate,
    /// Login or privileges.
    Denied,
    /// Anything else that the server refused.
    Refused,
}

/// A statement that failed, or a session that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{context}: {what}")]
pub struct DatabaseError {
    /// What can be done about it.
    pub kind: FailureKind,
    /// What was being done.
    pub context: String,
    what: String,
}

impl DatabaseError {
    pub(super) fn new(kind: FailureKind, what: impl Into<String>) -> Self {
        Self { kind, context: "database".to_owned(), what: what.into() }
    }

    /// Says what was being done.
    #[must_use]
    pub fn while_doing(mut self, context: impl Into<String>) -> Self {
        self.context = context.into();
        self
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(server) = error.as_db_error() else {
            return Self::new(FailureKind::Unreachable, chain(&error));
        };
        let code = server.code().code();
        let kind = match code {
            "40001" | "40P01" | "55P03" => FailureKind::Conflict,
            "23505" => FailureKind::Duplicate,
            "42501" | "28000" | "28P01" => FailureKind::Denied,
            _ if code.starts_with("08") || code.starts_with("57P") => FailureKind::Unreachable,
            _ => FailureKind::Refused,
        };
        // The message alone: the detail holds values of rows.
        Self::new(kind, format!("{} ({code})", server.message()))
    }
}

impl From<mysql_async::Error> for DatabaseError {
    fn from(error: mysql_async::Error) -> Self {
        let mysql_async::Error::Server(server) = &error else {
            return Self::new(FailureKind::Unreachable, chain(&error));
        };
        let kind = match server.code {
            // 1020: MariaDB's snapshot isolation says so where another transaction was faster.
            1213 | 1205 | 1020 => FailureKind::Conflict,
            // The message holds the key.
            1062 => return Self::new(FailureKind::Duplicate, "the key is there already (1062)"),
            1044 | 1045 | 1142 | 1143 | 1227 | 1698 => FailureKind::Denied,
            1053 | 1927 => FailureKind::Unreachable,
            _ => FailureKind::Refused,
        };
        Self::new(kind, format!("{} ({})", server.message, server.code))
    }
}
