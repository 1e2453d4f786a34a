//! Arguments, parsed and nothing more: no file is read here.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Settles Debezium change events into databases, so that every row ends exactly as the source has it.
#[derive(Debug, Parser)]
#[command(name = "settle", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 2 usage or configuration, 3 source unreachable by the deadline, \
4 sink unreachable by the deadline, 5 contract refused or record not applicable, 7 fenced, 70 bug, 130 interrupted.\n\n\
Try it without any service: settle demo")]
pub struct Cli {
    /// The pipeline's configuration
    #[arg(short, long, global = true, default_value = "settle.toml", value_name = "FILE")]
    pub config: PathBuf,
    /// Form of the logs on standard error
    #[arg(long, global = true, value_enum, default_value = "auto")]
    pub log_format: LogFormat,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// Form of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise
    Auto,
    /// Text
    Text,
    /// One JSON object a line
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the pipeline
    Run(RunArgs),
    /// Check configuration, source and destination; exit 0 only if a run would start
    Check(CheckArgs),
    /// Print the target tables' DDL for the topics
    Ddl(DdlArgs),
    /// Write shop traffic into a source database, with everything in it that is hard to follow
    Simulate(SimulateArgs),
    /// See it work, with no service: a recorded log into SQLite, killed, resumed, replayed, compared
    Demo(DemoArgs),
}

/// `settle run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// End when every partition reached the end it had at start
    #[arg(long)]
    pub until_end: bool,
    /// End after this many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_messages: Option<u64>,
    /// End when no record came for this long, as 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub idle_timeout: Option<Duration>,
    /// Give up on a source or sink that is away for this long [bounded runs: 60s; else never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// How long the drain may take when asked to stop
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub drain_timeout: Duration,
    /// Read as this consumer group instead of the configured one
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Form of the run report on standard output
    #[arg(long, value_enum, default_value = "human")]
    pub report: ReportFormat,
}

/// Form of the run report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A short table
    Human,
    /// One JSON object
    Json,
}

/// `settle check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Records sampled per topic
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub sample: usize,
}

/// `settle ddl`
#[derive(Debug, Args)]
pub struct DdlArgs {
    /// Records sampled per topic
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub sample: usize,
}

/// `settle demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Leave configuration, captures and database in this folder
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// `settle simulate`
///
/// Makes the tables of a small shop where they are missing (customers, orders, order_items, documents, products,
/// debezium_signal) and writes transactions into them until it is stopped. It writes to no other table.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The database: postgres://user:password@host:port/database or mysql://… (MariaDB too), or env:NAME, file:PATH
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// The password apart from the URL: env:NAME or file:PATH
    #[arg(long, value_name = "SECRET")]
    pub password: Option<String>,
    /// End after this time, as 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// End after this many transactions; 0 only makes the tables
    #[arg(long, value_name = "N")]
    pub transactions: Option<u64>,
    /// Transactions per second, all writers together [default: as many as the server takes]
    #[arg(long, value_name = "TX/S")]
    pub rate: Option<f64>,
    /// Writers at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub writers: usize,
    /// Seed: the same seed, one writer and the same --transactions leave the same tables behind
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Hazards, with commas; `default` is all but truncate and keyless, a minus takes one away. Known: insert-update,
    /// reinsert, key-change, multi-row, savepoint, rollback, long-open, hot-key, toast, set-timestamp, replace,
    /// truncate, keyless, and the words default, all, none
    #[arg(long, value_name = "LIST", default_value = "default", allow_hyphen_values = true)]
    pub hazards: String,
    /// Form of the summary on standard output
    #[arg(long, value_enum, default_value = "human")]
    pub report: ReportFormat,
}

/// Reads `10s`, `500ms`, `2m`, `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| "a time is a number and a unit, as 10s, 500ms, 2m".to_owned())?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("the unit of a time is ms, s, m or h, as in 10s".to_owned()),
    };
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(|| "the time is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("10").is_err());
        assert!(duration("s").is_err());
    }
}
