//! A target table as the server describes it: `system.tables` and `system.columns`.

use serde::Deserialize;
use settle_core::sink::SinkError;

use super::client::Client;
use super::column_type::ColumnType;
use super::names::{QualifiedName, bare_name, literal};
use super::scan;

/// A table or view that exists.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: QualifiedName,
    pub(crate) engine: Engine,
    /// Expressions of the sorting key, as the server prints them.
    pub(crate) sorting_key: Vec<String>,
    pub(crate) partition_key: String,
    pub(crate) comment: String,
    /// All columns, in order.
    pub(crate) columns: Vec<TableColumn>,
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) column_type: ColumnType,
    /// False for MATERIALIZED, ALIAS and EPHEMERAL columns: they are never listed in an insert.
    pub(crate) is_written: bool,
    /// True where the table itself says what an absent value is.
    pub(crate) has_default: bool,
    /// False for EPHEMERAL columns.
    pub(crate) is_read: bool,
    pub(crate) in_partition_key: bool,
}

/// The engine's clauses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engine {
    /// As `ReplicatedReplacingMergeTree`.
    pub(crate) name: String,
    /// Arguments that are column names, without the path and name of a replica.
    pub(crate) arguments: Vec<String>,
    /// Elements of the table's TTL.
    pub(crate) ttl: Vec<String>,
    /// Settings, name and value.
    pub(crate) settings: Vec<(String, String)>,
}

impl Engine {
    /// Reads `engine_full`.
    pub(crate) fn parse(name: &str, full: &str) -> Self {
        let arguments = match scan::call(full) {
            Some((_, inside, _)) => scan::list(inside).into_iter().filter_map(bare_name).collect(),
            None => Vec::new(),
        };
        let ends = ["TTL", "SETTINGS", "COMMENT"];
        let ttl = scan::clause(full, "TTL", &ends[1..]).map(scan::list).unwrap_or_default();
        let settings = scan::clause(full, "SETTINGS", &["COMMENT"]).map(scan::list).unwrap_or_default();
        let setting = |text: &str| {
            let (name, value) = text.split_once('=')?;
            let value = value.trim();
            Some((name.trim().to_owned(), scan::string_literal(value).unwrap_or_else(|| value.to_owned())))
        };
        Self {
            name: name.to_owned(),
            arguments,
            ttl: ttl.into_iter().map(str::to_owned).collect(),
            settings: settings.into_iter().filter_map(setting).collect(),
        }
    }

    /// ReplacingMergeTree, whether replicated, shared or neither.
    pub(crate) fn is_replacing(&self) -> bool {
        let name = self.name.strip_prefix("Replicated").or_else(|| self.name.strip_prefix("Shared"));
        name.unwrap_or(&self.name) == "ReplacingMergeTree"
    }

    /// True where the server copies what is written, or other servers share it.
    pub(crate) fn is_replicated(&self) -> bool {
        self.name.starts_with("Replicated") || self.name.starts_with("Shared")
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Table {
    /// Where a column stands.
    pub(crate) fn index_of(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|known| known.name == column)
    }

    pub(crate) fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|known| known.name == name)
    }

    /// The sorting key as columns; an expression is returned as the error.
    pub(crate) fn sorting_columns(&self) -> Result<Vec<String>, &str> {
        self.sorting_key.iter().map(|text| bare_name(text).ok_or(text.as_str())).collect()
    }
}

#[derive(Deserialize)]
struct TableRow {
    engine: String,
    engine_full: String,
    sorting_key: String,
    partition_key: String,
    comment: String,
}

#[derive(Deserialize)]
struct ColumnRow {
    name: String,
    #[serde(rename = "type")]
    column_type: String,
    default_kind: String,
    in_partition_key: String,
}

/// Describes a table; none where it does not exist, or may not be seen.
pub(crate) async fn describe(client: &Client, name: &QualifiedName) -> Result<Option<Table>, SinkError> {
    let operation = format!("reading the description of {name}");
    let (database, table) = (literal(&name.database), literal(&name.table));
    let rows: Vec<TableRow> = client
        .rows(
            &operation,
            &format!(
                "SELECT engine, engine_full, sorting_key, partition_key, comment FROM system.tables \
                 WHERE database = {database} AND name = {table}"
            ),
        )
        .await?;
    let Some(row) = rows.into_iter().next() else { return Ok(None) };
    let columns: Vec<ColumnRow> = client
        .rows(
            &operation,
            &format!(
                "SELECT name, type, toString(default_kind) AS default_kind, \
                 toString(is_in_partition_key) AS in_partition_key FROM system.columns \
                 WHERE database = {database} AND table = {table} ORDER BY position"
            ),
        )
        .await?;
    let column = |column: ColumnRow| TableColumn {
        name: column.name,
        column_type: ColumnType::parse(&column.column_type),
        has_default: column.default_kind == "DEFAULT",
        is_written: matches!(column.default_kind.as_str(), "" | "DEFAULT"),
        is_read: column.default_kind != "EPHEMERAL",
        in_partition_key: column.in_partition_key == "1",
    };
    Ok(Some(Table {
        name: name.clone(),
        engine: Engine::parse(&row.engine, &row.engine_full),
        sorting_key: scan::list(scan::unwrapped(&row.sorting_key)).into_iter().map(str::to_owned).collect(),
        partition_key: row.partition_key,
        comment: row.comment,
        columns: columns.into_iter().map(column).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_as_the_server_prints_them() {
        let full = "ReplicatedReplacingMergeTree('/clickhouse/{uuid}', '{replica}', _version, `is deleted`) PARTITION BY \
                    toYYYYMM(d) ORDER BY k TTL d + toIntervalDay(30) WHERE _is_deleted = 0, d RECOMPRESS CODEC(ZSTD(3)) \
                    SETTINGS clean_deleted_rows = 'Always', index_granularity = 8192 COMMENT 'TTL x'";
        let engine = Engine::parse("ReplicatedReplacingMergeTree", full);
        assert!(engine.is_replacing());
        assert_eq!(engine.arguments, ["_version", "is deleted"]);
        assert_eq!(engine.ttl, ["d + toIntervalDay(30) WHERE _is_deleted = 0", "d RECOMPRESS CODEC(ZSTD(3))"]);
        assert_eq!(engine.setting("clean_deleted_rows"), Some("Always"));
        assert_eq!(engine.setting("index_granularity"), Some("8192"));
        assert!(!Engine::parse("MergeTree", "MergeTree ORDER BY k").is_replacing());
        assert_eq!(
            Engine::parse("ReplacingMergeTree", "ReplacingMergeTree ORDER BY (k)").arguments,
            Vec::<String>::new()
        );
    }
}
