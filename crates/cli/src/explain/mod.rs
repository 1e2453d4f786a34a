//! `settle explain`: how the records of one row were read, what beat what, and what the destination
//! has of it; and where that is not what the log says, why: a truncate, a dead letter.

mod letters;
mod missed;
mod text;
mod truncates;

use std::path::Path;
use std::sync::Arc;

use settle_core::change::{Change, Event, TableName};
use settle_core::key::Key;
use settle_core::lane::Fed;
use settle_core::position::{Place, Span};
use settle_core::record::Record;
use settle_core::refusal::Refusal;
use settle_core::schema::RowSchema;
use settle_core::sink::{PlacedPartition, Places};
use settle_core::version::Version;
use settle_engine::config::Config;
use settle_engine::contents::Wanted;
use settle_engine::inspection;
use settle_engine::log::LogPartition;
use settle_engine::scan::scan;
use settle_engine::shutdown::{self, Shutdown};

use crate::args::ExplainArgs;
use crate::exit::{self, Exit, fail};
use crate::run::listen;
use letters::Letters;
use missed::Known;
use truncates::Truncates;

/// Reads the log and prints.
pub fn execute(path: &Path, args: &ExplainArgs) -> Exit {
    exit::by_config(path, async |config| explain(&config, args).await)
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
    truncates: Truncates,
}

impl Row {
    fn is_of(&self, change: &Change, named: Option<&str>) -> bool {
        let is_table = match &self.table {
            Some(table) => **table == *change.table,
            None => named.is_none_or(|named| *named == change.table.to_string()),
        };
        is_table && self.key.as_ref().is_some_and(|key| is_same(key, &change.key))
    }

    /// True if a record of it is of this topic.
    fn is_in(&self, topic: &str) -> bool {
        self.seen.iter().any(|seen| *seen.place.partition.topic == *topic)
    }

    fn take(&mut self, change: &Change, place: Place) {
        self.table.get_or_insert_with(|| change.table.clone());
        self.schema = change.schema.clone().or(self.schema.take());
        self.seen.push(Seen {
            place,
            op: change.op.letter(),
            version: change.version,
            source_ts_ms: change.source_ts_ms,
            row: change.after_json().to_owned(),
        });
    }
}

/// True if they name the same row: the order of the members means nothing.
fn is_same(key: &Key, other: &Key) -> bool {
    key == other
        || (key.names().count() == other.names().count()
            && key.fields().all(|(name, value)| other.get(name) == Some(value)))
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
    let mut spans = whole(&log);
    if let Some(key) = &args.key {
        match Key::parse(key, None) {
            Ok(key) => row.key = Some(key),
            Err(_) => {
                eprintln!(
                    "settle: --key is not the JSON object of a key, each of its fields with a value, as {{\"id\":7}}"
                );
                return Exit::Usage;
            }
        }
    } else if let Some(asked) = &args.place {
        let Some(before) = up_to(&spans, asked) else {
            eprintln!("settle: the log has no record {asked}");
            return Exit::Usage;
        };
        match row_at(config, asked, &places, shutdown.clone()).await {
            Ok(Some((table, key))) => (row.table, row.key) = (Some(table), Some(key)),
            Ok(None) => spans = vec![before],
            Err(exit) => return exit,
        }
    }
    let letters = Letters::read(config, &log, &places).await;
    let (mut told, mut known) = (None, Known::default());
    let read = read(config, spans, &places, shutdown, |place, event| {
        let is_asked = args.place.as_ref() == Some(&place);
        if is_asked {
            told = Some(of_no_row(&event));
        }
        let change = match event {
            Ok(Event::Change(change)) => change,
            Ok(Event::Truncate(truncate)) => return row.truncates.take(&truncate, place),
            _ => return,
        };
        known.take(&change);
        if is_asked {
            // Its names in the order that the partition's other keys have.
            row.key = Some(change.key.clone());
        }
        if row.is_of(&change, args.table.as_deref()) {
            row.take(&change, place);
        }
    });
    if let Err(exit) = read.await {
        return exit;
    }
    if let Some(asked) = &args.place {
        let nothing = || Some("no record is delivered there (removed by compaction, aborted, or a marker)".to_owned());
        if let Some(told) = told.unwrap_or_else(nothing) {
            println!("{asked}: {told}");
            letters.at(asked).into_iter().for_each(|letter| println!("{letter}"));
            return Exit::Done;
        }
    }
    let letters = letters.of(&row, args.table.as_deref());
    let (Some(table), Some(key)) = (&row.table, &row.key) else {
        println!("the log has no record of that row{}", if letters.is_empty() { "" } else { " that can be read" });
        if let (Some(table), Some(key)) = (&args.table, &row.key)
            && let Some(why) = known.instead_of(table, key)
        {
            println!("{why}");
        }
        print!("{}", text::of_letters(&letters));
        return Exit::Contract;
    };
    let wanted = Wanted { table, key, schema: row.schema.as_deref(), with_values: args.values };
    match contents.find(wanted).await {
        Ok(found) => {
            let recorded = places.truncates_of(&config.target.table_name(table));
            print!("{}", text::of_row(&row, &letters, recorded, found.as_ref(), args.values));
        }
        Err(error) => return fail(exit::of_sink(&error), &error),
    }
    Exit::Done
}

fn whole(log: &[LogPartition]) -> Vec<Span> {
    let span = |part: &LogPartition| Span { partition: part.partition.clone(), start: part.start, end: part.end };
    log.iter().map(span).filter(|span| span.start < span.end).collect()
}

/// The stretch of the place's partition that ends with it.
fn up_to(spans: &[Span], place: &Place) -> Option<Span> {
    let holds = |span: &&Span| span.partition == place.partition && (span.start..span.end).contains(&place.offset);
    spans.iter().find(holds).map(|span| Span { end: place.offset + 1, ..span.clone() })
}

/// Reads the stretches as a run would.
async fn read(
    config: &Config,
    spans: Vec<Span>,
    places: &Places,
    shutdown: Shutdown,
    mut each: impl FnMut(Place, Result<Event, Refusal>),
) -> Result<(), Exit> {
    let source = inspection::range(config, spans).map_err(|error| fail(exit::of_source(&error), &error))?;
    let each = |record: &Record, fed: Result<Fed, Refusal>| each(record.place(), fed.map(|fed| fed.event));
    let scanned = scan(source, places, config.source.lone_tombstones, shutdown, each);
    scanned.await.map_err(|error| exit::of_scan(&error))
}

/// The row of the record at a place, which it tells by itself: so the log need be read only once.
/// None where it is of no row, or would be refused wherever it stood.
async fn row_at(
    config: &Config,
    place: &Place,
    places: &Places,
    shutdown: Shutdown,
) -> Result<Option<(Arc<TableName>, Key)>, Exit> {
    let alone = Span { partition: place.partition.clone(), start: place.offset, end: place.offset + 1 };
    let mut row = None;
    let read = read(config, vec![alone], places, shutdown, |_, event| {
        if let Ok(Event::Change(change)) = event {
            row = Some((change.table, change.key));
        }
    });
    read.await?;
    Ok(row)
}

/// What a run would say of a record that changes no row; nothing of one that does.
fn of_no_row(event: &Result<Event, Refusal>) -> Option<String> {
    match event {
        Ok(Event::Change(_)) => None,
        Ok(Event::Truncate(truncate)) => {
            Some(format!("it truncates {}: rows before version {} are gone", truncate.table, truncate.version))
        }
        Ok(Event::Control(control)) => Some(format!("it concerns no row: {control:?}")),
        Err(refusal) => Some(format!("a run would refuse it: {refusal}")),
    }
}
