//! The columns of a table that hold versions, as a look at it reads them.

use settle_core::sink::SinkError;

use super::dialect::Dialect;
use super::outline::Outline;
use super::session::{Outcome, contract};
use crate::config::target::MetaNames;

/// The columns of Settle in a table that has versions.
#[derive(Debug)]
pub(crate) struct Versioned {
    dialect: Dialect,
    hi: String,
    lo: String,
    source_ts_ms: String,
    op: String,
    is_deleted: Option<String>,
}

impl Versioned {
    /// Those of this table. One without versions is refused.
    pub(crate) fn of(dialect: Dialect, table: &impl Outline, names: &MetaNames) -> Outcome<Self> {
        let versioned = Self {
            dialect,
            hi: format!("{}_hi", names.version),
            lo: format!("{}_lo", names.version),
            source_ts_ms: names.source_ts_ms.clone(),
            op: names.op.clone(),
            is_deleted: table.known(dialect, &names.is_deleted).map(str::to_owned),
        };
        for half in [&versioned.hi, &versioned.lo] {
            table.known(dialect, half).ok_or_else(|| lacks(table, half))?;
        }
        Ok(versioned)
    }

    /// The user's columns beside the key, in order of name: where they stand in the table means nothing.
    pub(crate) fn others(&self, table: &impl Outline, key: &[String]) -> Vec<String> {
        let added =
            [Some(&self.hi), Some(&self.lo), Some(&self.source_ts_ms), Some(&self.op), self.is_deleted.as_ref()];
        let is_ours = |name: &str| added.iter().flatten().any(|own| self.dialect.same(own, name));
        let is_key = |name: &str| key.iter().any(|key| self.dialect.same(key, name));
        let mut others: Vec<String> =
            table.columns().filter(|name| !is_ours(name) && !is_key(name)).map(str::to_owned).collect();
        others.sort();
        others
    }

    /// The halves of the version, as SQL.
    pub(crate) fn halves(&self) -> String {
        self.dialect.list([self.hi.as_str(), self.lo.as_str()])
    }

    /// Whether a row is marked deleted, as SQL.
    pub(crate) fn flag(&self) -> String {
        match &self.is_deleted {
            Some(flag) => self.dialect.quoted(flag),
            None => self.dialect.flag(false).to_owned(),
        }
    }

    /// When the source wrote a row, as SQL.
    pub(crate) fn time(&self) -> String {
        self.dialect.quoted(&self.source_ts_ms)
    }

    /// The halves of the greatest version in `table`, and what is read beside them.
    pub(crate) fn greatest(&self, table: &str, beside: &[String]) -> String {
        let (hi, lo) = (self.dialect.quoted(&self.hi), self.dialect.quoted(&self.lo));
        let read: String = beside.iter().map(|sql| format!(", {sql}")).collect();
        format!("SELECT {hi}, {lo}{read} FROM {table} ORDER BY {hi} DESC, {lo} DESC LIMIT 1")
    }
}

/// What is being done, for errors.
pub(crate) fn reading(table: &impl Outline) -> String {
    format!("read \"{}\"", table.name())
}

/// The table has no column that a look needs.
pub(crate) fn lacks(table: &impl Outline, column: &str) -> SinkError {
    contract(reading(table), format!("the table has no column \"{column}\"; `settle check` says what it must have"))
}

/// A row's key as a JSON object of these fields, whose values are JSON.
pub(crate) fn key_json<'k>(fields: impl Iterator<Item = (&'k String, String)>) -> String {
    let fields = fields.map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name.as_str())));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}
