//! A target table, made or validated, and what is known of writing to it.

use std::collections::HashSet;
use std::sync::Arc;

use settle_core::batch::{Row, TableRows};
use settle_core::schema::{SourceType, infer};

use super::config::PostgresConfig;
use super::ddl::{self, Columns, add_column, declared_type};
use super::failure::{Outcome, contract};
use super::layout::Layout;
use super::own;
use super::table::{Column, Description, describe};
use super::transaction::Transaction;
use super::validate::{self, Asked};
use crate::config::target::{Deletes, Evolution, Target};
use crate::finding::Finding;
use crate::owner::Owner;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::filled::{self, Filled};
use crate::sinks::sql::findings::{computed_columns, refuse_errors};
use crate::sinks::sql::keyed::{KeyColumn, Keyed};
use crate::sinks::sql::session::Session;
use crate::sinks::sql::tombstones::{self, Graves};
use crate::sinks::sql::{claims, standings};

const SQL: Dialect = Dialect::Postgres;

/// A target table that may be written.
#[derive(Debug)]
pub(super) struct Prepared {
    owner: Owner,
    pub(super) plan: Plan,
    pub(super) schema: String,
    evolution: Evolution,
    /// It may have been made for a delete that told no other columns than the key.
    may_lack_its_first: bool,
    pub(super) table: Description,
    pub(super) key: Vec<KeyColumn>,
    /// The column that marks deleted rows, where the table has one: also where deletes are hard
    /// now, since they may have been soft before.
    pub(super) is_deleted: Option<String>,
    /// The table in which deleted rows leave their version: also where deletes are soft now, since they
    /// may have been hard before.
    pub(super) graves: Option<GravesTable>,
    /// Column sets seen, the last one used first.
    pub(super) layouts: Vec<Arc<Layout>>,
    /// Columns of the source that the table lacks and may not get.
    pub(super) ignored: HashSet<String>,
    /// What was noted of the partitions that fill it.
    pub(super) filled: Filled,
}

/// The table in which deleted rows leave their version.
#[derive(Debug)]
pub(super) struct GravesTable {
    pub(super) name: String,
    pub(super) fingerprint: String,
    /// The column that says when a tombstone was written, where it has that.
    pub(super) written: Option<String>,
}

/// Makes the table of these rows, or validates the one that is there. What was made and what may
/// surprise is left in `findings`; with errors among them the table is refused.
pub(super) async fn prepare(
    session: &mut Transaction,
    target: &Target,
    config: &PostgresConfig,
    rows: TableRows<'_>,
    was_written: bool,
    findings: &mut Vec<Finding>,
) -> Outcome<Prepared> {
    let plan = Plan::of(target, rows.table, Deletes::Hard);
    let schema = config.schema.as_str();
    let operation = format!("prepare table \"{}\"", plan.table);
    if let Some(why) = SQL.table_refusal(&plan.table) {
        let how = format!("give it another name: [tables.\"{}\"] name", rows.table);
        return Err(contract(operation, format!("{why}; {how}")));
    }
    let Some(first) = rows.rows().next() else {
        return Err(contract(operation, "no row to tell its key from"));
    };
    let owner = Owner { table: rows.table.clone(), lineage: first.change().lineage.clone() };
    let is_ours = was_claimed(session, &plan.table).await?;
    claims::claim(session, &plan.table, &owner).await?;
    let mut is_new = false;
    let mut table = match describe(session.connection(), schema, &plan.table).await? {
        Some(table) => table,
        None if was_written => return Err(filled::dropped(&plan.table)),
        None => {
            is_new = true;
            make(session, target, &plan, schema, rows, findings).await?
        }
    };
    if let Some(completed) = complete_meta(session, target, &plan, schema, &table).await? {
        findings.push(completed);
        table = describe(session.connection(), schema, &plan.table).await?.unwrap_or(table);
    }
    let asked = Asked {
        plan: &plan,
        key: first.key(),
        schema: rows.schema().map(Arc::as_ref),
        conventions: &target.conventions,
        unique: config.unique,
        foreign_keys: config.foreign_keys,
    };
    findings.extend(validate::target(&asked, &table));
    refuse_errors(&operation, findings)?;
    // No index has the versions: of a large table they are read through once, before its first row.
    if !is_ours || table.size < LARGE {
        standings::refuse_outranking(session, &plan, &table.name).await?;
    }
    let key = KeyColumn::all(SQL, &plan, &table, first.key());
    findings.extend(computed_columns(Keyed { dialect: SQL, plan: &plan, table: &table, key: &key }, rows));
    let graves = prepare_graves(session, target, &plan, schema, (&table, is_new), &key, findings).await?;
    refuse_errors(&operation, findings)?;
    let is_deleted = table.column(&plan.meta.is_deleted).map(|column| column.name.clone());
    Ok(Prepared {
        owner,
        schema: schema.to_owned(),
        evolution: target.evolution,
        may_lack_its_first: target.create && rows.schema().is_none(),
        key,
        is_deleted,
        graves,
        layouts: Vec::new(),
        ignored: HashSet::new(),
        filled: Filled::default(),
        plan,
        table,
    })
}

/// Bytes of a table that is read through in a moment.
const LARGE: i64 = 64 << 20;

/// Whether the table was claimed before: what was in it then was looked at.
async fn was_claimed(session: &mut Transaction, table: &str) -> Outcome<bool> {
    let sql = "SELECT 1::int8 FROM settle_meta WHERE kind = 'table' AND subject = $1";
    Ok(!session.query("read settle_meta", sql, &[table.into()]).await?.is_empty())
}

async fn make(
    session: &mut Transaction,
    target: &Target,
    plan: &Plan,
    schema: &str,
    rows: TableRows<'_>,
    findings: &mut Vec<Finding>,
) -> Outcome<Description> {
    let operation = format!("create table \"{}\"", plan.table);
    let columns = ddl::new_columns(plan, rows, Columns::Schema)?;
    let key: Vec<&str> = rows.rows().next().map(|row| row.key().names().collect()).unwrap_or_default();
    let sql = ddl::create_table(plan, schema, &key, &columns);
    if !target.create {
        return Err(contract(
            format!("prepare table \"{}\"", plan.table),
            format!("the table does not exist; make it, or set [sink] create = true:\n{sql}"),
        ));
    }
    session.connection().run(&operation, &own::alone(schema)).await?;
    // Another instance may have made it meanwhile.
    if let Some(made) = describe(session.connection(), schema, &plan.table).await? {
        return Ok(made);
    }
    session.connection().run(&operation, &sql).await?;
    findings.push(Finding::note(format!("table \"{}\" is made: {sql}", plan.table)));
    describe(session.connection(), schema, &plan.table)
        .await?
        .ok_or_else(|| contract(operation, "the table is not there after it was made"))
}

/// Adds Settle's columns to a table that has no rows, where tables may be made and changed. A table
/// with rows is its owner's: the statements are told instead.
async fn complete_meta(
    session: &mut Transaction,
    target: &Target,
    plan: &Plan,
    schema: &str,
    table: &Description,
) -> Outcome<Option<Finding>> {
    let missing = validate::missing_meta(plan, schema, table);
    if missing.is_empty() || !validate::is_table(table) || !target.create || target.evolution != Evolution::Add {
        return Ok(None);
    }
    let operation = format!("add Settle's columns to table \"{}\"", table.name);
    let any = format!("SELECT 1 FROM {} LIMIT 1", ddl::within(schema, &table.name));
    if !session.connection().rows(&operation, &any, &[]).await?.is_empty() {
        return Ok(None);
    }
    session.connection().run(&operation, &missing.join("; ")).await?;
    let added = missing.join("; ");
    Ok(Some(Finding::note(format!("empty table \"{}\" gets Settle's columns: {added}", table.name))))
}

async fn prepare_graves(
    session: &mut Transaction,
    target: &Target,
    plan: &Plan,
    schema: &str,
    (table, is_new): (&Description, bool),
    key: &[KeyColumn],
    findings: &mut Vec<Finding>,
) -> Outcome<Option<GravesTable>> {
    let columns: Vec<&Column> = key.iter().map(|k| &table.columns[k.at]).collect();
    let name = SQL.tombstones(&table.name);
    let mut known = describe(session.connection(), schema, &name).await?;
    if known.is_none() && plan.deletes == Deletes::Hard {
        if !is_new {
            tombstones::refuse_lost(session, &table.name).await?;
        }
        let operation = format!("create table \"{name}\"");
        session.connection().run(&operation, &own::alone(schema)).await?;
        known = describe(session.connection(), schema, &name).await?;
        if known.is_none() {
            let sql = ddl::new_tombstones(plan, schema, &name, &columns);
            session.connection().run(&operation, &sql).await?;
            known = describe(session.connection(), schema, &name).await?;
        }
    }
    let Some(mut known) = known else { return Ok(None) };
    tombstones::note(session, &table.name).await?;
    let is_purged = target.tombstone_retention.is_some();
    let is_undated = known.column(&plan.meta.written_ms).is_none();
    if is_purged && is_undated && target.create && validate::is_table(&known) {
        let operation = format!("add Settle's column to table \"{name}\"");
        session.connection().run(&operation, &ddl::add_written(plan, schema, &name)).await?;
        known = describe(session.connection(), schema, &name).await?.unwrap_or(known);
    }
    findings.extend(validate::graves(plan, &table.name, &known, &columns, is_purged));
    let written = known.column(&plan.meta.written_ms).map(|column| column.name.clone());
    Ok(Some(GravesTable { name, fingerprint: known.fingerprint, written }))
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
        Keyed { dialect: SQL, plan: &self.plan, table: &self.table, key: &self.key }
    }

    /// What is being done, for errors.
    pub(super) fn operation(&self) -> String {
        format!("write to \"{}\"", self.table.name)
    }

    /// The table's name as SQL.
    pub(super) fn target(&self) -> String {
        ddl::within(&self.schema, &self.table.name)
    }

    /// Its tombstones, where they say when they were written.
    pub(super) fn dated_graves(&self) -> Option<Graves> {
        let GravesTable { name, written, .. } = self.graves.as_ref()?;
        let key = self.key_columns().map(|column| column.name.clone()).collect();
        Some(Graves { of: self.table.name.clone(), table: name.clone(), key, written: written.clone()? })
    }

    /// Key columns, in the order of the key.
    pub(super) fn key_columns(&self) -> impl Iterator<Item = &Column> {
        self.key.iter().map(|key| &self.table.columns[key.at])
    }

    /// The layout of the record's columns, if it was seen before.
    pub(super) fn known_layout(&mut self, is_it: impl Fn(&Layout) -> bool) -> Option<Arc<Layout>> {
        let at = self.layouts.iter().position(|layout| is_it(layout))?;
        self.layouts.swap(0, at);
        Some(self.layouts[0].clone())
    }

    /// Remembers a layout. Few in practice; bounded whatever a topic brings.
    pub(super) fn remember(&mut self, layout: Layout) -> Arc<Layout> {
        const MAX_LAYOUTS: usize = 64;
        let layout = Arc::new(layout);
        self.layouts.truncate(MAX_LAYOUTS - 1);
        self.layouts.insert(0, layout.clone());
        layout
    }

    /// Adds a column that the table lacks, leaves it out, or refuses it, as `evolution` says.
    pub(super) async fn grow(
        &mut self,
        session: &mut Transaction,
        (column, json): (&str, &str),
        source_type: Option<&SourceType>,
        row: Row<'_>,
    ) -> Outcome<()> {
        let place = row.change().place();
        if let Some(why) = SQL.column_refusal(column) {
            let how = format!("rename or exclude it: [tables.\"{}\"]", row.change().table);
            return Err(contract(self.operation(), format!("record {place}, column \"{column}\": {why}; {how}")));
        }
        let kind = match (self.plan.declared_type(column), source_type) {
            (Some(declared), _) => Some(declared_type(&self.operation(), column, declared)?),
            (None, Some(source_type)) => Some(ddl::type_of(source_type)),
            (None, None) => None,
        };
        let guess = ddl::type_of_values(infer(json));
        let sql = add_column(&self.schema, &self.table.name, column, kind.as_deref().unwrap_or(guess));
        match (self.evolution(), kind) {
            (Evolution::Refuse, _) => Err(contract(
                self.operation(),
                format!(
                    "record {place} carries a column \"{column}\" that the table lacks; run {sql}, or set [sink] evolution"
                ),
            )),
            (Evolution::Ignore, _) => {
                tracing::warn!(
                    table = self.table.name,
                    column,
                    "a new column is left out: [sink] evolution = \"ignore\""
                );
                self.ignored.insert(column.to_owned());
                self.layouts.clear();
                Ok(())
            }
            (Evolution::Add, None) => Err(contract(
                self.operation(),
                format!(
                    "record {place} carries a column \"{column}\" that the table lacks, and no schema that says its type; \
                     declare it under [tables.\"{}\".columns], or run {sql} if the type is right",
                    row.change().table
                ),
            )),
            (Evolution::Add, Some(_)) => {
                let operation = format!("add column \"{column}\" to \"{}\"", self.table.name);
                session.connection().run(&operation, &sql).await?;
                tracing::info!(table = self.table.name, sql, "added a column");
                if let Some(described) = describe(session.connection(), &self.schema, &self.table.name).await? {
                    self.table = described;
                }
                self.layouts.clear();
                Ok(())
            }
        }
    }

    /// What happens to columns that the table lacks.
    pub(super) fn evolution(&self) -> Evolution {
        self.keyed().evolution(self.may_lack_its_first, self.evolution)
    }
}
