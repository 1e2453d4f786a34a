//! Which column of the source goes where: the table's rule from the configuration, applied.

use settle_core::change::TableName;

use crate::config::{MetaNames, TableRule, Target};

/// The names of one source table.
#[derive(Clone, Copy)]
pub(crate) struct Naming<'a> {
    source: &'a TableName,
    target: &'a Target,
    rule: Option<&'a TableRule>,
}

impl<'a> Naming<'a> {
    pub(crate) fn new(source: &'a TableName, target: &'a Target) -> Self {
        Self { source, target, rule: target.rule(source) }
    }

    /// The source table.
    pub(crate) fn source(&self) -> &'a TableName {
        self.source
    }

    /// The target table's name.
    pub(crate) fn table(&self) -> &'a str {
        self.rule.and_then(|rule| rule.name.as_deref()).unwrap_or(&self.source.name)
    }

    /// Where a column of the source is written; none where it is excluded. Key columns always are.
    pub(crate) fn target<'n>(&self, column: &'n str, is_key: bool) -> Option<&'n str>
    where
        'a: 'n,
    {
        let Some(rule) = self.rule else { return Some(column) };
        let excluded = rule.exclude.iter().any(|name| name == column)
            || !rule.include.is_empty() && !rule.include.iter().any(|name| name == column);
        if excluded && !is_key {
            return None;
        }
        Some(rule.rename.get(column).map_or(column, String::as_str))
    }

    /// Columns declared in the configuration, under the names of the target.
    pub(crate) fn declared(&self) -> &'a [(String, String)] {
        self.rule.map_or(&[], |rule| rule.columns.as_slice())
    }

    pub(crate) fn meta(&self) -> &'a MetaNames {
        &self.target.meta
    }

    /// The table's section of the configuration file.
    pub(crate) fn section(&self) -> String {
        format!("[tables.\"{}\"]", self.source)
    }

    /// What is being done while its table is laid out.
    pub(crate) fn designing(&self) -> String {
        format!("laying out the table for {}", self.source)
    }
}
