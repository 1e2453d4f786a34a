//! The text of change events, as Debezium writes them.

use serde_json::{Value, json};

use super::table::{Kind, Row, Table};

/// The marker of a value that PostgreSQL did not send.
pub(super) const UNSENT: &str = "__debezium_unavailable_value";

/// The position of a change in its source's log.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// The commit before its transaction, and its own place.
    Postgres { last_commit: Option<u64>, lsn: u64 },
    /// In the first binlog file.
    MariaDb { pos: u64, row: u64 },
}

/// The envelope of a change; `snapshot` is the word of `source.snapshot`.
pub(super) fn envelope(table: &Table, server: &str, op: &str, at: At, after: &str, snapshot: &str) -> String {
    let name = Value::from(table.name.as_str());
    let place = match at {
        At::Postgres { last_commit, lsn } => {
            let before = last_commit.map_or("null".to_owned(), |commit| format!("\\\"{commit}\\\""));
            format!(
                r#""connector":"postgresql","db":"shop","schema":"public","lsn":{lsn},"sequence":"[{before},\"{lsn}\"]""#
            )
        }
        At::MariaDb { pos, row } => {
            format!(r#""connector":"mariadb","db":"public","server_id":1,"file":"bin.000001","pos":{pos},"row":{row}"#)
        }
    };
    let source = format!(r#""name":"{server}","table":{name},"snapshot":"{snapshot}","ts_ms":1700000000000,{place}"#);
    format!(r#"{{"before":null,"after":{after},"source":{{{source}}},"op":"{op}"}}"#)
}

/// The same as the JSON converter writes it with its schema.
pub(super) fn with_schema(table: &Table, envelope: &str) -> String {
    let fields: Vec<Value> = table
        .columns
        .iter()
        .map(|column| {
            let kind = match column.kind {
                Kind::Int => "int64",
                Kind::Text => "string",
            };
            json!({"type": kind, "optional": !column.is_key, "field": column.name})
        })
        .collect();
    let row = |name: &str| json!({"type": "struct", "fields": fields, "optional": true, "field": name});
    let schema = json!({"type": "struct", "fields": [row("before"), row("after")], "optional": false});
    format!(r#"{{"schema":{schema},"payload":{envelope}}}"#)
}

/// The key of a row.
pub(super) fn key_json(table: &Table, row: &Row) -> String {
    object(table.key().map(|column| (&column.name, &row[&column.name])))
}

/// The columns that the row has, in the order of the table.
pub(super) fn row_json(table: &Table, row: &Row) -> String {
    object(table.columns.iter().filter_map(|column| Some((&column.name, row.get(&column.name)?))))
}

fn object<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let fields: Vec<String> = fields.map(|(name, value)| format!("{}:{value}", Value::from(name.as_str()))).collect();
    format!("{{{}}}", fields.join(","))
}
