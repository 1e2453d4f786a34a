//! `settle dlq`: the records that could not be applied, looked at, applied again, or given up.

mod indented;
mod listing;
mod retry;

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use settle_core::dead_letter::ErrorClass;
use settle_core::position::Place;
use settle_core::sink::SinkError;
use settle_engine::config::Config;
use settle_engine::dead_letter::{Contents, DeadLetterLog, Entry, Found, Resolution};

use crate::args::{DlqArgs, DlqCommand, Filter};
use crate::exit::{self, Exit, fail};
use crate::run::look_at_dead_letters;

/// Letters that are marked at once.
const MARKED: usize = 1_000;
/// Letters that are listed where nothing else is said.
const LISTED: usize = 50;

/// Runs one of its commands.
pub fn execute(path: &Path, args: &DlqArgs) -> Exit {
    exit::by_config(path, async |mut config| {
        if let Some(group) = &args.group
            && let Err(problem) = config.source.set_group(group)
        {
            eprintln!("settle: --group: {problem}");
            return Exit::Usage;
        }
        let Some(dlq) = &config.dlq else {
            eprintln!(
                "settle: {} has no [dlq]: name a topic or a path in it, and a run sets aside what it cannot apply",
                path.display()
            );
            return Exit::Usage;
        };
        if let Err(exit) = look_at_dead_letters(&config).await {
            return exit;
        }
        let log = DeadLetterLog::new(dlq, &config.source.group);
        run(&config, log, args).await
    })
}

async fn run(config: &Config, mut log: DeadLetterLog, args: &DlqArgs) -> Exit {
    let read = match args.command {
        DlqCommand::Ls { .. } | DlqCommand::Drop { .. } => log.outline().await,
        DlqCommand::Show { .. } | DlqCommand::Retry { .. } => log.read().await,
    };
    let contents = match read {
        Ok(contents) => contents,
        Err(error) => return fail(exit::of_sink(&error), &error),
    };
    if contents.cut_off > 0 {
        eprintln!(
            "settle: {} lines were cut off by a crash and are passed over: their records are delivered again",
            contents.cut_off
        );
    }
    if !contents.of_others.is_empty() {
        let others: Vec<String> =
            contents.of_others.iter().map(|(group, count)| format!("{count} of group \"{group}\"")).collect();
        eprintln!("settle: open dead letters of others are left alone: {} (--group)", others.join(", "));
    }
    let done = match &args.command {
        DlqCommand::Ls { filter, all, json, limit } => {
            let listed: Vec<&Found> = selected(&contents, filter, *all);
            match json {
                true => print(&listing::json(&listed, limit.unwrap_or(usize::MAX))),
                false => print(&listing::table(&listed, limit.unwrap_or(LISTED))),
            }
            if listed.is_empty() {
                hint(filter);
            }
            Ok(Exit::Done)
        }
        DlqCommand::Show { origin } => Ok(show(&contents, origin)),
        DlqCommand::Retry { filter, dry_run } => retry::run(config, &mut log, &contents, filter, *dry_run).await,
        DlqCommand::Drop { filter, yes } => drop(&mut log, &contents, filter, *yes).await,
    };
    done.unwrap_or_else(|error| fail(exit::of_sink(&error), &error))
}

/// Prints, as long as somebody reads: `settle dlq ls | head` is no failure.
fn print(text: &str) {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => eprintln!("settle: cannot print: {error}"),
        _ => {}
    }
}

/// What may be wrong with a filter that means nothing.
fn hint(filter: &Filter) {
    let unknown = filter.class.as_ref().and_then(|class| class.parse::<ErrorClass>().err());
    if let Some(unknown) = unknown {
        eprintln!("settle: {unknown}");
    }
}

/// The letters that the filter means.
fn selected<'a>(contents: &'a Contents, filter: &Filter, resolved_too: bool) -> Vec<&'a Found> {
    let meant = |found: &&Found| (resolved_too || found.resolved.is_none()) && matches(filter, &found.entry);
    contents.letters.iter().filter(meant).collect()
}

fn matches(filter: &Filter, entry: &Entry) -> bool {
    let record = &entry.record;
    (filter.origins.is_empty() || filter.origins.contains(&record.place()))
        && filter.class.as_ref().is_none_or(|class| *class == entry.class)
        && filter.table.as_ref().is_none_or(|table| entry.table.as_ref() == Some(table))
        && filter.topic.as_ref().is_none_or(|topic| **topic == *record.partition.topic)
        && filter.since.is_none_or(|since| entry.failed_at >= since)
        && filter.until.is_none_or(|until| entry.failed_at < until)
}

fn show(contents: &Contents, origin: &Place) -> Exit {
    let found: Vec<&Found> = contents.letters.iter().filter(|found| found.entry.record.place() == *origin).collect();
    if found.is_empty() {
        eprintln!("settle: no dead letter comes from {origin}; `settle dlq ls --all` lists them");
        return Exit::Contract;
    }
    // More than one where the topic was made anew.
    found.iter().for_each(|found| print(&listing::in_full(found)));
    Exit::Done
}

async fn drop(log: &mut DeadLetterLog, contents: &Contents, filter: &Filter, yes: bool) -> Result<Exit, SinkError> {
    let letters = selected(contents, filter, false);
    if letters.is_empty() {
        print("no open dead letter is meant\n");
        hint(filter);
        return Ok(Exit::Done);
    }
    if !yes {
        print(&listing::table(&letters, usize::MAX));
        print("would be dropped; say it with --yes\n");
        return Ok(Exit::Done);
    }
    let entries: Vec<&Entry> = letters.iter().map(|found| &found.entry).collect();
    for entries in entries.chunks(MARKED) {
        log.resolve(entries, Resolution::Dropped).await?;
    }
    print(&format!("dropped {}\n", entries.len()));
    Ok(Exit::Done)
}
