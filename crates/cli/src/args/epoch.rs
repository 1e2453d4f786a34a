//! Arguments of `settle epoch`.

use clap::{Args, Subcommand};
use settle_core::position::Place;

/// `settle epoch`
#[derive(Debug, Args)]
pub struct EpochArgs {
    /// What to do
    #[command(subcommand)]
    pub command: EpochCommand,
}

/// What to do with epochs.
#[derive(Debug, Subcommand)]
pub enum EpochCommand {
    /// List those that the destination has recorded
    Ls,
    /// Let a new epoch begin: everything from there on wins over everything before. The message of the run that stopped
    /// names the place. Stop all instances first
    Bump {
        /// topic:partition:offset of the first record of the new log, one for each partition
        #[arg(required = true, value_name = "PLACE")]
        begins: Vec<Place>,
        /// Number of the epoch [default: the one that other partitions moved to, else a new one]
        #[arg(long, value_name = "N")]
        epoch: Option<u64>,
    },
}
