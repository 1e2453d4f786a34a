//! Arguments of `settle dlq`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use settle_core::position::Place;

use super::moment;

/// `settle dlq`
#[derive(Debug, Args)]
pub struct DlqArgs {
    /// The letters of this consumer group instead of the configured one
    #[arg(long, global = true)]
    pub group: Option<String>,
    /// What to do
    #[command(subcommand)]
    pub command: DlqCommand,
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// List them, with a count by class
    Ls {
        /// Which
        #[command(flatten)]
        filter: Filter,
        /// Those that were retried or dropped, too
        #[arg(long)]
        all: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        /// List this many at most; all are counted [default: 50, all with --json]
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Show one in full: error, headers, key and value
    Show {
        /// topic:partition:offset
        origin: Place,
    },
    /// Apply them again, with the version that they had: a newer row stays. Exit 5 if one could not be applied
    Retry {
        /// Which
        #[command(flatten)]
        filter: Filter,
        /// Only say which would be retried
        #[arg(long)]
        dry_run: bool,
    },
    /// Give them up; they stay in the log, marked
    Drop {
        /// Which
        #[command(flatten)]
        filter: Filter,
        /// Without it, only says which would be dropped
        #[arg(long)]
        yes: bool,
    },
}

/// Which dead letters; all conditions together.
#[derive(Clone, Debug, Default, Args)]
pub struct Filter {
    /// topic:partition:offset of the records [default: all]
    #[arg(value_name = "ORIGIN")]
    pub origins: Vec<Place>,
    /// Class of error, as not-json or value
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Source table, as public.orders
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Topic that they come from
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,
    /// Failed at or after: 2026-01-31T12:00:00Z, or how long ago, as 2h
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<DateTime<Utc>>,
    /// Failed before
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<DateTime<Utc>>,
}
