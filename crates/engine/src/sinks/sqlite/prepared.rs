//! A target table, made or validated, and what is known of writing to it.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::Connection;
use settle_core::batch::{Row, TableRows};
use settle_core::schema::{SourceType, infer};

use super::column::NewType;
use super::ddl::{self, add_column, declared_type};
use super::failure::{During, Outcome, contract};
use super::name::{self, tombstones};
use super::session::Attached;
use super::shape::{Shape, Statements};
use super::table::{self, Column, Description};
use super::validate;
use crate::config::target::{Deletes, Evolution, Target};
use crate::finding::Finding;
use crate::owner::Owner;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::filled::{self, Filled};
use crate::sinks::sql::findings::{computed_columns, refuse_errors};
use crate::sinks::sql::keyed::{KeyColumn, Keyed};
use crate::sinks::sql::session::at_once;
use crate::sinks::sql::tombstones::{self as lost, Graves};
use crate::sinks::sql::{claims, standings};

/// A target table that may be written.
#[derive(Debug)]
pub(super) struct Prepared {
    owner: Owner,
    pub(super) plan: Plan,
    evolution: Evolution,
    /// It may have been made for a delete that told no other columns than the key.
    may_lack_its_first: bool,
    pub(super) table: Description,
    pub(super) key: Vec<KeyColumn>,
    /// The column that marks deleted rows, where the table has one: also where deletes are hard
    /// now, since they may have been soft before.
    pub(super) is_deleted: Option<String>,
    /// True where deleted rows leave their version in a table of its own: also where deletes are
    /// soft now, since they may have been hard before.
    pub(super) has_tombstones: bool,
    /// That table, where it says when they were written.
    pub(super) dated_graves: Option<Graves>,
    pub(super) statements: Statements,
    /// Column sets seen, the last one used first.
    pub(super) shapes: Vec<Arc<Shape>>,
    /// Columns of the source that the table lacks and may not get.
    pub(super) ignored: HashSet<String>,
    /// What is noted of where its rows come from.
    pub(super) filled: Filled,
}

/// Makes the table of these rows, or validates the one that is there. What was made and what may
/// surprise is left in `findings`; with errors among them the table is refused.
pub(super) fn prepare(
    connection: &Connection,
    target: &Target,
    rows: TableRows<'_>,
    was_written: bool,
    findings: &mut Vec<Finding>,
) -> Outcome<Prepared> {
    let plan = Plan::of(target, rows.table, Deletes::Hard);
    let operation = format!("prepare table \"{}\"", plan.table);
    if let Some(why) = Dialect::Sqlite.table_refusal(&plan.table) {
        let how = format!("give it another name: [tables.\"{}\"] name", rows.table);
        return Err(contract(operation, format!("{why}; {how}")));
    }
    let Some(first) = rows.rows().next() else {
        return Err(contract(operation, "no row to tell its key from"));
    };
    let change = first.change();
    let owner = Owner { table: rows.table.clone(), lineage: change.lineage.clone() };
    at_once(claims::claim(&mut Attached(connection), &plan.table, &owner))?;
    let describe = |name: &str| table::describe(connection, name, |column| plan.declared_type(column));
    let mut is_new = false;
    let mut table = match describe(&plan.table)? {
        Some(table) => table,
        None if was_written => return Err(filled::dropped(&plan.table)),
        None => {
            is_new = true;
            findings.push(make(connection, target, &plan, rows)?);
            describe(&plan.table)?
                .ok_or_else(|| contract(operation.as_str(), "the table is not there after it was made"))?
        }
    };
    if let Some(completed) = complete_meta(connection, target, &plan, &table)? {
        findings.push(completed);
        table = describe(&table.name)?.unwrap_or(table);
    }
    let by_values = !has_rows(connection, &table).during(|| operation.clone())?;
    findings.extend(validate::target(&plan, &table, first.key(), rows.schema().map(Arc::as_ref), by_values));
    refuse_errors(&operation, findings)?;
    if !by_values {
        at_once(standings::refuse_outranking(&mut Attached(connection), &plan, &table.name))?;
    }
    let key = KeyColumn::all(Dialect::Sqlite, &plan, &table, first.key());
    let keyed = Keyed { dialect: Dialect::Sqlite, plan: &plan, table: &table, key: &key };
    findings.extend(computed_columns(keyed, rows));
    let graves = prepare_tombstones(connection, target, &plan, (&table, is_new), &key, findings)?;
    refuse_errors(&operation, findings)?;
    let is_deleted = table.column(&plan.meta.is_deleted).map(|column| column.name.clone());
    let key_names: Vec<&str> = key.iter().map(|k| table.columns[k.at].name.as_str()).collect();
    let written = graves.as_ref().and_then(|graves| graves.column(&plan.meta.written_ms));
    let written = written.map(|column| column.name.as_str());
    let dated_graves = graves.as_ref().zip(written).map(|(graves, written)| Graves {
        of: table.name.clone(),
        table: graves.name.clone(),
        key: key_names.iter().map(|name| (*name).to_owned()).collect(),
        written: written.to_owned(),
    });
    Ok(Prepared {
        owner,
        evolution: target.evolution,
        may_lack_its_first: target.create && rows.schema().is_none(),
        statements: Statements::of(&plan, &table.name, &key_names, is_deleted.as_deref(), written),
        key,
        is_deleted,
        has_tombstones: graves.is_some(),
        dated_graves,
        shapes: Vec::new(),
        ignored: HashSet::new(),
        filled: Filled::default(),
        plan,
        table,
    })
}

fn make(connection: &Connection, target: &Target, plan: &Plan, rows: TableRows<'_>) -> Outcome<Finding> {
    let new = ddl::new_table(plan, target.evolution, rows)?;
    if !target.create {
        return Err(contract(
            format!("prepare table \"{}\"", plan.table),
            format!("the table does not exist; make it, or set [sink] create = true:\n{}", new.sql),
        ));
    }
    connection.execute_batch(&new.sql).during(|| format!("create table \"{}\"", plan.table))?;
    let told = if new.sampled { ", its columns told from the values seen" } else { "" };
    Ok(Finding::note(format!("table \"{}\" is made{told}: {}", plan.table, new.sql)))
}

/// Adds Settle's columns to a table that has no rows, where tables may be made and changed. A table
/// with rows is its owner's: the statements are told instead.
fn complete_meta(
    connection: &Connection,
    target: &Target,
    plan: &Plan,
    table: &Description,
) -> Outcome<Option<Finding>> {
    let missing = validate::missing_meta(plan, table);
    if missing.is_empty() || table.form != "table" || !target.create || target.evolution != Evolution::Add {
        return Ok(None);
    }
    let operation = || format!("add Settle's columns to table \"{}\"", table.name);
    if has_rows(connection, table).during(operation)? {
        return Ok(None);
    }
    connection.execute_batch(&missing.join(";\n")).during(operation)?;
    let added = missing.join("; ");
    Ok(Some(Finding::note(format!("empty table \"{}\" gets Settle's columns: {added}", table.name))))
}

fn has_rows(connection: &Connection, table: &Description) -> rusqlite::Result<bool> {
    let any = format!("SELECT 1 FROM {} LIMIT 1", name::quoted(&table.name));
    connection.prepare(&any).and_then(|mut select| select.exists([]))
}

fn prepare_tombstones(
    connection: &Connection,
    target: &Target,
    plan: &Plan,
    (table, is_new): (&Description, bool),
    key: &[KeyColumn],
    findings: &mut Vec<Finding>,
) -> Outcome<Option<Description>> {
    let columns: Vec<&Column> = key.iter().map(|k| &table.columns[k.at]).collect();
    let name = tombstones(&table.name);
    let describe = || table::describe(connection, &name, |_| None);
    let known = match describe()? {
        None if plan.deletes == Deletes::Hard => {
            if !is_new {
                at_once(lost::refuse_lost(&mut Attached(connection), &table.name))?;
            }
            let sql = ddl::new_tombstones(table, &columns, plan);
            connection.execute_batch(&sql).during(|| format!("create table \"{name}\""))?;
            describe()?
        }
        known => known,
    };
    let Some(mut known) = known else { return Ok(None) };
    at_once(lost::note(&mut Attached(connection), &table.name))?;
    let is_purged = target.tombstone_retention.is_some();
    let is_undated = known.column(&plan.meta.written_ms).is_none();
    if is_purged && is_undated && target.create && known.form == "table" {
        let sql = ddl::add_written(plan, &known.name);
        connection.execute_batch(&sql).during(|| format!("add Settle's column to table \"{name}\""))?;
        known = describe()?.unwrap_or(known);
    }
    findings.extend(validate::tombstone_table(plan, &table.name, &known, &columns, is_purged));
    Ok(Some(known))
}

impl Prepared {
    /// Refuses a row that does not belong to what this table was prepared for.
    pub(super) fn check_row(&self, row: Row<'_>) -> Outcome<()> {
        match self.keyed().refusal(&self.owner, row) {
            Some(context) => Err(contract(self.operation(), context)),
            None => Ok(()),
        }
    }

    pub(super) fn keyed(&self) -> Keyed<'_, Description> {
        Keyed { dialect: Dialect::Sqlite, plan: &self.plan, table: &self.table, key: &self.key }
    }

    /// What is being done, for errors.
    pub(super) fn operation(&self) -> String {
        format!("write to \"{}\"", self.table.name)
    }

    /// Adds a column that the table lacks, leaves it out, or refuses it, as `evolution` says.
    pub(super) fn grow(
        &mut self,
        connection: &Connection,
        (column, json): (&str, &str),
        source_type: Option<&SourceType>,
        evolution: Evolution,
        row: Row<'_>,
    ) -> Outcome<()> {
        let kind = match (self.plan.declared_type(column), source_type) {
            (Some(declared), _) => declared_type(&self.operation(), column, declared)?,
            (None, Some(source_type)) => NewType::of_source(source_type),
            (None, None) => NewType::of_values(infer(json)),
        };
        let sql = add_column(&self.table, column, &kind);
        match evolution {
            Evolution::Refuse => Err(contract(
                self.operation(),
                format!(
                    "record {} carries a column \"{column}\" that the table lacks; run {sql}, or set [sink] evolution",
                    row.change().place()
                ),
            )),
            Evolution::Ignore => {
                tracing::warn!(
                    table = self.table.name,
                    column,
                    "a new column is left out: [sink] evolution = \"ignore\""
                );
                self.ignored.insert(column.to_owned());
                Ok(())
            }
            Evolution::Add => {
                connection
                    .execute_batch(&sql)
                    .during(|| format!("add column \"{column}\" to \"{}\"", self.table.name))?;
                tracing::info!(table = self.table.name, sql, "added a column");
                let described = table::describe(connection, &self.table.name, |c| self.plan.declared_type(c))?;
                if let Some(described) = described {
                    self.table = described;
                }
                self.shapes.clear();
                Ok(())
            }
        }
    }

    /// What happens to columns that the table lacks.
    pub(super) fn evolution(&self) -> Evolution {
        self.keyed().evolution(self.may_lack_its_first, self.evolution)
    }
}
