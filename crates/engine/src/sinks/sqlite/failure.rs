//! SQLite's errors as the one error of sinks.

use rusqlite::ErrorCode;
use rusqlite::ffi;
use settle_core::sink::{FailureKind, SinkError};

pub(super) use crate::sinks::sql::session::{Outcome, contract};

/// Names what was being done when SQLite refused.
pub(super) trait During<T> {
    /// `operation` is what was being done, as `write to "orders"`.
    fn during(self, operation: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T> During<T> for rusqlite::Result<T> {
    fn during(self, operation: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| of(error, operation()))
    }
}

/// Sorts an error of SQLite by what must be done about it.
pub(super) fn of(error: rusqlite::Error, operation: String) -> SinkError {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(code, message) => (code, message.unwrap_or_default()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error, msg),
        other => {
            return SinkError::new(FailureKind::Bug, operation, "SQLite's answer was not of the expected form")
                .caused_by(other);
        }
    };
    let (kind, context) = sorted(code, &message);
    // The code alone: it says which call failed, and cannot hold a value.
    SinkError::new(kind, operation, context).caused_by(code)
}

fn sorted(error: ffi::Error, message: &str) -> (FailureKind, String) {
    let told = |hint: &str| if message.is_empty() { hint.to_owned() } else { format!("{message}; {hint}") };
    match error.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => (
            FailureKind::Overloaded,
            "another connection holds the database's write lock; it is tried again until the lock is free".into(),
        ),
        ErrorCode::DiskFull => (FailureKind::NotWritable, "the disk is full; make room".into()),
        ErrorCode::ReadOnly => (
            FailureKind::NotWritable,
            "the database is read-only; give this user write access to the file and its folder".into(),
        ),
        ErrorCode::SystemIoFailure => (FailureKind::NotWritable, told("look at the disk")),
        ErrorCode::OutOfMemory => (FailureKind::Overloaded, "SQLite found no memory; make [batch] smaller".into()),
        ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
            (FailureKind::Denied, told("give this user access to the file and its folder"))
        }
        ErrorCode::CannotOpen => {
            (FailureKind::Denied, "the file cannot be opened; give this user access to the file and its folder".into())
        }
        // A STRICT table's column that takes no value of this type.
        ErrorCode::ConstraintViolation if error.extended_code == ffi::SQLITE_CONSTRAINT_DATATYPE => {
            (FailureKind::Row, message.to_owned())
        }
        ErrorCode::ConstraintViolation => (FailureKind::Constraint, constraint(error.extended_code, message)),
        ErrorCode::TypeMismatch => {
            (FailureKind::Row, "the key is no integer, but the table's INTEGER PRIMARY KEY takes nothing else".into())
        }
        ErrorCode::TooBig => (FailureKind::Row, "a value is larger than SQLite takes (1 GB)".into()),
        ErrorCode::DatabaseCorrupt => {
            (FailureKind::Contract, told("the database is damaged; restore it, then replay the topics from its place"))
        }
        ErrorCode::NotADatabase => {
            (FailureKind::Contract, "the file is not a SQLite database; name another file in [sink] path".into())
        }
        ErrorCode::ApiMisuse | ErrorCode::ParameterOutOfRange | ErrorCode::InternalMalfunction => {
            (FailureKind::Bug, message.to_owned())
        }
        ErrorCode::OperationAborted | ErrorCode::OperationInterrupted => (FailureKind::Conflict, message.to_owned()),
        _ => (FailureKind::Contract, told("see that the tables are as the run found them")),
    }
}

/// What a constraint says of itself: names of tables and columns. The text of a trigger's RAISE is
/// the user's and may hold values: it is left out.
fn constraint(extended: i32, message: &str) -> String {
    match extended {
        ffi::SQLITE_CONSTRAINT_TRIGGER => "a trigger of the table refused the row".into(),
        _ => message.to_owned(),
    }
}

/// True where the connection must not be used again: what it holds in memory may differ from the file.
pub(super) fn is_connection_lost(error: &SinkError) -> bool {
    matches!(error.kind, FailureKind::NotWritable | FailureKind::Denied | FailureKind::Unreachable | FailureKind::Bug)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Error::SqliteFailure;

    #[test]
    fn every_code_has_the_kind_that_says_what_to_do() {
        let kind = |code| of(SqliteFailure(ffi::Error::new(code), None), "write".into()).kind;
        for (code, wanted) in [
            (ffi::SQLITE_BUSY, FailureKind::Overloaded),
            (ffi::SQLITE_LOCKED, FailureKind::Overloaded),
            (ffi::SQLITE_NOMEM, FailureKind::Overloaded),
            (ffi::SQLITE_FULL, FailureKind::NotWritable),
            (ffi::SQLITE_READONLY, FailureKind::NotWritable),
            (ffi::SQLITE_IOERR, FailureKind::NotWritable),
            (ffi::SQLITE_PERM, FailureKind::Denied),
            (ffi::SQLITE_CANTOPEN, FailureKind::Denied),
            (ffi::SQLITE_CONSTRAINT, FailureKind::Constraint),
            (ffi::SQLITE_CONSTRAINT_DATATYPE, FailureKind::Row),
            (ffi::SQLITE_MISMATCH, FailureKind::Row),
            (ffi::SQLITE_TOOBIG, FailureKind::Row),
            (ffi::SQLITE_CORRUPT, FailureKind::Contract),
            (ffi::SQLITE_NOTADB, FailureKind::Contract),
            (ffi::SQLITE_ERROR, FailureKind::Contract),
            (ffi::SQLITE_INTERRUPT, FailureKind::Conflict),
            (ffi::SQLITE_MISUSE, FailureKind::Bug),
        ] {
            assert_eq!(kind(code), wanted, "{code}");
        }
    }

    #[test]
    fn what_a_trigger_says_is_not_repeated() {
        let raised = SqliteFailure(ffi::Error::new(ffi::SQLITE_CONSTRAINT_TRIGGER), Some("secret value".into()));
        let error = of(raised, "write to \"t\"".into());
        assert_eq!(error.to_string(), "write to \"t\": a trigger of the table refused the row");
        assert!(!format!("{error:?}").contains("secret"));
    }
}
