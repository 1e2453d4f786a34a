//! A look before a run, and the SQL for who makes tables by hand.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use settle_core::batch::{Batch, TableRows};
use settle_core::sink::SinkError;

use super::config::SqliteConfig;
use super::failure::{During, Outcome, contract};
use super::prepared::prepare;
use super::{connection, ddl, meta, name};
use crate::config::target::{Deletes, Target};
use crate::finding::Finding;
use crate::sinks::plan::Plan;

/// What a run over topics like `sample` would find in the destination. Everything that a run would
/// do before its first row is done in a transaction, and rolled back: nothing changes, and a
/// missing file is not made.
pub fn check(config: &SqliteConfig, target: &Target, sample: &Batch) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = look(config, target, sample, &mut findings) {
        findings.push(Finding::error(error.to_string(), ""));
    }
    findings
}

fn look(config: &SqliteConfig, target: &Target, sample: &Batch, findings: &mut Vec<Finding>) -> Outcome<()> {
    let path = &config.path;
    let operation = || format!("open {}", path.display());
    let mut connection = if path.exists() {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).during(operation)?;
        connection.busy_timeout(std::time::Duration::from_millis(config.busy_timeout_ms)).during(operation)?;
        connection
    } else {
        would_be_made(path)?;
        findings.push(Finding::note(format!("{} does not exist yet and is made", path.display())));
        Connection::open_in_memory().during(operation)?
    };
    let tried = connection.transaction_with_behavior(TransactionBehavior::Immediate).during(operation)?;
    meta::open(&tried)?;
    for rows in sample.tables() {
        let mut own = Vec::new();
        let prepared = prepare(&tried, target, rows, &mut own);
        // The error of a refused table repeats its findings.
        if let Err(error) = prepared
            && !own.iter().any(Finding::is_error)
        {
            own.push(Finding::error(error.to_string(), ""));
        }
        findings.append(&mut own);
    }
    tried.rollback().during(operation)
}

/// Refuses a path at which no file can be made.
fn would_be_made(path: &Path) -> Outcome<()> {
    let operation = || format!("make {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(contract(operation(), format!("the folder {} does not exist; create it", folder.display())));
    }
    let probe = folder.join(format!(".settle-check-{}", std::process::id()));
    let written = std::fs::OpenOptions::new().write(true).create_new(true).open(&probe);
    written.and_then(|_| std::fs::remove_file(&probe)).map_err(|error| {
        let context = format!("no file can be made in {}; give this user write access", folder.display());
        contract(operation(), context).caused_by(error)
    })
}

/// The SQL that a run would make the tables of these rows with: the table, and the one for the
/// versions of its deleted rows.
pub fn create_table_ddl(target: &Target, rows: TableRows<'_>) -> Result<Vec<String>, SinkError> {
    let connection = Connection::open_in_memory().during(|| "open a database in memory".into())?;
    connection::prepare(&connection, &SqliteConfig::at(":memory:")).during(|| "open a database in memory".into())?;
    meta::open(&connection)?;
    let plan = Plan::of(target, rows.table, Deletes::Hard);
    let mut statements = vec![ddl::new_table(&plan, target.evolution, rows)?.sql];
    // Made where it can do no harm, so that the second table follows from what SQLite makes of the first.
    prepare(&connection, &Target { create: true, ..target.clone() }, rows, &mut Vec::new())?;
    let second = "SELECT sql FROM sqlite_schema WHERE name = ?1";
    let mut select = connection.prepare(second).during(|| "read the made tables".into())?;
    let made = select
        .query_map([name::tombstones(&plan.table)], |row| row.get(0))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<String>>>)
        .during(|| "read the made tables".into())?;
    statements.extend(made);
    Ok(statements)
}
