//! Arguments of `settle run`.

use std::time::Duration;

use clap::Args;

use super::{ReportFormat, duration};

/// `settle run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// End when every partition reached the end it had at start
    #[arg(long)]
    pub until_end: bool,
    /// End after this many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_messages: Option<u64>,
    /// End when no record came for this long, as 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub idle_timeout: Option<Duration>,
    /// Give up on a source or sink that is away for this long [bounded runs: 60s; else never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// How long the drain may take when asked to stop
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub drain_timeout: Duration,
    /// Read as this consumer group instead of the configured one
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Form of the run report on standard output
    #[arg(long, value_enum, default_value = "human")]
    pub report: ReportFormat,
}
