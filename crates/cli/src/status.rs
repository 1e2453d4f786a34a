//! `settle status`: where the pipeline stands, at both ends. It joins no group and changes nothing.

use std::path::Path;

use serde_json::{Value, json};
use settle_core::sink::SinkError;
use settle_engine::check::refusals;
use settle_engine::config::Config;
use settle_engine::dead_letter::DeadLetterLog;
use settle_engine::inspection;
use settle_engine::log::{LogPartition, Member};
use settle_engine::source::SourceError;

use crate::args::StatusArgs;
use crate::exit::{self, Exit};

/// Kinds of facts that are worth knowing of a destination.
const KINDS: [&str; 5] = ["epoch", "held", "sweep", "pending-delete", "floor"];

/// Looks and prints; a part that cannot be reached is said, and the others are shown.
pub fn execute(path: &Path, args: &StatusArgs) -> Exit {
    exit::by_config(path, async |config| {
        let source = source(&config).await;
        let destination = destination(&config).await;
        let letters = match &config.dlq {
            Some(dlq) => Some(DeadLetterLog::new(dlq, &config.source.group).summary().await),
            None => None,
        };
        // The source counts first, as in a run.
        let worst = match (&source, &destination) {
            (Err(error), _) => exit::of_source(error),
            (_, Err(error)) => exit::of_sink(error),
            _ => Exit::Done,
        };
        let letters = letters.map(|letters| {
            letters.map(|summary| {
                let oldest = summary.oldest.map(|oldest| oldest.to_rfc3339());
                json!({"open": summary.open, "by_class": summary.by_class, "oldest_failed_at": oldest})
            })
        });
        let refused = match (&source, &destination) {
            (Ok(_), Ok(_)) => refusals(&config).await,
            _ => Vec::new(),
        };
        let told = json!({
            "group": config.source.group,
            "refused": refused,
            "source": told(source.map_err(|error| exit::chain(&error))),
            "destination": told(destination.map_err(|error| exit::chain(&error))),
            "dead_letters": letters.map_or(Value::Null, |letters| told(letters.map_err(|error| exit::chain(&error)))),
        });
        match args.json {
            true => println!("{told}"),
            false => print!("{}", text(&told)),
        }
        worst
    })
}

fn told(part: Result<Value, String>) -> Value {
    part.unwrap_or_else(|error| json!({ "unreachable": error }))
}

async fn source(config: &Config) -> Result<Value, SourceError> {
    let log = inspection::survey(config).await?;
    let members = inspection::members(config).await?;
    let partition = |part: &LogPartition| {
        json!({
            "topic": &*part.partition.topic, "partition": part.partition.number, "start": part.start, "end": part.end,
            "committed": part.committed, "lag": part.lag(), "removed_unread": part.removed_unread(),
        })
    };
    let member = |member: &Member| {
        let partitions: Vec<String> = member.partitions.iter().map(ToString::to_string).collect();
        json!({"client": member.client, "host": member.host, "partitions": partitions})
    };
    let (state, members) = members.map_or((None, Vec::new()), |(state, members)| (Some(state), members));
    Ok(json!({
        "partitions": log.iter().map(partition).collect::<Vec<_>>(),
        "lag": log.iter().map(LogPartition::lag).sum::<i64>(),
        "group_state": state,
        "members": members.iter().map(member).collect::<Vec<_>>(),
    }))
}

async fn destination(config: &Config) -> Result<Value, SinkError> {
    let mut contents = inspection::contents(config)?;
    let mut tables = Vec::new();
    for table in contents.tables().await? {
        if let Some(summary) = contents.summary(&table).await? {
            tables.push(json!({
                "table": table.name, "rows": summary.current, "physical": summary.physical,
                "greatest_version": summary.greatest.map(|version| version.to_string()),
                "source_ts_ms": summary.source_ts_ms,
            }));
        }
    }
    let facts = contents.facts().await?;
    let count = |kind: &str| facts.iter().filter(|fact| fact.kind == kind).count();
    let counts: serde_json::Map<String, Value> =
        KINDS.iter().map(|kind| ((*kind).to_owned(), count(kind).into())).collect();
    Ok(json!({"tables": tables, "recorded": counts}))
}

fn text(told: &Value) -> String {
    use std::fmt::Write as _;

    let mut text = format!("group {}\n", told["group"].as_str().unwrap_or_default());
    let source = &told["source"];
    if let Some(error) = source["unreachable"].as_str() {
        let _ = writeln!(text, "source: NOT REACHED: {error}");
    } else {
        let _ = writeln!(text, "source: {} behind", source["lag"]);
        if let Some(state) = source["group_state"].as_str() {
            let members = source["members"].as_array().map_or(0, Vec::len);
            let _ = writeln!(text, "  the group is {state}, {members} members");
        }
        for part in source["partitions"].as_array().into_iter().flatten() {
            let name = format!("{}:{}", part["topic"].as_str().unwrap_or_default(), part["partition"]);
            let committed = part["committed"].as_i64().map_or("never committed".to_owned(), |at| format!("at {at}"));
            let _ = writeln!(
                text,
                "  {name:<40} {committed:>16} of {}..{}, lag {}{}",
                part["start"],
                part["end"],
                part["lag"],
                match part["removed_unread"].as_i64() {
                    Some(removed @ 1..) => format!("; {removed} before it were removed unread"),
                    _ => String::new(),
                }
            );
        }
    }
    let destination = &told["destination"];
    if let Some(error) = destination["unreachable"].as_str() {
        let _ = writeln!(text, "destination: NOT REACHED: {error}");
    } else {
        let _ = writeln!(text, "destination:");
        for table in destination["tables"].as_array().into_iter().flatten() {
            let name = table["table"].as_str().unwrap_or_default();
            let version = table["greatest_version"].as_str().unwrap_or("none");
            let _ = writeln!(text, "  {name:<30} {:>10} rows, up to version {version}", table["rows"]);
        }
        for (kind, count) in destination["recorded"].as_object().into_iter().flatten() {
            if *count != 0 {
                let _ = writeln!(text, "  recorded: {count} {kind}");
            }
        }
    }
    let letters = &told["dead_letters"];
    let _ = match (letters["unreachable"].as_str(), letters["open"].as_u64()) {
        (Some(error), _) => writeln!(text, "dead letters: NOT REACHED: {error}"),
        (_, Some(open)) => writeln!(
            text,
            "dead letters: {open} open {}",
            if open > 0 { letters["by_class"].to_string() } else { String::new() }.trim_end()
        ),
        _ => writeln!(text, "dead letters: no [dlq] is configured"),
    };
    for refused in told["refused"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(text, "A RUN WOULD STOP: {refused}");
    }
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
