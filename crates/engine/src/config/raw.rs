//! The file as it is written: every key of every kind, nothing checked.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub source: Source,
    pub sink: Sink,
    #[serde(default)]
    pub batch: Batch,
    pub dlq: Option<Dlq>,
    #[serde(default)]
    pub tables: BTreeMap<String, Table>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    pub kind: String,
    pub brokers: Option<String>,
    pub group: Option<String>,
    pub topics: Option<Vec<String>>,
    pub instance: Option<String>,
    pub properties: Option<BTreeMap<String, toml::Value>>,
    pub path: Option<String>,
    pub paths: Option<Vec<String>>,
    pub topic_id: Option<String>,
    pub lone_tombstones: Option<String>,
    pub time_precision_mode: Option<String>,
    pub decimal_handling_mode: Option<String>,
    pub binary_handling_mode: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sink {
    pub kind: String,
    pub url: Option<String>,
    pub database: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub cluster: Option<String>,
    pub settings: Option<BTreeMap<String, toml::Value>>,
    pub request_timeout_ms: Option<u64>,
    pub path: Option<String>,
    pub busy_timeout_ms: Option<u64>,
    pub schema: Option<String>,
    pub unique: Option<String>,
    pub foreign_keys: Option<String>,
    pub lock_timeout_ms: Option<u64>,
    pub key_folding: Option<String>,
    pub create: Option<toml::Value>,
    pub evolution: Option<String>,
    pub deletes: Option<String>,
    pub on_resnapshot: Option<String>,
    pub tombstone_retention: Option<String>,
    #[serde(default)]
    pub meta: Meta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meta {
    pub op: Option<String>,
    pub source_ts_ms: Option<String>,
    pub is_deleted: Option<String>,
    pub version: Option<String>,
    pub written_ms: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch {
    pub max_rows: Option<usize>,
    pub max_bytes: Option<usize>,
    pub max_age_ms: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dlq {
    pub topic: Option<String>,
    pub path: Option<String>,
    pub brokers: Option<String>,
    pub properties: Option<BTreeMap<String, toml::Value>>,
    pub max_ratio: Option<f64>,
    pub min_records: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub name: Option<String>,
    #[serde(default)]
    pub columns: Ordered,
    pub deletes: Option<String>,
    pub on_resnapshot: Option<String>,
    #[serde(default)]
    pub exclude: Vec<String>,
    #[serde(default)]
    pub include: Vec<String>,
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
}

/// A table of strings whose order counts.
#[derive(Debug, Default)]
pub(crate) struct Ordered(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Ordered;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of column = \"type\"")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Ordered(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
