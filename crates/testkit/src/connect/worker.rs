//! A Connect worker of one test, on the shared broker: killed with -9 and started again as often as the test likes.
//!
//! It never outlives the test, whatever ends that: the worker runs below a shell that waits at a pipe, and the other end of the pipe
//! goes with this process.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::Client;
use crate::kafka::unique;
use crate::services::connect::{Connect, READY_LIMIT, is_healthy, worker};
use crate::services::process::{free_port, tail, wait_ready};
use crate::services::{self, Folders, Process, Service, ServiceError};

/// Runs `"$@"` until it ends, or kills it once standard input has ended.
const ONLY_WITH_US: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- &
worker=$!
{ read -r _ <&3; kill -9 "$worker"; } 2>/dev/null &
watch=$!
exec 3<&-
wait "$worker"
kill "$watch"
"#;

/// A worker with a group and internal topics of its own. It dies with the value, and its connectors with it.
pub struct Worker {
    folder: TempDir,
    group: String,
    port: u16,
    alive: Option<(Process, Child)>,
}

impl Worker {
    /// Starts a worker and waits until it answers.
    pub async fn start() -> Self {
        let made = tokio::task::spawn_blocking(|| -> Result<Self, ServiceError> {
            Connect.prepare(&Folders::of_workspace(), &|_| ())?;
            let folder = tempfile::tempdir().map_err(|source| ServiceError::Io {
                what: "creating a folder for a Connect worker".to_owned(),
                source,
            })?;
            Ok(Self { folder, group: unique("connect"), port: free_port()?, alive: None })
        });
        let mut worker = made.await.expect("no panic").unwrap_or_else(|failure| panic!("{failure}"));
        worker.restart().await;
        worker
    }

    /// Its REST interface; the same after a restart.
    pub fn client(&self) -> Client {
        Client::at(&format!("http://127.0.0.1:{}", self.port))
    }

    /// Kills it (SIGKILL) and returns once it is dead. Its connectors go on where they were last known to be when it is started again.
    pub fn kill(&mut self) {
        if let Some((process, mut child)) = self.alive.take() {
            process.kill().expect("our own process is killed");
            child.wait().expect("our own process is reaped");
        }
    }

    /// Starts it again on the same port and with the same state, killing it first if it runs, and waits until it answers.
    pub async fn restart(&mut self) {
        self.kill();
        let (folder, group, port) = (self.folder.path().to_owned(), self.group.clone(), self.port);
        let started = tokio::task::spawn_blocking(move || -> Result<(Process, Child), ServiceError> {
            let command = worker(&Folders::of_workspace(), &folder, services::kafka(), &group, port)?;
            let log = folder.join("connect.log");
            let (process, child) = Process::spawn_reading(Stdio::piped(), &mut only_with_us(&command), &log)?;
            let address = format!("127.0.0.1:{port}");
            if let Err(failure) = wait_ready("connect", &process, &log, READY_LIMIT, || is_healthy(&address)) {
                process.kill()?;
                return Err(failure);
            }
            Ok((process, child))
        });
        self.alive = Some(started.await.expect("no panic").unwrap_or_else(|failure| panic!("{failure}")));
    }

    /// The end of its log, over all its lives.
    pub fn log(&self) -> String {
        tail(&self.log_file(), 200)
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("connect.log")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn only_with_us(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", ONLY_WITH_US, "sh"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_worker_ends_when_nobody_holds_its_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$; exec sleep 600"]);
        let (shell, mut child) = Process::spawn_reading(Stdio::piped(), &mut only_with_us(&command), &log).unwrap();
        wait_ready("sh", &shell, &log, Duration::from_secs(10), || tail(&log, 1).trim().parse::<u32>().is_ok())
            .unwrap();
        let pid = tail(&log, 1).trim().to_owned();
        assert!(fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().starts_with("sleep"));

        drop(child.stdin.take());
        child.wait().unwrap();
        // Reaped by its shell, so its number is free or another's.
        let left = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!left.starts_with("sleep"), "{left}");
    }

    #[test]
    fn a_worker_that_ends_by_itself_ends_its_shell() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (shell, mut child) =
            Process::spawn_reading(Stdio::piped(), &mut only_with_us(&Command::new("true")), &log).unwrap();
        let failure = wait_ready("true", &shell, &log, Duration::from_secs(10), || false).unwrap_err().to_string();
        assert!(failure.contains("ended before it was ready"), "{failure}");
        child.wait().unwrap();
    }
}
