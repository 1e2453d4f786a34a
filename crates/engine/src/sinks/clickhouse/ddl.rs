//! The statements that create and alter tables. Pure text; every name is quoted.

use super::names::{QualifiedName, identifier, identifiers, literal};
use crate::config::MetaNames;

/// Said in the comment of every view that Settle makes: only such a view is ever replaced. The
/// number rises when the text of the view changes.
pub(crate) const VIEW_MARK: &str = "settle view 2: current rows";
/// Behind the table's name, its view's.
pub(crate) const VIEW_SUFFIX: &str = "_current";

/// A table to be created.
#[derive(Clone, Copy, Debug)]
pub struct CreateTable<'a> {
    /// Database.
    pub database: &'a str,
    /// Table.
    pub table: &'a str,
    /// Columns of the source with their ClickHouse types, in order.
    pub columns: &'a [(String, String)],
    /// Key columns, in the order of the key: the sorting key.
    pub key: &'a [String],
    /// Names of the columns that are added.
    pub meta: &'a MetaNames,
    /// `ON CLUSTER`.
    pub cluster: Option<&'a str>,
    /// True for a replicated engine.
    pub replicated: bool,
}

impl CreateTable<'_> {
    /// The statement.
    pub(crate) fn sql(&self) -> String {
        let MetaNames { op, source_ts_ms, is_deleted, version, .. } = self.meta;
        let mut lines: Vec<String> =
            self.columns.iter().map(|(name, text)| format!("    {} {text}", identifier(name))).collect();
        lines.push(format!("    {} LowCardinality(String)", identifier(op)));
        lines.push(format!("    {} Nullable(Int64)", identifier(source_ts_ms)));
        lines.push(format!("    {} UInt8", identifier(is_deleted)));
        lines.push(format!("    {} UInt128", identifier(version)));
        format!(
            "CREATE TABLE IF NOT EXISTS {}{}\n(\n{}\n)\nENGINE = {}ReplacingMergeTree({})\nORDER BY ({})",
            QualifiedName::new(self.database, self.table),
            on_cluster(self.cluster),
            lines.join(",\n"),
            if self.replicated { "Replicated" } else { "" },
            identifiers([version.as_str(), is_deleted.as_str()]),
            identifiers(self.key.iter().map(String::as_str)),
        )
    }
}

/// What Settle runs before it makes target tables: the database, and the table of its own.
pub fn own_ddl(database: &str, cluster: Option<&str>) -> Vec<String> {
    vec![create_database(database, cluster), super::meta::create_table(database, cluster, cluster.is_some())]
}

/// The database.
pub(crate) fn create_database(database: &str, cluster: Option<&str>) -> String {
    format!("CREATE DATABASE IF NOT EXISTS {}{}", identifier(database), on_cluster(cluster))
}

/// The `CREATE TABLE` of a target table, as Settle runs it.
pub fn create_table_ddl(table: &CreateTable<'_>) -> String {
    table.sql()
}

/// The view of the current rows: the user's columns of what is not deleted, and not emptied by a
/// truncate that is recorded beside the table.
pub(crate) fn create_view(table: &QualifiedName, columns: &[&str], meta: &MetaNames, cluster: Option<&str>) -> String {
    let places = QualifiedName::new(&table.database, super::meta::TABLE);
    format!(
        "CREATE OR REPLACE VIEW {}{} AS SELECT {} FROM {table} FINAL WHERE {} = 0 AND {} COMMENT {}",
        table.beside(VIEW_SUFFIX),
        on_cluster(cluster),
        identifiers(columns.iter().copied()),
        identifier(&meta.is_deleted),
        super::truncates::kept(&places, &table.table, &meta.version),
        literal(VIEW_MARK),
    )
}

/// Adds columns with their types.
pub(crate) fn add_columns(table: &QualifiedName, columns: &[(String, String)], cluster: Option<&str>) -> String {
    let added: Vec<_> =
        columns.iter().map(|(name, text)| format!("ADD COLUMN IF NOT EXISTS {} {text}", identifier(name))).collect();
    format!("ALTER TABLE {table}{} {}", on_cluster(cluster), added.join(", "))
}

/// Gives a column another type.
pub(crate) fn modify_column(table: &QualifiedName, column: &str, text: &str) -> String {
    format!("ALTER TABLE {table} MODIFY COLUMN {} {text}", identifier(column))
}

/// ` ON CLUSTER` of this name, or nothing.
pub(crate) fn on_cluster(cluster: Option<&str>) -> String {
    cluster.map(|name| format!(" ON CLUSTER {}", identifier(name))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_its_view() {
        let columns = [("id".to_owned(), "Int64".to_owned()), ("we`ird".to_owned(), "Nullable(String)".to_owned())];
        let create = CreateTable {
            database: "shop",
            table: "orders",
            columns: &columns,
            key: &["id".to_owned()],
            meta: &MetaNames::default(),
            cluster: None,
            replicated: false,
        };
        assert_eq!(
            create_table_ddl(&create),
            "CREATE TABLE IF NOT EXISTS `shop`.`orders`\n(\n    `id` Int64,\n    `we\\`ird` Nullable(String),\n    \
             `_op` LowCardinality(String),\n    `_source_ts_ms` Nullable(Int64),\n    `_is_deleted` UInt8,\n    \
             `_version` UInt128\n)\nENGINE = ReplacingMergeTree(`_version`, `_is_deleted`)\nORDER BY (`id`)"
        );
        let name = QualifiedName::new("shop", "orders");
        let zero = "toUInt128(0)";
        let mask = format!("toUInt128('{}')", (0x7fu128 << 120) | ((1 << 62) - 1));
        assert_eq!(
            create_view(&name, &["id", "we`ird"], &MetaNames::default(), Some("c1")),
            format!(
                "CREATE OR REPLACE VIEW `shop`.`orders_current` ON CLUSTER `c1` AS SELECT `id`, `we\\`ird` FROM \
                 `shop`.`orders` FINAL WHERE `_is_deleted` = 0 \
                 AND bitAnd(`_version`, {mask}) >= (SELECT coalesce(max(bitAnd(`value`, {mask})), {zero}) FROM \
                 `shop`.`settle_meta` WHERE `kind` = 'truncate-record' AND `subject` = 'orders') \
                 AND `_version` >= (SELECT coalesce(max(`value`), {zero}) FROM \
                 `shop`.`settle_meta` WHERE `kind` = 'truncate-commit' AND `subject` = 'orders') \
                 COMMENT 'settle view 2: current rows'"
            )
        );
    }
}
