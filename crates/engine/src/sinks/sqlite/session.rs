//! SQLite as the pieces that all SQL sinks share see it: it answers at once.

use std::future::ready;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use settle_core::sink::{BoxFuture, FailureKind, SinkError};

use super::failure::{During, Outcome};
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::session::{Session, SqlValue};

/// A connection in the midst of a transaction.
pub(super) struct Attached<'c>(pub(super) &'c Connection);

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Session for Attached<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute<'a>(
        &'a mut self,
        operation: &'a str,
        sql: &'a str,
        values: &'a [SqlValue],
    ) -> BoxFuture<'a, Outcome<u64>> {
        let changed = self.0.prepare_cached(sql).and_then(|mut statement| statement.execute(params_from_iter(values)));
        Box::pin(ready(changed.map(|rows| rows as u64).during(|| operation.to_owned())))
    }

    fn query<'a>(
        &'a mut self,
        operation: &'a str,
        sql: &'a str,
        values: &'a [SqlValue],
    ) -> BoxFuture<'a, Outcome<Vec<Vec<SqlValue>>>> {
        Box::pin(ready(self.rows(operation, sql, values)))
    }
}

impl Attached<'_> {
    fn rows(&self, operation: &str, sql: &str, values: &[SqlValue]) -> Outcome<Vec<Vec<SqlValue>>> {
        let during = || operation.to_owned();
        let mut select = self.0.prepare_cached(sql).during(during)?;
        let width = select.column_count();
        let mut rows = select.query(params_from_iter(values)).during(during)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().during(during)? {
            let cell = |at| match row.get::<_, Value>(at).during(during)? {
                Value::Null => Ok(SqlValue::Null),
                Value::Integer(number) => Ok(SqlValue::Int(number)),
                Value::Text(text) => Ok(SqlValue::Text(text)),
                Value::Blob(bytes) => Ok(SqlValue::Bytes(bytes)),
                Value::Real(_) => {
                    Err(SinkError::new(FailureKind::Contract, operation, "a float where none was written"))
                }
            };
            found.push((0..width).map(cell).collect::<Outcome<_>>()?);
        }
        Ok(found)
    }
}
