//! `settle demo`: the main job on the embedded default, with no service.
//!
//! A log recorded from a real Debezium goes into SQLite; the process that writes it is killed with
//! SIGKILL inside an open transaction, resumes, and replays the whole log twice under fresh groups.
//! After each pass every table is compared with the source table itself.

mod kill;
mod log;
mod tables;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Deserialize;

use crate::args::DemoArgs;
use crate::exit::Exit;

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Folder(String),
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
    #[error("the database cannot be read: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("{0}")]
    Unexpected(String),
    #[error("the destination differs from the source: {0}")]
    Differs(String),
}

/// Runs the demo.
pub fn execute(args: &DemoArgs) -> Exit {
    let started = Instant::now();
    let shown = match &args.keep {
        Some(folder) => std::fs::create_dir_all(folder)
            .map_err(|error| {
                Failure::Folder(format!(
                    "the folder {} cannot be made ({error}); name another after --keep",
                    folder.display()
                ))
            })
            .and_then(|()| refuse_foreign(folder))
            .and_then(|()| show(folder, true)),
        None => tempfile::tempdir()
            .map_err(|error| Failure::Io { what: "no temporary folder".to_owned(), error })
            .and_then(|folder| show(folder.path(), false)),
    };
    match shown {
        Ok(()) => {
            println!(
                "\nDone in {:.1} s. After a kill, a resume and two replays, every row is as the source has it.",
                started.elapsed().as_secs_f64()
            );
            next_steps(args.keep.as_deref());
            Exit::Done
        }
        Err(failure) => {
            eprintln!("settle: demo: {failure}");
            match failure {
                Failure::Folder(_) => Exit::Usage,
                _ => Exit::Bug,
            }
        }
    }
}

/// A folder that holds somebody's own pipeline is not written over.
fn refuse_foreign(folder: &Path) -> Result<(), Failure> {
    let config = folder.join("settle.toml");
    match std::fs::read_to_string(&config) {
        Ok(text) if text != log::config() => Err(Failure::Folder(format!(
            "{} is there and is not the demo's; name an empty folder after --keep, or move the file away",
            config.display()
        ))),
        _ => Ok(()),
    }
}

fn show(folder: &Path, keep: bool) -> Result<(), Failure> {
    let stage = Stage::set(folder)?;
    println!(
        "1. A log recorded from PostgreSQL through Debezium: {} records of {} tables,",
        stage.records,
        log::TOPICS.len()
    );
    println!("   with interleaved transactions, snapshots taken under load, a key change, deletes,");
    println!("   re-inserts, a truncate, columns added and dropped, TOAST.");
    if keep {
        println!("   Everything is in {}.", folder.display());
    }
    println!("\n2. `settle run` into SQLite, killed (SIGKILL) inside an open transaction");
    let killed = kill::inside_a_transaction(&stage)?;
    println!("   killed: {killed}");

    println!("\n3. `settle run` again, same group: resumes behind what is committed");
    let report = stage.run(None)?;
    println!("   {report}");
    stage.compare()?;

    for replay in ["replay-1", "replay-2"] {
        println!("\n{}. The whole log again, group {replay}", if replay == "replay-1" { 4 } else { 5 });
        let report = stage.run(Some(replay))?;
        println!("   {report}");
        if report.read != stage.records || report.applied != 0 {
            return Err(Failure::Unexpected(format!(
                "a replay must read everything and change nothing, but: {report}"
            )));
        }
        stage.compare()?;
    }
    println!("\nThe tables as they are now (loyalty was added with a default, which re-sends nothing:");
    println!("a row that was not touched since has no event that holds it, and is compared without it):");
    tables::print(&stage.database)?;
    Ok(())
}

fn next_steps(keep: Option<&Path>) {
    // As it was called: it need not be on the PATH.
    let settle = std::env::args().next().unwrap_or_else(|| "settle".to_owned());
    match keep {
        Some(folder) => {
            let folder = folder.display();
            println!("Next: replay it once more yourself:\n  {settle} run -c {folder}/settle.toml --group mine");
            println!("or look inside:\n  sqlite3 {folder}/shop.db 'select * from customers'");
        }
        None => println!("Next: `{settle} demo --keep DIR` leaves the configuration and the database to play with."),
    }
}

/// The part of a run report that the demo shows.
#[derive(Debug, Deserialize)]
struct Shown {
    read: u64,
    applied: u64,
    superseded: u64,
    stale: u64,
    control: u64,
    truncates: u64,
    redelivered: u64,
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} records read: {} applied, {} stale, {} superseded, {} control, {} truncate; {} re-delivered",
            self.read, self.applied, self.stale, self.superseded, self.control, self.truncates, self.redelivered
        )
    }
}

/// The folder of a demo.
struct Stage {
    config: PathBuf,
    database: PathBuf,
    folder: PathBuf,
    records: u64,
}

impl Stage {
    /// Writes captures, expected tables and configuration; removes what an earlier demo left.
    fn set(folder: &Path) -> Result<Self, Failure> {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text)
                .map_err(|error| Failure::Io { what: format!("{} cannot be written", path.display()), error })
        };
        let stale = |name: &str| name.ends_with(".offsets") || name.starts_with("shop.db");
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if stale(&entry.file_name().to_string_lossy()) {
                let path = entry.path();
                std::fs::remove_file(&path)
                    .map_err(|error| Failure::Io { what: format!("{} cannot be removed", path.display()), error })?;
            }
        }
        let mut records = 0;
        for topic in &log::TOPICS {
            write(&topic.capture(), topic.records)?;
            write(&topic.expected(), topic.expected_csv)?;
            records += topic.records.lines().count() as u64;
        }
        write("settle.toml", &log::config())?;
        Ok(Self {
            config: folder.join("settle.toml"),
            database: folder.join("shop.db"),
            folder: folder.to_owned(),
            records,
        })
    }

    /// The command that runs the pipeline.
    fn command(&self) -> Result<Command, Failure> {
        let exe = std::env::current_exe()
            .map_err(|error| Failure::Io { what: "our own binary is not found".to_owned(), error })?;
        let mut command = Command::new(exe);
        command.arg("run").arg("-c").arg(&self.config).arg("--report").arg("json").env("SETTLE_LOG", "error");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs the pipeline to the end of the log.
    fn run(&self, group: Option<&str>) -> Result<Shown, Failure> {
        let mut command = self.command()?;
        command.args(group.iter().flat_map(|group| ["--group", group]));
        let output =
            command.output().map_err(|error| Failure::Io { what: "settle run cannot be started".to_owned(), error })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::Unexpected(format!("settle run ended with {}: {said}", output.status)));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|e| Failure::Unexpected(format!("the run report is not readable ({e})")))
    }

    /// Compares every table with the source's own.
    fn compare(&self) -> Result<(), Failure> {
        let mut said = Vec::new();
        for topic in &log::TOPICS {
            let rows = tables::compare(&self.folder, &self.database, topic)?;
            said.push(format!("{} ({rows} rows)", topic.table));
        }
        println!("   equal to the source: {}", said.join(", "));
        Ok(())
    }
}
