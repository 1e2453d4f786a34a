//! Settle: change events into databases, once.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    settle::execute(settle::args::Cli::parse()).into()
}
