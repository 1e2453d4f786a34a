//! `settle dlq`: the records that could not be applied, looked at, applied again, or given up.

mod listing;
mod retry;

use std::path::Path;

use settle_core::sink::SinkError;
use settle_engine::config::Config;
use settle_engine::dead_letter::{Contents, DeadLetterLog, Entry, Found, Resolution};

use crate::args::dlq::{DlqArgs, DlqCommand, Filter};
use crate::exit::{self, Exit, fail};

/// Letters that are marked at once.
const MARKED: usize = 1_000;

/// Runs one of its commands.
pub fn execute(path: &Path, args: &DlqArgs) -> Exit {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(error) => return fail(Exit::Usage, &error),
    };
    let Some(dlq) = &config.dlq else {
        eprintln!(
            "settle: {} has no [dlq]: name a topic or a path in it, and a run sets aside what it cannot apply",
            path.display()
        );
        return Exit::Usage;
    };
    let log = DeadLetterLog::new(dlq);
    exit::block_on(run(&config, log, args)).unwrap_or_else(|error| fail(Exit::Bug, &error))
}

async fn run(config: &Config, mut log: DeadLetterLog, args: &DlqArgs) -> Exit {
    let contents = match log.read().await {
        Ok(contents) => contents,
        Err(error) => return fail(exit::of_sink(&error), &error),
    };
    if contents.cut_off > 0 {
        eprintln!(
            "settle: {} lines were cut off by a crash and are passed over: their records are delivered again",
            contents.cut_off
        );
    }
    let done = match &args.command {
        DlqCommand::Ls { filter, all, json, limit } => {
            let listed: Vec<&Found> = selected(&contents, filter, *all);
            match json {
                true => listing::json(&listed),
                false => print!("{}", listing::table(&listed, *limit)),
            }
            Ok(Exit::Done)
        }
        DlqCommand::Show { origin } => Ok(show(&contents, origin)),
        DlqCommand::Retry { filter, dry_run } => retry::run(config, &mut log, &contents, filter, *dry_run).await,
        DlqCommand::Drop { filter, yes } => drop(&mut log, &contents, filter, *yes).await,
    };
    done.unwrap_or_else(|error| fail(exit::of_sink(&error), &error))
}

/// The letters that the filter means.
fn selected<'a>(contents: &'a Contents, filter: &Filter, resolved_too: bool) -> Vec<&'a Found> {
    let meant = |found: &&Found| (resolved_too || found.resolved.is_none()) && matches(filter, &found.entry);
    contents.letters.iter().filter(meant).collect()
}

fn matches(filter: &Filter, entry: &Entry) -> bool {
    let record = &entry.record;
    let is_named = |(partition, offset): &(_, _)| *partition == record.partition && *offset == record.offset;
    (filter.origins.is_empty() || filter.origins.iter().any(is_named))
        && filter.class.as_ref().is_none_or(|class| *class == entry.class)
        && filter.table.as_ref().is_none_or(|table| entry.table.as_ref() == Some(table))
        && filter.topic.as_ref().is_none_or(|topic| **topic == *record.partition.topic)
        && filter.since.is_none_or(|since| entry.failed_at >= since)
        && filter.until.is_none_or(|until| entry.failed_at < until)
}

fn show(contents: &Contents, (partition, offset): &crate::args::dlq::Place) -> Exit {
    let here = |found: &&Found| found.entry.record.partition == *partition && found.entry.record.offset == *offset;
    let found: Vec<&Found> = contents.letters.iter().filter(here).collect();
    if found.is_empty() {
        eprintln!("settle: no dead letter comes from {partition}:{offset}; `settle dlq ls --all` lists them");
        return Exit::Contract;
    }
    // More than one where the topic was made anew.
    found.iter().for_each(|found| print!("{}", listing::in_full(found)));
    Exit::Done
}

async fn drop(log: &mut DeadLetterLog, contents: &Contents, filter: &Filter, yes: bool) -> Result<Exit, SinkError> {
    let letters = selected(contents, filter, false);
    if letters.is_empty() {
        println!("no open dead letter is meant");
        return Ok(Exit::Done);
    }
    if !yes {
        print!("{}", listing::table(&letters, usize::MAX));
        println!("would be dropped; say it with --yes");
        return Ok(Exit::Done);
    }
    let entries: Vec<&Entry> = letters.iter().map(|found| &found.entry).collect();
    for entries in entries.chunks(MARKED) {
        log.resolve(entries, Resolution::Dropped).await?;
    }
    println!("dropped {}", entries.len());
    Ok(Exit::Done)
}
