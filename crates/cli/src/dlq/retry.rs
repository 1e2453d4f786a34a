//! `settle dlq retry`

use std::time::{SystemTime, UNIX_EPOCH};

use settle_core::sink::{Guarantee, SinkError};
use settle_engine::config::Config;
use settle_engine::dead_letter::retry::{Fate, Retried, retry};
use settle_engine::dead_letter::{Contents, DeadLetterLog, Entry, Found, Resolution};
use settle_engine::{inspection, pipeline};

use super::{MARKED, hint, listing, matches, print};
use crate::args::Filter;
use crate::exit::{self, Exit};
use crate::prove::throwaway;

/// Reasons that are printed.
const LISTED: usize = 20;

pub(super) async fn run(
    config: &Config,
    log: &mut DeadLetterLog,
    contents: &Contents,
    filter: &Filter,
    dry_run: bool,
) -> Result<Exit, SinkError> {
    let letters = &contents.letters;
    let is_meant = |found: &Found| found.resolved.is_none() && matches(filter, &found.entry);
    let meant: Vec<usize> = (0..letters.len()).filter(|&at| is_meant(&letters[at])).collect();
    if meant.is_empty() {
        print("no open dead letter is meant\n");
        hint(filter);
        return Ok(Exit::Done);
    }
    if dry_run {
        let meant: Vec<&Found> = meant.iter().map(|&at| &letters[at]).collect();
        print(&listing::table(&meant, usize::MAX));
        print("would be retried\n");
        return Ok(Exit::Done);
    }
    // Who opens partitions fences whoever of its group opened them before: not the pipeline that runs.
    let beside = config.clone().beside(throwaway(&config.source.group, "retry", 1));
    let mut sink = pipeline::sink(&beside)?;
    let guarantee = sink.guarantee();
    let (retried, error) = match retry(&mut *sink, letters, &meant, purged_before(config)).await {
        Ok(retried) => (retried, None),
        Err((retried, error)) => (retried, Some(error)),
    };
    drop(sink);
    if let Err(error) = inspection::forget_places(&beside, &beside.source.group).await {
        eprintln!("settle: places of the retry are left in the destination: {}", exit::chain(&error));
    }
    let is_settled = |(_, fate): &&(usize, Fate)| matches!(fate, Fate::Settled);
    let settled: Vec<&Entry> = retried.fates.iter().filter(is_settled).map(|(at, _)| &letters[*at].entry).collect();
    for settled in settled.chunks(MARKED) {
        log.resolve(settled, Resolution::Retried).await?;
    }
    Ok(report(letters, &retried, settled.len(), meant.len(), guarantee, error.as_ref()))
}

/// The moment from before which the tombstone of a row may be purged by now, milliseconds since 1970.
fn purged_before(config: &Config) -> Option<i64> {
    let before = SystemTime::now().checked_sub(config.target.tombstone_retention?)?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(before.as_millis()).ok()
}

fn report(
    letters: &[Found],
    retried: &Retried,
    settled: usize,
    meant: usize,
    guarantee: Guarantee,
    error: Option<&SinkError>,
) -> Exit {
    let Retried { applied, stale, superseded, .. } = retried;
    let rows = match guarantee {
        // It cannot know which of them are stale.
        Guarantee::Versioned => format!("{applied} rows written (one that the destination has as new or newer stays)"),
        _ => format!("{applied} rows applied, {stale} stale (the destination has as new or newer)"),
    };
    print(&format!("retried {settled} of {meant}: {rows}, {superseded} superseded\n"));
    let mut listed = 0;
    for (at, fate) in &retried.fates {
        let Fate::Stays(reason) = fate else { continue };
        if listed < LISTED {
            print(&format!("stays: {}: {}\n", letters[*at].entry.record.place(), listing::one_line(reason)));
        }
        listed += 1;
    }
    if listed > LISTED {
        print(&format!("stays: {} more\n", listed - LISTED));
    }
    match error {
        Some(error) => {
            eprintln!("settle: {}; what was applied is marked, the rest stays: try again", exit::chain(error));
            exit::of_sink(error)
        }
        None if listed > 0 => Exit::Contract,
        None => Exit::Done,
    }
}
