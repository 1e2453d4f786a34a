//! PostgreSQL's errors as the one error of sinks, by their SQLSTATE.
//!
//! Invariant: nothing of a row gets into an error. DETAIL and CONTEXT hold rows, and so do the
//! messages of data exceptions and of users' triggers: for those the text is ours, with the names
//! that the server sends apart.

use std::error::Error as _;

use settle_core::sink::{Effect, FailureKind, SinkError};

/// The result of everything in this sink.
pub(super) type Outcome<T> = Result<T, SinkError>;

/// What the run stands on does not hold: it stops.
pub(super) fn contract(operation: impl Into<String>, context: impl Into<String>) -> SinkError {
    SinkError::new(FailureKind::Contract, operation, context)
}

/// Names what was being done when PostgreSQL refused.
pub(super) trait During<T> {
    /// `operation` is what was being done, as `write to "orders"`.
    fn during(self, operation: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T> During<T> for Result<T, tokio_postgres::Error> {
    fn during(self, operation: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| of(error, operation()))
    }
}

/// Sorts an error by what must be done about it.
pub(super) fn of(error: tokio_postgres::Error, operation: String) -> SinkError {
    let Some(server) = error.as_db_error() else { return of_client(error, operation) };
    let (kind, context) = sorted(server.code().code(), server.message(), [server.column(), server.constraint()]);
    SinkError::new(kind, operation, context).caused_by(State(server.code().code().to_owned()))
}

/// The SQLSTATE alone: the rest of an error may hold a row.
#[derive(Debug, thiserror::Error)]
#[error("SQLSTATE {0}")]
pub(super) struct State(String);

/// What the client says: the connection, or what came over it.
fn of_client(error: tokio_postgres::Error, operation: String) -> SinkError {
    let cause = error.source();
    let io = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
    // Of several hosts none can be written.
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::PermissionDenied && io.raw_os_error().is_none()) {
        let context = "no host of [sink] url takes writes now; it is tried again until one does";
        return SinkError::new(FailureKind::NotWritable, operation, context);
    }
    let text = error.to_string();
    let kind = match () {
        () if text.starts_with("authentication error") => FailureKind::Denied,
        () if text.starts_with("error serializing") || text.starts_with("error deserializing") => FailureKind::Bug,
        () if text.starts_with("error encoding") || text.starts_with("query returned") => FailureKind::Bug,
        () if text.starts_with("invalid co") => FailureKind::Contract,
        () => FailureKind::Unreachable,
    };
    SinkError::new(kind, operation, if error.is_closed() { "the connection is lost".to_owned() } else { text.clone() })
        .caused_by(error)
}

/// `names` are those that the server sends apart: the column and the constraint at fault.
fn sorted(code: &str, message: &str, names: [Option<&str>; 2]) -> (FailureKind, String) {
    use FailureKind::{Bug, Conflict, Constraint, Contract, Denied, NotWritable, Overloaded, Row, Unreachable};
    let [column, constraint] = names.map(|name| name.map_or("of the table".to_owned(), |name| format!("\"{name}\"")));
    let told = |hint: &str| format!("{message}; {hint}");
    match code {
        "40001" | "40P01" | "40002" | "40003" => (Conflict, message.to_owned()),
        "23502" => (Constraint, format!("the column {column} is NOT NULL, and the row has no value for it")),
        "23503" => (Constraint, format!("the foreign key {constraint} refuses the row")),
        "23505" => (Constraint, format!("another row has its value in the unique index {constraint}")),
        "23514" => (Constraint, format!("the check constraint {constraint} refuses the row")),
        "23P01" => (Constraint, format!("the exclusion constraint {constraint} refuses the row")),
        // What a trigger says is its author's and may hold values.
        "44000" => (Constraint, REFUSED.into()),
        _ if code.starts_with("23") || code.starts_with("P0") || code.starts_with("09") => (Constraint, REFUSED.into()),
        "22P05" | "22021" => (
            Row,
            "a text has a character that the database cannot hold (\\u0000, or one outside of its encoding); mend it at \
             the source, or let the connector replace it"
                .into(),
        ),
        "22001" => (Row, "a text is longer than its column allows".into()),
        "22003" => (Row, "a number is out of the range of its column".into()),
        "22008" => (Row, "a date or time is out of the range of its column".into()),
        "22P02" | "22P03" | "22007" => (Row, "a text is no value of its column's type".into()),
        _ if code.starts_with("22") => (Row, "a value does not fit its column".into()),
        "54000" => (Row, "the row, or its key, is larger than a page or an index entry of PostgreSQL may be".into()),
        "42622" => (Row, "a text is longer than the type name holds (63 bytes)".into()),
        "21000" => (
            Contract,
            "two keys that the source tells apart are one to the table; give its key columns the types of the source"
                .into(),
        ),
        "25006" => (NotWritable, "the server is read-only now (a standby, or default_transaction_read_only)".into()),
        "53100" => (NotWritable, told("make room on the server's disk")),
        "58030" => (NotWritable, told("look at the server's disk")),
        "53200" => (Overloaded, told("make [batch] smaller, or give the server memory")),
        _ if code.starts_with("53") => (Overloaded, message.to_owned()),
        "55P03" => (
            Overloaded,
            "another session holds a lock for longer than lock_timeout_ms; it is tried again until the lock is free"
                .into(),
        ),
        "57014" => (
            Overloaded,
            "a statement took longer than request_timeout_ms, or was cancelled; make [batch] smaller if that goes on"
                .into(),
        ),
        "25P04" => (Overloaded, told("raise transaction_timeout for this user, or make [batch] smaller")),
        "55006" => (Overloaded, message.to_owned()),
        "28000" | "28P01" => (Denied, told("see user and password of [sink]")),
        "42501" => (Denied, told("give this user the privilege")),
        // Another instance made the same table at the same time.
        "42P07" | "42P06" | "42701" => (Conflict, message.to_owned()),
        // No table has it: one would have been found.
        "42710" => (Contract, told("drop that, or give the table another name: [tables.\"…\"] name")),
        "3D000" => (Contract, told("create it, or name another in [sink] url")),
        "3F000" => (Contract, told("create it, or name another: [sink] schema")),
        "57P04" => (Contract, told("name another in [sink] url")),
        "25P03" => (Unreachable, message.to_owned()),
        _ if code.starts_with("08") || code.starts_with("57P") => (Unreachable, message.to_owned()),
        "XX001" | "XX002" => (Contract, told("restore the database, then replay the topics from its place")),
        _ if code.starts_with("25") || code.starts_with("26") || code.starts_with("34") => (Bug, message.to_owned()),
        _ => (Contract, told("see that the tables are as the run found them")),
    }
}

const REFUSED: &str = "a constraint or a trigger of the table refuses the row";

/// Where in the rows that were copied the server stopped, from 1, and the column: CONTEXT ends with
/// `COPY name, line 3, column x`, whatever the language. Nothing behind is read: a value may stand there.
pub(super) fn of_copy(error: &tokio_postgres::Error) -> Option<(usize, Option<String>)> {
    place_in_copy(error.as_db_error()?.where_()?)
}

fn place_in_copy(context: &str) -> Option<(usize, Option<String>)> {
    let copy = context.lines().rev().find_map(|line| line.strip_prefix("COPY "))?;
    let mut parts = copy.splitn(3, ", ").skip(1);
    let line: String = parts.next()?.chars().filter(char::is_ascii_digit).collect();
    let column = parts.next().and_then(|column| column.split([' ', ':']).nth(1)).map(str::to_owned);
    line.parse().ok().map(|line| (line, column))
}

/// True where the server itself said no, and goes on: nothing of the statement has happened.
pub(super) fn is_refusal(error: &SinkError) -> bool {
    error.source.as_ref().and_then(|cause| cause.downcast_ref::<State>()).is_some_and(|State(code)| {
        // A session that is ended while it commits may have committed.
        !code.starts_with("57P") && !code.starts_with("08") && !code.starts_with("XX")
    })
}

/// True where the connection must not be used again.
pub(super) fn is_connection_lost(error: &SinkError) -> bool {
    error.effect == Effect::Unknown
        || matches!(
            error.kind,
            FailureKind::NotWritable | FailureKind::Denied | FailureKind::Unreachable | FailureKind::Bug
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_the_kind_that_says_what_to_do() {
        use FailureKind as K;
        for (code, wanted) in [
            ("08006", K::Unreachable),
            ("57P01", K::Unreachable),
            ("57P02", K::Unreachable),
            ("57P03", K::Unreachable),
            ("25P03", K::Unreachable),
            ("28P01", K::Denied),
            ("42501", K::Denied),
            ("25006", K::NotWritable),
            ("53100", K::NotWritable),
            ("53300", K::Overloaded),
            ("53200", K::Overloaded),
            ("55P03", K::Overloaded),
            ("57014", K::Overloaded),
            ("40001", K::Conflict),
            ("40P01", K::Conflict),
            ("42P07", K::Conflict),
            ("42710", K::Contract),
            ("22003", K::Row),
            ("22P05", K::Row),
            ("2200N", K::Row),
            ("54000", K::Row),
            ("23505", K::Constraint),
            ("23001", K::Constraint),
            ("P0001", K::Constraint),
            ("42P01", K::Contract),
            ("3D000", K::Contract),
            ("21000", K::Contract),
            ("XX001", K::Contract),
            ("25P02", K::Bug),
            ("99999", K::Contract),
        ] {
            assert_eq!(sorted(code, "", [None; 2]).0, wanted, "{code}");
        }
    }

    #[test]
    fn what_may_hold_a_value_is_not_repeated() {
        for code in ["22P02", "22003", "22007", "22021", "22P05", "22999", "23505", "23514", "P0001", "44000", "54000"]
        {
            let (_, context) = sorted(code, "invalid input: \"s3cret\"", [Some("c"), Some("k")]);
            assert!(!context.contains("s3cret"), "{code}: {context}");
        }
    }

    #[test]
    fn the_place_in_a_copy_is_found_and_no_value() {
        let place = |context| place_in_copy(context);
        assert_eq!(place("COPY stage, line 3, column c7: \"a, b\""), Some((3, Some("c7".into()))));
        assert_eq!(place("COPY stage, Zeile 12, Spalte c7"), Some((12, Some("c7".into()))));
        assert_eq!(place("COPY stage, line 1: \"x, 5\"\nPL/pgSQL function f() line 3"), Some((1, None)));
        assert_eq!(place("JSON data, line 1: x\nCOPY stage, line 2, column c1: \"x\""), Some((2, Some("c1".into()))));
        assert_eq!(place("SQL statement \"COPY x\""), None);
    }
}
