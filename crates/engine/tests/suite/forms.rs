//! Tables that are made by hand, in the SQL that databases with primary keys share.

use settle_testkit::suite::{Column, Form, Kind, PRECIOUS, Table};

/// The words of an engine.
pub struct Words {
    pub quoted: fn(&str) -> String,
    /// A type; of a column of a key where true.
    pub typed: fn(Kind, bool) -> &'static str,
    /// Settle's columns, as it makes them.
    pub added: &'static str,
    /// What stands behind a table's columns.
    pub options: &'static str,
}

/// The statements that make the table.
pub fn made(words: &Words, table: &Table, form: Form<'_>) -> Vec<String> {
    let Words { quoted, typed, added, options } = words;
    let name = quoted(&table.name);
    // Each with whether it is of a key, and what it holds.
    let columns = |column: &dyn Fn(&Column) -> Option<(bool, Kind)>| -> String {
        let sql =
            |it: &Column| column(it).map(|(is_key, kind)| format!("{} {}", quoted(&it.name), typed(kind, is_key)));
        table.columns.iter().filter_map(sql).collect::<Vec<_>>().join(", ")
    };
    let all = columns(&|column| Some((column.is_key, column.kind)));
    let and_key = |other: &str| columns(&|column| Some((column.is_key || column.name == other, column.kind)));
    let key = table.key().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ");
    let create = |columns: &str, key: &str, more: &str| {
        format!("CREATE TABLE {name} ({columns}, {added}, PRIMARY KEY ({key}){more}){options}")
    };
    match form {
        Form::NeverNegative(checked) => {
            let checked = quoted(checked);
            vec![create(&all, &key, &format!(", CHECK ({checked} IS NULL OR {checked} >= 0)"))]
        }
        Form::WithoutVersions => vec![
            format!("CREATE TABLE {name} ({all}, PRIMARY KEY ({key})){options}"),
            format!("INSERT INTO {name} SELECT {}", precious(table, *quoted)),
        ],
        Form::KeyedBy(other) => vec![create(&and_key(other), &quoted(other), "")],
        Form::UniqueToo(unique) => {
            vec![create(&and_key(unique), &key, &format!(", UNIQUE ({})", quoted(unique)))]
        }
        Form::Without(left_out) => {
            let kept = columns(&|column| (column.name != left_out).then_some((column.is_key, column.kind)));
            vec![create(&kept, &key, "")]
        }
        Form::Holding(other, kind) => {
            let held = |column: &Column| if column.name == other { kind } else { column.kind };
            vec![create(&columns(&|column| Some((column.is_key, held(column)))), &key, "")]
        }
        Form::View => vec![format!("CREATE VIEW {name} AS SELECT {}", precious(table, *quoted))],
    }
}

/// The columns of the one row that a table made by hand has, as a SELECT lists them.
pub fn precious(table: &Table, quoted: fn(&str) -> String) -> String {
    let column = |column: &Column| match column.kind {
        Kind::Int => format!("7 AS {}", quoted(&column.name)),
        Kind::Text => format!("'{PRECIOUS}' AS {}", quoted(&column.name)),
    };
    table.columns.iter().map(column).collect::<Vec<_>>().join(", ")
}
