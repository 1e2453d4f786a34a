//! A target table with its key, and the records that belong to it.

use settle_core::batch::Row;
use settle_core::key::Key;

use super::added;
use super::dialect::Dialect;
use super::outline::Outline;
use crate::config::target::Evolution;
use crate::owner::Owner;
use crate::sinks::plan::Plan;

/// A column of the key.
#[derive(Debug)]
pub(crate) struct KeyColumn {
    /// Its name in the message key.
    pub(crate) source: Box<str>,
    /// Its place in the table's columns.
    pub(crate) at: usize,
}

impl KeyColumn {
    /// Those of a table that was validated: every one is there.
    pub(crate) fn all(dialect: Dialect, plan: &Plan, table: &impl Outline, key: &Key) -> Vec<Self> {
        let at = |source: &str| table.place(dialect, plan.column(source, true).unwrap_or(source));
        key.names().filter_map(|source| Some(Self { source: source.into(), at: at(source)? })).collect()
    }
}

/// A target table with its key.
#[derive(Clone, Copy)]
pub(crate) struct Keyed<'a, T> {
    pub(crate) dialect: Dialect,
    pub(crate) plan: &'a Plan,
    pub(crate) table: &'a T,
    pub(crate) key: &'a [KeyColumn],
}

impl<T: Outline> Keyed<'_, T> {
    /// Why a row does not belong to what the table was prepared for.
    pub(crate) fn refusal(&self, owner: &Owner, row: Row<'_>) -> Option<String> {
        let change = row.change();
        let context = if change.lineage != owner.lineage {
            let other = Owner { table: change.table.clone(), lineage: change.lineage.clone() };
            owner.conflict(&other, self.table.name()).unwrap_or_default()
        } else {
            let fits = |name: &str| self.key.iter().any(|k| *k.source == *name);
            if change.key.names().count() == self.key.len() && change.key.names().all(fits) {
                return None;
            }
            format!(
                "its key has the fields {}, and the table's key is {}; make the topic's key the same throughout \
                 (`message.key.columns`)",
                self.dialect.list(change.key.names()),
                self.dialect.list(self.key.iter().map(|k| &*k.source))
            )
        };
        Some(format!("record {}: {context}", change.place()))
    }

    /// What happens to columns that the table lacks, where `set` says it of others. One that was made for a
    /// delete without a schema has the key alone: the columns of its first row are no change of it.
    pub(crate) fn evolution(&self, may_lack_its_first: bool, set: Evolution) -> Evolution {
        if may_lack_its_first && self.has_key_alone() { Evolution::Add } else { set }
    }

    fn has_key_alone(&self) -> bool {
        let added = added::columns(self.dialect, self.plan);
        let is_added = |name: &str| added.iter().any(|added| self.dialect.same(&added.name, name));
        self.table.columns().enumerate().all(|(at, name)| is_added(name) || self.key.iter().any(|k| k.at == at))
    }
}
