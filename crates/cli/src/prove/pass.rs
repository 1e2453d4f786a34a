//! One pass through the log as a group that did not exist before: the ordinary pipeline, and no
//! trace of the group afterwards.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use settle_core::sink::Sink;
use settle_engine::config::Config;
use settle_engine::inspection;
use settle_engine::log::Ends;
use settle_engine::run::{Destination, Ended, Options};
use settle_engine::shutdown::Shutdown;

use crate::exit::{self, Exit};
use crate::run;

/// How long a source or destination that is away is waited for.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long a drain may take after Ctrl-C.
const DRAIN: Duration = Duration::from_secs(10);

/// A name that no group had before.
pub(crate) fn throwaway(group: &str, what: &str, number: u32) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{group}.{what}.{:x}-{:x}.{number}", since.as_millis(), std::process::id())
}

/// Where a pass writes.
pub(super) enum Into {
    /// The live destination. What waits there until everything has passed it is the pipeline's own.
    Live(Box<dyn Sink>),
    /// One made for this pass alone: what waits there is done at the end.
    Scratch(Box<dyn Sink>),
}

/// Replays up to `ends` as the group of `config`, and forgets the group.
pub(super) async fn replay(config: &Config, ends: &Ends, into: Into, shutdown: Shutdown) -> Result<Ended, Exit> {
    let (sink, beside) = match into {
        Into::Live(sink) => (sink, true),
        Into::Scratch(sink) => (sink, false),
    };
    let options = Options {
        limits: config.batch,
        lone_tombstones: config.source.lone_tombstones,
        until_end: true,
        beside,
        deadline: Some(DEADLINE),
        drain_timeout: DRAIN,
        ..Options::default()
    };
    let ended = match inspection::source_below(config, ends) {
        Ok(source) => {
            let destination = Destination::from(sink).skipping();
            Ok(run::shown(source, destination, config.target.clone(), options, shutdown).await)
        }
        Err(error) => Err(exit::fail(exit::of_source(&error), &error)),
    };
    if let Err(error) = inspection::forget_group(config, &config.source.group).await {
        eprintln!("settle: the group {} could not be removed: {}", config.source.group, exit::chain(&error));
    }
    ended
}
