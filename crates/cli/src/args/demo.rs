//! Arguments of `settle demo`.

use std::path::PathBuf;

use clap::Args;

/// `settle demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Leave configuration, captures and database in this folder
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}
