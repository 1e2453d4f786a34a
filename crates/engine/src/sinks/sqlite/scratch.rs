//! What a proof makes and leaves: a database of its own beside the live one, and no trace in that.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use settle_core::sink::{FailureKind, SinkError};

use super::config::SqliteConfig;
use super::failure::During;
use super::session::Attached;
use super::table;
use crate::sinks::sql::positions;
use crate::sinks::sql::session::at_once;

const POSITIONS: &str = "settle_positions";

/// Removes what a group left in `settle_positions`: for a group that was made for one pass.
pub fn forget_group(config: &SqliteConfig, group: &str) -> Result<(), SinkError> {
    let operation = || format!("forget the group {group} in {}", config.path.display());
    if !config.path.exists() {
        return Ok(());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&config.path, flags).during(operation)?;
    connection.busy_timeout(Duration::from_millis(config.busy_timeout_ms)).during(operation)?;
    if table::describe(&connection, POSITIONS, |_| None)?.is_some() {
        at_once(positions::forget(&mut Attached(&connection), group))?;
    }
    Ok(())
}

/// A database file that holds the same tables without rows, and the same `settle_meta`: where the
/// log can be applied anew and compared. `path` must not exist yet.
pub fn make(from: &SqliteConfig, path: &Path) -> Result<(), SinkError> {
    let operation = || format!("lay out {}", path.display());
    let scratch = Connection::open(path).during(operation)?;
    if !from.path.exists() {
        return Ok(());
    }
    let source = from
        .path
        .to_str()
        .ok_or_else(|| SinkError::new(FailureKind::Contract, operation(), "the path of the database is not UTF-8"))?;
    scratch.execute("ATTACH DATABASE ?1 AS live", [source]).during(operation)?;
    // Tables before the indexes on them. Triggers and views are the user's own and change no row
    // that Settle writes; virtual tables and their shadows are never targets.
    let sql = "SELECT sql FROM live.sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND upper(sql) NOT LIKE 'CREATE VIRTUAL%' AND name <> 'settle_positions' \
         ORDER BY type = 'index'";
    let statements: Vec<String> = scratch
        .prepare(sql)
        .and_then(|mut select| select.query_map([], |row| row.get(0))?.collect())
        .during(operation)?;
    for statement in &statements {
        scratch.execute_batch(statement).during(operation)?;
    }
    let had_meta = scratch
        .prepare("SELECT 1 FROM live.sqlite_schema WHERE name = 'settle_meta'")
        .and_then(|mut select| select.exists([]))
        .during(operation)?;
    if had_meta {
        scratch.execute_batch("INSERT INTO main.settle_meta SELECT * FROM live.settle_meta").during(operation)?;
    }
    scratch.execute_batch("DETACH DATABASE live").during(operation)
}
