//! What the rules say about one table: its target's name, which columns are written, and under
//! which names. The same for every sink that keeps tables.

use settle_core::change::TableName;

use crate::config::target::{Deletes, MetaNames, TableRule, Target};

/// The rules of one source table, resolved.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The target table's name.
    pub table: String,
    /// How deletes leave it.
    pub deletes: Deletes,
    /// Names of the added columns.
    pub meta: MetaNames,
    rule: TableRule,
}

impl Plan {
    /// The rules for `table`; `deletes` is the sink's own default.
    pub fn of(target: &Target, table: &TableName, deletes: Deletes) -> Self {
        let rule = target.rule(table).cloned().unwrap_or_default();
        Self {
            table: target.table_name(table),
            deletes: rule.deletes.or(target.deletes).unwrap_or(deletes),
            meta: target.meta.clone(),
            rule,
        }
    }

    /// The target's name of a source column; none where it is not written. Key columns always are.
    pub fn column<'a>(&'a self, source: &'a str, is_key: bool) -> Option<&'a str> {
        let listed = |names: &[String]| names.iter().any(|name| name == source);
        let left_out = listed(&self.rule.exclude) || !self.rule.include.is_empty() && !listed(&self.rule.include);
        if left_out && !is_key {
            return None;
        }
        Some(self.rule.rename.get(source).map_or(source, String::as_str))
    }

    /// The declared type of a target column.
    pub fn declared_type(&self, column: &str) -> Option<&str> {
        self.declared().find(|(name, _)| *name == column).map(|(_, declared)| declared)
    }

    /// Declared target columns with their types, in order.
    pub fn declared(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rule.columns.iter().map(|(name, declared)| (name.as_str(), declared.as_str()))
    }

    /// The upper half of the version, where it is kept in two columns.
    pub fn version_hi(&self) -> String {
        format!("{}_hi", self.meta.version)
    }

    /// The lower half of the version, where it is kept in two columns.
    pub fn version_lo(&self) -> String {
        format!("{}_lo", self.meta.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rule: TableRule) -> Plan {
        let table = TableName { namespace: "public".into(), name: "t".into() };
        let target = Target { tables: [("public.t".to_owned(), rule)].into(), ..Target::default() };
        Plan::of(&target, &table, Deletes::Hard)
    }

    #[test]
    fn key_columns_are_written_whatever_is_left_out() {
        let rule = TableRule { include: vec!["a".into()], exclude: vec!["id".into()], ..TableRule::default() };
        let plan = plan(rule);
        assert_eq!(plan.column("id", true), Some("id"));
        assert_eq!((plan.column("a", false), plan.column("b", false)), (Some("a"), None));
    }

    #[test]
    fn an_exclusion_beats_an_inclusion_and_names_are_changed_last() {
        let rule = TableRule {
            include: vec!["a".into(), "b".into()],
            exclude: vec!["b".into()],
            rename: [("a".to_owned(), "x".to_owned()), ("id".to_owned(), "key".to_owned())].into(),
            ..TableRule::default()
        };
        let plan = plan(rule);
        assert_eq!((plan.column("a", false), plan.column("b", false)), (Some("x"), None));
        assert_eq!(plan.column("id", true), Some("key"));
    }
}
