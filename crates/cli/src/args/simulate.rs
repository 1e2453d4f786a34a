//! Arguments of `settle simulate`.

use std::time::Duration;

use clap::Args;

use super::{ReportFormat, duration};

/// `settle simulate`
///
/// Makes the tables of a small shop where they are missing (customers, orders, order_items, documents, products,
/// debezium_signal) and writes transactions into them until it is stopped. It writes to no other table.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The database: postgres://user:password@host:port/database or mysql://… (MariaDB too), or env:NAME, file:PATH
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// The password apart from the URL: env:NAME or file:PATH
    #[arg(long, value_name = "SECRET")]
    pub password: Option<String>,
    /// End after this time, as 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// End after this many transactions; 0 only makes the tables
    #[arg(long, value_name = "N")]
    pub transactions: Option<u64>,
    /// Transactions per second, all writers together [default: as many as the server takes]
    #[arg(long, value_name = "TX/S")]
    pub rate: Option<f64>,
    /// Writers at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub writers: usize,
    /// Seed: the same seed, one writer and the same --transactions leave the same tables behind
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Hazards, with commas; `default` is all but truncate and keyless, a minus takes one away. Known: insert-update,
    /// reinsert, key-change, multi-row, savepoint, rollback, long-open, hot-key, toast, set-timestamp, replace,
    /// truncate, keyless, and the words default, all, none
    #[arg(long, value_name = "LIST", default_value = "default", allow_hyphen_values = true)]
    pub hazards: String,
    /// Form of the summary on standard output
    #[arg(long, value_enum, default_value = "human")]
    pub report: ReportFormat,
}
