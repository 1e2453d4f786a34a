//! A target table, made or validated, and what is known of writing to it.
//!
//! DDL of MySQL commits whatever transaction it stands in. So all of this is done before the one of a
//! batch begins; that one looks first whether the table is still what it was.

use std::collections::HashSet;
use std::sync::Arc;

use settle_core::batch::{Row, TableRows};
use settle_core::change::TableName;
use settle_core::columns::Column as Carried;
use settle_core::schema::{SourceType, infer};

use super::column::NewType;
use super::config::MySqlConfig;
use super::connection::{Connection, Server, Shown};
use super::ddl::{self, Tell, add_column, declared_type};
use super::failure::{Outcome, contract, is_second_of_a_name};
use super::shape::{Shape, Statements};
use super::table::{Column, Description, describe};
use super::validate;
use crate::config::target::{Deletes, Evolution, Target};
use crate::finding::Finding;
use crate::owner::Owner;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::filled::{self, Filled};
use crate::sinks::sql::findings::{computed_columns, refuse_errors};
use crate::sinks::sql::keyed::{KeyColumn, Keyed};
use crate::sinks::sql::tombstones::{self, Graves};
use crate::sinks::sql::{claims, standings};

const SQL: Dialect = Dialect::MySql;

/// Why a column cannot be.
const ONE_NAME: &str = "the server takes its name and another column's for one (capitals do not count); give one \
                        of them another name: [tables.\"…\"] rename";

/// Column sets that are remembered for a table.
const MAX_SHAPES: usize = 64;

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
    /// True where a key reads back as it was bound, and there is neither another unique index nor a trigger:
    /// then rows are written many at once. An upsert would change the row that has the value of the other
    /// index, whatever key that has; and it would run triggers for rows that stay as they are.
    pub(super) many: bool,
    pub(super) statements: Statements,
    /// What was noted of the partitions that fill it.
    pub(super) filled: Filled,
    /// What the columns looked like; what changed them since makes all of this worthless.
    shown: Vec<Shown>,
    /// Column sets seen, the last one used first.
    shapes: Vec<Arc<Shape>>,
    /// Columns of the source that the table lacks and may not get.
    pub(super) ignored: HashSet<String>,
}

/// Makes the table of these rows, or validates the one that is there. What was made and what may
/// surprise is left in `findings`; with errors among them the table is refused. `is_ranked`: its versions
/// were looked at before, which reads all of it.
pub(super) async fn prepare(
    connection: &mut Connection,
    config: &MySqlConfig,
    target: &Target,
    rows: TableRows<'_>,
    is_ranked: bool,
    findings: &mut Vec<Finding>,
) -> Outcome<Prepared> {
    let plan = plan(&connection.server, target, rows)?;
    let operation = format!("prepare table \"{}\"", plan.table);
    let Some(first) = rows.rows().next() else {
        return Err(contract(operation, "no row to tell its key from"));
    };
    let owner = Owner { table: rows.table.clone(), lineage: first.change().lineage.clone() };
    claims::claim(connection, &plan.table, &owner).await?;
    let mut is_new = false;
    let mut table = match describe(connection, &plan.table).await? {
        Some(table) => table,
        None if is_ranked => return Err(filled::dropped(&plan.table)),
        None => {
            is_new = true;
            findings.push(make(connection, target, &plan, rows).await?);
            describe(connection, &plan.table)
                .await?
                .ok_or_else(|| contract(operation.as_str(), "the table is not there after it was made"))?
        }
    };
    if let Some(completed) = complete_meta(connection, target, &plan, &table).await? {
        findings.push(completed);
        table = describe(connection, &table.name).await?.unwrap_or(table);
    }
    findings.extend(validate::target(config, &plan, &table, first.key(), rows.schema().map(Arc::as_ref)));
    refuse_errors(&operation, findings)?;
    if !is_ranked {
        connection.be_patient(true);
        let ranked = standings::refuse_outranking(connection, &plan, &table.name).await;
        connection.be_patient(false);
        ranked?;
    }
    let key = KeyColumn::all(SQL, &plan, &table, first.key());
    findings.extend(computed_columns(Keyed { dialect: SQL, plan: &plan, table: &table, key: &key }, rows));
    let graves = prepare_tombstones(connection, target, &plan, (&table, is_new), &key, findings).await?;
    refuse_errors(&operation, findings)?;
    let shown = shown(connection, &table.name).await?;
    Ok(Prepared::new(target, owner, plan, table, key, rows, graves.as_ref(), shown))
}

/// The rules for a table, with the name that the server gives its target.
pub(super) fn plan_of(server: &Server, target: &Target, table: &TableName) -> Plan {
    let mut plan = Plan::of(target, table, Deletes::Hard);
    plan.table = server.table(&plan.table).into_owned();
    plan
}

/// The rules for these rows, where their target can be written.
pub(super) fn plan(server: &Server, target: &Target, rows: TableRows<'_>) -> Outcome<Plan> {
    let plan = plan_of(server, target, rows.table);
    if let Some(why) = SQL.table_refusal(&plan.table) {
        let how = format!("give it another name: [tables.\"{}\"] name", rows.table);
        return Err(contract(format!("prepare table \"{}\"", plan.table), format!("{why}; {how}")));
    }
    Ok(plan)
}

async fn shown(connection: &mut Connection, table: &str) -> Outcome<Vec<Shown>> {
    let sql = format!("SELECT * FROM {} LIMIT 0", SQL.quoted(table));
    connection.columns(&format!("look at the columns of \"{table}\""), &sql).await
}

async fn make(connection: &mut Connection, target: &Target, plan: &Plan, rows: TableRows<'_>) -> Outcome<Finding> {
    let (sql, _) = ddl::new_table(plan, rows, Tell::Schema, &connection.server)?;
    if !target.create {
        return Err(contract(
            format!("prepare table \"{}\"", plan.table),
            format!("the table does not exist; make it, or set [sink] create = true:\n{sql}"),
        ));
    }
    make_once(connection, &format!("create table \"{}\"", plan.table), &sql).await?;
    Ok(Finding::note(format!("table \"{}\" is made: {sql}", plan.table)))
}

/// Another instance may make it at the same time.
async fn make_once(connection: &mut Connection, operation: &str, create: &str) -> Outcome<()> {
    let made =
        connection.execute_text(operation, &create.replacen("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)).await;
    made.map_err(|error| match is_second_of_a_name(&error) {
        true => contract(operation, ONE_NAME),
        false => error,
    })
}

/// Adds Settle's columns to a table that has no rows, where tables may be made and changed. A table
/// with rows is its owner's: the statements are told instead.
async fn complete_meta(
    connection: &mut Connection,
    target: &Target,
    plan: &Plan,
    table: &Description,
) -> Outcome<Option<Finding>> {
    let missing = validate::missing_meta(plan, table);
    if missing.is_empty() || !table.is_table() || !target.create || target.evolution != Evolution::Add {
        return Ok(None);
    }
    let operation = format!("add Settle's columns to table \"{}\"", table.name);
    let any = format!("SELECT 1 FROM {} LIMIT 1", SQL.quoted(&table.name));
    if !connection.rows(&operation, &any, Vec::new()).await?.is_empty() {
        return Ok(None);
    }
    for sql in &missing {
        connection.alter(&operation, sql).await?;
    }
    let added = missing.join("; ");
    Ok(Some(Finding::note(format!("empty table \"{}\" gets Settle's columns: {added}", table.name))))
}

async fn prepare_tombstones(
    connection: &mut Connection,
    target: &Target,
    plan: &Plan,
    (table, is_new): (&Description, bool),
    key: &[KeyColumn],
    findings: &mut Vec<Finding>,
) -> Outcome<Option<Description>> {
    let columns: Vec<&Column> = key.iter().map(|k| &table.columns[k.at]).collect();
    let name = SQL.tombstones(&table.name);
    let mut known = describe(connection, &name).await?;
    if known.is_none() && plan.deletes == Deletes::Hard {
        if !is_new {
            tombstones::refuse_lost(connection, &table.name).await?;
        }
        let sql = ddl::new_tombstones(table, &columns, plan);
        make_once(connection, &format!("create table \"{name}\""), &sql).await?;
        known = describe(connection, &name).await?;
    }
    let Some(mut known) = known else { return Ok(None) };
    tombstones::note(connection, &table.name).await?;
    if is_to_be_dated(target, plan, &known) {
        let operation = format!("add Settle's column to table \"{name}\"");
        let added = connection.alter(&operation, &ddl::add_written(plan, &known.name)).await;
        known = describe(connection, &name).await?.unwrap_or(known);
        // Another instance may have added it at the same time.
        if known.column(&plan.meta.written_ms).is_none() {
            added?;
        }
    }
    let is_purged = target.tombstone_retention.is_some();
    findings.extend(validate::tombstone_table(plan, &table.name, &known, &columns, is_purged));
    Ok(Some(known))
}

/// True where a run adds the column that says when tombstones were written.
pub(super) fn is_to_be_dated(target: &Target, plan: &Plan, graves: &Description) -> bool {
    let is_undated = graves.column(&plan.meta.written_ms).is_none();
    target.tombstone_retention.is_some() && is_undated && target.create && graves.is_table()
}

impl Prepared {
    /// What was noted may be gone with its transaction.
    pub(super) fn forget_notes(&mut self) {
        self.filled = Filled::default();
    }

    #[expect(clippy::too_many_arguments, reason = "what was found, put together in one place")]
    pub(super) fn new(
        target: &Target,
        owner: Owner,
        plan: Plan,
        table: Description,
        key: Vec<KeyColumn>,
        rows: TableRows<'_>,
        graves: Option<&Description>,
        shown: Vec<Shown>,
    ) -> Self {
        let is_deleted = table.column(&plan.meta.is_deleted).map(|column| column.name.clone());
        let names: Vec<String> = key.iter().map(|k| table.columns[k.at].name.clone()).collect();
        let source_type = |k: &KeyColumn| Some(&rows.schema()?.field(&k.source, 0)?.source_type);
        let reads_back = |k: &KeyColumn| {
            let column = &table.columns[k.at];
            let is_uuid = matches!(source_type(k), Some(SourceType::Uuid));
            validate::is_exact(column, source_type(k)) && (column.storage.reads_back() || is_uuid)
        };
        let alone = validate::others(&table, &names).is_empty() && table.triggers.is_empty();
        let many = alone && key.iter().all(reads_back);
        let written = graves.and_then(|graves| graves.column(&plan.meta.written_ms));
        let written = written.map(|column| column.name.as_str());
        let statements = Statements::of(&plan, &table.name, &names, is_deleted.as_deref(), written);
        let dated_graves = graves.zip(written).map(|(graves, written)| Graves {
            of: table.name.clone(),
            table: graves.name.clone(),
            key: names.clone(),
            written: written.to_owned(),
        });
        Self {
            owner,
            evolution: target.evolution,
            may_lack_its_first: target.create && rows.schema().is_none(),
            statements,
            key,
            is_deleted,
            has_tombstones: graves.is_some(),
            dated_graves,
            many,
            shown,
            shapes: Vec::new(),
            ignored: HashSet::new(),
            filled: Filled::default(),
            plan,
            table,
        }
    }

    /// True where the table is what it was. From then on, and until the transaction ends, it stays so.
    pub(super) async fn is_unchanged(&self, connection: &mut Connection) -> Outcome<bool> {
        Ok(shown(connection, &self.table.name).await? == self.shown)
    }

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

    /// The shape of a record with these columns, some of which keep the stored value; or the place of one
    /// that the table lacks and that has a value.
    pub(super) fn shape(&mut self, columns: &[Carried<'_>], keeps: &[bool]) -> Outcome<Result<Arc<Shape>, usize>> {
        if let Some(at) = self.shapes.iter().position(|shape| shape.fields.fits(columns, keeps)) {
            self.shapes.swap(0, at);
            return Ok(Ok(self.shapes[0].clone()));
        }
        let shape = match Shape::of(self, columns, keeps, self.evolution())? {
            Ok(shape) => Arc::new(shape),
            Err(at) => return Ok(Err(at)),
        };
        // Few in practice; bounded whatever a topic brings.
        self.shapes.truncate(MAX_SHAPES - 1);
        self.shapes.insert(0, shape.clone());
        Ok(Ok(shape))
    }

    /// What becomes of the column at this place, which the table lacks: the statement that adds it, with
    /// its name; none where it is left out, as `evolution` says.
    pub(super) fn growth(
        &mut self,
        carried: &Carried<'_>,
        at: usize,
        row: Row<'_>,
    ) -> Outcome<Option<(String, String)>> {
        let Carried { name, json } = carried;
        let schema = row.change().schema.as_ref();
        let source_type = schema.and_then(|schema| schema.field(name, at)).map(|field| &field.source_type);
        let column = self.plan.column(name, false).unwrap_or_default().to_owned();
        let known = match (self.plan.declared_type(&column), source_type) {
            (Some(declared), _) => Some(declared_type(&self.operation(), &column, declared)?),
            (None, Some(source_type)) => Some(NewType::of_source(source_type)),
            (None, None) => None,
        };
        let seen = || NewType::of_values(infer(json)).unwrap_or(NewType::Text);
        let sql = add_column(&self.table.name, &column, known.as_ref().unwrap_or(&seen()));
        let carries = || format!("record {} carries a column \"{column}\" that the table lacks", row.change().place());
        match (self.evolution(), known) {
            (Evolution::Ignore, _) => {
                tracing::warn!(
                    table = self.table.name,
                    column,
                    "a new column is left out: [sink] evolution = \"ignore\""
                );
                self.ignored.insert(column);
                return Ok(None);
            }
            (Evolution::Refuse, _) => {
                let context = format!("{}; run {sql}, or set [sink] evolution", carries());
                return Err(contract(self.operation(), context));
            }
            (Evolution::Add, None) => {
                let context = format!(
                    "{}, and no schema that says its type; run {sql} if that is its type, or declare it: \
                     [tables.\"…\"] columns",
                    carries()
                );
                return Err(contract(self.operation(), context));
            }
            (Evolution::Add, Some(_)) => {}
        }
        if let Some(why) = SQL.column_refusal(&column) {
            let context = format!("{}: {why}; give it another name: [tables.\"…\"] rename", carries());
            return Err(contract(self.operation(), context));
        }
        Ok(Some((column, sql)))
    }

    /// Adds the column at this place, which the table lacks, or leaves it out.
    pub(super) async fn grow(
        &mut self,
        connection: &mut Connection,
        carried: &Carried<'_>,
        at: usize,
        row: Row<'_>,
    ) -> Outcome<()> {
        let Some((column, sql)) = self.growth(carried, at, row)? else { return Ok(()) };
        let operation = format!("add column \"{column}\" to \"{}\"", self.table.name);
        let added = connection.alter(&operation, &sql).await;
        if let Some(described) = describe(connection, &self.table.name).await? {
            self.table = described;
        }
        match added {
            // Another instance may have added it meanwhile.
            Err(error) if is_second_of_a_name(&error) && self.table.column(&column).is_none() => {
                return Err(contract(operation, ONE_NAME));
            }
            added => added?,
        }
        tracing::info!(table = self.table.name, sql, "added a column");
        self.shown = shown(connection, &self.table.name).await?;
        self.shapes.clear();
        Ok(())
    }

    /// What happens to columns that the table lacks.
    fn evolution(&self) -> Evolution {
        self.keyed().evolution(self.may_lack_its_first, self.evolution)
    }
}
