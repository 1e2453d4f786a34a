//! Arguments of `settle explain`.

use clap::{ArgGroup, Args};
use settle_core::position::Place;

/// `settle explain`
#[derive(Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("row").required(true).args(["place", "key"])))]
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
