//! Tables that the suite writes, their rows, and the one form in which both sides are compared.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use settle_core::version::Version;

/// A row as the source has it: every column with its JSON value.
pub type Row = Map<String, Value>;

/// The values of a row's key, in the order of the table's key, as [`text`] writes them.
pub type RowKey = Vec<String>;

/// A table of the source, `public.<name>`. Its target has the same name and columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns in order.
    pub columns: Vec<Column>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// True for a column of the key, which is never NULL. Every other one may be.
    pub is_key: bool,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A 64-bit integer.
    Int,
    /// Text of any length; 40 characters at most where it is part of a key, and compared byte by byte there.
    Text,
}

impl Column {
    /// A column that may be NULL.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self { name: name.into(), kind, is_key: false }
    }

    /// A column of the key.
    pub fn key(name: impl Into<String>, kind: Kind) -> Self {
        Self { is_key: true, ..Self::new(name, kind) }
    }
}

impl Table {
    /// A table with the key `id`, a number `n` and a text `body`.
    pub fn of(name: impl Into<String>) -> Self {
        let columns = vec![Column::key("id", Kind::Int), Column::new("n", Kind::Int), Column::new("body", Kind::Text)];
        Self { name: name.into(), columns }
    }

    /// The columns of its key, in order.
    pub fn key(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_key)
    }

    /// The key of a row of it.
    pub fn key_of(&self, row: &Row) -> RowKey {
        let value = |column: &Column| text(&row[&column.name]).expect("a key is never NULL");
        self.key().map(value).collect()
    }

    /// The columns of a row as they are compared.
    pub fn shown(&self, row: &Row) -> Shown {
        self.columns.iter().map(|column| (column.name.clone(), row.get(&column.name).and_then(text))).collect()
    }
}

/// A row's columns, each as [`text`] writes it.
pub type Shown = BTreeMap<String, Option<String>>;

/// A value as it is compared: a number in its digits, a text as it is, none for NULL.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// What a table of a destination shows: each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Rows that a reader sees.
    pub live: BTreeMap<RowKey, Live>,
    /// Keys whose delete left its version, in whatever form the sink keeps it, and that have no row.
    pub deleted: BTreeMap<RowKey, Version>,
}

/// A row that a reader sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its version.
    pub version: Version,
    /// Its columns, without those that Settle adds.
    pub columns: Shown,
}
