//! The way from a table that was made by hand, or by another tool, to one of Settle's shape: the
//! statements to run, one after the other.
//!
//! The rows get version 0, so that any change of the source wins over them: whatever their own
//! version was, it does not compare with a position in the source's log.

use super::column_type::{Base, ColumnType};
use super::ddl::CreateTable;
use super::names::{identifier, identifiers};
use super::naming::Naming;
use super::table::{Table, TableColumn};

/// What the columns are that a table made by hand has beside the source's.
struct Own<'t> {
    op: Option<&'t TableColumn>,
    source_ts_ms: Option<&'t TableColumn>,
    is_deleted: Option<&'t TableColumn>,
    version: Option<&'t TableColumn>,
}

impl<'t> Own<'t> {
    fn of(table: &'t Table, naming: &Naming<'_>) -> Self {
        let meta = naming.meta();
        let bare = |name: &str| name.trim_start_matches('_').to_ascii_lowercase();
        // Debezium's flat records put two underscores before theirs. Without any the name may well be
        // the source's own: then only what no table of a source has is taken for ours.
        let named = |own: &str, plain: bool, others: &[&str]| {
            let is_own = |column: &&TableColumn| {
                let (name, marked) = (bare(&column.name), column.name.starts_with('_'));
                column.name == own
                    || name == bare(own) && (marked || plain)
                    || marked && others.contains(&name.as_str())
            };
            table.columns.iter().filter(|column| column.is_written).find(is_own)
        };
        let replacing = table.engine.is_replacing();
        let argument =
            |at: usize| table.engine.arguments.get(at).filter(|_| replacing).and_then(|name| table.column(name));
        Self {
            op: named(&meta.op, true, &[]),
            source_ts_ms: named(&meta.source_ts_ms, true, &["ts_ms"]),
            is_deleted: argument(1).or_else(|| named(&meta.is_deleted, true, &["deleted"])),
            version: argument(0).or_else(|| named(&meta.version, false, &[])),
        }
    }

    fn has(&self, column: &TableColumn) -> bool {
        [self.op, self.source_ts_ms, self.is_deleted, self.version]
            .into_iter()
            .flatten()
            .any(|own| own.name == column.name)
    }
}

/// The statements, and the other way out. `key` is in names of the target.
pub(super) fn migration(table: &Table, key: &[&str], naming: &Naming<'_>) -> String {
    let meta = naming.meta();
    let own = Own::of(table, naming);
    let moved = table.name.beside("_settle");
    let (mut columns, mut to, mut from) = (Vec::new(), Vec::new(), Vec::new());
    for column in table.columns.iter().filter(|column| column.is_written && !own.has(column)) {
        let text = column.column_type.to_string();
        let is_key = key.contains(&column.name.as_str());
        columns.push((column.name.clone(), if is_key { ColumnType::without_null(&text) } else { text }));
        to.push(column.name.clone());
        from.push(identifier(&column.name));
    }
    let copied = [
        (&meta.op, own.op.map(text_of)),
        (&meta.source_ts_ms, own.source_ts_ms.map(milliseconds_of)),
        (&meta.is_deleted, own.is_deleted.map(flag_of)),
    ];
    for (name, expression) in copied {
        if let Some(expression) = expression {
            to.push(name.clone());
            from.push(expression);
        }
    }
    let key: Vec<String> = key.iter().map(|name| (*name).to_owned()).collect();
    let create = CreateTable {
        database: &moved.database,
        table: &moved.table,
        columns: &columns,
        key: &key,
        meta,
        cluster: None,
        replicated: table.engine.name.starts_with("Replicated"),
    };
    let mut create = create.sql().replace("\n    ", " ").replace('\n', " ").replace("( ", "(").replace(" )", ")");
    let in_partition: Vec<&TableColumn> = table.columns.iter().filter(|column| column.in_partition_key).collect();
    if !in_partition.is_empty() && in_partition.iter().all(|column| key.contains(&column.name)) {
        let at = create.rfind(" ORDER BY ").unwrap_or(create.len());
        create.insert_str(at, &format!(" PARTITION BY {}", table.partition_key));
    }
    // One row a key, and the last: of a table that does not keep it so, as far as its columns tell.
    let keys = identifiers(key.iter().map(String::as_str));
    let last = match own.version {
        _ if table.engine.is_replacing() => " FINAL".to_owned(),
        Some(version) => format!(" ORDER BY {} DESC LIMIT 1 BY {keys}", identifier(&version.name)),
        None => format!(" LIMIT 1 BY {keys}"),
    };
    format!(
        "move its rows into a table of the right shape, any change then wins over them: {create}; INSERT INTO {moved} ({}) \
         SELECT {} FROM {}{last}; EXCHANGE TABLES {moved} AND {}; or write to another table (name in {})",
        identifiers(to.iter().map(String::as_str)),
        from.join(", "),
        table.name,
        table.name,
        naming.section()
    )
}

fn text_of(column: &TableColumn) -> String {
    let name = identifier(&column.name);
    match (&column.column_type.base, column.column_type.nullable) {
        (Base::String, false) => name,
        (_, false) => format!("toString({name})"),
        (_, true) => format!("ifNull(toString({name}), '')"),
    }
}

/// As `source.ts_ms`: milliseconds since 1970.
fn milliseconds_of(column: &TableColumn) -> String {
    let name = identifier(&column.name);
    match &column.column_type.base {
        Base::DateTime64 { .. } => format!("toUnixTimestamp64Milli({name})"),
        Base::DateTime => format!("toInt64(toUnixTimestamp({name})) * 1000"),
        Base::String => format!("toInt64OrNull({name})"),
        _ => name,
    }
}

/// 1 for a deleted row. Debezium's own flag is the text `true`.
fn flag_of(column: &TableColumn) -> String {
    let name = identifier(&column.name);
    let flag = match &column.column_type.base {
        Base::String | Base::Enum(_) => format!("lower(toString({name})) IN ('1', 'true')"),
        Base::Int { bits: 8, signed: false } => name,
        _ => format!("toUInt8({name})"),
    };
    if column.column_type.nullable { format!("ifNull({flag}, 0)") } else { flag }
}
