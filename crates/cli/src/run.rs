//! `settle run`

use std::path::Path;
use std::time::Duration;

use settle_engine::config::{Config, Target};
use settle_engine::dead_letter::DeadLetterLog;
use settle_engine::pipeline;
use settle_engine::run::{self, Destination, End, Ended, Options, progress};
use settle_engine::shutdown::{self, Shutdown, Stopper};
use tokio::signal::unix::{SignalKind, signal};

use settle_engine::source::Source;

use crate::args::{ReportFormat, RunArgs};
use crate::exit::{self, Exit, fail};
use crate::{progress as bar, report};

/// How long a bounded run waits for a source or sink that is away, where nothing else is said.
pub(crate) const BOUNDED_DEADLINE: Duration = Duration::from_secs(60);

/// How long a drain may take, where nothing else is said.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);

/// Runs the pipeline and prints its report.
pub fn execute(path: &Path, args: &RunArgs) -> Exit {
    exit::by_config(path, async |mut config| {
        if let Some(group) = &args.group
            && let Err(problem) = config.source.set_group(group)
        {
            eprintln!("settle: --{problem}");
            return Exit::Usage;
        }
        run(config, args).await
    })
}

async fn run(config: Config, args: &RunArgs) -> Exit {
    let bounded = args.until_end || args.max_messages.is_some() || args.idle_timeout.is_some();
    let options = Options {
        limits: config.batch,
        lone_tombstones: config.source.lone_tombstones,
        until_end: args.until_end,
        max_messages: args.max_messages,
        idle_timeout: args.idle_timeout,
        deadline: args.deadline.or(bounded.then_some(BOUNDED_DEADLINE)),
        drain_timeout: args.drain_timeout,
        beside: false,
    };
    if let Err(exit) = look_at_dead_letters(&config).await {
        return exit;
    }
    let source = match pipeline::source(&config, args.until_end) {
        Ok(source) => source,
        Err(error) => return fail(exit::of_source(&error), &error),
    };
    flow(config, source, options, args.report).await
}

/// Refuses a place for dead letters that is a wrong one, before anything is read.
pub(crate) async fn look_at_dead_letters(config: &Config) -> Result<(), Exit> {
    let Some(dlq) = &config.dlq else { return Ok(()) };
    let looked = DeadLetterLog::new(dlq, &config.source.group).look().await;
    looked.map_err(|error| fail(exit::of_sink(&error), &error))
}

/// Runs from this source into the configured destination, and prints the report.
pub(crate) async fn flow(config: Config, source: Source, options: Options, format: ReportFormat) -> Exit {
    let (stopper, shutdown) = shutdown::channel();
    if let Err(error) = listen(stopper) {
        return fail(Exit::Bug, &error);
    }
    let sink = match pipeline::sink(&config) {
        Ok(sink) => sink,
        Err(error) => return fail(exit::of_sink(&error), &error),
    };
    let guarantee = sink.guarantee();
    let destination = match &config.dlq {
        Some(dlq) => Destination::from(sink)
            .with_dead_letters(Box::new(DeadLetterLog::new(dlq, &config.source.group)), dlq.limit),
        None => Destination::from(sink),
    };
    tracing::info!(group = %config.source.group, sink = config.sink.kind(), to = %config.sink.address(), "started");
    let Ended { report, error } = shown(source, destination, config.target, options, shutdown).await;
    report::print(&report, guarantee, format);
    if !report.is_sound() {
        eprintln!("settle: an invariant of settle does not hold (see the report); please report this bug with it");
        return Exit::Bug;
    }
    match error {
        Some(error) => fail(exit::of_run(&error), &error),
        None if report.ended == End::Interrupted => Exit::Interrupted,
        None => Exit::Done,
    }
}

/// Runs to the end, with a line of progress on a terminal.
pub(crate) async fn shown(
    source: Source,
    destination: Destination,
    target: Target,
    options: Options,
    shutdown: Shutdown,
) -> Ended {
    let (show, watch) = progress::channel();
    let shown = tokio::spawn(bar::show(watch));
    let ended = run::run(source, destination, target, options, show, shutdown).await;
    // It ends with the run, and clears its line before anything is printed.
    let _ = tokio::time::timeout(Duration::from_secs(1), shown).await;
    ended
}

/// Turns SIGINT and SIGTERM into requests to stop: the first drains, the second aborts.
pub(crate) fn listen(stopper: Stopper) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            tracing::info!("asked to stop: draining (ask again to abort)");
            stopper.ask();
        }
    });
    Ok(())
}
