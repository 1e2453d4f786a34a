//! Arguments of `settle replay`.

use chrono::{DateTime, Utc};
use clap::{ArgGroup, Args};
use settle_core::position::Place;

use super::{ReportFormat, moment};

/// `settle replay`
#[derive(Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("stretch").required(true).args(["from", "since"])))]
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
