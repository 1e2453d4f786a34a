//! One target table, one owner: the keys of two source tables would mix in it, and positions of two
//! servers do not compare. The run and every destination ask here, and say it in the same words.

use std::fmt;
use std::sync::Arc;

use settle_core::change::{Lineage, TableName};

/// What fills a target table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) table: Arc<TableName>,
    pub(crate) lineage: Arc<Lineage>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.table, self.lineage)
    }
}

impl Owner {
    /// Why `other` may not be written to the target table that this one fills; none where it is the same.
    pub(crate) fn conflict(&self, other: &Self, target: &str) -> Option<String> {
        let (why, fix) = if self.table != other.table {
            ("the keys of two tables would mix", "")
        } else if self.lineage != other.lineage {
            ("positions of two servers do not compare", ", in a pipeline of its own")
        } else {
            return None;
        };
        Some(format!(
            "{other} would be written to table {target}, which is filled from {self}: {why}; give it another name{fix}: \
             [tables.\"{}\"] name = \"…\"",
            other.table
        ))
    }

    /// As a destination records it.
    pub(crate) fn recorded(&self) -> String {
        let Self { table, lineage } = self;
        serde_json::json!([lineage.source, lineage.database, table.namespace, table.name]).to_string()
    }

    /// What a destination recorded; none where it is of another form.
    pub(crate) fn of_record(text: &str) -> Option<Self> {
        let (source, database, namespace, name) = serde_json::from_str(text).ok()?;
        let (table, lineage) = (TableName { namespace, name }, Lineage { source, database });
        Some(Self { table: Arc::new(table), lineage: Arc::new(lineage) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(table: &str, server: &str) -> Owner {
        let table = TableName { namespace: "public".into(), name: table.into() };
        Owner { table: Arc::new(table), lineage: Arc::new(Lineage { source: server.into(), database: "shop".into() }) }
    }

    #[test]
    fn two_tables_and_two_servers_are_refused_each_with_its_cure() {
        let orders = owner("orders", "eu");
        assert_eq!(orders.conflict(&owner("orders", "eu"), "orders"), None);
        assert_eq!(
            orders.conflict(&owner("old_orders", "us"), "orders").unwrap(),
            "public.old_orders of us/shop would be written to table orders, which is filled from public.orders of eu/shop: \
             the keys of two tables would mix; give it another name: [tables.\"public.old_orders\"] name = \"…\""
        );
        assert_eq!(
            orders.conflict(&owner("orders", "us"), "orders").unwrap(),
            "public.orders of us/shop would be written to table orders, which is filled from public.orders of eu/shop: \
             positions of two servers do not compare; give it another name, in a pipeline of its own: \
             [tables.\"public.orders\"] name = \"…\""
        );
    }

    #[test]
    fn what_is_recorded_is_read_back() {
        let odd = owner("we\"ird, [name]", "");
        assert_eq!(Owner::of_record(&odd.recorded()), Some(odd));
        assert_eq!(Owner::of_record("[\"a\",\"b\",\"c\"]"), None);
        assert_eq!(Owner::of_record("public.t"), None);
    }
}
