//! The target tables of this run: described, validated, created and altered as records need it.
//!
//! A table is looked at once, when its first rows come, and again after every change of it. What
//! may be done to it is the user's word: `create` and `evolution`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use settle_core::batch::TableRows;
use settle_core::change::TableName;
use settle_core::epoch::Epoch;
use settle_core::schema::RowSchema;
use settle_core::sink::{FailureKind, SinkError};
use settle_core::version::Version;

use super::ddl::{self, CreateTable, VIEW_MARK, VIEW_SUFFIX};
use super::definition::{self, Columns};
use super::meta::Meta;
use super::names::identifier;
use super::naming::Naming;
use super::server::Server;
use super::table::{Table, describe};
use super::validate::{self, refusal};
use crate::config::{Evolution, Target};
use crate::finding::Finding;
use crate::owner::Owner;

/// A target table that may be written.
pub(crate) struct Known {
    pub(crate) table: Table,
    /// Key columns in the order of the key: name in the source, index in the table.
    pub(crate) key: Vec<(String, usize)>,
    /// The last Connect schema that was held against the table.
    schema: Option<Arc<RowSchema>>,
    owner: Owner,
    /// Columns that `evolution = "ignore"` left out; each is said once.
    ignored: HashSet<String>,
    /// Rows that one block may have, learned from a server that refused more partitions.
    pub(crate) max_block_rows: Option<usize>,
    /// Rows whose stored values may be looked up at once, learned from answers that were too long.
    pub(crate) max_looked_up: Option<usize>,
}

/// All target tables of this run.
#[derive(Default)]
pub(crate) struct Destination {
    known: HashMap<Arc<TableName>, Known>,
}

#[derive(Deserialize)]
struct FoundRow {
    settle_found: String,
}

impl Destination {
    /// The target of these rows, ready to be written.
    pub(crate) async fn prepare(
        &mut self,
        server: &Server,
        target: &Target,
        rows: &TableRows<'_>,
        meta: &mut Meta,
    ) -> Result<&mut Known, SinkError> {
        let Some(first) = rows.rows().next() else {
            return Err(SinkError::new(FailureKind::Bug, "preparing a table", "no rows"));
        };
        let naming = Naming::new(rows.table, target);
        let key: Vec<&str> = first.key().names().collect();
        let schema = rows.schema();
        if !self.known.contains_key(rows.table) {
            let owner = Owner { table: rows.table.clone(), lineage: first.change().lineage.clone() };
            meta.claim(&server.client, naming.table(), &owner).await?;
            let table = open(server, target, &naming, &key, schema.map(|schema| &**schema), meta.max_epoch()).await?;
            let known = Known::new(table, &naming, &key, owner)?;
            self.known.insert(rows.table.clone(), known);
        }
        let Some(known) = self.known.get_mut(rows.table) else {
            return Err(SinkError::new(FailureKind::Bug, "preparing a table", "it was not kept"));
        };
        known.check_rows(rows, &naming)?;
        if let Some(schema) = schema {
            known.check_schema(schema, &naming)?;
        }
        Ok(known)
    }

    /// Looks at the table anew when its next rows come: it is not what we thought.
    pub(crate) fn forget(&mut self, table: &Arc<TableName>) {
        self.known.remove(table);
    }
}

impl Known {
    /// A table that was validated, or that would be created.
    pub(crate) fn new(table: Table, naming: &Naming<'_>, key: &[&str], owner: Owner) -> Result<Self, SinkError> {
        let mut known = Self {
            table,
            key: Vec::new(),
            schema: None,
            owner,
            ignored: HashSet::new(),
            max_block_rows: None,
            max_looked_up: None,
        };
        let names: Vec<String> = key.iter().map(|name| (*name).to_owned()).collect();
        known.set_key(&names, naming)?;
        Ok(known)
    }

    fn set_key(&mut self, key: &[String], naming: &Naming<'_>) -> Result<(), SinkError> {
        let place = |name: &String| {
            let target = naming.key_target(name);
            let index = self.table.index_of(target).ok_or_else(|| {
                let context = format!("{} has lost its key column {}", self.table.name, identifier(target));
                SinkError::new(FailureKind::Contract, "preparing a table", context)
            })?;
            Ok((name.clone(), index))
        };
        self.key = key.iter().map(place).collect::<Result<_, SinkError>>()?;
        Ok(())
    }

    /// Every row must have the key that the table was validated for, and come from one lineage.
    pub(crate) fn check_rows(&self, rows: &TableRows<'_>, naming: &Naming<'_>) -> Result<(), SinkError> {
        let operation = || format!("preparing {} for {}", self.table.name, rows.table);
        for row in rows.rows() {
            if !row.key().names().eq(self.key.iter().map(|(name, _)| name.as_str())) {
                let list = |names: Vec<&str>| names.join(", ");
                let context = format!(
                    "the key of record {} is ({}), the rows before had ({}); recreate the table with the new key and read \
                     the topic again, or set message.key.columns back",
                    row.change().place(),
                    list(row.key().names().collect()),
                    list(self.key.iter().map(|(name, _)| name.as_str()).collect()),
                );
                return Err(SinkError::new(FailureKind::Contract, operation(), context));
            }
            if row.change().lineage != self.owner.lineage {
                let other = Owner { table: rows.table.clone(), lineage: row.change().lineage.clone() };
                let conflict = self.owner.conflict(&other, naming.table()).unwrap_or_default();
                let context = format!("record {}: {conflict}", row.change().place());
                return Err(SinkError::new(FailureKind::Contract, operation(), context));
            }
        }
        Ok(())
    }

    fn check_schema(&mut self, schema: &Arc<RowSchema>, naming: &Naming<'_>) -> Result<(), SinkError> {
        if self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema) || known == schema) {
            return Ok(());
        }
        let key: Vec<&str> = self.key.iter().map(|(_, index)| self.table.columns[*index].name.as_str()).collect();
        let findings = validate::schema(&self.table, &key, schema, naming);
        if let Some(error) = refusal(&format!("holding the records' schema against {}", self.table.name), &findings) {
            return Err(error);
        }
        self.schema = Some(schema.clone());
        Ok(())
    }

    /// Adds columns (name, type) that records carry and the table lacks. Returns those that the
    /// user wants left out.
    pub(crate) async fn evolve(
        &mut self,
        server: &Server,
        target: &Target,
        naming: &Naming<'_>,
        missing: &[(String, String)],
    ) -> Result<(), SinkError> {
        let name = self.table.name.clone();
        let sql = ddl::add_columns(&name, missing, server.cluster());
        match target.evolution {
            Evolution::Refuse => {
                let columns: Vec<_> = missing.iter().map(|(column, _)| identifier(column)).collect();
                let context = format!(
                    "{name} has no column {}, which records of {} carry, and [sink] evolution is \"refuse\"; run {sql}, or \
                     exclude it in {}",
                    columns.join(", "),
                    naming.source(),
                    naming.section()
                );
                Err(SinkError::new(FailureKind::Contract, format!("preparing {name}"), context))
            }
            Evolution::Ignore => {
                for (column, _) in missing {
                    if self.ignored.insert(column.clone()) {
                        tracing::warn!(table = %name, column, "not written: the table lacks the column, evolution is \"ignore\"");
                    }
                }
                Ok(())
            }
            Evolution::Add => {
                server.client.run(&format!("adding columns to {name}"), &sql).await?;
                for (column, text) in missing {
                    tracing::info!(table = %name, column, r#type = text, "column added");
                }
                self.table = describe(&server.client, &name).await?.ok_or_else(|| vanished(&name.to_string()))?;
                let key: Vec<String> = self.key.iter().map(|(source, _)| source.clone()).collect();
                self.set_key(&key, naming)?;
                self.table = show(server, self.table.clone(), naming, target.create).await?;
                Ok(())
            }
        }
    }

    /// True if `evolution = "ignore"` left this column of the target out.
    pub(crate) fn is_ignored(&self, column: &str) -> bool {
        self.ignored.contains(column)
    }
}

fn vanished(name: &str) -> SinkError {
    let context = "the table is not there, though it was just created or altered; was it dropped, or may the user of \
                   [sink] not see it?";
    SinkError::new(FailureKind::Contract, format!("reading the description of {name}"), context)
}

/// The table: as it is, or created; validated, with its view.
async fn open(
    server: &Server,
    target: &Target,
    naming: &Naming<'_>,
    key: &[&str],
    schema: Option<&RowSchema>,
    max_epoch: u8,
) -> Result<Table, SinkError> {
    let name = server.name(naming.table());
    let existing = describe(&server.client, &name).await?;
    let is_new = existing.is_none();
    let table = match existing {
        Some(table) => table,
        None => create(server, target, naming, key, schema).await?,
    };
    let key: Vec<&str> = key.iter().map(|field| naming.key_target(field)).collect();
    let findings = validate::table(&table, &key, naming);
    if let Some(error) = refusal(&format!("checking {name}"), &findings) {
        return Err(error);
    }
    for finding in &findings {
        tracing::warn!(table = %name, "{finding}");
    }
    if !is_new {
        let finding = outranking(server, &table, naming, max_epoch).await?;
        if let Some(error) = refusal(&format!("checking {name}"), finding.as_slice()) {
            return Err(error);
        }
    }
    show(server, table, naming, target.create).await
}

async fn create(
    server: &Server,
    target: &Target,
    naming: &Naming<'_>,
    key: &[&str],
    schema: Option<&RowSchema>,
) -> Result<Table, SinkError> {
    let name = server.name(naming.table());
    let operation = format!("creating {name} for {}", naming.source());
    if schema.is_none() && naming.declared().next().is_none() {
        let context = format!(
            "the table does not exist, and the records carry no schema to take its columns from; declare them under \
             `columns` in {}, or create the table from what `settle ddl` prints",
            naming.section()
        );
        return Err(SinkError::new(FailureKind::Contract, operation, context));
    }
    let columns = definition::columns(naming, key, schema.map_or(Columns::Declared, Columns::Schema))?;
    let key: Vec<String> = key.iter().map(|field| naming.key_target(field).to_owned()).collect();
    let sql = CreateTable {
        database: &server.database,
        table: naming.table(),
        columns: &columns,
        key: &key,
        meta: naming.meta(),
        cluster: server.cluster(),
        replicated: server.replicated,
    }
    .sql();
    if !target.create {
        let context = format!("the table does not exist, and [sink] create is false; run {sql}");
        return Err(SinkError::new(FailureKind::Contract, operation, context));
    }
    server.client.run(&operation, &sql).await?;
    tracing::info!(table = %name, source = %naming.source(), "table created");
    describe(&server.client, &name).await?.ok_or_else(|| vanished(&name.to_string()))
}

/// Rows of an epoch that is not recorded here would win over everything that comes: they are of
/// another tool, or of a database whose `settle_meta` was lost.
pub(crate) async fn outranking(
    server: &Server,
    table: &Table,
    naming: &Naming<'_>,
    max_epoch: u8,
) -> Result<Option<Finding>, SinkError> {
    let version = identifier(&naming.meta().version);
    let Ok(next) = Epoch::new(u64::from(max_epoch) + 1) else { return Ok(None) };
    let least = Version::default().with_epoch(next).as_u128();
    let sql = format!(
        "SELECT toString({version}) AS settle_found FROM {} WHERE {version} >= toUInt128('{least}') \
         ORDER BY {version} DESC LIMIT 1",
        table.name
    );
    let found: Vec<FoundRow> = server.client.rows(&format!("reading the versions of {}", table.name), &sql).await?;
    Ok(found.first().map(|row| {
        let shown = row.settle_found.parse().map_or_else(|_| row.settle_found.clone(), |v: u128| Version::from(v).to_string());
        Finding::error(
            format!(
                "{} holds rows whose version {shown} (epoch/commit/rank/record) is above every epoch recorded in settle_meta \
                 ({max_epoch}): they would win over everything that comes",
                table.name
            ),
            format!(
                "if another tool wrote them, give them version 0 with ALTER TABLE {} UPDATE {version} = 0 WHERE 1, or write \
                 to another table (name in {}); if settle_meta was lost, restore it from a backup",
                table.name,
                naming.section()
            ),
        )
    }))
}

/// Makes the view of the current rows where that is allowed, and makes one that Settle made before
/// anew where the table's columns are not its.
///
/// Another instance may add a column between our look at the table and our statement; the look is
/// repeated until the view shows what the table has.
async fn show(server: &Server, mut table: Table, naming: &Naming<'_>, create: bool) -> Result<Table, SinkError> {
    let name = table.name.beside(VIEW_SUFFIX);
    let operation = format!("creating the view {name}");
    for _ in 0..5 {
        let columns = shown_columns(&table, naming);
        match describe(&server.client, &name).await? {
            None if !create => return Ok(table),
            Some(view) if view.engine.name != "View" || !view.comment.starts_with("settle view ") => {
                tracing::warn!(view = %name, "left as it is: it exists and was not made by settle");
                return Ok(table);
            }
            Some(view) if view.comment == VIEW_MARK && shown_columns(&view, naming) == columns => return Ok(table),
            _ => {}
        }
        let names: Vec<&str> = columns.iter().map(|(column, _)| column.as_str()).collect();
        let sql = ddl::create_view(&table.name, &names, naming.meta(), server.cluster());
        server.client.run(&operation, &sql).await?;
        table = describe(&server.client, &table.name).await?.ok_or_else(|| vanished(&table.name.to_string()))?;
    }
    let context = "the columns of its table keep changing; stop what alters it, and start again";
    Err(SinkError::new(FailureKind::Contract, operation, context))
}

/// What the view shows: the user's columns, computed ones too, with their types.
pub(crate) fn shown_columns(table: &Table, naming: &Naming<'_>) -> Vec<(String, String)> {
    table
        .columns
        .iter()
        .filter(|column| column.is_read && !naming.is_meta(&column.name))
        .map(|column| (column.name.clone(), column.column_type.to_string()))
        .collect()
}
