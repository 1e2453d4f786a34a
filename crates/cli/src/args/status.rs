//! Arguments of `settle status`.

use clap::Args;

/// `settle status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}
