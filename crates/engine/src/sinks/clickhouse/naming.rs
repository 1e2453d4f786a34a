//! Where one source table goes: the rules that every sink shares, with the names that messages need.

use settle_core::change::TableName;

use super::scan;
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

    /// True for a column that is declared as bytes. The server calls it String, as it calls text:
    /// only the declaration tells that strings of the records stand for bytes.
    pub(crate) fn holds_bytes(&self, column: &str) -> bool {
        let word = |declared: &str| {
            let inner = scan::call(declared).filter(|(name, ..)| *name == "Nullable").map(|(_, inside, _)| inside);
            inner.unwrap_or(declared).trim().to_ascii_uppercase()
        };
        let declared = self.plan.declared_type(column).map(word);
        declared.is_some_and(|word| matches!(word.as_str(), "BYTEA" | "BLOB" | "TINYBLOB" | "MEDIUMBLOB" | "LONGBLOB"))
    }

    /// True for a column that Settle adds.
    pub(crate) fn is_meta(&self, column: &str) -> bool {
        let MetaNames { op, source_ts_ms, is_deleted, version, .. } = &self.plan.meta;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TableRule;

    #[test]
    fn columns_of_bytes_are_those_declared_so() {
        let table = TableName { namespace: "public".into(), name: "t".into() };
        let columns = [("a", "Nullable(blob)"), ("b", "BYTEA"), ("c", "String"), ("d", "Array(BLOB)")];
        let columns = columns.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
        let rule = TableRule { columns, ..TableRule::default() };
        let target = Target { tables: [("public.t".to_owned(), rule)].into(), ..Target::default() };
        let naming = Naming::new(&table, &target);
        let told: Vec<bool> = ["a", "b", "c", "d", "e"].iter().map(|name| naming.holds_bytes(name)).collect();
        assert_eq!(told, [true, true, false, false, false]);
    }
}
