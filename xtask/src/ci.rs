//! `cargo xtask ci`: the checks that a change has to pass, cheapest first.

use std::error::Error;
use std::process::{Command, ExitCode, Stdio};

use settle_testkit::services::{BUILD, ensure, workspace};

use crate::child::{self, Interrupt, cargo};
use crate::named;
use crate::services::progress;

const DENY_VERSION: &str = "0.20.2";

pub fn run() -> Result<ExitCode, Box<dyn Error>> {
    let interrupt = Interrupt::watch()?;
    named::check(workspace())?;
    ensure(&BUILD.each_ref(), &progress)?;

    let mut steps = vec![cargo(&["fmt", "--all", "--check"])];
    if !has_deny() {
        steps.push(cargo(&["install", "cargo-deny", "--locked", "--version", DENY_VERSION]));
    }
    steps.push(cargo(&["deny", "check", "bans", "licenses", "sources"]));
    steps.push(cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]));
    // The service manager as xtask has it: without the clients.
    steps.push(cargo(&["clippy", "--package", "xtask", "--all-targets", "--locked", "--", "-D", "warnings"]));
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    steps.push(doc);
    steps.push(cargo(&["xtask", "test"])); // as the README says

    for mut step in steps {
        let status = child::run(step.current_dir(workspace()), &interrupt)?;
        if !status.success() {
            eprintln!("ci: this step failed");
            return Ok(child::exit_code(status).into());
        }
    }
    eprintln!("ci: all steps passed");
    Ok(ExitCode::SUCCESS)
}

fn has_deny() -> bool {
    let probe: &mut Command = &mut cargo(&["deny", "--version"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
