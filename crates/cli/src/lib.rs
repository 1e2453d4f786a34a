//! The `settle` command: arguments, one file a command, the report, exit codes.
#![allow(clippy::print_stdout, reason = "a command prints its results")]
#![allow(clippy::print_stderr, reason = "a command prints its errors")]

pub mod args;
pub mod check;
pub mod compare;
pub mod connector;
pub mod database;
pub mod ddl;
pub mod demo;
pub mod dlq;
pub mod epoch;
pub mod exit;
pub mod explain;
mod logs;
mod progress;
pub mod prove;
pub mod replay;
mod report;
pub mod run;
pub mod simulate;
pub mod status;

use args::{Cli, Command};
use exit::Exit;

/// Runs the command that the arguments name.
pub fn execute(cli: Cli) -> Exit {
    match &cli.command {
        Command::Run(_) => logs::start(cli.log_format, "info"),
        // Its runs have logs of their own.
        Command::Demo(_) => {}
        _ => logs::start(cli.log_format, "warn"),
    }
    match cli.command {
        Command::Run(args) => run::execute(&cli.config, &args),
        Command::Check(args) => check::execute(&cli.config, &args),
        Command::Ddl(args) => ddl::execute(&cli.config, &args),
        Command::Prove(args) => prove::execute(&cli.config, &args),
        Command::Status(args) => status::execute(&cli.config, &args),
        Command::Explain(args) => explain::execute(&cli.config, &args),
        Command::Replay(args) => replay::execute(&cli.config, &args),
        Command::Epoch(args) => epoch::execute(&cli.config, &args),
        Command::Dlq(args) => dlq::execute(&cli.config, &args),
        Command::Simulate(args) => simulate::command::execute(&args),
        Command::Connector(args) => connector::command::execute(&args),
        Command::Demo(args) => demo::execute(&args),
    }
}
