//! Arguments, parsed and nothing more: no file is read here.

pub mod dlq;
pub mod replay;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use settle_core::position::Place;

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
    Status(replay::StatusArgs),
    /// How the records of one row were read, what beat what, and what the destination has of it
    Explain(replay::ExplainArgs),
    /// A stretch of the log again, through the destination's guard; moves no offset
    Replay(replay::ReplayArgs),
    /// Where a source's positions begin anew (a restored database, a topic made anew): list or begin one
    Epoch(EpochArgs),
    /// The records that could not be applied: list, show, retry or drop them
    Dlq(dlq::DlqArgs),
    /// Write shop traffic into a source database, with everything in it that is hard to follow
    Simulate(SimulateArgs),
    /// Debezium connectors on a Kafka Connect worker: register one that suits Settle, and look after it
    Connector(ConnectorArgs),
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
    /// Records sampled per partition
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub sample: usize,
}

/// `settle ddl`
#[derive(Debug, Args)]
pub struct DdlArgs {
    /// Records sampled per partition
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub sample: usize,
}

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

/// `settle connector`
#[derive(Debug, Args)]
pub struct ConnectorArgs {
    /// REST interface of the Connect worker
    #[arg(long, global = true, value_name = "URL", default_value = "http://127.0.0.1:8083")]
    pub connect: String,
    /// What to do
    #[command(subcommand)]
    pub command: ConnectorCommand,
}

/// What to do with a connector.
#[derive(Debug, Subcommand)]
pub enum ConnectorCommand {
    /// Look at the database, register a connector that suits Settle, and wait until it runs
    Register(Box<RegisterArgs>),
    /// How it and its tasks are; exit 5 where one has failed
    Status {
        /// The connector
        #[arg(long)]
        name: String,
        /// Form of the status on standard output
        #[arg(long, value_enum, default_value = "human")]
        report: ReportFormat,
    },
    /// Stop reading; it keeps its place
    Pause {
        /// The connector
        #[arg(long)]
        name: String,
    },
    /// Go on reading
    Resume {
        /// The connector
        #[arg(long)]
        name: String,
    },
    /// Start it and its tasks anew
    Restart {
        /// The connector
        #[arg(long)]
        name: String,
    },
    /// Ask for a snapshot of some tables while it streams
    Snapshot(SnapshotArgs),
    /// Take it away
    Delete {
        /// The connector
        #[arg(long)]
        name: String,
        /// PostgreSQL: drop its replication slot and publication too. Its place is lost with them
        #[arg(long)]
        drop_slot: bool,
        /// The database, where the connector's settings do not say it: see register
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// The password apart from the URL: env:NAME or file:PATH
        #[arg(long, value_name = "SECRET", requires = "url")]
        password: Option<String>,
    },
}

/// `settle connector register`
#[derive(Debug, Args)]
pub struct RegisterArgs {
    /// The connector's name
    #[arg(long)]
    pub name: String,
    /// The database: postgres://user:password@host:port/database, mysql://… or mariadb://…, or env:NAME, file:PATH
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// The password apart from the URL: env:NAME or file:PATH
    #[arg(long, value_name = "SECRET")]
    pub password: Option<String>,
    /// First part of the topics' names [default: the name]
    #[arg(long)]
    pub prefix: Option<String>,
    /// Tables, with commas, with or without their schema or database [default: all]
    #[arg(long, value_name = "TABLES", value_delimiter = ',')]
    pub tables: Vec<String>,
    /// Table of signals, for snapshots on request
    #[arg(long, value_name = "TABLE")]
    pub signal: Option<String>,
    /// Columns that identify the rows of a table without a primary key, as public.visits:customer_id,visited_at
    #[arg(long, value_name = "TABLE:COLUMNS")]
    pub key: Vec<String>,
    /// Whether records carry their schema. Without, Settle must be told what some columns hold
    #[arg(long, value_enum, default_value = "on")]
    pub schemas: Switch,
    /// Partitions of new topics
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub partitions: u32,
    /// Replicas of new topics [default: the broker's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub replication_factor: Option<u16>,
    /// Time between heartbeats, which move the position on while only other tables change
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub heartbeat: Duration,
    /// Statement to run with every heartbeat: for a database without traffic beside a busy one
    #[arg(long, value_name = "SQL")]
    pub heartbeat_query: Option<String>,
    /// MySQL, MariaDB: brokers as the worker reaches them, for the history of schemas
    #[arg(long, value_name = "BROKERS")]
    pub kafka: Option<String>,
    /// MySQL, MariaDB: id among the server's replicas [default: made of name and prefix]
    #[arg(long, value_name = "N")]
    pub server_id: Option<u32>,
    /// PostgreSQL: replication slot [default: settle_NAME]
    #[arg(long)]
    pub slot: Option<String>,
    /// PostgreSQL: publication [default: as the slot]
    #[arg(long)]
    pub publication: Option<String>,
    /// Another setting, or another value; an empty value takes the setting away
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Only print the configuration, passwords masked
    #[arg(long)]
    pub print: bool,
    /// Do not look at the database first
    #[arg(long)]
    pub no_check: bool,
    /// Give a connector of that name the new settings
    #[arg(long)]
    pub replace: bool,
    /// How long to wait until it runs [default: 60s]; 0s does not wait
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub wait: Option<Duration>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// `settle connector snapshot`
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// The connector
    #[arg(long)]
    pub name: String,
    /// Incremental: in pieces, while changes go on. Blocking: in one piece, while streaming waits
    #[arg(long = "type", value_enum, default_value = "incremental")]
    pub kind: SnapshotType,
    /// Tables, with commas, with or without their schema or database
    #[arg(long, value_name = "TABLES", value_delimiter = ',', required = true)]
    pub tables: Vec<String>,
    /// Table of signals [default: the connector's]
    #[arg(long, value_name = "TABLE")]
    pub signal: Option<String>,
    /// The database, where the connector's settings do not say it: see register
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// The password apart from the URL: env:NAME or file:PATH
    #[arg(long, value_name = "SECRET", requires = "url")]
    pub password: Option<String>,
}

/// How a snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SnapshotType {
    /// In pieces, while changes go on
    Incremental,
    /// In one piece, while streaming waits
    Blocking,
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
