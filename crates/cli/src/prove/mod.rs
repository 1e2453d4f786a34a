//! `settle prove`: replays the log beside the live pipeline and compares the destination before and
//! after; or applies it to a destination of its own, and compares the two.
//!
//! What is compared: of every key its columns, as a reader sees them. What a live pipeline writes
//! meanwhile is told by its version and left out. The ends of the replays are those up to which the
//! pipeline itself has settled the log, so that nothing below them can still be on its way.

mod fresh;
mod looks;
mod observer;
mod pass;
mod since;
mod text;

pub(crate) use pass::throwaway;

use std::path::Path;
use std::sync::Arc;

use settle_core::sink::{Guarantee, SinkError};
use settle_engine::config::Config;
use settle_engine::contents::Look;
use settle_engine::log::{Ends, LogPartition};
use settle_engine::run::{End, Ended};
use settle_engine::shutdown::{self, Shutdown};
use settle_engine::{inspection, pipeline};
use tokio::sync::Mutex;

use crate::args::ProveArgs;
use crate::exit::{self, Exit, fail};
use crate::run::listen;
use looks::Compared;
use observer::{Observed, Observer, Watched};
use pass::Into;
use since::{Since, SinceError};

/// What was compared of one table.
struct Verdict {
    watched: Watched,
    after: Look,
    compared: Compared,
}

/// Proves, prints, and ends with 0 only if every table agrees.
pub fn execute(path: &Path, args: &ProveArgs) -> Exit {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(error) => return fail(Exit::Usage, &error),
    };
    exit::block_on(async {
        // What stops the proof has been told where it happened.
        prove(&config, args).await.unwrap_or_else(|exit| exit)
    })
    .unwrap_or_else(|error| fail(Exit::Bug, &error))
}

async fn prove(config: &Config, args: &ProveArgs) -> Result<Exit, Exit> {
    let (stopper, shutdown) = shutdown::channel();
    listen(stopper).map_err(|error| fail(Exit::Bug, &error))?;
    refuse_without_guard(config, "prove")?;
    let log = inspection::survey(config).await.map_err(|error| fail(exit::of_source(&error), &error))?;
    inspection::refuse_made_anew(config, &log).await.map_err(|error| fail(exit::of_run(&error), &error))?;
    refuse_unrun(config, &log).await?;
    let ends: Ends = log.iter().map(|part| (part.partition.clone(), part.settled())).collect();
    print!("{}", text::log(&log, &config.source.group));
    if args.fresh {
        return fresh::prove(config, &log, &ends, shutdown).await;
    }
    let contents = inspection::contents(config).map_err(|error| fail(exit::of_sink(&error), &error))?;
    let observer = Observer::new(contents, config.target.clone()).map_err(|error| fail(Exit::Bug, &error))?;
    let observer = Arc::new(Mutex::new(observer));
    let mut agrees = true;
    for number in 1..=args.times {
        agrees &= replay(config, &ends, &observer, shutdown.clone(), (number, args.times)).await?;
    }
    print!("{}", text::end(agrees, args.times));
    Ok(if agrees { Exit::Done } else { Exit::Contract })
}

/// One replay, compared and printed. True if every table agrees.
async fn replay(
    config: &Config,
    ends: &Ends,
    observer: &Arc<Mutex<Observer>>,
    shutdown: Shutdown,
    (number, times): (u32, u32),
) -> Result<bool, Exit> {
    let mut as_another = config.clone().beside(pass::throwaway(&config.source.group, "prove", number));
    // What the live destination lacks is told, and not made.
    as_another.target.create = false;
    let sink = pipeline::sink(&as_another).map_err(|error| fail(exit::of_sink(&error), &error))?;
    let guarantee = sink.guarantee();
    let sink = Box::new(Observed { sink, observer: observer.clone() });
    let ended = pass::replay(&as_another, ends, Into::Live(sink), shutdown.clone()).await?;
    let report = finished(ended)?;
    println!("\nreplay {number} of {times}, as a new group:{}", text::tally(&report.tally, guarantee));
    if number == 1 {
        print!("{}", text::possible_ghosts(&report.possible_ghosts));
    }
    let mut observer = observer.lock().await;
    let looks = observer.look_again().await.map_err(|error| fail(exit::of_sink(&error), &error))?;
    let since = read_since(config, ends, shutdown).await?;
    let mut verdicts = Vec::with_capacity(looks.len());
    for (at, (watched, after)) in observer.watched.iter().zip(&looks).enumerate() {
        let explains = |was, is| since.explains(&watched.table.name, was, is);
        let compared = observer.looks.compare(at, (observer.look - 1, observer.look), explains);
        let compared = compared.map_err(|error| fail(Exit::Bug, &error))?;
        verdicts.push(Verdict { watched: watched.clone(), after: after.clone(), compared });
    }
    observer.go_on_from(looks);
    print!("{}", text::verdicts(&verdicts, text::Told::Replayed));
    Ok(verdicts.iter().all(|verdict| verdict.compared.differing == 0))
}

async fn read_since(config: &Config, ends: &Ends, shutdown: Shutdown) -> Result<Since, Exit> {
    Since::read(config, ends, shutdown).await.map_err(|error| match &error {
        SinceError::Scan(scan) => exit::of_scan(scan),
        SinceError::Sink(sink) => fail(exit::of_sink(sink), &error),
    })
}

/// The report of a pass that came to its end; what kept it from that is told.
pub(crate) fn finished(Ended { report, error }: Ended) -> Result<settle_engine::run::Report, Exit> {
    if !report.is_sound() {
        eprintln!("settle: an invariant of settle does not hold; please report this bug");
        return Err(Exit::Bug);
    }
    match error {
        Some(error) => Err(fail(exit::of_run(&error), &error)),
        None if report.ended == End::Interrupted => {
            eprintln!("settle: interrupted; what was replayed changes nothing");
            Err(Exit::Interrupted)
        }
        None => Ok(report),
    }
}

/// A proof compares what a run has applied. Where none has, it would fill the destination instead,
/// which may be the wrong one.
async fn refuse_unrun(config: &Config, log: &[LogPartition]) -> Result<(), Exit> {
    let group = &config.source.group;
    if log.iter().all(|part| part.committed.is_none()) {
        eprintln!(
            "settle: nothing to prove: the group {group} has no offset in what [source] reads, so no run has applied \
             anything as it; let `settle run` do so first. If one did as another group, name that one as `group` in [source]"
        );
        return Err(Exit::Contract);
    }
    let of_sink = |error: SinkError| fail(exit::of_sink(&error), &error);
    let mut contents = inspection::contents(config).map_err(of_sink)?;
    if contents.facts().await.map_err(of_sink)?.is_empty() {
        eprintln!(
            "settle: nothing to prove: {} holds nothing of any run, though the group {group} has offsets: it is a new one, \
             was lost, or is the wrong one. Name the right one in [sink]; to fill this one, run under a new group",
            config.sink.address()
        );
        return Err(Exit::Contract);
    }
    Ok(())
}

/// A record may come twice only where the destination tells an older one from a newer one.
pub(crate) fn refuse_without_guard(config: &Config, what: &str) -> Result<(), Exit> {
    let sink = pipeline::sink(config).map_err(|error| fail(exit::of_sink(&error), &error))?;
    let why = match sink.guarantee() {
        Guarantee::Atomic | Guarantee::Versioned => return Ok(()),
        Guarantee::OncePerId => "an inbox takes every event once by its id, so a replay shows nothing",
        Guarantee::Transactional => "a Kafka topic takes every record again, so a replay would write it twice",
    };
    eprintln!("settle: {what} is not for [sink] kind = \"{}\": {why}", config.sink.kind());
    Err(Exit::Contract)
}

/// True if what lay at the beginning of a partition is in the log no more.
fn begins_late(part: &LogPartition) -> bool {
    part.start > 0
}
