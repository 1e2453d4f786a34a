//! A `settle` process that runs beside the test.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::stage::{Report, Stage};

const LIMIT: Duration = Duration::from_secs(90);

/// The process; killed when dropped.
pub struct Running(Child, PathBuf);

impl Running {
    pub fn start(stage: &Stage, args: &[&str]) -> Self {
        let mut all = vec!["run", "--report", "json"];
        all.extend(args);
        let logs = stage.path(&settle_testkit::kafka::unique("log"));
        let stderr = std::fs::File::create(&logs).unwrap();
        Self(stage.settle(&all).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap(), logs)
    }

    /// What it has logged so far.
    pub fn logs(&self) -> String {
        std::fs::read_to_string(&self.1).unwrap()
    }

    /// Waits until it has logged this.
    pub async fn until_said(&self, text: &str) {
        until(text, async || self.logs(), |logs| logs.contains(text)).await;
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), signal).unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Ends it with SIGKILL.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end and reads its report.
    pub fn wait(self) -> (ExitStatus, Report) {
        let (status, report, _) = self.wait_with_logs();
        (status, report)
    }

    /// The same, with all that it has logged.
    pub fn wait_with_logs(mut self) -> (ExitStatus, Report, String) {
        let until = Instant::now() + LIMIT;
        while !self.has_ended() {
            assert!(Instant::now() < until, "settle run did not end within {LIMIT:?}");
            std::thread::yield_now();
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let report = serde_json::from_str(&text).unwrap_or_else(|e| panic!("no report ({e}): {text}"));
        (self.0.wait().unwrap(), report, self.logs())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both are no-ops for a process that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `value` is as wanted; panics with the last one after a minute and a half.
pub async fn until<T: std::fmt::Debug>(what: &str, value: impl AsyncFnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    wait(what, value, wanted, |_, _| false).await
}

/// The same for what takes as long as there is much of it: the minute and a half begins anew whenever the value
/// changes.
pub async fn until_worked_off<T: std::fmt::Debug + PartialEq>(
    what: &str,
    value: impl AsyncFnMut() -> T,
    wanted: impl Fn(&T) -> bool,
) -> T {
    wait(what, value, wanted, |before, now| before != now).await
}

async fn wait<T: std::fmt::Debug>(
    what: &str,
    mut value: impl AsyncFnMut() -> T,
    wanted: impl Fn(&T) -> bool,
    gets_on: impl Fn(&T, &T) -> bool,
) -> T {
    let mut until = Instant::now() + LIMIT;
    let mut before = None;
    loop {
        let now = value().await;
        if wanted(&now) {
            return now;
        }
        if before.is_some_and(|before| gets_on(&before, &now)) {
            until = Instant::now() + LIMIT;
        }
        assert!(Instant::now() < until, "{what}: not within {LIMIT:?}, last seen {now:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        before = Some(now);
    }
}
