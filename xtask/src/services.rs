//! `cargo xtask services`: the services of this workspace by hand.

use std::error::Error;
use std::process::ExitCode;

use clap::Subcommand;
use settle_testkit::services::{Folders, Origin, Services, status};

#[derive(Subcommand)]
pub enum Action {
    /// Start them and leave them running
    Up,
    /// Stop what was started here
    Down,
    /// Show where they are
    Status,
}

/// Prints a line about a step; to stderr, so that stdout stays the result.
pub fn progress(line: &str) {
    eprintln!("{line}");
}

pub fn run(action: Action) -> Result<ExitCode, Box<dyn Error>> {
    let folders = Folders::of_workspace();
    match action {
        Action::Up => up(folders)?,
        Action::Down => Services::open(folders, &progress)?.down(true, &progress)?,
        Action::Status => print_status(&folders)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn up(folders: Folders) -> Result<(), Box<dyn Error>> {
    for (name, value) in Services::open(folders, &progress)?.up(true, &progress)? {
        println!("export {name}={value}");
    }
    println!(
        "# next: cargo test (finds them by itself) | cargo xtask test | cargo xtask services status | cargo xtask services down"
    );
    Ok(())
}

fn print_status(folders: &Folders) -> Result<(), Box<dyn Error>> {
    for (name, origin) in status(folders)? {
        match origin {
            Origin::Given(address) => println!("{name}: given by the environment, {}", without_password(&address)),
            Origin::Started(running) => {
                println!(
                    "{name}: up on {} (process {}, log {})",
                    running.address,
                    running.process.pid(),
                    running.log.display()
                );
            }
            Origin::Down => println!("{name}: down"),
        }
    }
    Ok(())
}

/// The address without `:password` before its host.
fn without_password(address: &str) -> String {
    let cut = || -> Option<String> {
        let (login, host) = address.rsplit_once('@')?;
        let (scheme, login) = login.split_once("://")?;
        let (user, _) = login.split_once(':')?;
        Some(format!("{scheme}://{user}@{host}"))
    };
    cut().unwrap_or_else(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let shown = without_password("postgres://me:p:w/d@x@db:5432/shop");
        assert_eq!(shown, "postgres://me@db:5432/shop");
        assert_eq!(without_password("mysql://me@db:3306"), "mysql://me@db:3306");
        assert_eq!(without_password("http://127.0.0.1:8083"), "http://127.0.0.1:8083");
        assert_eq!(without_password("127.0.0.1:9092"), "127.0.0.1:9092");
    }
}
