//! A look before a run, and the SQL for who makes tables by hand.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use settle_core::batch::TableRows;
use settle_core::position::{Partition, TopicId};
use settle_core::sink::{FailureKind, PlacedPartition, Places, SinkError};

use super::apply::{self, State};
use super::config::SqliteConfig;
use super::failure::{During, Outcome, contract};
use super::prepared::prepare;
use super::session::Attached;
use super::sink::make_own;
use super::{connection, ddl, name};
use crate::check::can_be_made;
use crate::config::target::{Deletes, Target};
use crate::finding::{Cause, Finding};
use crate::sampling::Sample;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::positions::Fence;
use crate::sinks::sql::session::at_once;
use crate::sinks::sql::tombstones::{Purges, create_index};
use crate::sinks::sql::{own, places};

/// What a run over topics like `sample` would find in the destination. Everything that a run would do
/// is done in a transaction, and rolled back: nothing changes, and a missing file is not made.
pub fn check(config: &SqliteConfig, target: &Target, sample: &Sample, parts: &[PlacedPartition]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = look(config, target, sample, parts, &mut findings) {
        findings.push(match error.kind {
            FailureKind::Overloaded => Finding::error(
                format!(
                    "another connection holds the write lock of {}, so it could not be looked at",
                    config.path.display()
                ),
                "check again when the lock is free; a run waits for it",
            )
            .because(Cause::SinkAway),
            _ => Finding::of_sink(&error),
        });
    }
    findings
}

/// What the destination knows of the places, without changing anything.
pub fn places(config: &SqliteConfig, target: &Target, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
    let mut connection = opened(config, &mut Vec::new())?;
    let operation = || format!("look at {}", config.path.display());
    let tried = connection.transaction_with_behavior(TransactionBehavior::Immediate).during(operation)?;
    make_own(&tried)?;
    let places = at_once(places::read(&mut Attached(&tried), &config.group, target, parts))?;
    tried.rollback().during(operation)?;
    Ok(places)
}

fn look(
    config: &SqliteConfig,
    target: &Target,
    sample: &Sample,
    parts: &[PlacedPartition],
    findings: &mut Vec<Finding>,
) -> Outcome<()> {
    let mut connection = opened(config, findings)?;
    let operation = || format!("look at {}", config.path.display());
    let tried = connection.transaction_with_behavior(TransactionBehavior::Immediate).during(operation)?;
    make_own(&tried)?;
    let before = findings.len();
    let mut state = state(&tried, config, target, sample, parts)?;
    for rows in sample.batch.tables() {
        let mut own = Vec::new();
        match prepare(&tried, target, rows, false, &mut own) {
            Ok(prepared) => {
                state.tables.insert(rows.table.clone(), prepared);
            }
            // The error of a refused table repeats its findings.
            Err(error) if !own.iter().any(Finding::is_error) => own.push(Finding::of_sink(&error)),
            Err(_) => {}
        }
        findings.append(&mut own);
    }
    if !findings[before..].iter().any(Finding::is_error)
        && let Err(error) = apply::apply(&tried, &mut state, &sample.complete)
    {
        findings.push(Finding::of_sink(&error));
    }
    tried.rollback().during(operation)
}

/// The database, or one in memory where there is none yet and could be one.
fn opened(config: &SqliteConfig, findings: &mut Vec<Finding>) -> Outcome<Connection> {
    let path = &config.path;
    let operation = || format!("open {}", path.display());
    connection::refuse_no_file(path)?;
    if !path.exists() {
        would_be_made(path)?;
        findings.push(Finding::note(format!("{} does not exist yet; a run makes it", path.display())));
        return Connection::open_in_memory().during(operation);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).during(operation)?;
    connection.busy_timeout(std::time::Duration::from_millis(config.busy_timeout_ms)).during(operation)?;
    Ok(connection)
}

/// What a run remembers when it has opened the partitions, with an id for every topic: what is written
/// under one that is made up is rolled back with the rest.
fn state(
    tried: &Connection,
    config: &SqliteConfig,
    target: &Target,
    sample: &Sample,
    parts: &[PlacedPartition],
) -> Outcome<State> {
    let is_known = |partition: &Partition| parts.iter().any(|part| part.partition == *partition);
    let unknown = sample.complete.spans().iter().map(|span| &span.partition).filter(|partition| !is_known(partition));
    let id = |partition: &Partition| TopicId::of_first_line(&partition.topic, b"");
    let made_up = unknown.map(|partition| PlacedPartition { topic_id: id(partition), partition: partition.clone() });
    let parts: Vec<PlacedPartition> = made_up.chain(parts.iter().cloned()).collect();
    let mut fence = Fence::new(config.group.as_str());
    let raised = at_once(fence.raise(&mut Attached(tried), &parts))?;
    fence.hold(raised);
    Ok(State {
        target: target.clone(),
        fence,
        tables: HashMap::new(),
        written: HashSet::new(),
        purges: Purges::default(),
    })
}

/// Refuses a path at which no file can be made.
fn would_be_made(path: &Path) -> Outcome<()> {
    let operation = || format!("make {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(contract(operation(), format!("the folder {} does not exist; create it", folder.display())));
    }
    can_be_made(path).map_err(|error| {
        let context = format!("no file can be made in {}; give this user write access", folder.display());
        contract(operation(), context).caused_by(error)
    })
}

/// The SQL that a run would make its own tables with.
pub fn own_tables_ddl() -> Vec<String> {
    own::create(Dialect::Sqlite, str::to_owned).to_vec()
}

/// The SQL that a run would make the tables of these rows with: the table, and the one for the
/// versions of its deleted rows.
pub fn create_table_ddl(target: &Target, rows: TableRows<'_>) -> Result<Vec<String>, SinkError> {
    let connection = Connection::open_in_memory().during(|| "open a database in memory".into())?;
    make_own(&connection)?;
    let plan = Plan::of(target, rows.table, Deletes::Hard);
    let mut statements = vec![ddl::new_table(&plan, target.evolution, rows)?.sql];
    // Made where it can do no harm, so that the second table follows from what SQLite makes of the first.
    prepare(&connection, &Target { create: true, ..target.clone() }, rows, false, &mut Vec::new())?;
    let second = "SELECT sql FROM sqlite_schema WHERE name = ?1";
    let mut select = connection.prepare(second).during(|| "read the made tables".into())?;
    let made = select
        .query_map([name::tombstones(&plan.table)], |row| row.get(0))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<String>>>)
        .during(|| "read the made tables".into())?;
    for sql in made {
        statements.push(sql);
        if target.tombstone_retention.is_some() {
            let name = name::tombstones(&plan.table);
            statements.push(create_index(Dialect::Sqlite, &name, &name::quoted(&name), &plan.meta.written_ms));
        }
    }
    Ok(statements)
}
