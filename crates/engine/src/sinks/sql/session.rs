//! A transaction as the shared pieces see it: a few statements a batch that are not its rows.

use futures_util::FutureExt;
use settle_core::sink::{BoxFuture, FailureKind, SinkError};

use super::dialect::Dialect;

/// The result of everything in the SQL sinks.
pub(crate) type Outcome<T> = Result<T, SinkError>;

/// What the run stands on does not hold: it stops.
pub(crate) fn contract(operation: impl Into<String>, context: impl Into<String>) -> SinkError {
    SinkError::new(FailureKind::Contract, operation, context)
}

/// A value of Settle's own tables, and of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SqlValue {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// One open transaction. It stands in the database, or schema, of the destination: names of tables
/// are not qualified. Isolation is READ COMMITTED or stronger: a statement sees what was committed
/// before it began.
pub(crate) trait Session {
    /// Its SQL.
    fn dialect(&self) -> Dialect;

    /// Runs a statement; says how many rows it changed. `operation` is what is being done, for errors.
    fn execute<'a>(
        &'a mut self,
        operation: &'a str,
        sql: &'a str,
        values: &'a [SqlValue],
    ) -> BoxFuture<'a, Outcome<u64>>;

    /// Runs a SELECT of BIGINT and text columns.
    fn query<'a>(
        &'a mut self,
        operation: &'a str,
        sql: &'a str,
        values: &'a [SqlValue],
    ) -> BoxFuture<'a, Outcome<Vec<Vec<SqlValue>>>>;
}

/// The answer of a session that never waits.
pub(crate) fn at_once<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    work.now_or_never().unwrap_or_else(|| {
        Err(SinkError::new(FailureKind::Bug, "run a statement", "a session that answers at once did not"))
    })
}

/// The columns of one answered row, of the types that were asked for.
pub(crate) struct Cells<'a> {
    operation: &'a str,
    row: std::vec::IntoIter<SqlValue>,
}

impl<'a> Cells<'a> {
    pub(crate) fn of(operation: &'a str, row: Vec<SqlValue>) -> Self {
        Self { operation, row: row.into_iter() }
    }

    /// The next column, an integer.
    pub(crate) fn int(&mut self) -> Outcome<i64> {
        match self.row.next() {
            Some(SqlValue::Int(number)) => Ok(number),
            _ => Err(self.unexpected("integer")),
        }
    }

    /// The next column, a text.
    pub(crate) fn text(&mut self) -> Outcome<String> {
        match self.row.next() {
            Some(SqlValue::Text(text)) => Ok(text),
            _ => Err(self.unexpected("text")),
        }
    }

    fn unexpected(&self, wanted: &str) -> SinkError {
        contract(
            self.operation,
            format!("a column is no {wanted}, which it is where Settle makes the table; restore it from a backup"),
        )
    }
}
