//! `settle explain`: how the records of one row were read, what beat what, and what the destination
//! has of it.

use std::path::Path;
use std::sync::Arc;

use settle_core::change::{Change, Event, TableName};
use settle_core::key::Key;
use settle_core::position::{Place, Span};
use settle_core::schema::RowSchema;
use settle_core::sink::{PlacedPartition, Places};
use settle_core::version::Version;
use settle_engine::config::Config;
use settle_engine::contents::{Found, Wanted};
use settle_engine::inspection;
use settle_engine::log::LogPartition;
use settle_engine::scan::scan;
use settle_engine::shutdown;

use crate::args::ExplainArgs;
use crate::exit::{self, Exit, fail};
use crate::run::listen;

/// Records that are shown, the first and the last ones.
const SHOWN: usize = 40;

/// Reads the log and prints.
pub fn execute(path: &Path, args: &ExplainArgs) -> Exit {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(error) => return fail(Exit::Usage, &error),
    };
    exit::block_on(explain(&config, args)).unwrap_or_else(|error| fail(Exit::Bug, &error))
}

/// A row's record, as it was read.
struct Seen {
    place: Place,
    op: &'static str,
    version: Version,
    source_ts_ms: Option<i64>,
    row: String,
}

/// What is looked for, and what was found of it.
#[derive(Default)]
struct Row {
    table: Option<Arc<TableName>>,
    key: Option<Key>,
    schema: Option<Arc<RowSchema>>,
    seen: Vec<Seen>,
}

async fn explain(config: &Config, args: &ExplainArgs) -> Exit {
    let log = match inspection::survey(config).await {
        Ok(log) => log,
        Err(error) => return fail(exit::of_source(&error), &error),
    };
    let mut contents = match inspection::contents(config) {
        Ok(contents) => contents,
        Err(error) => return fail(exit::of_sink(&error), &error),
    };
    let placed =
        |part: &LogPartition| Some(PlacedPartition { topic_id: part.topic_id?, partition: part.partition.clone() });
    let parts: Vec<PlacedPartition> = log.iter().filter_map(placed).collect();
    let places = match contents.places(&parts).await {
        Ok(places) => places,
        Err(error) => return fail(exit::of_sink(&error), &error),
    };
    let (stopper, shutdown) = shutdown::channel();
    if let Err(error) = listen(stopper) {
        return fail(Exit::Bug, &error);
    }
    let mut row = Row::default();
    if let Some(key) = &args.key {
        match Key::parse(key, None) {
            Ok(key) => row.key = Some(key),
            Err(error) => {
                eprintln!("settle: --key: {error}");
                return Exit::Usage;
            }
        }
    } else if let Some(wanted) = &args.place {
        let spans: Vec<Span> = whole(&log).into_iter().filter(|span| span.partition == wanted.partition).collect();
        match named(config, spans, &places, wanted.clone(), shutdown.clone()).await {
            Ok(found) => row = found,
            Err(exit) => return exit,
        }
    }
    let source = match inspection::range(config, whole(&log)) {
        Ok(source) => source,
        Err(error) => return fail(exit::of_source(&error), &error),
    };
    let scanned = scan(source, &places, config.source.lone_tombstones, shutdown, |record, fed| {
        let Ok(Event::Change(change)) = fed.map(|fed| fed.event) else { return };
        let is_table = match (&row.table, &args.table) {
            (Some(table), _) => **table == *change.table,
            (None, named) => named.as_ref().is_none_or(|named| *named == change.table.to_string()),
        };
        if is_table && row.key.as_ref() == Some(&change.key) {
            row.table.get_or_insert_with(|| change.table.clone());
            row.schema = change.schema.clone().or(row.schema.take());
            row.seen.push(seen(&change, record.place()));
        }
    });
    if let Err(error) = scanned.await {
        return exit::of_scan(&error);
    }
    let (Some(table), Some(key)) = (&row.table, &row.key) else {
        println!("the log has no record of that row");
        return Exit::Contract;
    };
    let wanted = Wanted { table, key, schema: row.schema.as_deref(), with_values: args.values };
    match contents.find(wanted).await {
        Ok(found) => print!("{}", text(&row, found.as_ref(), args.values)),
        Err(error) => return fail(exit::of_sink(&error), &error),
    }
    Exit::Done
}

fn whole(log: &[LogPartition]) -> Vec<Span> {
    let span = |part: &LogPartition| Span { partition: part.partition.clone(), start: part.start, end: part.end };
    log.iter().map(span).filter(|span| span.start < span.end).collect()
}

fn seen(change: &Change, place: Place) -> Seen {
    Seen {
        place,
        op: change.op.letter(),
        version: change.version,
        source_ts_ms: change.source_ts_ms,
        row: change.after_json().to_owned(),
    }
}

/// The row of the record at a place; or what a run would say of the record.
async fn named(
    config: &Config,
    spans: Vec<Span>,
    places: &Places,
    wanted: Place,
    shutdown: shutdown::Shutdown,
) -> Result<Row, Exit> {
    if !spans.iter().any(|span| (span.start..span.end).contains(&wanted.offset)) {
        eprintln!("settle: the log has no record {wanted}");
        return Err(Exit::Usage);
    }
    let source = inspection::range(config, spans).map_err(|error| fail(exit::of_source(&error), &error))?;
    let mut row = Row::default();
    let mut told = None;
    let scanned = scan(source, places, config.source.lone_tombstones, shutdown, |record, fed| {
        if record.place() != wanted {
            return;
        }
        told = Some(match fed.map(|fed| fed.event) {
            Ok(Event::Change(change)) => {
                row.table = Some(change.table.clone());
                row.key = Some(change.key.clone());
                String::new()
            }
            Ok(Event::Truncate(truncate)) => {
                format!("it truncates {}: rows before version {} are gone", truncate.table, truncate.version)
            }
            Ok(Event::Control(control)) => format!("it concerns no row: {control:?}"),
            Err(refusal) => format!("a run would refuse it: {refusal}"),
        });
    });
    scanned.await.map_err(|error| exit::of_scan(&error))?;
    match told.as_deref() {
        Some("") => Ok(row),
        Some(told) => {
            println!("{wanted}: {told}");
            Err(Exit::Done)
        }
        None => {
            println!("{wanted}: no record is delivered there (removed by compaction, aborted, or a marker)");
            Err(Exit::Done)
        }
    }
}

fn text(row: &Row, found: Option<&Found>, values: bool) -> String {
    use std::fmt::Write as _;

    let mut text = String::new();
    let table = row.table.as_ref().map(ToString::to_string).unwrap_or_default();
    let key = row.key.as_ref().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "{table} {key}: {} records; versions are epoch/commit/rank/record", row.seen.len());
    let greatest = row.seen.iter().map(|seen| seen.version).max();
    let winner = row.seen.iter().position(|seen| Some(seen.version) == greatest);
    for (at, seen) in row.seen.iter().enumerate() {
        if row.seen.len() > SHOWN && (SHOWN / 2..row.seen.len() - SHOWN / 2).contains(&at) {
            if at == SHOWN / 2 {
                let _ = writeln!(text, "  … {} more …", row.seen.len() - SHOWN);
            }
            continue;
        }
        let before = row.seen[..at].iter().map(|seen| seen.version).max();
        let what = match before {
            _ if Some(at) == winner => "wins",
            Some(before) if seen.version == before => "sent again: changes nothing",
            Some(before) if seen.version < before => "stale: an earlier record is newer",
            _ => "overtaken by a later one",
        };
        let time = seen.source_ts_ms.map(|ms| format!(" at {ms} ms")).unwrap_or_default();
        let _ = writeln!(text, "  {} {} {}{time}: {what}", seen.place, seen.op, seen.version);
        if values && !seen.row.is_empty() {
            let _ = writeln!(text, "      {}", seen.row);
        }
    }
    let _ = match (found, greatest) {
        (None, _) => writeln!(text, "the destination has nothing of it: not read yet, or removed by hand"),
        (Some(found), Some(greatest)) => {
            let state = if found.is_deleted { "deleted" } else { "a row" };
            let why = match found.version.cmp(&greatest) {
                std::cmp::Ordering::Equal => "as the log says",
                std::cmp::Ordering::Less => "older than the log: the record that wins was not applied yet",
                std::cmp::Ordering::Greater => {
                    "newer than the log: its records are not in it any more, or it was swept"
                }
            };
            writeln!(text, "the destination has {state}, version {}: {why}", found.version)
        }
        (Some(found), None) => writeln!(text, "the destination has version {}", found.version),
    };
    if let Some(found) = found.filter(|_| values) {
        for (name, value) in &found.columns {
            let _ = writeln!(text, "      {name} = {}", value.as_deref().unwrap_or("NULL"));
        }
    }
    text
}
