//! Arguments of `settle prove`.

use clap::Args;

/// `settle prove`
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// How often the log is replayed
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub times: u32,
    /// Apply the log to a scratch destination instead, and compare it with the live one key by key
    #[arg(long, conflicts_with = "times")]
    pub fresh: bool,
}
