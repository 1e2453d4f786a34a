//! `cargo xtask test`: everything that proves Settle right, against real services.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::{Command, ExitCode};

use settle_testkit::services::{BUILD, Folders, Services, ensure, gateway_folder, gateway_python, workspace};

use crate::child::{self, Interrupt, cargo};
use crate::services::progress;

const INTERRUPTED: u8 = 130;

#[derive(clap::Args, Default)]
pub struct Arguments {
    /// Leave the sampling out of the long tests
    #[arg(long)]
    full: bool,
    /// Arguments for `cargo test` instead of `--workspace`, e.g. `-- -p settle-testkit --test it proxy`
    #[arg(last = true)]
    cargo: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let interrupt = Interrupt::watch()?;
    ensure(&BUILD.each_ref(), &progress)?;
    let folders = Folders::of_workspace();
    let tests = test_command(arguments);
    // Compiled first: a mistake shows before anything is started.
    let builds = [cargo(&["build", "--workspace", "--bins", "--exclude", "xtask"]), no_run(&tests)];
    if let Some(code) = first_failure(builds, &interrupt)? {
        return Ok(code);
    }
    let services = Services::open(folders.clone(), &progress)?;
    let code = services.up(false, &progress).map_err(Into::into).and_then(|exports| {
        let check = self_check(&folders, &exports, arguments);
        first_failure(check.into_iter().chain([with_environment(tests, &exports, arguments)]), &interrupt)
    });
    services.down(false, &progress)?;
    Ok(code?.unwrap_or(ExitCode::SUCCESS))
}

/// Runs the commands one after the other; the first failure decides.
fn first_failure(
    commands: impl IntoIterator<Item = Command>,
    interrupt: &Interrupt,
) -> Result<Option<ExitCode>, Box<dyn Error>> {
    for mut command in commands {
        if interrupt.is_asked() {
            return Ok(Some(INTERRUPTED.into()));
        }
        let status = child::run(command.current_dir(workspace()), interrupt)?;
        if interrupt.is_asked() {
            return Ok(Some(INTERRUPTED.into()));
        }
        if !status.success() {
            return Ok(Some(child::exit_code(status).into()));
        }
    }
    Ok(None)
}

fn test_command(arguments: &Arguments) -> Command {
    let mut command = cargo(&["test"]);
    match arguments.cargo.as_slice() {
        [] => command.args(["--workspace", "--no-fail-fast"]),
        given => command.args(given),
    };
    command
}

/// The same tests, only compiled. What follows a second `--` is for the tests themselves.
fn no_run(tests: &Command) -> Command {
    let mut command = Command::new(tests.get_program());
    command.args(tests.get_args().take_while(|argument| *argument != "--")).args(["--no-run", "--quiet"]);
    command
}

/// The gateway checked from outside, unless only some tests are asked for.
fn self_check(folders: &Folders, exports: &BTreeMap<String, String>, arguments: &Arguments) -> Option<Command> {
    let python = gateway_python(folders);
    // A server given by the environment needs no gateway; then its Python may not be there.
    if !arguments.cargo.is_empty() || !python.exists() {
        return None;
    }
    let mut command = Command::new(python);
    command.arg("-B").arg(gateway_folder().join("self_check.py"));
    Some(with_environment(command, exports, arguments))
}

fn with_environment(mut command: Command, exports: &BTreeMap<String, String>, arguments: &Arguments) -> Command {
    command.envs(exports);
    if arguments.full {
        command.env("SETTLE_TEST_FULL", "1");
    }
    command
}
