//! Arguments of `settle ddl`.

use clap::Args;

/// `settle ddl`
#[derive(Debug, Args)]
pub struct DdlArgs {
    /// Records sampled per partition
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub sample: usize,
}
