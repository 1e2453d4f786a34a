//! Processes of the services: each leads a process group, logs to a file, and is known by pid *and* start time, so that a pid
//! the system has given to somebody else is never signalled.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::ServiceError;

const POLL: Duration = Duration::from_millis(50);

/// A process that can be found again after its parent is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: i32,
    /// Start time in clock ticks since boot, field 22 of `/proc/<pid>/stat`.
    started_ticks: u64,
    /// The number of the signal that asks it to end, where that is not SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end_signal: Option<i32>,
}

impl Process {
    /// The process id, which is also the id of its group.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The same process, which is asked to end by `signal` instead of SIGTERM.
    #[must_use]
    pub fn ended_by(self, signal: Signal) -> Self {
        Self { end_signal: Some(signal.as_raw()), ..self }
    }

    /// Starts `command` as the leader of a group of its own, both outputs appended to `log`.
    pub fn spawn(command: &mut Command, log: &Path) -> Result<(Self, Child), ServiceError> {
        Self::spawn_reading(Stdio::null(), command, log)
    }

    /// The same, with something to read.
    pub fn spawn_reading(stdin: Stdio, command: &mut Command, log: &Path) -> Result<(Self, Child), ServiceError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .map_err(ServiceError::io(format!("opening {}", log.display())))?;
        let err = out.try_clone().map_err(ServiceError::io(format!("opening {}", log.display())))?;
        let child = command
            .stdin(stdin)
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .map_err(ServiceError::io(format!("starting {program}")))?;
        let started = || -> Option<Self> {
            let pid = i32::try_from(child.id()).ok()?;
            Some(Self {
                pid,
                started_ticks: stat(pid)?.1, // also of a child that has ended already
                end_signal: None,
            })
        };
        match started() {
            Some(process) => Ok((process, child)),
            None => Err(ServiceError::io(format!("finding the process of {program} in /proc"))(
                io::ErrorKind::NotFound.into(),
            )),
        }
    }

    /// Whether this very process still runs (a zombie does not).
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|(state, started)| started == self.started_ticks && !matches!(state, 'Z' | 'X'))
    }

    /// Ends the group by SIGKILL, at once. Does nothing to a pid that has become another process.
    pub fn kill(&self) -> Result<(), ServiceError> {
        if self.is_alive() { self.send(Signal::KILL) } else { Ok(()) }
    }

    fn send(&self, signal: Signal) -> Result<(), ServiceError> {
        let Some(group) = Pid::from_raw(self.pid) else {
            return Ok(());
        };
        match kill_process_group(group, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(ServiceError::io(format!("stopping process {}", self.pid))(errno.into())),
        }
    }

    /// Ends the group: its signal to end, and SIGKILL after `patience`. Does nothing to a pid that has become another process.
    pub fn stop(&self, patience: Duration) -> Result<(), ServiceError> {
        let end = self.end_signal.and_then(Signal::from_named_raw).unwrap_or(Signal::TERM);
        for signal in [end, Signal::KILL] {
            if !self.is_alive() {
                return Ok(());
            }
            self.send(signal)?;
            let deadline = Instant::now() + patience;
            while self.is_alive() && Instant::now() < deadline {
                thread::sleep(POLL);
            }
        }
        Ok(())
    }
}

/// State and start time, fields 3 and 22 of `/proc/<pid>/stat`. The name in field 2 may hold blanks and brackets.
fn stat(pid: i32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Waits until `ready` says yes. Fails when the process ends first or the time is over, with the log's last lines.
pub fn wait_ready(
    service: &'static str,
    process: &Process,
    log: &Path,
    limit: Duration,
    mut ready: impl FnMut() -> bool,
) -> Result<(), ServiceError> {
    let deadline = Instant::now() + limit;
    let failed = |how: String| ServiceError::NotReady { service, how, log: log.to_owned(), tail: tail(log, 20) };
    while !ready() {
        if !process.is_alive() {
            return Err(failed("ended before it was ready".into()));
        }
        if Instant::now() > deadline {
            return Err(failed(format!("was not ready after {} s", limit.as_secs())));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The last `lines` lines of a file, indented; what could be read of it.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    last_lines(&text, lines)
}

pub(super) fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all.iter().skip(all.len().saturating_sub(lines)).map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Runs a program to its end and gives its standard output.
pub fn run(what: &str, command: &mut Command) -> Result<String, ServiceError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().map_err(ServiceError::io(format!("{what}: starting {program}")))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let both = format!("{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    Err(ServiceError::Command {
        what: what.to_owned(),
        status: output.status.to_string(),
        tail: last_lines(both.trim_end(), 20),
    })
}

/// A TCP port of the loopback address that was free a moment ago.
pub fn free_port() -> Result<u16, ServiceError> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(ServiceError::io("looking for a free port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_stopped_with_its_group_and_a_reused_pid_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        let (process, mut child) = Process::spawn(command.args(["-c", "echo up; sleep 600 & wait"]), &log).unwrap();
        wait_ready("sh", &process, &log, Duration::from_secs(10), || tail(&log, 1).contains("up")).unwrap();

        let other = Process { pid: process.pid, started_ticks: process.started_ticks + 1, ..process.clone() };
        assert!(!other.is_alive());
        other.stop(Duration::from_millis(10)).unwrap();
        assert!(process.is_alive());

        process.stop(Duration::from_secs(5)).unwrap();
        assert!(!process.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_ends_early_is_reported_with_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (process, mut child) =
            Process::spawn(Command::new("sh").args(["-c", "echo no licence; exit 3"]), &log).unwrap();
        let failure = wait_ready("sh", &process, &log, Duration::from_secs(10), || false).unwrap_err().to_string();
        assert!(failure.contains("ended before it was ready") && failure.contains("no licence"), "{failure}");
        child.wait().unwrap();
    }
}
