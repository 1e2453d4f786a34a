//! A recorded topic on the real broker, and ClickHouse behind the same pipeline.

use std::collections::BTreeMap;

use settle::compare::{TextRow, TextTable, differences};
use settle_testkit::clickhouse::Client;
use settle_testkit::kafka::{self, Record};

use crate::ends::{self, CAPTURE, SHORT_SESSION};
use crate::shop::Shop;
use crate::stage::Stage;

/// Produces lines of a recording into a topic.
pub async fn produce(lines: &[String], topic: &str) {
    let records = lines.iter().map(|line| Record::from_kcat(line).in_topic(topic));
    kafka::produce(records.collect::<Vec<_>>()).await;
}

/// A topic with a recording in it, a fresh database, and a stage with the pipeline between them.
pub struct Live {
    pub shop: Shop,
    pub topic: String,
    pub stage: Stage,
    pub database: Client,
}

impl Live {
    /// Produces `lines` of the shop's recording into a topic of its own.
    pub async fn of(shop: Shop, lines: &[String], batch: &str) -> Self {
        let topic = kafka::unique(shop.topic);
        kafka::create_topic(&topic, 3, &[]).await;
        produce(lines, &topic).await;
        Self::reading(shop, topic, batch).await
    }

    /// A pipeline that reads `topic` into a fresh database.
    pub async fn reading(shop: Shop, topic: String, batch: &str) -> Self {
        let database = Client::with_fresh_database("shop").await;
        let stage = Stage::new();
        let live = Self { shop, topic, stage, database };
        live.configure(&live.database.address().url, batch);
        live
    }

    /// A pipeline that reads these lines from a capture into a fresh database.
    pub async fn of_capture(shop: Shop, lines: &[String], batch: &str) -> Self {
        let database = Client::with_fresh_database("shop").await;
        let live = Self { shop, topic: shop.topic.to_owned(), stage: Stage::new(), database };
        live.stage.write("capture.jsonl", &lines.join("\n"));
        let source = CAPTURE.replace("\"g\"", &format!("\"{}\"", live.group()));
        live.configure_with(&source, "", &live.database.address().url, batch);
        live
    }

    /// Writes the configuration with ClickHouse at `url`.
    pub fn configure(&self, url: &str, batch: &str) {
        self.configure_with(&ends::kafka(&self.group(), &[&self.topic]), SHORT_SESSION, url, batch);
    }

    fn configure_with(&self, source: &str, properties: &str, url: &str, batch: &str) {
        let columns: Vec<String> =
            self.shop.clickhouse.iter().map(|(name, kind)| format!("{name} = \"{kind}\"\n")).collect();
        self.stage.configure(&format!(
            "{source}time_precision_mode = \"{}\"\n{properties}{}[batch]\n{batch}\n[tables.\"{}\".columns]\n{}",
            self.shop.time_precision,
            ends::clickhouse_at(url, &self.stage, &self.database),
            self.shop.table,
            columns.concat(),
        ));
    }

    /// The group of the configuration.
    pub fn group(&self) -> String {
        format!("{}-group", self.topic)
    }

    /// The current rows, as a reader of the view sees them.
    pub async fn table(&self) -> TextTable {
        let mut table = TextTable::new(self.shop.key);
        let view = format!(
            "SELECT * FROM `{}_current` SETTINGS output_format_json_quote_decimals = 1, \
             output_format_decimal_trailing_zeros = 1",
            self.shop.name()
        );
        for row in self.database.json(&view).await {
            let fields: BTreeMap<String, serde_json::Value> = serde_json::from_value(row).unwrap();
            let text = |value: serde_json::Value| match value {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text),
                other => Some(other.to_string()),
            };
            table.add(fields.into_iter().map(|(name, value)| (name, text(value))).collect::<TextRow>());
        }
        table
    }

    /// Compares with the source table; panics with what differs.
    pub async fn assert_equals_source(&self, context: &str) {
        let found = differences(&self.shop.expected(), &self.table().await, &self.shop.carried());
        assert!(found.is_empty(), "{} {}: {context}: {found:#?}", self.shop.folder, self.shop.topic);
    }

    /// Rows in the table, merged or not.
    pub async fn physical_rows(&self) -> u64 {
        self.database.number(&format!("SELECT count() FROM `{}`", self.shop.name())).await
    }

    /// The group's committed offsets, 0 where it never committed.
    pub async fn committed(&self) -> Vec<i64> {
        let places = kafka::committed(&self.group(), &self.topic).await;
        places.into_iter().map(|place| place.map_or(0, |place| place.offset)).collect()
    }

    /// Records in the topic.
    pub async fn ends(&self) -> Vec<i64> {
        kafka::end_offsets(&self.topic, kafka::Isolation::ReadCommitted).await
    }
}
