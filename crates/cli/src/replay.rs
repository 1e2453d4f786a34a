//! `settle replay`: a stretch of the log again, through the guard of the destination.
//!
//! It is nobody's progress: no offset of the pipeline's group moves. What is right already stays as
//! it is, what is missing or older is written.

use std::path::Path;

use settle_core::position::{Place, Span};
use settle_engine::config::Config;
use settle_engine::inspection;
use settle_engine::run::Options;

use crate::args::ReplayArgs;
use crate::exit::{self, Exit, fail};
use crate::prove::throwaway;
use crate::run::{self, BOUNDED_DEADLINE, DRAIN};

/// Replays and prints the report.
pub fn execute(path: &Path, args: &ReplayArgs) -> Exit {
    exit::by_config(path, async |config| replay(config, args).await)
}

async fn replay(config: Config, args: &ReplayArgs) -> Exit {
    if let Err(exit) = run::look_at_dead_letters(&config).await {
        return exit;
    }
    let spans = match spans(&config, args).await {
        Ok(spans) => spans,
        Err(exit) => return exit,
    };
    if spans.is_empty() {
        println!("nothing to replay: no record is of that time or later");
        return Exit::Done;
    }
    for Span { partition, start, end } in &spans {
        eprintln!("replaying {partition} from offset {start} up to {end}");
    }
    // Where the destination keeps places of groups, these are not the pipeline's.
    let group = throwaway(&config.source.group, "replay", 1);
    let config = config.beside(group.clone());
    let source = match inspection::range(&config, spans) {
        Ok(source) => source,
        Err(error) => return fail(exit::of_source(&error), &error),
    };
    let options = Options {
        limits: config.batch,
        lone_tombstones: config.source.lone_tombstones,
        // It reads one stretch after the other, and ends behind the last.
        until_end: false,
        beside: true,
        deadline: Some(BOUNDED_DEADLINE),
        drain_timeout: DRAIN,
        ..Options::default()
    };
    let ended = run::flow(config.clone(), source, options, args.report).await;
    if let Err(error) = inspection::forget_places(&config, &group).await {
        eprintln!("settle: places of the replay are left in the destination: {}", exit::chain(&error));
    }
    ended
}

async fn spans(config: &Config, args: &ReplayArgs) -> Result<Vec<Span>, Exit> {
    let failed = |error| fail(exit::of_source(&error), &error);
    let log = inspection::survey(config).await.map_err(failed)?;
    inspection::refuse_made_anew(config, &log).await.map_err(|error| fail(exit::of_run(&error), &error))?;
    if let Some(Place { partition, offset: start }) = &args.from {
        let Some(found) = log.iter().find(|found| found.partition == *partition) else {
            eprintln!("settle: {partition} is none of the partitions that [source] reads");
            return Err(Exit::Usage);
        };
        let end = match &args.to {
            Some(last) if last.partition != *partition => {
                let other = &last.partition;
                eprintln!("settle: --to names {other}, --from {partition}: a replay is of one partition");
                return Err(Exit::Usage);
            }
            Some(last) => last.offset.saturating_add(1),
            None => found.end,
        };
        if *start < found.start || end > found.end || *start >= end {
            eprintln!(
                "settle: {partition} holds the offsets {} up to {}, not {start} up to {end}",
                found.start, found.end
            );
            return Err(Exit::Usage);
        }
        return Ok(vec![Span { partition: partition.clone(), start: *start, end }]);
    }
    let Some(since) = args.since else { return Ok(Vec::new()) };
    let partitions = log.iter().map(|found| found.partition.clone()).collect();
    let first = inspection::offsets_since(config, partitions, since.timestamp_millis()).await.map_err(failed)?;
    let span = |found: &settle_engine::log::LogPartition| {
        let start = first.get(&found.partition).copied().flatten()?.max(found.start);
        (start < found.end).then(|| Span { partition: found.partition.clone(), start, end: found.end })
    };
    Ok(log.iter().filter_map(span).collect())
}
