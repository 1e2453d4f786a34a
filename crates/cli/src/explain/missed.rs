//! What the log has instead of a row of which it has no record: the table, or the key, may be mistyped.

use std::collections::BTreeMap;
use std::sync::Arc;

use settle_core::change::{Change, TableName};
use settle_core::key::Key;
use settle_engine::check::{listed, nearest};

/// The tables of the log, each with the first of its keys.
#[derive(Default)]
pub(super) struct Known {
    tables: BTreeMap<Arc<TableName>, Key>,
}

impl Known {
    pub(super) fn take(&mut self, change: &Change) {
        // Every record of the log comes here.
        if !self.tables.contains_key(&change.table) {
            self.tables.insert(change.table.clone(), change.key.clone());
        }
    }

    /// Why there may be no record of the row; nothing where its table is there and has keys of that form.
    pub(super) fn instead_of(&self, table: &str, key: &Key) -> Option<String> {
        let tables: BTreeMap<String, &Key> = self.tables.iter().map(|(name, key)| (name.to_string(), key)).collect();
        let names = || tables.keys().map(String::as_str);
        match tables.get(table) {
            None if tables.is_empty() => Some("it has no row of any table".to_owned()),
            None => {
                let is_without_schema = |name: &&str| name.rsplit_once('.').is_some_and(|(_, last)| last == table);
                let meant = match names().find(is_without_schema).or_else(|| nearest(table, names())) {
                    Some(meant) => format!("did you mean {meant}? "),
                    None => String::new(),
                };
                Some(format!("it has no row of table {table}; {meant}Its tables are {}", listed(names())))
            }
            Some(known) => {
                let is_alike =
                    |(name, value): (&str, &str)| key.get(name).is_some_and(|asked| kind(asked) == kind(value));
                let is_alike = known.names().count() == key.names().count() && known.fields().all(is_alike);
                (!is_alike).then(|| format!("the keys of {table} have the form {}", form(known)))
            }
        }
    }
}

/// The form of a key: none of its values.
fn form(key: &Key) -> String {
    let fields: Vec<String> = key.fields().map(|(name, value)| format!("\"{name}\":<{}>", kind(value))).collect();
    format!("{{{}}}", fields.join(","))
}

fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "text",
        Some(b'{' | b'[') => "structure",
        Some(b't' | b'f') => "boolean",
        _ => "number",
    }
}
