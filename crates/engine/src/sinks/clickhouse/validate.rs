//! Whether an existing table can hold what Settle writes, and keep its promise: the row with the
//! greatest version of a key is the one that is seen.
//!
//! Every refusal says what would go wrong, and what to do.

use settle_core::schema::RowSchema;
use settle_core::sink::{FailureKind, SinkError};

use super::column_type::Base;
use super::column_type::ColumnType;
use super::ddl::{add_columns, modify_column};
use super::migration::migration;
use super::names::{identifier, identifiers};
use super::naming::Naming;
use super::table::Table;
use crate::finding::Finding;

/// The findings that stop a run, as one error; none where a run may start.
pub(crate) fn refusal(operation: &str, findings: &[Finding]) -> Option<SinkError> {
    let grave: Vec<_> = findings.iter().filter(|finding| finding.is_error()).map(ToString::to_string).collect();
    (!grave.is_empty()).then(|| SinkError::new(FailureKind::Contract, operation, grave.join(". And: ")))
}

/// Everything that is wrong with `table` as the target of rows with this key. `key` is in names of
/// the target.
pub(crate) fn table(table: &Table, key: &[&str], naming: &Naming<'_>) -> Vec<Finding> {
    if !table.engine.is_replacing() {
        let engine = table.engine.name.as_str();
        let elsewhere = || format!("write to another table (name in {})", naming.section());
        let (what, fix) = match engine {
            "View" | "MaterializedView" => (format!("{} is a {engine}", table.name), elsewhere()),
            "Distributed" => (
                format!("{} is Distributed: a key's rows could lie on several servers", table.name),
                format!("write to the table beneath it (name in {})", naming.section()),
            ),
            _ => {
                let what = format!("{} has the engine {engine}, which does not keep one row per key", table.name);
                (what, if engine.ends_with("MergeTree") { migration(table, key, naming) } else { elsewhere() })
            }
        };
        return vec![Finding::error(what, fix)];
    }
    let mut findings = Vec::new();
    engine_columns(table, key, naming, &mut findings);
    sorting_key(table, key, &mut findings);
    partition_key(table, key, &mut findings);
    key_columns(table, key, &mut findings);
    added_columns(table, naming, &mut findings);
    delete_markers(table, naming, &mut findings);
    findings
}

/// The engine's arguments: version column and delete marker, and their types.
fn engine_columns(table: &Table, key: &[&str], naming: &Naming<'_>, findings: &mut Vec<Finding>) {
    let meta = naming.meta();
    let name = &table.name;
    let (version, is_deleted) = match table.engine.arguments.as_slice() {
        [version, is_deleted] => (version, is_deleted),
        [] => {
            let what = format!("{name} has no version column: its engine keeps the row that was inserted last");
            return findings.push(Finding::error(what, migration(table, key, naming)));
        }
        _ => {
            let what =
                format!("{name} has no delete marker in its engine: a late older row could resurrect a deleted one");
            return findings.push(Finding::error(what, migration(table, key, naming)));
        }
    };
    if *version != meta.version || *is_deleted != meta.is_deleted {
        let what = format!(
            "the engine of {name} reads version and delete marker from `{version}` and `{is_deleted}`, settle writes them \
             to `{}` and `{}`",
            meta.version, meta.is_deleted
        );
        let fix = match table.column(version).map(|column| &column.column_type.base) {
            Some(Base::Int { bits: 128, signed: false }) => {
                format!("set version = \"{version}\" and is_deleted = \"{is_deleted}\" in [sink.meta]")
            }
            _ => migration(table, key, naming),
        };
        return findings.push(Finding::error(what, fix));
    }
    if let Some(column) = table.column(version)
        && column.column_type.base != (Base::Int { bits: 128, signed: false })
    {
        let what = format!(
            "the version column `{version}` of {name} is {}, a version has 128 bits (UInt128)",
            column.column_type
        );
        findings.push(Finding::error(what, migration(table, key, naming)));
    }
}

/// A delete carries nothing but the key, so the sorting key must be the key and nothing else.
fn sorting_key(table: &Table, key: &[&str], findings: &mut Vec<Finding>) {
    let wanted = identifiers(key.iter().copied());
    let recreate = format!("recreate the table with ORDER BY ({wanted})");
    let sorting = match table.sorting_columns() {
        Ok(columns) => columns,
        Err(expression) => {
            let what = format!(
                "{} is sorted by the expression {expression}: rows of one key are merged only where the sorting key is the \
                 key itself",
                table.name
            );
            return findings.push(Finding::error(what, recreate));
        }
    };
    let shown = identifiers(sorting.iter().map(String::as_str));
    if let Some(extra) = sorting.iter().find(|name| !key.contains(&name.as_str())) {
        let what = format!(
            "{} has ORDER BY ({shown}), the key of the topic is ({wanted}): a delete carries only the key, its marker would \
             stand at another `{extra}` than the row and never remove it; so would an update of `{extra}`",
            table.name
        );
        let fix = format!("{recreate}, or put `{extra}` into the key with message.key.columns in the connector");
        findings.push(Finding::error(what, fix));
    } else if let Some(missing) = key.iter().find(|name| !sorting.iter().any(|known| known == *name)) {
        let what = format!(
            "{} has ORDER BY ({shown}), the key of the topic is ({wanted}): rows that differ in `{missing}` alone would \
             replace each other",
            table.name
        );
        findings.push(Finding::error(what, recreate));
    }
}

fn partition_key(table: &Table, key: &[&str], findings: &mut Vec<Finding>) {
    let outside = table.columns.iter().find(|column| column.in_partition_key && !key.contains(&column.name.as_str()));
    if let Some(column) = outside {
        let what = format!(
            "{} has PARTITION BY {}, but `{}` is not in the key ({}): versions of one row would lie in several partitions, \
             which are never merged",
            table.name,
            table.partition_key,
            column.name,
            identifiers(key.iter().copied())
        );
        findings
            .push(Finding::error(what, "recreate the table with a partition expression of key columns, or with none"));
    }
}

fn key_columns(table: &Table, key: &[&str], findings: &mut Vec<Finding>) {
    for name in key {
        match table.column(name) {
            None => findings.push(Finding::error(
                format!("{} has no column `{name}`, which is in the key of the topic", table.name),
                format!(
                    "add it and put it into ORDER BY: recreate the table with ORDER BY ({})",
                    identifiers(key.iter().copied())
                ),
            )),
            Some(column) if !column.is_written => findings.push(Finding::error(
                format!("the key column `{name}` of {} is computed by the server, so it cannot be written", table.name),
                "make it a plain column",
            )),
            Some(column) if column.column_type.nullable => findings.push(Finding::error(
                format!("the key column `{name}` of {} is {}: a key is never NULL", table.name, column.column_type),
                "recreate the table with the column not Nullable",
            )),
            Some(column) if column.column_type.kind().is_none() => findings.push(Finding::error(
                format!(
                    "the key column `{name}` of {} is {}, which no key can be written to exactly",
                    table.name, column.column_type
                ),
                "recreate the table with a plain type for it",
            )),
            Some(_) => {}
        }
    }
}

/// `_op` and `_source_ts_ms`, beside the engine's own two.
fn added_columns(table: &Table, naming: &Naming<'_>, findings: &mut Vec<Finding>) {
    let meta = naming.meta();
    let wanted = [(&meta.op, "LowCardinality(String)"), (&meta.source_ts_ms, "Nullable(Int64)")];
    for (name, text) in wanted {
        let Some(column) = table.column(name) else {
            findings.push(Finding::error(
                format!("{} has no column `{name}`, to which settle writes", table.name),
                format!("run {}", add_columns(&table.name, &[(name.clone(), text.to_owned())], None)),
            ));
            continue;
        };
        let fits = match &column.column_type.base {
            Base::Int { bits: 64, signed: true } => *name == meta.source_ts_ms,
            Base::DateTime64 { digits } => *name == meta.source_ts_ms && *digits >= 3,
            _ => *name == meta.op && column.column_type.takes_text(),
        };
        if !fits || !column.is_written {
            findings.push(Finding::error(
                format!("column `{name}` of {} is {}, settle writes {text} to it", table.name, column.column_type),
                format!("run {}", modify_column(&table.name, name, text)),
            ));
        }
    }
}

/// Whatever removes delete markers lets an older row come back.
fn delete_markers(table: &Table, naming: &Naming<'_>, findings: &mut Vec<Finding>) {
    let name = &table.name;
    let why = "removes delete markers, so a late older row could resurrect a deleted one";
    if table.engine.setting("clean_deleted_rows").is_some_and(|value| value.eq_ignore_ascii_case("always")) {
        findings.push(Finding::error(
            format!("the setting clean_deleted_rows = 'Always' of {name} {why}"),
            format!("run ALTER TABLE {name} RESET SETTING clean_deleted_rows"),
        ));
    }
    let on = |setting| table.engine.setting(setting).is_some_and(|value| !matches!(value, "0" | "false"));
    let cleanup = "enable_replacing_merge_with_cleanup_for_min_age_to_force_merge";
    if on(cleanup) {
        findings.push(Finding::error(
            format!("the setting {cleanup} of {name} {why}"),
            format!("run ALTER TABLE {name} RESET SETTING {cleanup}"),
        ));
    }
    let by_hand = "allow_experimental_replacing_merge_with_cleanup";
    if on(by_hand) {
        findings.push(Finding::warning(
            format!("{name} allows OPTIMIZE … FINAL CLEANUP, which {why}"),
            format!(
                "never run it while records may be delivered again, or run ALTER TABLE {name} RESET SETTING {by_hand}"
            ),
        ));
    }
    let kept = identifier(&naming.meta().is_deleted);
    let bare = naming.meta().is_deleted.as_str();
    for element in &table.engine.ttl {
        let upper = element.to_ascii_uppercase();
        if ["TO DISK", "TO VOLUME", "RECOMPRESS"].iter().any(|action| upper.contains(action)) {
            continue;
        }
        let condition = element.rsplit_once(" WHERE ").map(|(_, condition)| condition.trim());
        let keeps_markers = condition
            .is_some_and(|condition| [bare, kept.as_str()].iter().any(|column| condition == format!("{column} = 0")));
        if !keeps_markers {
            findings.push(Finding::error(
                format!("the TTL {element} of {name} {why}"),
                format!("end it with WHERE {kept} = 0, or run ALTER TABLE {name} REMOVE TTL"),
            ));
        }
    }
}

/// What the records' schema says against the table's columns. Columns that the table lacks are the
/// business of `evolution`.
pub(crate) fn schema(table: &Table, key: &[&str], schema: &RowSchema, naming: &Naming<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for field in &schema.fields {
        let Some(name) = naming.target(&field.name, key.contains(&field.name.as_str())) else { continue };
        let Some(column) = table.column(name).filter(|column| column.is_written) else { continue };
        if naming.is_meta(name) || column.column_type.is_unsupported() {
            continue;
        }
        let is_key = key.contains(&name);
        if field.optional && !column.column_type.nullable && !is_key {
            let text = ColumnType::nullable_text(&column.column_type.to_string());
            if text == column.column_type.to_string() {
                continue;
            }
            findings.push(Finding::error(
                format!("column `{name}` of {} is {}, the source allows NULL in it", table.name, column.column_type),
                format!("run {}", modify_column(&table.name, name, &text)),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use settle_core::change::TableName;

    use super::super::names::QualifiedName;
    use super::super::table::{Engine, TableColumn};
    use super::*;
    use crate::config::Target;

    /// A table of Settle's columns with an engine as `system.tables` prints it.
    fn findings(engine: &str, full: &str) -> Vec<String> {
        let column = |(name, text): (&str, &str)| TableColumn {
            name: name.to_owned(),
            column_type: ColumnType::parse(text),
            is_written: true,
            has_default: false,
            is_read: true,
            in_partition_key: false,
        };
        let columns = [
            ("id", "Int64"),
            ("v", "Nullable(String)"),
            ("_op", "LowCardinality(String)"),
            ("_source_ts_ms", "Nullable(Int64)"),
            ("_is_deleted", "UInt8"),
            ("_version", "UInt128"),
        ];
        let described = Table {
            name: QualifiedName::new("shop", "orders"),
            engine: Engine::parse(engine, full),
            sorting_key: vec!["id".to_owned()],
            partition_key: String::new(),
            comment: String::new(),
            columns: columns.into_iter().map(column).collect(),
        };
        let source = TableName { namespace: "public".into(), name: "orders".into() };
        let found = table(&described, &["id"], &Naming::new(&source, &Target::default()));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn replicated_and_shared_tables_are_accepted_with_any_path() {
        for full in [
            "ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}', _version, _is_deleted) \
             ORDER BY id SETTINGS index_granularity = 8192",
            "ReplicatedReplacingMergeTree('/clickhouse/{cluster}/tables/{database}/{table}', 'node-1, \\'a\\' (b)', \
             `_version`, `_is_deleted`) PARTITION BY id % 8 ORDER BY id SETTINGS index_granularity = 8192",
            "ReplicatedReplacingMergeTree(_version, _is_deleted) ORDER BY id SETTINGS index_granularity = 8192",
            "SharedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}', _version, _is_deleted) ORDER BY id \
             SETTINGS index_granularity = 8192",
            "SharedReplacingMergeTree('/clickhouse/tables/0c0b3d3e-8d0c-4b4e-9b53-1f8e3a5a9d10/default', '{replica}', _version, \
             _is_deleted) ORDER BY id SETTINGS index_granularity = 8192",
        ] {
            let engine = full.split('(').next().unwrap();
            assert_eq!(findings(engine, full), Vec::<String>::new(), "{full}");
        }
    }

    #[test]
    fn what_a_replicated_table_lacks_is_told_as_of_any_other() {
        let full =
            "ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}', _version) ORDER BY id";
        let found = findings("ReplicatedReplacingMergeTree", full);
        assert!(found[0].contains("has no delete marker in its engine"), "{found:?}");
        assert!(found[0].contains("ENGINE = ReplicatedReplacingMergeTree(`_version`, `_is_deleted`)"), "{found:?}");
        let found = findings(
            "SharedMergeTree",
            "SharedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id",
        );
        assert!(found[0].contains("has the engine SharedMergeTree, which does not keep one row per key"), "{found:?}");
        let found = findings("Distributed", "Distributed('c', 'shop', 'orders_local', cityHash64(id))");
        assert!(found[0].contains("write to the table beneath it (name in [tables.\"public.orders\"])"), "{found:?}");
        let found = findings("View", "");
        assert!(
            found[0].ends_with("is a View; write to another table (name in [tables.\"public.orders\"])"),
            "{found:?}"
        );
    }
}
