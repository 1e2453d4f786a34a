//! What `settle check` says of the destination: every finding, not only the first.

use serde::Deserialize;
use settle_core::change::TableName;
use settle_core::schema::RowSchema;
use settle_core::sink::{FailureKind, SinkError};

use super::ddl::VIEW_SUFFIX;
use super::definition::{self, Columns};
use super::destination::{outranking, shown_columns};
use super::meta;
use super::names::identifier;
use super::naming::Naming;
use super::sink::ClickHouse;
use super::table::describe;
use super::validate;
use crate::finding::Finding;

/// A table that the topics will write.
#[derive(Clone, Copy, Debug)]
pub struct CheckedTable<'a> {
    /// Source table.
    pub table: &'a TableName,
    /// Key columns, in the order of the key, under their names in the source.
    pub key: &'a [&'a str],
    /// The Connect schema of its records, where they carry one.
    pub schema: Option<&'a RowSchema>,
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
            Err(error) => return vec![of_error(&error)],
        }
        if let Err(error) = self.check_server(&mut findings).await {
            findings.push(of_error(&error));
            return findings;
        }
        let mut taken: Vec<(String, &TableName)> = Vec::new();
        for checked in tables {
            let naming = Naming::new(checked.table, &self.target);
            if let Some((_, other)) = taken.iter().find(|(name, _)| name == naming.table()) {
                findings.push(Finding::error(
                    format!("{other} and {} would both be written to {}", checked.table, identifier(naming.table())),
                    format!("give one another table with name in {}", naming.section()),
                ));
            }
            taken.push((naming.table().to_owned(), checked.table));
            if let Err(error) = self.check_table(checked, &mut findings).await {
                findings.push(of_error(&error));
            }
        }
        findings
    }

    async fn check_server(&mut self, findings: &mut Vec<Finding>) -> Result<(), SinkError> {
        let database = identifier(&self.server.database);
        if self.server.database_engine().await?.is_none() {
            findings.push(missing(self.target.create, &format!("the database {database}"), "CREATE DATABASE"));
            return Ok(());
        }
        let name = self.server.name(meta::TABLE);
        if describe(&self.server.client, &name).await?.is_none() {
            let sql = meta::create_table(&self.server.database, self.server.cluster(), self.server.replicated);
            findings.push(missing(self.target.create, &name.to_string(), &sql));
        } else {
            self.meta.check(&self.server.client).await?;
        }
        let sql = "SELECT name, value FROM system.merge_tree_settings WHERE name = 'fsync_after_insert' \
                   UNION ALL SELECT name, value FROM system.settings WHERE name = 'insert_quorum'";
        let settings: Vec<SettingRow> = self.server.client.rows("reading the server's settings", sql).await?;
        let value = |name: &str| settings.iter().find(|s| s.name == name).map_or("unknown", |s| s.value.as_str());
        findings.push(Finding::note(format!(
            "durability is the server's: fsync_after_insert = {} (by default for new tables), insert_quorum = {}",
            value("fsync_after_insert"),
            value("insert_quorum")
        )));
        Ok(())
    }

    async fn check_table(&self, checked: &CheckedTable<'_>, findings: &mut Vec<Finding>) -> Result<(), SinkError> {
        let naming = Naming::new(checked.table, &self.target);
        let name = self.server.name(naming.table());
        let Some(table) = describe(&self.server.client, &name).await? else {
            if checked.schema.is_none() && naming.declared().next().is_none() {
                findings.push(Finding::error(
                    format!("{name} does not exist, and the records carry no schema to take its columns from"),
                    format!(
                        "declare them under `columns` in {}, or create the table from what `settle ddl` prints",
                        naming.section()
                    ),
                ));
            } else {
                let from = checked.schema.map_or(Columns::Declared, Columns::Schema);
                definition::columns(&naming, checked.key, from)?;
                findings.push(missing(self.target.create, &name.to_string(), "what `settle ddl` prints"));
            }
            return Ok(());
        };
        let key: Vec<&str> = checked.key.iter().map(|field| naming.key_target(field)).collect();
        let before = findings.len();
        findings.extend(validate::table(&table, &key, &naming));
        if let Some(schema) = checked.schema {
            findings.extend(validate::schema(&table, &key, schema, &naming));
        }
        if findings[before..].iter().all(|f| !f.is_error()) {
            findings.extend(outranking(&self.server, &table, &naming, self.meta.max_epoch()).await?);
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
}

/// Something that does not exist: created by the run, or by the user.
fn missing(create: bool, what: &str, sql: &str) -> Finding {
    if create {
        Finding::note(format!("{what} does not exist; a run creates it"))
    } else {
        Finding::error(format!("{what} does not exist, and [sink] create is false"), format!("run {sql}"))
    }
}

fn of_error(error: &SinkError) -> Finding {
    let fix = match error.kind {
        FailureKind::Unreachable => "check `url` in [sink], and that the server runs",
        _ => "",
    };
    Finding::error(error.to_string(), fix)
}
