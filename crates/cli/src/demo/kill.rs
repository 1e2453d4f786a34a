//! Kills a run inside an open transaction, and makes sure that it was one.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{Failure, Stage};

/// A run that ends before it is caught is started anew this often.
const ATTEMPTS: usize = 20;

/// Starts a run and kills it while it holds the write lock. Says what was in the database then.
pub(super) fn inside_a_transaction(stage: &Stage) -> Result<String, Failure> {
    for attempt in 1..=ATTEMPTS {
        let mut command = stage.command()?;
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child =
            command.spawn().map_err(|error| Failure::Io { what: "settle run cannot be started".to_owned(), error })?;
        let mut child = Guard(child);
        if catch(&stage.database, &mut child.0)? {
            signal(&child.0, Signal::SIGKILL)?;
            let status = child
                .0
                .wait()
                .map_err(|error| Failure::Io { what: "the killed run cannot be waited for".to_owned(), error })?;
            let rows = committed_rows(&stage.database)?;
            return Ok(format!("{status}; {rows} rows were committed, its open transaction is gone"));
        }
        if attempt < ATTEMPTS {
            Stage::set(&stage.folder)?;
        }
    }
    Err(Failure::Unexpected(format!(
        "no run of {ATTEMPTS} was caught inside a transaction; the machine is too fast for the demo"
    )))
}

/// Waits for the child to hold the write lock, freezes it, and looks again: only a frozen process
/// that still holds the lock is inside a transaction for certain. False if it ended before.
fn catch(database: &Path, child: &mut Child) -> Result<bool, Failure> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let probe = loop {
        if ended(child)? {
            return Ok(false);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if let Ok(probe) = Connection::open_with_flags(database, flags)
            && probe.busy_timeout(Duration::ZERO).is_ok()
            && committed_rows(database).is_ok_and(|rows| rows >= 8)
        {
            break probe;
        }
        if Instant::now() > deadline {
            return Err(Failure::Unexpected("the run wrote nothing for 30 s".to_owned()));
        }
    };
    while !ended(child)? {
        if !is_locked(&probe)? {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        }
        signal(child, Signal::SIGSTOP)?;
        if is_locked(&probe)? {
            return Ok(true);
        }
        signal(child, Signal::SIGCONT)?;
    }
    Ok(false)
}

/// True if another process is inside a write transaction.
fn is_locked(probe: &Connection) -> Result<bool, Failure> {
    match probe.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
        Ok(()) => Ok(false),
        Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::DatabaseBusy => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn committed_rows(database: &Path) -> Result<i64, rusqlite::Error> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.query_row("SELECT count(*) FROM customers", [], |row| row.get(0))
}

fn ended(child: &mut Child) -> Result<bool, Failure> {
    let status =
        child.try_wait().map_err(|error| Failure::Io { what: "the run cannot be watched".to_owned(), error })?;
    Ok(status.is_some())
}

fn signal(child: &Child, signal: Signal) -> Result<(), Failure> {
    let pid =
        i32::try_from(child.id()).map_err(|_| Failure::Unexpected("the process id is out of range".to_owned()))?;
    kill(Pid::from_raw(pid), signal)
        .map_err(|error| Failure::Io { what: format!("{signal} cannot be sent"), error: error.into() })
}

/// Ends the child also when the demo fails.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It has ended in nearly every case; then both are no-ops.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
