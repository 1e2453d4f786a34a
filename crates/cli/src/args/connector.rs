//! Arguments of `settle connector`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{ReportFormat, duration};
use crate::connector::name;

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
        #[arg(long, value_parser = name)]
        name: String,
        /// Form of the status on standard output
        #[arg(long, value_enum, default_value = "human")]
        report: ReportFormat,
    },
    /// Stop reading; it keeps its place
    Pause {
        /// The connector
        #[arg(long, value_parser = name)]
        name: String,
    },
    /// Go on reading
    Resume {
        /// The connector
        #[arg(long, value_parser = name)]
        name: String,
    },
    /// Start it and its tasks anew
    Restart {
        /// The connector
        #[arg(long, value_parser = name)]
        name: String,
    },
    /// Ask for a snapshot of some tables while it streams
    Snapshot(SnapshotArgs),
    /// Take it away
    Delete {
        /// The connector
        #[arg(long, value_parser = name)]
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
    #[arg(long, value_parser = name)]
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
    /// Take a topic prefix or a replication slot that another connector has
    #[arg(long)]
    pub shared: bool,
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
    #[arg(long, value_parser = name)]
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
