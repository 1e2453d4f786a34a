//! Arguments, parsed and nothing more: no file is read here.

mod check;
mod connector;
mod ddl;
mod demo;
mod dlq;
mod epoch;
mod explain;
mod prove;
mod replay;
mod run;
mod simulate;
mod status;

use std::path::PathBuf;

use chrono::{DateTime, TimeDelta, Utc};
use clap::{Parser, Subcommand, ValueEnum};
use settle_engine::config::duration::read as duration;

pub use check::CheckArgs;
pub use connector::{ConnectorArgs, ConnectorCommand, RegisterArgs, SnapshotArgs, SnapshotType, Switch};
pub use ddl::DdlArgs;
pub use demo::DemoArgs;
pub use dlq::{DlqArgs, DlqCommand, Filter};
pub use epoch::{EpochArgs, EpochCommand};
pub use explain::ExplainArgs;
pub use prove::ProveArgs;
pub use replay::ReplayArgs;
pub use run::RunArgs;
pub use simulate::SimulateArgs;
pub use status::StatusArgs;

/// Settles Debezium change events into databases, so that every row ends exactly as the source has it.
#[derive(Debug, Parser)]
#[command(name = "settle", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 2 usage or configuration, 3 source unreachable by the deadline, \
4 sink unreachable by the deadline, 5 contract refused or record not applicable, 6 too many dead letters, 7 fenced, 70 bug, 130 interrupted.\n\n\
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
    /// Check configuration, source, records and destination; exit 0 only if a run would start
    Check(CheckArgs),
    /// Print the DDL of everything that a run would make for the topics
    Ddl(DdlArgs),
    /// Replay the log beside the pipeline and show that nothing changes; or compare with the log applied anew
    Prove(ProveArgs),
    /// Where the pipeline stands: lag, members, tables, dead letters. Joins nothing
    Status(StatusArgs),
    /// How the records of one row were read, what beat what, and what the destination has of it
    Explain(ExplainArgs),
    /// A stretch of the log again, through the destination's guard; moves no offset
    Replay(ReplayArgs),
    /// Where a source's positions begin anew (a restored database, a topic made anew): list or begin one
    Epoch(EpochArgs),
    /// The records that could not be applied: list, show, retry or drop them
    Dlq(DlqArgs),
    /// Write shop traffic into a source database, with everything in it that is hard to follow
    Simulate(SimulateArgs),
    /// Debezium connectors on a Kafka Connect worker: register one that suits Settle, and look after it
    Connector(ConnectorArgs),
    /// See it work, with no service: a recorded log into SQLite, killed, resumed, replayed, compared
    Demo(DemoArgs),
}

/// Form of the run report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A short table
    Human,
    /// One JSON object
    Json,
}

/// A point in time, or how long ago.
fn moment(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return Ok(moment.to_utc());
    }
    let ago =
        duration(text).map_err(|_| "a time is as 2026-01-31T12:00:00Z, or how long ago, as 2h or 30m".to_owned())?;
    let before = TimeDelta::from_std(ago).ok().and_then(|ago| Utc::now().checked_sub_signed(ago));
    before.ok_or_else(|| "too long ago".to_owned())
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
    fn what_says_what_to_read_is_asked_for() {
        let is_taken = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        for line in ["explain --values", "explain --table t", "replay --report json", "explain t:0:1 --key {}"] {
            assert!(!is_taken(&format!("settle {line}")), "{line}");
        }
        for line in ["explain t:0:1 --values", "explain --table t --key {}", "replay --since 2h --report json"] {
            assert!(is_taken(&format!("settle {line}")), "{line}");
        }
        assert!(is_taken("settle replay --from t:0:1 --to t:0:2"));
    }

    #[test]
    fn a_time_is_a_point_or_how_long_ago() {
        assert_eq!(moment("2026-01-31T12:00:00+01:00").unwrap().to_rfc3339(), "2026-01-31T11:00:00+00:00");
        assert!(moment("2h").unwrap() < moment("1h").unwrap());
        assert!(moment("yesterday").unwrap_err().contains("how long ago"));
        for long in ["100000000d", "9999999999d", "200000000000d"] {
            assert_eq!(moment(long), Err("too long ago".to_owned()), "{long}");
        }
    }
}
