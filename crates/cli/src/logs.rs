//! Logs: on standard error, text for people and JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;
use crate::progress::Above;

/// Starts logging at `level`, unless `SETTLE_LOG` says otherwise.
pub(crate) fn start(format: LogFormat, level: &str) {
    let filter = EnvFilter::try_from_env("SETTLE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let json = match format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Above)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    // A second start in one process (tests) keeps the first.
    let _ = if json { logs.json().flatten_event(true).try_init() } else { logs.compact().try_init() };
}
