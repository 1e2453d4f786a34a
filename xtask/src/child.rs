//! Programs run as children, with Ctrl-C handed on to them, so that what was started for them can still be stopped after them.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

const POLL: Duration = Duration::from_millis(50);
// A child may itself have services to stop.
const PATIENCE: Duration = Duration::from_secs(40);

/// Says whether the user has asked to end. While it exists, signals no longer end this process by themselves.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub fn watch() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The cargo that runs this.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(arguments);
    command
}

/// Prints the command and runs it to its end. Its process group is its own: what it started is ended with it.
pub fn run(command: &mut Command, interrupt: &Interrupt) -> io::Result<ExitStatus> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    eprintln!("$ {}", words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "));
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let signal = match asked {
            None if interrupt.is_asked() => {
                asked = Some(Instant::now());
                Some(Signal::INT)
            }
            Some(since) if since.elapsed() > PATIENCE => Some(Signal::KILL),
            _ => None,
        };
        if let (Some(group), Some(signal)) = (group, signal) {
            match kill_process_group(group, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        thread::sleep(POLL);
    }
}

/// The exit code that says the same as `status`.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
