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
    let logs = cli.log_format;
    match cli.command {
        Command::Run(args) => {
            logs::start(logs, "info");
            run::execute(&cli.config, &args)
        }
        Command::Check(args) => {
            logs::start(logs, "warn");
            check::execute(&cli.config, &args)
        }
        Command::Ddl(args) => {
            logs::start(logs, "warn");
            ddl::execute(&cli.config, &args)
        }
        Command::Prove(args) => {
            logs::start(logs, "warn");
            prove::execute(&cli.config, &args)
        }
        Command::Status(args) => {
            logs::start(logs, "warn");
            status::execute(&cli.config, &args)
        }
        Command::Explain(args) => {
            logs::start(logs, "warn");
            explain::execute(&cli.config, &args)
        }
        Command::Replay(args) => {
            logs::start(logs, "warn");
            replay::execute(&cli.config, &args)
        }
        Command::Epoch(args) => {
            logs::start(logs, "warn");
            epoch::execute(&cli.config, &args)
        }
        Command::Dlq(args) => {
            logs::start(logs, "warn");
            dlq::execute(&cli.config, &args)
        }
        Command::Simulate(args) => {
            logs::start(logs, "warn");
            simulate::command::execute(&args)
        }
        Command::Connector(args) => {
            logs::start(logs, "warn");
            connector::command::execute(&args)
        }
        Command::Demo(args) => demo::execute(&args),
    }
}
