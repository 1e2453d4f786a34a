//! The recorded shop topics: where they are, their keys, and the types of their columns.

use std::io::Read;
use std::path::PathBuf;

use settle::compare::{Carried, TextTable, carried};
use settle_core::record::Record;
use settle_engine::capture::{CaptureConfig, sample};

/// A recorded topic with the source table at its end.
#[derive(Clone, Copy, Debug)]
pub struct Shop {
    /// Folder in testdata/fixtures.
    pub folder: &'static str,
    /// Topic name.
    pub topic: &'static str,
    /// Source table, as `namespace.name`.
    pub table: &'static str,
    /// Key columns.
    pub key: &'static [&'static str],
    /// Columns with their ClickHouse types; SQLite creates its own from the values seen.
    pub clickhouse: &'static [(&'static str, &'static str)],
    /// `time.precision.mode` of the connector.
    pub time_precision: &'static str,
    /// Columns that the connector cut to milliseconds (`connect` mode).
    pub cut_to_ms: &'static [&'static str],
}

const PG: Shop = Shop {
    folder: "pg-hazards",
    topic: "",
    table: "",
    key: &[],
    clickhouse: &[],
    time_precision: "connect",
    cut_to_ms: &[],
};
const INSTANT: &str = "DateTime64(6, 'UTC')";
const ORDERS: &[(&str, &str)] = &[
    ("order_id", "Int32"),
    ("customer_id", "Int32"),
    ("status", "String"),
    ("amount", "Decimal(12, 2)"),
    ("updated_at", INSTANT),
];
const COUNTER: &[(&str, &str)] = &[("id", "Int32"), ("n", "Nullable(Int64)")];

/// Every keyed shop topic.
pub const SHOPS: &[Shop] = &[
    Shop {
        topic: "shop.public.customers",
        table: "public.customers",
        key: &["customer_id"],
        clickhouse: &[
            ("customer_id", "Int32"),
            ("name", "String"),
            ("email", "Nullable(String)"),
            ("city", "Nullable(String)"),
            ("updated_at", INSTANT),
        ],
        ..PG
    },
    Shop { topic: "shop.public.orders", table: "public.orders", key: &["order_id"], clickhouse: ORDERS, ..PG },
    Shop {
        topic: "shop.public.order_items",
        table: "public.order_items",
        key: &["order_item_id"],
        clickhouse: &[
            ("order_item_id", "Int32"),
            ("order_id", "Int32"),
            ("sku", "String"),
            ("quantity", "Int32"),
            ("unit_price", "Decimal(12, 2)"),
            ("updated_at", INSTANT),
        ],
        ..PG
    },
    Shop {
        topic: "shop.public.documents",
        table: "public.documents",
        key: &["id"],
        clickhouse: &[
            ("id", "Int32"),
            ("title", "Nullable(String)"),
            ("body", "Nullable(String)"),
            ("n", "Nullable(Int32)"),
        ],
        ..PG
    },
    Shop {
        folder: "pg-race",
        topic: "race.public.t",
        table: "public.t",
        key: &["id"],
        clickhouse: &[("id", "Int32"), ("n", "Nullable(Int64)"), ("m", "Nullable(Int64)")],
        ..PG
    },
    Shop { folder: "pg-restart", topic: "rst.public.t", table: "public.t", key: &["id"], clickhouse: COUNTER, ..PG },
    Shop {
        folder: "pg-connector-killed",
        topic: "kl.public.t",
        table: "public.t",
        key: &["id"],
        clickhouse: COUNTER,
        ..PG
    },
    Shop {
        folder: "pg-composite-key",
        topic: "cmp.public.stock",
        table: "public.stock",
        key: &["warehouse", "sku", "bin"],
        clickhouse: &[
            ("warehouse", "String"),
            ("sku", "String"),
            ("bin", "Int32"),
            ("quantity", "Nullable(Int64)"),
            ("price", "Nullable(Decimal(12, 3))"),
            ("counted_at", "Nullable(DateTime64(6, 'UTC'))"),
        ],
        ..PG
    },
    Shop {
        folder: "mariadb",
        topic: "mshop.mshop.customers",
        table: "mshop.customers",
        key: &["customer_id"],
        clickhouse: &[
            ("customer_id", "Int32"),
            ("name", "String"),
            ("email", "Nullable(String)"),
            ("city", "Nullable(String)"),
            ("updated_at", "DateTime64(3, 'UTC')"),
        ],
        cut_to_ms: &["updated_at"],
        ..PG
    },
    Shop {
        folder: "mariadb",
        topic: "mshop.mshop.orders",
        table: "mshop.orders",
        key: &["order_id"],
        clickhouse: MARIADB_ORDERS,
        cut_to_ms: &["updated_at"],
        ..PG
    },
    Shop {
        folder: "mariadb",
        topic: "mshop.mshop.order_items",
        table: "mshop.order_items",
        key: &["order_item_id"],
        clickhouse: &[
            ("order_item_id", "Int32"),
            ("order_id", "Int32"),
            ("sku", "String"),
            ("quantity", "Int32"),
            ("unit_price", "Decimal(12, 2)"),
            ("updated_at", "DateTime64(3, 'UTC')"),
        ],
        cut_to_ms: &["updated_at"],
        ..PG
    },
    Shop {
        folder: "mariadb-duplicates",
        topic: "mshop.mshop.orders",
        table: "mshop.orders",
        key: &["order_id"],
        clickhouse: MARIADB_ORDERS,
        cut_to_ms: &["updated_at"],
        ..PG
    },
];

const MARIADB_ORDERS: &[(&str, &str)] = &[
    ("order_id", "Int32"),
    ("customer_id", "Int32"),
    ("status", "String"),
    ("amount", "Decimal(12, 2)"),
    ("updated_at", "DateTime64(3, 'UTC')"),
];

/// The topic in this folder of the fixtures.
pub fn shop(folder: &str, topic: &str) -> Shop {
    *SHOPS.iter().find(|shop| shop.folder == folder && shop.topic == topic).expect("a known shop topic")
}

impl Shop {
    /// Name without schema or database.
    pub fn name(&self) -> &'static str {
        self.table.split('.').next_back().unwrap()
    }

    /// The capture's lines, in the recording's order.
    pub fn lines(&self) -> Vec<String> {
        let plain = fixtures().join(self.folder).join(format!("{}.jsonl", self.topic));
        let text = if plain.exists() {
            std::fs::read_to_string(plain).unwrap()
        } else {
            let packed = fixtures().join(self.folder).join(format!("{}.jsonl.gz", self.topic));
            let mut text = String::new();
            flate2::read::GzDecoder::new(std::fs::File::open(packed).unwrap()).read_to_string(&mut text).unwrap();
            text
        };
        text.lines().map(str::to_owned).collect()
    }

    /// The source table at the end of the recording.
    pub fn expected(&self) -> TextTable {
        let path = fixtures().join(self.folder).join(format!("{}.expected.csv", self.name()));
        let mut table = TextTable::from_csv(&std::fs::read_to_string(path).unwrap(), self.key).unwrap();
        for row in table.rows.values_mut() {
            for column in self.cut_to_ms {
                if let Some(Some(text)) = row.get_mut(*column)
                    && let Some(point) = text.find('.')
                {
                    text.truncate(point + 4);
                }
            }
        }
        table
    }

    /// The columns that the last event of every key carries.
    pub fn carried(&self) -> Carried {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), self.lines().join("\n")).unwrap();
        let config =
            CaptureConfig { paths: vec![file.path().to_owned()], topics: vec![], group: "g".into(), topic_id: None };
        let records: Vec<Record> = sample(&config, usize::MAX).unwrap();
        carried(&records).unwrap()
    }
}

/// The recorded topics.
pub fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures")
}
