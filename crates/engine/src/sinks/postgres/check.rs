//! A look before a run, and the SQL for who makes tables by hand.

use std::collections::{HashMap, HashSet};

use settle_core::batch::TableRows;
use settle_core::position::{Partition, TopicId};
use settle_core::sink::{FailureKind, PlacedPartition, Places, SinkError};

use super::apply::{self, State};
use super::config::PostgresConfig;
use super::connection::Connection;
use super::ddl::{self, Columns};
use super::failure::Outcome;
use super::own;
use super::prepared::prepare;
use super::stage::Stages;
use super::transaction::Transaction;
use crate::config::target::{Deletes, Target};
use crate::finding::{Cause, Finding};
use crate::sampling::{self, Sample};
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::positions::Fence;
use crate::sinks::sql::tombstones::{Purges, create_index};
use crate::sinks::sql::{meta, places as known_places};

/// A look waits no longer than this for a lock: it must not hold up those who wait behind it.
const LOCK_TIMEOUT_MS: u64 = 3_000;

/// What a run over topics like `sample` would find in the destination. Everything that a run would do
/// is done in a transaction, and rolled back: nothing changes.
pub async fn check(
    config: &PostgresConfig,
    target: &Target,
    sample: &Sample,
    parts: &[PlacedPartition],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = look(config, target, sample, parts, &mut findings).await {
        findings.push(match error.kind {
            FailureKind::Overloaded => Finding::error(
                format!("other sessions of {} hold locks, so it could not be looked at", config.address),
                "check again when they are free; a run waits for them",
            )
            .because(Cause::SinkAway),
            _ => Finding::of_sink(&error),
        });
    }
    findings
}

/// What the destination knows of the places, without changing anything.
pub async fn places(config: &PostgresConfig, target: &Target, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
    let connection = Connection::open(config).await?;
    if own::present(&connection, &config.schema).await?.len() < own::TABLES.len() {
        return Ok(Places::default());
    }
    let mut session = Transaction::begin_reading(connection, &format!("look at {}", config.address)).await?;
    known_places::read(&mut session, &config.group, target, parts).await
}

async fn look(
    config: &PostgresConfig,
    target: &Target,
    sample: &Sample,
    parts: &[PlacedPartition],
    findings: &mut Vec<Finding>,
) -> Outcome<()> {
    let operation = format!("look at {}", config.address);
    let patient = PostgresConfig { lock_timeout_ms: config.lock_timeout_ms.min(LOCK_TIMEOUT_MS), ..config.clone() };
    let connection = Connection::open(&patient).await?;
    findings.extend(server(&connection, &operation).await?);
    let missing = own::present(&connection, &config.schema).await?.len() < own::TABLES.len();
    let mut session = Transaction::begin(connection, Stages::default(), &operation).await?;
    if missing {
        for sql in own::create(&config.schema) {
            session.connection().run(&operation, &sql).await?;
        }
    }
    meta::open(&mut session).await?;
    let before = findings.len();
    let mut state = state(&mut session, config, target, sample, parts).await?;
    for rows in sample.batch.tables() {
        let mut own = Vec::new();
        match prepare(&mut session, target, config, rows, false, &mut own).await {
            Ok(prepared) => {
                state.tables.insert(rows.table.clone(), prepared);
            }
            // The server takes nothing more in this transaction.
            Err(error) if error.source.is_some() => {
                findings.append(&mut own);
                return Err(error);
            }
            // The error of a refused table repeats its findings.
            Err(error) if !own.iter().any(Finding::is_error) => own.push(Finding::of_sink(&error)),
            Err(_) => {}
        }
        findings.append(&mut own);
    }
    if !findings[before..].iter().any(Finding::is_error) {
        let applied = match apply::apply(&mut session, &mut state, &sample.complete).await {
            // What a COMMIT would look at.
            Ok(_) => session.connection().run(&operation, "SET CONSTRAINTS ALL IMMEDIATE").await,
            Err(error) => Err(error),
        };
        if let Err(error) = applied {
            findings.push(Finding::of_sink(&error));
        }
    }
    session.roll_back(&operation).await.map(drop)
}

/// What the server is set to that matters for what a run promises.
async fn server(connection: &Connection, operation: &str) -> Outcome<Vec<Finding>> {
    let sql = "SELECT pg_catalog.current_setting('server_version'), pg_catalog.current_setting('synchronous_commit'),
        pg_catalog.current_setting('fsync'), pg_catalog.current_setting('server_encoding'),
        pg_catalog.current_setting('full_page_writes'), pg_catalog.pg_is_in_recovery()";
    let rows = connection.rows(operation, sql, &[]).await?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let setting = |at: usize| row.get::<_, String>(at);
    let mut findings = vec![Finding::note(format!("PostgreSQL {}, synchronous_commit = {}", setting(0), setting(1)))];
    if row.get(5) {
        findings.push(Finding::error(
            "the server is a standby: it takes no writes",
            "name the primary in [sink] url, or all hosts with commas between: the one that takes writes is used",
        ));
    }
    if setting(1) == "off" {
        findings.push(Finding::warning(
            "synchronous_commit = off: a crash of the server may take the last transactions back after their offsets were \
             committed to the source",
            "run ALTER ROLE … SET synchronous_commit = on for this user",
        ));
    }
    if setting(2) == "off" || setting(4) == "off" {
        findings.push(Finding::warning(
            "fsync or full_page_writes is off: a crash of the server's machine may damage the database",
            "turn both on",
        ));
    }
    if setting(3) != "UTF8" {
        findings.push(Finding::warning(
            format!("the database's encoding is {}: a text with a character outside of it is refused", setting(3)),
            "use a database with the encoding UTF8",
        ));
    }
    Ok(findings)
}

/// What a run remembers when it has opened the partitions, with an id for every topic: what is written
/// under one that is made up is rolled back with the rest.
async fn state(
    session: &mut Transaction,
    config: &PostgresConfig,
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
    let raised = fence.raise(session, &parts).await?;
    fence.hold(raised);
    Ok(State {
        target: target.clone(),
        config: config.clone(),
        fence,
        tables: HashMap::new(),
        written: HashSet::new(),
        purges: Purges::default(),
    })
}

/// The SQL that a run would make its own tables with.
pub fn own_tables_ddl(schema: &str) -> Vec<String> {
    own::create(schema).to_vec()
}

/// The SQL that a run would make the tables of these rows with: the table, and the one for the
/// versions of its deleted rows. Where the records say no types, from the values seen.
pub fn create_table_ddl(target: &Target, schema: &str, rows: TableRows<'_>) -> Result<Vec<String>, SinkError> {
    let plan = Plan::of(target, rows.table, Deletes::Hard);
    let seen = sampling::seen(rows);
    let key = rows.rows().next().map(|row| row.key().names().collect::<Vec<_>>()).unwrap_or_default();
    let columns = ddl::new_columns(&plan, rows, Columns::Seen(&seen))?;
    let mut statements = vec![ddl::create_table(&plan, schema, &key, &columns)];
    if plan.deletes == Deletes::Hard {
        let name = Dialect::Postgres.tombstones(&plan.table);
        statements.push(ddl::create_tombstones(&plan, schema, &name, &key, &columns));
        if target.tombstone_retention.is_some() {
            let on = ddl::within(schema, &name);
            statements.push(create_index(Dialect::Postgres, &name, &on, &plan.meta.written_ms));
        }
    }
    Ok(statements)
}
