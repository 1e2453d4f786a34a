//! What `settle check` says of the destination: every finding, not only the first.

use serde::Deserialize;
use settle_core::batch::TableRows;
use settle_core::change::TableName;
use settle_core::schema::RowSchema;
use settle_core::sink::SinkError;

use super::ddl::VIEW_SUFFIX;
use super::definition::{self, Columns};
use super::destination::{outranking, shown_columns};
use super::meta;
use super::names::identifier;
use super::naming::Naming;
use super::privileges;
use super::sink::ClickHouse;
use super::table::{Table, describe};
use super::{trial, validate};
use crate::finding::Finding;
use crate::owner::Owner;

/// A table that the topics will write.
#[derive(Clone, Copy)]
pub struct CheckedTable<'a> {
    /// Source table.
    pub table: &'a TableName,
    /// Key columns, in the order of the key, under their names in the source.
    pub key: &'a [&'a str],
    /// The Connect schema of its records, where they carry one.
    pub schema: Option<&'a RowSchema>,
    /// Its sampled rows that carry all of their columns.
    pub rows: Option<TableRows<'a>>,
}

#[derive(Deserialize)]
struct SettingRow {
    name: String,
    value: String,
}

impl ClickHouse {
    /// Checks server, database, `settle_meta` and tables, without changing anything. Returns what
    /// was found; nothing but notes means that a run would start.
    pub async fn check(&mut self, tables: &[CheckedTable<'_>]) -> Vec<Finding> {
        let mut findings = Vec::new();
        match self.server.probe().await {
            Ok(version) => findings.push(Finding::note(format!("the server is ClickHouse {version}"))),
            Err(error) => return vec![Finding::of_sink(&error)],
        }
        let has_meta = match self.check_server(&mut findings).await {
            Ok(has_meta) => has_meta,
            Err(error) => {
                findings.push(Finding::of_sink(&error));
                return findings;
            }
        };
        for checked in tables {
            let mut own = Vec::new();
            if has_meta && let Err(error) = self.check_owner(checked).await {
                own.push(Finding::of_sink(&error));
            }
            if let Err(error) = self.check_table(checked, &mut own).await {
                own.push(Finding::of_sink(&error));
            }
            findings.append(&mut own);
        }
        findings
    }

    /// Whether another source table, or another server's, fills the target.
    async fn check_owner(&self, checked: &CheckedTable<'_>) -> Result<(), SinkError> {
        let Some(first) = checked.rows.and_then(|rows| rows.rows().next()) else { return Ok(()) };
        let change = first.change();
        let owner = Owner { table: change.table.clone(), lineage: change.lineage.clone() };
        let naming = Naming::new(checked.table, &self.target);
        self.meta.refuse_other(&self.server.client, naming.table(), &owner).await
    }

    /// Returns whether there is a `settle_meta`.
    async fn check_server(&mut self, findings: &mut Vec<Finding>) -> Result<bool, SinkError> {
        let database = identifier(&self.server.database);
        if self.server.database_engine().await?.is_none() {
            findings.push(missing(self.target.create, &format!("the database {database}"), "CREATE DATABASE"));
            return Ok(false);
        }
        let name = self.server.name(meta::TABLE);
        let has_meta = describe(&self.server.client, &name).await?.is_some();
        if !has_meta {
            let sql = meta::create_table(&self.server.database, self.server.cluster(), self.server.replicated);
            findings.push(missing(self.target.create, &name.to_string(), &sql));
        } else {
            self.meta.check(&self.server.client).await?;
        }
        findings.extend(privileges::check(&self.server, &self.target).await?);
        let sql = "SELECT name, value FROM system.merge_tree_settings WHERE name = 'fsync_after_insert' \
                   UNION ALL SELECT name, value FROM system.settings WHERE name = 'insert_quorum'";
        let settings: Vec<SettingRow> = self.server.client.rows("reading the server's settings", sql).await?;
        let value = |name: &str| settings.iter().find(|s| s.name == name).map_or("unknown", |s| s.value.as_str());
        findings.push(Finding::note(format!(
            "durability is the server's: fsync_after_insert = {} (by default for new tables), insert_quorum = {}",
            value("fsync_after_insert"),
            value("insert_quorum")
        )));
        Ok(has_meta)
    }

    async fn check_table(&self, checked: &CheckedTable<'_>, findings: &mut Vec<Finding>) -> Result<(), SinkError> {
        let naming = Naming::new(checked.table, &self.target);
        let name = self.server.name(naming.table());
        let existing = describe(&self.server.client, &name).await?;
        trial::declared_types(&self.server, &naming, existing.as_ref(), findings).await?;
        let Some(table) = existing else { return self.check_missing(checked, &naming, findings).await };
        let key: Vec<&str> = checked.key.iter().map(|field| naming.key_target(field)).collect();
        let before = findings.len();
        findings.extend(validate::table(&table, &key, &naming));
        if let Some(schema) = checked.schema {
            findings.extend(validate::schema(&table, &key, schema, &naming));
        }
        if findings[before..].iter().all(|f| !f.is_error()) {
            findings.extend(outranking(&self.server, &table, &naming, self.meta.max_epoch()).await?);
            self.try_rows(checked, &table, findings).await?;
        }
        let view_name = name.beside(VIEW_SUFFIX);
        let view = describe(&self.server.client, &view_name).await?;
        if view.is_some_and(|view| shown_columns(&view, &naming) != shown_columns(&table, &naming))
            && !self.target.create
        {
            findings.push(Finding::warning(
                format!("the view {view_name} does not show the columns of {name}"),
                "a run makes it anew if settle made it; else create it from what `settle ddl` prints",
            ));
        }
        Ok(())
    }

    /// The table that a run would create.
    async fn check_missing(
        &self,
        checked: &CheckedTable<'_>,
        naming: &Naming<'_>,
        findings: &mut Vec<Finding>,
    ) -> Result<(), SinkError> {
        let name = self.server.name(naming.table());
        if checked.schema.is_none() && naming.declared().next().is_none() {
            findings.push(Finding::error(
                format!("{name} does not exist, and the records carry no schema to take its columns from"),
                format!(
                    "declare them under `columns` in {}, or create the table from what `settle ddl` prints",
                    naming.section()
                ),
            ));
            return Ok(());
        }
        let from = checked.schema.map_or(Columns::Declared, Columns::Schema);
        let columns = definition::columns(naming, checked.key, from)?;
        findings.push(missing(self.target.create, &name.to_string(), "what `settle ddl` prints"));
        if findings.iter().all(|finding| !finding.is_error()) {
            let table = trial::new_table(&self.server, naming, &columns).await?;
            self.try_rows(checked, &table, findings).await?;
        }
        Ok(())
    }

    async fn try_rows(
        &self,
        checked: &CheckedTable<'_>,
        table: &Table,
        findings: &mut Vec<Finding>,
    ) -> Result<(), SinkError> {
        match &checked.rows {
            Some(rows) => trial::rows(&self.server, &self.target, table.clone(), rows, findings).await,
            None => Ok(()),
        }
    }
}

/// Something that does not exist: created by the run, or by the user.
fn missing(create: bool, what: &str, sql: &str) -> Finding {
    if create {
        Finding::note(format!("{what} does not exist; a run creates it"))
    } else {
        Finding::error(format!("{what} does not exist, and [sink] create is false"), format!("run {sql}"))
    }
}
