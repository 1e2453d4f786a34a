//! A database of its own for each test, and the sink before it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use settle_core::batch::Batch;
use settle_core::position::TopicId;
use settle_core::sink::{Outcome, PlacedPartition, Places, Sink, SinkError};
use settle_engine::config::{Secret, TableRule, Target};
use settle_engine::sinks::clickhouse::{ClickHouse, ClickHouseConfig};
use settle_testkit::clickhouse::Client;
use settle_testkit::services::ClickHouseAddress;
use uuid::Uuid;

use crate::records::partition;

/// A database, dropped behind the test.
pub struct Stage {
    pub database: Client,
}

/// Runs a test with a fresh database, and drops it whatever the test did.
pub async fn staged(test: impl AsyncFnOnce(&Stage)) {
    let stage = Stage { database: Client::with_fresh_database("sink").await };
    let outcome = AssertUnwindSafe(test(&stage)).catch_unwind().await;
    stage.database.query(&format!("DROP DATABASE IF EXISTS `{}`", stage.database.database())).await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

impl Stage {
    pub fn config(&self) -> ClickHouseConfig {
        self.config_at(self.database.address())
    }

    /// The same database by another address, such as a proxy's.
    pub fn config_at(&self, address: &ClickHouseAddress) -> ClickHouseConfig {
        let mut config = ClickHouseConfig::new(&address.url, self.database.database());
        config.user = Some(address.user.clone());
        config.password = Some(secret(&address.password));
        config
    }

    /// The sink with these rules, opened.
    pub async fn sink(&self, target: Target) -> ClickHouse {
        self.sink_at(self.database.address(), target).await
    }

    pub async fn sink_at(&self, address: &ClickHouseAddress, target: Target) -> ClickHouse {
        let mut sink = ClickHouse::new(self.config_at(address), target).expect("a configuration that is accepted");
        open(&mut sink).await.expect("a sink that opens");
        sink
    }

    /// Applies a batch with a new sink, as a restarted run does.
    pub async fn apply(&self, target: Target, batch: &Batch) -> Result<Outcome, SinkError> {
        let mut sink = self.sink(target).await;
        apply(&mut sink, batch).await
    }

    /// The rows of a query, tab separated.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        self.database.query(sql).await.lines().map(str::to_owned).collect()
    }

    /// Runs a statement.
    pub async fn run(&self, sql: &str) {
        self.database.query(sql).await;
    }

    /// Replaces the name of this test's database in a message.
    pub fn message(&self, error: &SinkError) -> String {
        error.to_string().replace(self.database.database(), "shop")
    }
}

pub async fn open(sink: &mut ClickHouse) -> Result<Places, SinkError> {
    sink.open(&parts()).await
}

pub async fn apply(sink: &mut ClickHouse, batch: &Batch) -> Result<Outcome, SinkError> {
    let proof = sink.apply(batch).await?;
    assert_eq!(proof.spans(), batch.spans(), "the proof covers the batch");
    Ok(proof.outcome)
}

/// Three partitions of one topic.
pub fn parts() -> Vec<PlacedPartition> {
    (0..3).map(|number| PlacedPartition { topic_id: topic_id(), partition: partition(number) }).collect()
}

pub fn topic_id() -> TopicId {
    TopicId(Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef))
}

pub fn secret(text: &str) -> Secret {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Secret::read("password", &format!("file:{}", file.path().display())).unwrap()
}

/// Missing tables are created.
pub fn creating() -> Target {
    Target { create: true, ..Target::default() }
}

/// Missing tables are created with these columns for `public.t`.
pub fn declaring(columns: &[(&str, &str)]) -> Target {
    let columns = columns.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    ruled(TableRule { columns, ..TableRule::default() })
}

/// Missing tables are created, with this rule for `public.t`.
pub fn ruled(rule: TableRule) -> Target {
    Target { tables: [("public.t".to_owned(), rule)].into(), ..creating() }
}
