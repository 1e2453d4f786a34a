//! The columns that Settle adds to a target table.

use settle_core::sink::SinkError;

use super::dialect::Dialect;
use super::outline::Outline;
use super::session::contract;
use crate::config::target::Deletes;
use crate::sinks::plan::Plan;

/// A column that Settle adds to a table.
#[derive(Clone, Debug)]
pub(crate) struct Added {
    dialect: Dialect,
    pub(crate) name: String,
    kind: &'static str,
}

impl Added {
    /// As it stands in a table's definition.
    pub(crate) fn sql(&self) -> String {
        format!("{} {}", self.dialect.quoted(&self.name), self.kind)
    }
}

/// The columns that Settle adds.
pub(crate) fn columns(dialect: Dialect, plan: &Plan) -> Vec<Added> {
    let [op, time, half, flag] = match dialect {
        Dialect::Sqlite => ["TEXT", "INTEGER", "INTEGER NOT NULL DEFAULT 0", "INTEGER NOT NULL DEFAULT 0"],
        Dialect::Postgres => ["text", "bigint", "bigint NOT NULL DEFAULT 0", "boolean NOT NULL DEFAULT false"],
        Dialect::MySql => {
            ["VARCHAR(1) NULL", "BIGINT NULL", "BIGINT NOT NULL DEFAULT 0", "TINYINT(1) NOT NULL DEFAULT 0"]
        }
    };
    let column = |name: String, kind| Added { dialect, name, kind };
    let mut columns = vec![
        column(plan.meta.op.clone(), op),
        column(plan.meta.source_ts_ms.clone(), time),
        column(plan.version_hi(), half),
        column(plan.version_lo(), half),
    ];
    if plan.deletes == Deletes::Soft {
        columns.push(column(plan.meta.is_deleted.clone(), flag));
    }
    columns
}

/// The statements that add those which the table lacks; `target` is its name as SQL.
pub(crate) fn missing(dialect: Dialect, plan: &Plan, table: &impl Outline, target: &str) -> Vec<String> {
    let missing = columns(dialect, plan).into_iter().filter(|added| table.known(dialect, &added.name).is_none());
    missing.map(|added| format!("ALTER TABLE {target} ADD COLUMN {}", added.sql())).collect()
}

/// A column of the source that has the name of one that Settle adds.
pub(crate) fn taken(operation: &str, column: &str) -> SinkError {
    contract(
        operation,
        format!(
            "the source has a column \"{column}\", and Settle adds one of that name; rename the source's \
             ([tables.\"…\"] rename) or Settle's ([sink.meta])"
        ),
    )
}
