//! Where one source table goes: the rules that every sink shares, with the names that messages need.

use settle_core::change::TableName;

use crate::config::{Deletes, MetaNames, Target};
use crate::sinks::plan::Plan;

/// The names of one source table.
pub(crate) struct Naming<'a> {
    source: &'a TableName,
    plan: Plan,
}

impl<'a> Naming<'a> {
    pub(crate) fn new(source: &'a TableName, target: &Target) -> Self {
        Self { source, plan: Plan::of(target, source, Deletes::Soft) }
    }

    /// The source table.
    pub(crate) fn source(&self) -> &'a TableName {
        self.source
    }

    /// The target table's name.
    pub(crate) fn table(&self) -> &str {
        &self.plan.table
    }

    /// Where a column of the source is written; none where it is excluded. Key columns always are.
    pub(crate) fn target<'n>(&'n self, column: &'n str, is_key: bool) -> Option<&'n str> {
        self.plan.column(column, is_key)
    }

    /// Where a key column is written.
    pub(crate) fn key_target<'n>(&'n self, column: &'n str) -> &'n str {
        self.plan.column(column, true).unwrap_or(column)
    }

    /// Columns declared in the configuration, under the names of the target.
    pub(crate) fn declared(&self) -> impl Iterator<Item = (&str, &str)> {
        self.plan.declared()
    }

    /// True for a column that Settle adds.
    pub(crate) fn is_meta(&self, column: &str) -> bool {
        let MetaNames { op, source_ts_ms, is_deleted, version } = &self.plan.meta;
        [op, source_ts_ms, is_deleted, version].into_iter().any(|own| own == column)
    }

    pub(crate) fn meta(&self) -> &MetaNames {
        &self.plan.meta
    }

    /// The table's section of the configuration file.
    pub(crate) fn section(&self) -> String {
        format!("[tables.\"{}\"]", self.source)
    }
}
