//! One batch: the fence and what is recorded of the log, its truncates, its rows, in the caller's
//! transaction.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use settle_core::batch::{Batch, TableRows};
use settle_core::change::{TableName, Truncate};
use settle_core::sink::{self, SinkError};

use super::config::PostgresConfig;
use super::ddl::within;
use super::failure::{Outcome, contract};
use super::prepared::{Prepared, prepare};
use super::rows::Writer;
use super::table::{self, describe};
use super::transaction::Transaction;
use crate::config::target::{Deletes, Target};
use crate::finding::Severity;
use crate::owner::Owner;
use crate::sinks::plan::Plan;
use crate::sinks::sql::claims;
use crate::sinks::sql::dialect::{Dialect, Lock};
use crate::sinks::sql::positions::Fence;
use crate::sinks::sql::session::{Session, SqlValue};
use crate::sinks::sql::sweeps::{self, Emptied};
use crate::sinks::sql::tombstones::Purges;

const SQL: Dialect = Dialect::Postgres;

/// What the sink remembers between batches.
#[derive(Debug)]
pub(super) struct State {
    pub(super) target: Target,
    pub(super) config: PostgresConfig,
    /// Whose positions are moved, and what it has opened.
    pub(super) fence: Fence,
    /// Tables that were made or validated, as long as nothing changes them.
    pub(super) tables: HashMap<Arc<TableName>, Prepared>,
    /// Tables that were written and committed: made anew they would lack those rows.
    pub(super) written: HashSet<Arc<TableName>>,
    /// When their tombstones are purged.
    pub(super) purges: Purges,
}

/// Writes the batch. The caller commits, or rolls back and forgets the tables.
pub(super) async fn apply(session: &mut Transaction, state: &mut State, batch: &Batch) -> Outcome<sink::Outcome> {
    state.fence.pass(session, batch).await.map_err(SinkError::beside_the_rows)?;
    let tables: Vec<TableRows<'_>> = batch.tables().collect();
    prepare_all(session, state, &tables, batch.truncates()).await.map_err(SinkError::beside_the_rows)?;
    for event in batch.truncates() {
        truncate(session, state, event).await.map_err(SinkError::beside_the_rows)?;
    }
    write_rows(session, state, &tables).await
}

/// Makes and validates tables, and waits until no truncate or sweep of them is under way.
async fn prepare_all(
    session: &mut Transaction,
    state: &mut State,
    tables: &[TableRows<'_>],
    truncates: &[Truncate],
) -> Outcome<()> {
    forget_changed(session, state, tables).await?;
    for event in truncates {
        let plan = Plan::of(&state.target, &event.table, Deletes::Hard);
        let owner = Owner { table: event.table.clone(), lineage: event.lineage.clone() };
        claims::claim(session, &plan.table, &owner).await?;
    }
    for rows in tables {
        if state.tables.contains_key(rows.table) {
            continue;
        }
        let mut findings = Vec::new();
        let prepared =
            prepare(session, &state.target, &state.config, *rows, state.written.contains(rows.table), &mut findings)
                .await?;
        for finding in findings {
            match finding.severity {
                Severity::Note => tracing::info!("{finding}"),
                Severity::Warning | Severity::Error => tracing::warn!("{finding}"),
            }
        }
        state.tables.insert(rows.table.clone(), prepared);
    }
    let name = |table: &TableName| Plan::of(&state.target, table, Deletes::Hard).table;
    let shared = tables.iter().map(|rows| (name(rows.table), Lock::Shared));
    let owned = truncates.iter().map(|event| (name(&event.table), Lock::Owned));
    let locks: BTreeMap<String, Lock> = shared.chain(owned).collect();
    claims::lock(session, &locks).await
}

/// Forgets tables that are not any more what they were when they were prepared.
async fn forget_changed(session: &Transaction, state: &mut State, tables: &[TableRows<'_>]) -> Outcome<()> {
    let known: Vec<(&Arc<TableName>, &Prepared)> =
        tables.iter().filter_map(|rows| state.tables.get_key_value(rows.table)).collect();
    let parts: Vec<(&str, &str)> = known
        .iter()
        .flat_map(|(_, prepared)| {
            let graves = prepared.graves.iter().map(|graves| (graves.name.as_str(), graves.fingerprint.as_str()));
            graves.chain([(prepared.table.name.as_str(), prepared.table.fingerprint.as_str())])
        })
        .collect();
    if parts.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
    let now: HashMap<String, String> =
        table::fingerprints(session.connection(), &state.config.schema, &names).await?.into_iter().collect();
    let is_same = |name: &str, fingerprint: &str| now.get(name).is_some_and(|now| now == fingerprint);
    let changed: Vec<Arc<TableName>> = known
        .into_iter()
        .filter(|(_, prepared)| {
            !is_same(&prepared.table.name, &prepared.table.fingerprint)
                || prepared.graves.as_ref().is_some_and(|graves| !is_same(&graves.name, &graves.fingerprint))
        })
        .map(|(name, _)| name.clone())
        .collect();
    changed.iter().for_each(|name| drop(state.tables.remove(name)));
    Ok(())
}

async fn write_rows(session: &mut Transaction, state: &mut State, tables: &[TableRows<'_>]) -> Outcome<sink::Outcome> {
    let mut outcome = sink::Outcome::default();
    let State { target, tables: known, fence, .. } = state;
    let names: Vec<String> = known.values().map(|prepared| prepared.table.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cuts = claims::truncates(session, &names).await.map_err(SinkError::beside_the_rows)?;
    for rows in tables {
        let Some(prepared) = known.get_mut(rows.table) else { continue };
        let cuts = cuts.get(prepared.table.name.as_str()).copied().unwrap_or_default();
        let Prepared { filled, plan, .. } = &mut *prepared;
        filled.note(session, fence, &plan.table, *rows).await.map_err(SinkError::beside_the_rows)?;
        let swept = sweeps::done(session, rows.table).await.map_err(SinkError::beside_the_rows)?;
        let emptied = Emptied { cuts, swept, fence };
        let mut writer = Writer { session, prepared, conventions: &target.conventions, emptied };
        writer.write(*rows, &mut outcome).await?;
    }
    Ok(outcome)
}

/// Records the truncate, and removes what it empties. The table need not be there yet.
async fn truncate(session: &mut Transaction, state: &State, event: &Truncate) -> Outcome<()> {
    let plan = Plan::of(&state.target, &event.table, Deletes::Hard);
    let cut = event.cut();
    if !claims::record_truncate(session, &plan.table, cut).await? {
        return Ok(());
    }
    let (mask, place) = (cut.order.mask(), cut.place());
    let halves: [SqlValue; 4] =
        [mask.hi_signed(), mask.lo_signed(), place.hi_signed(), place.lo_signed()].map(SqlValue::from);
    let (hi, lo) = (plan.version_hi(), plan.version_lo());
    for table in [plan.table.clone(), SQL.tombstones(&plan.table)] {
        let schema = &state.config.schema;
        let Some(known) = describe(session.connection(), schema, &table).await? else { continue };
        let operation = format!("truncate \"{table}\"");
        if known.column(&hi).is_none() || known.column(&lo).is_none() {
            let why = "the table lacks the columns in which Settle keeps the version of each row; `settle check` says how to add them";
            return Err(contract(operation, why));
        }
        let (hi, lo) = (SQL.quoted(&hi), SQL.quoted(&lo));
        let sql = format!("DELETE FROM {} WHERE ({hi} & $1, {lo} & $2) < ($3, $4)", within(schema, &table));
        session.execute(&operation, &sql, &halves).await?;
    }
    Ok(())
}
