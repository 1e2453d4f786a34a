//! A small Kafka client for tests: topics, exact records, transactions, offsets. Every call waits until the broker has done it.
//!
//! All of it is async for use beside Settle in one runtime; what librdkafka only offers blocking runs on a blocking thread.

mod admin;
mod offsets;
mod produce;
mod record;

pub use admin::{
    create_partitions, create_topic, delete_group, delete_records, delete_topic, set_topic_config, topic_setting,
};
pub use offsets::{
    Committed, Isolation, committed, end_offsets, groups, move_group, read_topic, read_topic_until, start_offsets,
};
pub use produce::{Transaction, produce, produce_transaction};
pub use record::{Record, read_capture};

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::config::ClientConfig;

use crate::services;

const LIMIT: Duration = Duration::from_secs(30);

/// `prefix` with a suffix that no other call, process or earlier run has: a name for a topic, a group or a database.
pub fn unique(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}_{:x}_{:x}_{count}", since_epoch.as_micros(), std::process::id())
}

fn client() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", services::kafka());
    config
}

/// Runs blocking work of librdkafka beside the runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("the work on a blocking thread ends without a panic")
}
