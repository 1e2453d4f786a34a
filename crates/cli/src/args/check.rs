//! Arguments of `settle check`.

use clap::Args;

/// `settle check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Records sampled per partition
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub sample: usize,
}
