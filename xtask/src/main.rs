//! The workspace's own commands: `cargo xtask services up|down|status`, `test`, `bench`, `ci`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool of the workspace: printing is its output"
)]

mod bench;
mod child;
mod ci;
mod named;
mod services;
mod test;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Commands of the Settle workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start, stop or show the services that tests run against
    Services {
        #[command(subcommand)]
        action: services::Action,
    },
    /// Run every test against real services, which are started for it and stopped after it
    Test(test::Arguments),
    /// Measure the release binary over a long log: events per second, CPU, memory
    Bench {
        #[command(subcommand)]
        kind: bench::Kind,
    },
    /// Run what CI runs: format, lints, dependencies, documentation, names in the documents, tests
    Ci,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Task::Services { action } => services::run(action),
        Task::Test(arguments) => test::run(&arguments),
        Task::Bench { kind } => bench::run(&kind),
        Task::Ci => ci::run(),
    };
    done.unwrap_or_else(|failure| {
        eprintln!("error: {}", chain(failure.as_ref()));
        ExitCode::FAILURE
    })
}

fn chain(failure: &dyn Error) -> String {
    let mut text = failure.to_string();
    let mut next = failure.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}
