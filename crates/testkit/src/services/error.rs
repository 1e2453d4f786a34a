//! Why a service could not be had. Every message says what to do.

use std::io;
use std::path::PathBuf;

/// A service could not be prepared, started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Programs are missing and may not be installed by this user.
    #[error("missing on this machine: {missing}; install with\n    {command}\nand run this again")]
    Missing {
        /// What was looked for.
        missing: String,
        /// The command that installs it.
        command: String,
    },
    /// A program failed; its last lines follow.
    #[error("{what} failed ({status}); its last lines:\n{tail}")]
    Command {
        /// What the program was to do.
        what: String,
        /// How it ended.
        status: String,
        /// The last lines that it printed.
        tail: String,
    },
    /// A process ended or stayed silent before it was ready.
    #[error("{service} {how}; last lines of {log}:\n{tail}\nhint: read that log; `cargo xtask services down` clears what is left of an earlier run", log = log.display())]
    NotReady {
        /// The service's name.
        service: &'static str,
        /// What happened instead.
        how: String,
        /// Its log file.
        log: PathBuf,
        /// The end of that log.
        tail: String,
    },
    /// A file or process of ours could not be handled.
    #[error("{what}")]
    Io {
        /// The operation and its object.
        what: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The state file is not ours or damaged.
    #[error("{path} cannot be read: {why}; delete it once no service of it runs", path = path.display())]
    State {
        /// The state file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl ServiceError {
    /// Wraps an I/O error with the operation it stopped.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
