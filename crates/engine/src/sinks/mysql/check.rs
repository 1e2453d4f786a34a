//! A look before a run, and the SQL for who makes tables by hand.
//!
//! DDL cannot be taken back, so nothing is made here: tables that are missing are told, with the
//! statement, and their values are held against it. What is there is tried with sampled rows in a
//! transaction that is rolled back.

use std::sync::Arc;

use settle_core::batch::{Batch, TableRows};
use settle_core::columns::Column as Carried;
use settle_core::resnapshot::Swept;
use settle_core::schema::Origin;
use settle_core::sink::{FailureKind, Outcome as Counted, PlacedPartition, Places, SinkError};
use settle_core::truncate::Cuts;

use super::bind::bound;
use super::config::MySqlConfig;
use super::connection::Connection;
use super::ddl::{self, Tell};
use super::failure::Outcome;
use super::prepared::{Prepared, is_to_be_dated, plan};
use super::privileges::{Needs, missing};
use super::rows::{Laid, Writer};
use super::table::{Column, Description, describe};
use super::validate;
use crate::config::target::{Deletes, Evolution, Target};
use crate::finding::{Cause, Finding};
use crate::owner::Owner;
use crate::sampling::Sample;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::findings::computed_columns;
use crate::sinks::sql::keyed::{KeyColumn, Keyed};
use crate::sinks::sql::positions::Fence;
use crate::sinks::sql::sweeps::Emptied;
use crate::sinks::sql::tombstones::create_index;
use crate::sinks::sql::{claims, meta, own, places, standings};

const SQL: Dialect = Dialect::MySql;

/// What a run over topics like `sample` would find in the destination.
pub async fn check(config: &MySqlConfig, target: &Target, sample: &Sample) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = look(config, target, sample, &mut findings).await {
        findings.push(match error.kind {
            FailureKind::Overloaded => Finding::error(
                format!("{} could not be looked at: {}", config.address, error.context),
                "check again when the lock is free; a run waits for it",
            )
            .because(Cause::SinkAway),
            _ => Finding::of_sink(&error),
        });
    }
    findings
}

/// What the destination knows of the places, without changing anything.
pub async fn places(config: &MySqlConfig, target: &Target, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
    let mut connection = Connection::open(config).await?;
    let places = match has_own(&mut connection).await? {
        true => places::read(&mut connection, &config.group, target, parts).await?,
        false => Places::default(),
    };
    connection.close().await;
    Ok(places)
}

async fn has_own(connection: &mut Connection) -> Outcome<bool> {
    for table in own::TABLES {
        if describe(connection, table).await?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn look(config: &MySqlConfig, target: &Target, sample: &Sample, findings: &mut Vec<Finding>) -> Outcome<()> {
    if config.address.is_in_the_clear() {
        findings.push(Finding::warning(
            format!("the connection to {} is not encrypted: rows can be read on their way", config.address),
            "add ssl-mode=VERIFY_IDENTITY (and ssl-ca=FILE) to [sink] url",
        ));
    }
    let mut connection = Connection::open(config).await?;
    let operation = format!("look at {}", config.address);
    let mut needs = Needs { tables: own::TABLES.map(str::to_owned).to_vec(), ..Needs::default() };
    let has_own = has_own(&mut connection).await?;
    if !has_own {
        findings.push(Finding::note("settle_meta and settle_positions do not exist yet; a run makes them"));
        needs.create = true;
    }
    connection.begin(&operation).await?;
    if has_own && let Err(error) = meta::open(&mut connection).await {
        if error.kind == FailureKind::Denied {
            findings.extend(missing(&mut connection, &needs).await?);
        }
        return Err(error);
    }
    for rows in sample.batch.tables() {
        let complete = sample.complete.tables().find(|complete| complete.table == rows.table);
        let mut own = Vec::new();
        let looked =
            Look { config, target, connection: &mut connection, has_own, needs: &mut needs, findings: &mut own }
                .table(rows, complete)
                .await;
        match looked {
            // The error of a refused table repeats its findings.
            Err(error) if !own.iter().any(Finding::is_error) => own.push(Finding::of_sink(&error)),
            Ok(()) | Err(_) => {}
        }
        findings.append(&mut own);
    }
    connection.roll_back(&operation).await?;
    findings.extend(missing(&mut connection, &needs).await?);
    connection.close().await;
    Ok(())
}

struct Look<'a> {
    config: &'a MySqlConfig,
    target: &'a Target,
    connection: &'a mut Connection,
    has_own: bool,
    needs: &'a mut Needs,
    findings: &'a mut Vec<Finding>,
}

impl Look<'_> {
    async fn table(&mut self, rows: TableRows<'_>, complete: Option<TableRows<'_>>) -> Outcome<()> {
        let plan = plan(&self.connection.server, self.target, rows)?;
        let Some(first) = rows.rows().next() else { return Ok(()) };
        let owner = Owner { table: rows.table.clone(), lineage: first.change().lineage.clone() };
        if self.has_own {
            claims::claim(self.connection, &plan.table, &owner).await?;
        }
        let graves = (plan.deletes == Deletes::Hard).then(|| SQL.tombstones(&plan.table));
        self.needs.tables.extend([plan.table.clone()].into_iter().chain(graves));
        match describe(self.connection, &plan.table).await? {
            Some(table) => self.existing(plan, owner, table, rows, complete).await,
            None => self.absent(&plan, rows, complete),
        }
    }

    /// A table that a run would make: its statement, and whether values fit it.
    fn absent(&mut self, plan: &Plan, rows: TableRows<'_>, complete: Option<TableRows<'_>>) -> Outcome<()> {
        let (sql, columns) = ddl::new_table(plan, rows, Tell::Schema, &self.connection.server)?;
        let told = format!("table \"{}\" does not exist", plan.table);
        if !self.target.create {
            self.findings.push(Finding::error(told, format!("make it, or set [sink] create = true:\n{sql}")));
            return Ok(());
        }
        self.needs.create = true;
        self.findings.push(Finding::note(format!("{told} yet; a run makes it: {sql}")));
        let Some(complete) = complete else { return Ok(()) };
        for row in complete.rows() {
            let change = row.change();
            let (carried, left_out) = (row.columns(), row.left_out());
            for (at, Carried { name, json }) in carried.iter().chain(&left_out).enumerate() {
                let is_key = change.key.get(name).is_some();
                let Some(target) = plan.column(name, is_key) else { continue };
                let Some(column) = columns.iter().find(|column| SQL.same(&column.name, target)) else { continue };
                let field = change.schema.as_ref().and_then(|schema| schema.field(name, at));
                let storage = column.kind.storage();
                let origin = Origin::of(field, &self.target.conventions, &storage.kind);
                if let Err(misfit) = bound(json, origin, &storage) {
                    let kind = if misfit.is_contract() { FailureKind::Contract } else { FailureKind::Row };
                    let context = format!("record {}, column \"{target}\": {misfit}", change.place());
                    return Err(SinkError::new(kind, format!("write to \"{}\"", plan.table), context));
                }
            }
        }
        Ok(())
    }

    /// A table that is there: whether it can be written, and what the server says to rows.
    async fn existing(
        &mut self,
        plan: Plan,
        owner: Owner,
        table: Description,
        rows: TableRows<'_>,
        complete: Option<TableRows<'_>>,
    ) -> Outcome<()> {
        let Some(first) = rows.rows().next() else { return Ok(()) };
        let missing_meta = validate::missing_meta(&plan, &table);
        let may_alter = self.target.create && self.target.evolution == Evolution::Add;
        if !missing_meta.is_empty() && may_alter && table.is_table() && self.is_empty(&table).await? {
            self.needs.alter = true;
            let what = format!("empty table \"{}\" gets Settle's columns: {}", table.name, missing_meta.join("; "));
            self.findings.push(Finding::note(what));
            return Ok(());
        }
        let schema = rows.schema().map(Arc::as_ref);
        self.findings.extend(validate::target(self.config, &plan, &table, first.key(), schema));
        if self.findings.iter().any(Finding::is_error) {
            return Ok(());
        }
        if self.has_own {
            standings::refuse_outranking(self.connection, &plan, &table.name).await?;
        }
        let key = KeyColumn::all(SQL, &plan, &table, first.key());
        let keyed = Keyed { dialect: SQL, plan: &plan, table: &table, key: &key };
        self.findings.extend(computed_columns(keyed, rows));
        let columns: Vec<&Column> = key.iter().map(|key| &table.columns[key.at]).collect();
        let graves = describe(self.connection, &SQL.tombstones(&table.name)).await?;
        match &graves {
            Some(known) => {
                // A run adds it.
                let is_to_be_dated = is_to_be_dated(self.target, &plan, known);
                self.needs.alter |= is_to_be_dated;
                let is_purged = self.target.tombstone_retention.is_some() && !is_to_be_dated;
                let found = validate::tombstone_table(&plan, &table.name, known, &columns, is_purged);
                self.findings.extend(found);
            }
            None => self.needs.create |= plan.deletes == Deletes::Hard,
        }
        if self.findings.iter().any(Finding::is_error) {
            return Ok(());
        }
        let mut prepared = Prepared::new(self.target, owner, plan, table, key, rows, graves.as_ref(), Vec::new());
        let Some(complete) = complete else { return Ok(()) };
        self.rows(&mut prepared, complete).await
    }

    async fn is_empty(&mut self, table: &Description) -> Outcome<bool> {
        let any = format!("SELECT 1 FROM {} LIMIT 1", SQL.quoted(&table.name));
        let operation = format!("look at \"{}\"", table.name);
        Ok(self.connection.rows(&operation, &any, Vec::new()).await?.is_empty())
    }

    /// Writes sampled rows; the caller rolls back. Rows with columns that a run would add are held against
    /// nothing.
    async fn rows(&mut self, prepared: &mut Prepared, rows: TableRows<'_>) -> Outcome<()> {
        let mut laid = Vec::new();
        for (index, row) in rows.rows().enumerate() {
            prepared.check_row(row)?;
            if row.is_delete() && prepared.plan.deletes == Deletes::Hard && !prepared.has_tombstones {
                continue;
            }
            let mut columns: Vec<Carried<'_>> = Vec::new();
            if !row.is_delete() {
                columns.extend(row.columns().iter().cloned());
                columns.extend(row.left_out());
            }
            let keeps = vec![false; columns.len()];
            match prepared.shape(&columns, &keeps)? {
                Ok(_) => laid.push(Laid { row, index, columns }),
                Err(at) => match prepared.growth(&columns[at], at, row)? {
                    Some((_, sql)) => {
                        self.needs.alter = true;
                        let told = Finding::note(format!("a run adds a column: {sql}"));
                        if !self.findings.contains(&told) {
                            self.findings.push(told);
                        }
                    }
                    None => laid.push(Laid { row, index, columns }),
                },
            }
        }
        let (conventions, connection) = (&self.target.conventions, &mut *self.connection);
        let fence = Fence::new("");
        let emptied = Emptied { cuts: Cuts::default(), swept: Swept::default(), fence: &fence };
        let mut writer = Writer { connection, prepared, conventions, emptied };
        writer.write(&laid, rows.has_key_changes(), &mut Counted::default()).await
    }
}

/// The SQL that a run would make its own tables with.
pub fn own_tables_ddl() -> Vec<String> {
    own::create(SQL, |table| SQL.quoted(table)).to_vec()
}

/// The SQL that a run would make the tables of these rows with: the table, and the one for the versions
/// of its deleted rows. The server is asked for the collation that it has.
pub async fn create_tables_ddl(config: &MySqlConfig, target: &Target, batch: &Batch) -> Result<Vec<String>, SinkError> {
    let connection = Connection::open(config).await?;
    let mut statements = Vec::new();
    for rows in batch.tables() {
        let plan = plan(&connection.server, target, rows)?;
        let (sql, columns) = ddl::new_table(&plan, rows, Tell::Values, &connection.server)?;
        statements.push(sql);
        if plan.deletes == Deletes::Hard {
            statements.push(ddl::tombstones_of_new(&plan, rows, &columns, &connection.server));
            if target.tombstone_retention.is_some() {
                let name = SQL.tombstones(&plan.table);
                statements.push(create_index(SQL, &name, &SQL.quoted(&name), &plan.meta.written_ms));
            }
        }
    }
    connection.close().await;
    Ok(statements)
}
