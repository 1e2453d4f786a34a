//! One pass through the log as a group that did not exist before: the ordinary pipeline, and no
//! trace of the group afterwards.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use settle_core::sink::Sink;
use settle_engine::config::Config;
use settle_engine::inspection;
use settle_engine::log::Ends;
use settle_engine::run::{self, Destination, Ended, Options, progress};
use settle_engine::shutdown::Shutdown;
use settle_engine::source::Source;

use crate::exit::{self, Exit};
use crate::progress as bar;

/// How long a source or destination that is away is waited for.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long a drain may take after Ctrl-C.
const DRAIN: Duration = Duration::from_secs(10);

/// A name that no group had before.
pub(crate) fn throwaway(group: &str, what: &str, number: u32) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{group}.{what}.{:x}-{:x}.{number}", since.as_millis(), std::process::id())
}

/// Replays up to `ends` into `sink` as the group of `config`, and forgets the group.
pub(super) async fn replay(
    config: &Config,
    ends: &Ends,
    sink: Box<dyn Sink>,
    shutdown: Shutdown,
) -> Result<Ended, Exit> {
    let ended = match inspection::source_below(config, ends) {
        Ok(source) => Ok(flow(config, source, sink, shutdown).await),
        Err(error) => Err(exit::fail(exit::of_source(&error), &error)),
    };
    if let Err(error) = inspection::forget_group(config, &config.source.group).await {
        eprintln!("settle: the group {} could not be removed: {}", config.source.group, exit::chain(&error));
    }
    ended
}

/// Runs the pipeline from `source` to `sink` until the source ends.
pub(crate) async fn flow(config: &Config, source: Source, sink: Box<dyn Sink>, shutdown: Shutdown) -> Ended {
    let options = Options {
        limits: config.batch,
        lone_tombstones: config.source.lone_tombstones,
        until_end: true,
        deadline: Some(DEADLINE),
        drain_timeout: DRAIN,
        ..Options::default()
    };
    let (show, watch) = progress::channel();
    let shown = tokio::spawn(bar::show(watch));
    let ended =
        run::run(source, Destination::from(sink).skipping(), config.target.clone(), options, show, shutdown).await;
    // It ends with the run, and clears its line before anything is printed.
    let _ = tokio::time::timeout(Duration::from_secs(1), shown).await;
    ended
}
