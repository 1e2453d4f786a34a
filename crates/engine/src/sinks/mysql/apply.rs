//! One batch: its tables made ready, and then floors, offsets, holds, truncates and rows in one
//! transaction.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use settle_core::batch::{Batch, TableRows};
use settle_core::change::{TableName, Truncate};
use settle_core::columns::Column as Carried;
use settle_core::sink::{self, FailureKind, SinkError};

use super::config::MySqlConfig;
use super::connection::Connection;
use super::failure::{Outcome, contract};
use super::prepared::{Prepared, plan_of, prepare};
use super::rows::{Laid, Writer};
use super::table::describe;
use crate::config::target::Target;
use crate::finding::Severity;
use crate::owner::Owner;
use crate::sinks::plan::Plan;
use crate::sinks::sql::claims;
use crate::sinks::sql::dialect::{Dialect, Lock};
use crate::sinks::sql::positions::Fence;
use crate::sinks::sql::sweeps::{self, Emptied};
use crate::sinks::sql::tombstones::Purges;

const SQL: Dialect = Dialect::MySql;

/// What the sink remembers between batches.
#[derive(Debug)]
pub(super) struct State {
    pub(super) target: Target,
    /// Whose positions are moved, and what it has opened.
    pub(super) fence: Fence,
    /// Tables that were made or validated.
    pub(super) tables: HashMap<Arc<TableName>, Prepared>,
    /// Tables whose rows were looked at once: none is of an epoch that is not recorded.
    pub(super) ranked: HashSet<Arc<TableName>>,
    /// When their tombstones are purged.
    pub(super) purges: Purges,
}

/// A batch that may be written.
pub(super) struct Ready<'b> {
    /// The rows of each table, laid out.
    rows: Vec<(TableRows<'b>, Vec<Laid<'b>>)>,
    /// Truncates, with the target's name and its owner.
    truncates: Vec<(&'b Truncate, Plan)>,
    /// Tables that the transaction waits for.
    locks: BTreeMap<String, Lock>,
}

/// Makes ready what the batch needs of its tables: what DDL does cannot be taken back.
pub(super) async fn ready<'b>(
    connection: &mut Connection,
    config: &MySqlConfig,
    state: &mut State,
    batch: &'b Batch,
) -> Outcome<Ready<'b>> {
    let mut ready = Ready { rows: Vec::new(), truncates: Vec::new(), locks: BTreeMap::new() };
    for event in batch.truncates() {
        let plan = plan_of(&connection.server, &state.target, &event.table);
        let owner = Owner { table: event.table.clone(), lineage: event.lineage.clone() };
        claims::claim(connection, &plan.table, &owner).await.map_err(SinkError::beside_the_rows)?;
        ready.locks.insert(plan.table.clone(), Lock::Owned);
        ready.truncates.push((event, plan));
    }
    for rows in batch.tables() {
        let laid = lay(connection, config, state, rows).await?;
        if let Some(prepared) = state.tables.get(rows.table) {
            ready.locks.entry(prepared.plan.table.clone()).or_insert(Lock::Shared);
        }
        ready.rows.push((rows, laid));
    }
    Ok(ready)
}

/// Prepares the table of these rows, and adds the columns that it lacks.
async fn lay<'b>(
    connection: &mut Connection,
    config: &MySqlConfig,
    state: &mut State,
    rows: TableRows<'b>,
) -> Outcome<Vec<Laid<'b>>> {
    let mut is_fresh = false;
    if !state.tables.contains_key(rows.table) {
        prepare_table(connection, config, state, rows).await?;
        is_fresh = true;
    }
    let mut laid = Vec::with_capacity(rows.rows().len());
    for (index, row) in rows.rows().enumerate() {
        let mut columns: Vec<Carried<'b>> = Vec::new();
        if !row.is_delete() {
            columns.extend(row.columns().iter().cloned());
            columns.extend(row.left_out());
        }
        // Values that come from another key change nothing of what the table lacks.
        let keeps: Vec<bool> = columns.iter().map(Carried::is_unavailable).collect();
        loop {
            let Some(prepared) = state.tables.get_mut(rows.table) else { return Err(lost()) };
            prepared.check_row(row)?;
            if row.is_delete() {
                break;
            }
            let Err(at) = prepared.shape(&columns, &keeps)? else { break };
            // Others may have added it since.
            if !is_fresh && !prepared.is_unchanged(connection).await? {
                prepare_table(connection, config, state, rows).await?;
            } else {
                prepared.grow(connection, &columns[at], at, row).await?;
            }
            is_fresh = true;
        }
        laid.push(Laid { row, index, columns });
    }
    Ok(laid)
}

async fn prepare_table(
    connection: &mut Connection,
    config: &MySqlConfig,
    state: &mut State,
    rows: TableRows<'_>,
) -> Outcome<()> {
    let mut findings = Vec::new();
    let is_ranked = state.ranked.contains(rows.table);
    let prepared = prepare(connection, config, &state.target, rows, is_ranked, &mut findings).await;
    let prepared = prepared.map_err(SinkError::beside_the_rows)?;
    state.ranked.insert(rows.table.clone());
    for finding in findings {
        match finding.severity {
            Severity::Note => tracing::info!("{finding}"),
            Severity::Warning | Severity::Error => tracing::warn!("{finding}"),
        }
    }
    state.tables.insert(rows.table.clone(), prepared);
    Ok(())
}

fn lost() -> SinkError {
    SinkError::new(FailureKind::Bug, "apply a batch", "a table was not kept")
}

/// What became of a transaction.
pub(super) enum Written {
    /// It may be committed.
    All(sink::Outcome),
    /// A table is not what it was: nothing may be committed, and it is to be looked at anew.
    Changed,
}

/// Writes the batch. The caller commits, or rolls back.
pub(super) async fn write(
    connection: &mut Connection,
    state: &mut State,
    batch: &Batch,
    ready: &Ready<'_>,
) -> Outcome<Written> {
    beside_the_rows(connection, state, batch, ready).await.map_err(SinkError::beside_the_rows)?;
    let mut outcome = sink::Outcome::default();
    let names: Vec<String> = state.tables.values().map(|prepared| prepared.plan.table.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| ready.locks.contains_key(*name)).collect();
    let cuts = claims::truncates(connection, &names).await.map_err(SinkError::beside_the_rows)?;
    for (rows, laid) in &ready.rows {
        let Some(prepared) = state.tables.get_mut(rows.table) else { return Err(lost()) };
        if !prepared.is_unchanged(connection).await? {
            return Ok(Written::Changed);
        }
        let truncates = cuts.get(prepared.plan.table.as_str()).copied().unwrap_or_default();
        let conventions = &state.target.conventions;
        let Prepared { filled, plan, .. } = &mut *prepared;
        filled.note(connection, &state.fence, &plan.table, *rows).await.map_err(SinkError::beside_the_rows)?;
        let swept = sweeps::done(connection, rows.table).await.map_err(SinkError::beside_the_rows)?;
        let emptied = Emptied { cuts: truncates, swept, fence: &state.fence };
        let mut writer = Writer { connection: &mut *connection, prepared, conventions, emptied };
        writer.write(laid, rows.has_key_changes(), &mut outcome).await?;
    }
    Ok(Written::All(outcome))
}

/// The fence, floors, positions, holds and truncates.
async fn beside_the_rows(connection: &mut Connection, state: &State, batch: &Batch, ready: &Ready<'_>) -> Outcome<()> {
    state.fence.pass(connection, batch).await?;
    claims::lock(connection, &ready.locks).await?;
    for (event, plan) in &ready.truncates {
        truncate(connection, plan, event).await?;
    }
    Ok(())
}

/// Records the truncate, and removes what it empties. The table need not be there yet.
async fn truncate(connection: &mut Connection, plan: &Plan, event: &Truncate) -> Outcome<()> {
    let cut = event.cut();
    if !claims::record_truncate(connection, &plan.table, cut).await? {
        return Ok(());
    }
    let (mask, place) = (cut.order.mask(), cut.place());
    let halves = [mask.hi_signed(), mask.lo_signed(), place.hi_signed(), place.lo_signed()];
    let (hi, lo) = (plan.version_hi(), plan.version_lo());
    for table in [plan.table.clone(), SQL.tombstones(&plan.table)] {
        let Some(known) = describe(connection, &table).await? else { continue };
        let operation = format!("truncate \"{table}\"");
        if known.column(&hi).is_none() || known.column(&lo).is_none() {
            let why = "the table lacks the columns in which Settle keeps the version of each row; `settle check` says how to add them";
            return Err(contract(operation, why));
        }
        let sql = format!(
            "DELETE FROM {} WHERE ({} & ?, {} & ?) < (?, ?)",
            SQL.quoted(&known.name),
            SQL.quoted(&hi),
            SQL.quoted(&lo)
        );
        connection.be_patient(true);
        let emptied = connection.run(&operation, &sql, halves.iter().map(|half| (*half).into()).collect()).await;
        connection.be_patient(false);
        emptied?;
    }
    Ok(())
}
