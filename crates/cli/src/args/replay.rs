//! Arguments of `settle replay`, `status` and `explain`.

use chrono::{DateTime, Utc};
use clap::Args;
use settle_core::position::Place;

use super::ReportFormat;
use super::dlq::moment;

/// `settle replay`
#[derive(Debug, Args)]
#[group(id = "stretch", required = true, args = ["from", "since"])]
pub struct ReplayArgs {
    /// First record, as topic:partition:offset
    #[arg(long, value_name = "PLACE", conflicts_with = "since")]
    pub from: Option<Place>,
    /// Last record [default: the last one that is there]
    #[arg(long, value_name = "PLACE", requires = "from")]
    pub to: Option<Place>,
    /// Everything written to the log at or after this time: 2026-01-31T12:00:00Z, or how long ago, as 2h
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<DateTime<Utc>>,
    /// Form of the run report on standard output
    #[arg(long, value_enum, default_value = "human")]
    pub report: ReportFormat,
}

/// `settle status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// `settle explain`
#[derive(Debug, Args)]
#[group(id = "row", required = true, args = ["place", "key"])]
pub struct ExplainArgs {
    /// A record of the row, as topic:partition:offset
    #[arg(value_name = "PLACE", conflicts_with = "key")]
    pub place: Option<Place>,
    /// Key of the row as the log has it, as '{"id":7}'
    #[arg(long, value_name = "JSON", requires = "table")]
    pub key: Option<String>,
    /// Its source table, as public.orders
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Show the values of the row, too
    #[arg(long)]
    pub values: bool,
}
