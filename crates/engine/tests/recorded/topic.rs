//! The topics, each with its source table.

use settle_core::record::Record;
use settle_core::schema::{BinaryMode, Conventions, TimePrecision};
use settle_engine::config::target::{TableRule, Target};

use super::capture::table;
use super::engine::Engine;
use crate::database::{Shown, target};
use crate::log::batch;

/// One topic with its table.
pub struct Topic {
    /// As its tests are named.
    pub name: &'static str,
    /// Where its records are.
    pub capture: &'static str,
    /// Where its table is.
    pub source: &'static str,
    pub key: &'static [&'static str],
    /// Keys that the log leaves behind and the source has not, by name.
    pub left: &'static [&'static str],
    /// Key and column of values that the connector drops or changes.
    pub lost: &'static [(&'static str, &'static str)],
}

impl Topic {
    pub fn of(name: &'static str, capture: &'static str, source: &'static str, key: &'static [&'static str]) -> Self {
        Self { name, capture, source, key, left: &[], lost: &[] }
    }

    /// The name of its table.
    pub fn table(&self) -> &str {
        let name = self.source.rsplit('/').next().unwrap();
        name.split('.').next().unwrap()
    }

    pub fn target<E: Engine>(&self, records: &[Record]) -> Target {
        let source = batch(records).tables().next().unwrap().table.to_string();
        let columns = E::columns(self).iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
        let rule = TableRule { name: Some(self.table().to_owned()), columns, ..TableRule::default() };
        let conventions = Conventions {
            time_precision: Some(TimePrecision::Connect),
            decimal: None,
            binary: Some(BinaryMode::Base64),
        };
        Target { tables: [(source, rule)].into(), conventions, ..target() }
    }

    /// The source table when the recording ended.
    pub fn rows(&self) -> Vec<Shown> {
        table(self.source)
    }

    /// The row's key, in its comparable spelling.
    pub fn id<E: Engine>(&self, row: &Shown) -> Vec<String> {
        self.key.iter().map(|name| E::comparable(row[*name].as_deref().unwrap())).collect()
    }
}

/// A test of each topic for an [`Engine`].
macro_rules! every_topic {
    ($engine:ty) => {
        $crate::recorded::topics::every_topic! { $engine;
        pg_customers: "pg-hazards/shop.public.customers.jsonl", "pg-hazards/customers.expected.csv", &["customer_id"];
        pg_orders: "pg-hazards/shop.public.orders.jsonl", "pg-hazards/orders.expected.csv", &["order_id"];
        pg_order_items_with_a_truncate:
            "pg-hazards/shop.public.order_items.jsonl", "pg-hazards/order_items.expected.csv", &["order_item_id"];
        pg_documents_with_values_not_sent:
            "pg-hazards/shop.public.documents.jsonl", "pg-hazards/documents.expected.csv", &["id"];
        pg_composite_key:
            "pg-composite-key/cmp.public.stock.jsonl", "pg-composite-key/stock.expected.csv", &["warehouse", "sku", "bin"];
        pg_race: "pg-race/race.public.t.jsonl", "pg-race/t.expected.csv", &["id"];
        pg_restart: "pg-restart/rst.public.t.jsonl", "pg-restart/t.expected.csv", &["id"];
        pg_customers_with_schemas:
            "pg-json-schemas/shopa.public.customers.jsonl", "pg-json-schemas/customers.expected.csv", &["customer_id"];
        pg_orders_with_schemas:
            "pg-json-schemas/shopa.public.orders.jsonl", "pg-json-schemas/orders.expected.csv", &["order_id"];
        pg_order_items_with_schemas:
            "pg-json-schemas/shopa.public.order_items.jsonl", "pg-json-schemas/order_items.expected.csv", &["order_item_id"];
        mariadb_customers: "mariadb/mshop.mshop.customers.jsonl", "mariadb/customers.expected.csv", &["customer_id"];
        mariadb_orders: "mariadb/mshop.mshop.orders.jsonl", "mariadb/orders.expected.csv", &["order_id"];
        mariadb_order_items: "mariadb/mshop.mshop.order_items.jsonl", "mariadb/order_items.expected.csv", &["order_item_id"];
        mariadb_parents: "mariadb/mshop.mshop.parents.jsonl", "mariadb/parents.expected.csv", &["id"];
        // The binlog does not show what a cascade deletes: rows 10 and 11 stay.
        mariadb_children_but_for_the_cascade:
            "mariadb/mshop.mshop.children.jsonl", "mariadb/children.expected.csv", &["id"], left: &["10", "11"];
        mariadb_duplicates: "mariadb-duplicates/mshop.mshop.orders.jsonl", "mariadb-duplicates/orders.expected.csv", &["order_id"];
        mariadb_wide: "mariadb/mshop.mshop.wide.jsonl", "mariadb/wide.expected.csv", &["id"],
            // `connect` mode drops times beyond a day; the time adjuster makes year 1 of year 2001.
            lost: &[("3", "t"), ("4", "t"), ("4", "d")];
        mariadb_wide_with_schemas: "mariadb-types-schemas/mwide.mshop.wide.jsonl", "mariadb-types-schemas/wide.expected.csv", &["id"],
            lost: &[("4", "d")];
        }
    };
    ($engine:ty; $($name:ident: $capture:literal, $table:literal, $key:expr $(, left: $left:expr)? $(, lost: $lost:expr)?;)*) => {$(
        #[test]
        fn $name() {
            $crate::recorded::topics::ends_as_the_source::<$engine>(&$crate::recorded::topics::Topic {
                $(left: $left,)?
                $(lost: $lost,)?
                ..$crate::recorded::topics::Topic::of(stringify!($name), $capture, $table, $key)
            });
        }
    )*};
}

pub(crate) use every_topic;
