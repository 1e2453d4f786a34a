//! Dead letters as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use chrono::SecondsFormat;
use settle_engine::check::count;
use settle_engine::dead_letter::Found;
use terminal_size::{Width, terminal_size};

use super::indented::indented;

/// Columns where there is no terminal.
const WIDTH: usize = 100;
/// Columns that are used in a terminal that is narrower.
const MIN_WIDTH: usize = 60;
/// An error in fewer columns gets a line of its own.
const MIN_ERROR: usize = 20;

/// A table of them that fits the terminal, with a count by class beneath.
pub(super) fn table(letters: &[&Found], limit: usize) -> String {
    let terminal = terminal_size().filter(|_| io::stdout().is_terminal());
    table_of(terminal.map_or(WIDTH, |(Width(columns), _)| usize::from(columns).max(MIN_WIDTH)), letters, limit)
}

fn table_of(columns: usize, letters: &[&Found], limit: usize) -> String {
    let mut text = String::new();
    let listed: Vec<[String; 5]> = letters.iter().take(limit).map(|found| cells(found)).collect();
    let heads = ["origin", "class", "table", "failed at", "times"].map(str::to_owned);
    let mut widths = heads.clone().map(|head| head.len());
    for row in &listed {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let left = columns.saturating_sub(widths.iter().map(|width| width + 2).sum());
    let line = |text: &mut String, cells: &[String; 5], error: &str| {
        for (cell, width) in cells.iter().zip(widths) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{error}");
    };
    // Where the origins are long, the errors get lines of their own.
    if !listed.is_empty() {
        line(&mut text, &heads, if left >= MIN_ERROR { "error" } else { "" });
    }
    for (row, found) in listed.iter().zip(letters) {
        let error = one_line(&found.entry.error);
        if left >= MIN_ERROR {
            line(&mut text, row, &shortened(&error, left));
        } else {
            line(&mut text, row, "");
            let _ = writeln!(text, "  {}", shortened(&error, columns.saturating_sub(2)));
        }
    }
    let mut text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if letters.len() > limit {
        let _ = writeln!(text, "… and {} more (--limit)", letters.len() - limit);
    }
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for found in letters {
        *classes.entry(&found.entry.class).or_default() += 1;
    }
    let classes: Vec<String> = classes.iter().map(|(class, count)| format!("{count} {class}")).collect();
    let _ = match classes.is_empty() {
        true => writeln!(text, "no dead letters"),
        false => {
            let letters = count(letters.len() as u64, "dead letter", "dead letters");
            writeln!(text, "{letters}: {}", classes.join(", "))
        }
    };
    text
}

fn cells(found: &Found) -> [String; 5] {
    let entry = &found.entry;
    let state = found.resolved.map(|resolution| format!(" {}", resolution.name())).unwrap_or_default();
    [
        entry.origin().to_string(),
        one_line(&entry.class),
        entry.table.as_deref().map(one_line).unwrap_or_else(|| "-".to_owned()),
        entry.failed_at.to_rfc3339_opts(SecondsFormat::Secs, true),
        format!("{}{state}", found.times),
    ]
}

/// On one line; nothing in it speaks to the terminal.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    words.join(" ")
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// One JSON object a line; bytes of key and value are left to `show`.
pub(super) fn json(letters: &[&Found], limit: usize) -> String {
    let mut text = String::new();
    for found in letters.iter().take(limit) {
        let entry = &found.entry;
        let _ = writeln!(
            text,
            "{}",
            serde_json::json!({
                "group": entry.group,
                "topic": &*entry.record.partition.topic,
                "partition": entry.record.partition.number,
                "offset": entry.record.offset,
                "topic_id": entry.topic_id.to_string(),
                "class": entry.class,
                "error": entry.error,
                "table": entry.table,
                "version": entry.version.map(|version| version.as_u128().to_string()),
                "failed_at": entry.failed_at.to_rfc3339_opts(SecondsFormat::Millis, true),
                "truncated_bytes": entry.truncated,
                "times": found.times,
                "resolved": found.resolved.map(settle_engine::dead_letter::Resolution::name),
            })
        );
    }
    text
}

/// Everything of one letter.
pub(super) fn in_full(found: &Found) -> String {
    let entry = &found.entry;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<10} {value}");
    };
    line("group", &entry.group);
    line("origin", &entry.origin().to_string());
    line("topic id", &entry.topic_id.to_string());
    line("class", &entry.class);
    line("error", &shown(entry.error.as_bytes()));
    line("table", &entry.table.as_deref().map_or_else(|| "not known".to_owned(), one_line));
    let version = entry.version.map(|version| format!("{version} (epoch/commit/rank/record)"));
    line("version", version.as_deref().unwrap_or("not known: it is taken from the record when it is retried"));
    line("failed at", &entry.failed_at.to_rfc3339_opts(SecondsFormat::Millis, true));
    line("times", &found.times.to_string());
    line("state", found.resolved.map_or("open", settle_engine::dead_letter::Resolution::name));
    for header in &entry.record.headers {
        let value = header.value.as_deref().map_or_else(|| "null".to_owned(), shown);
        line("header", &format!("{}: {value}", shown(header.name.as_bytes())));
    }
    line("key", &entry.record.key.as_deref().map_or_else(|| "null".to_owned(), shown));
    let value = match (&entry.record.payload, entry.truncated) {
        (_, Some(bytes)) => format!("left out: {bytes} bytes were too many for the queue; the record is in its topic"),
        (None, None) => "null".to_owned(),
        (Some(value), None) => pretty(value),
    };
    let _ = writeln!(text, "value\n{value}");
    text
}

fn pretty(bytes: &[u8]) -> String {
    let text = shown(bytes);
    indented(&text).unwrap_or(text)
}

/// Text as it is, other bytes escaped.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use settle_core::position::{Partition, TopicId};
    use settle_core::record::Record;
    use settle_engine::dead_letter::Entry;

    use super::*;

    fn found(topic: &str, error: &str) -> Found {
        let record = Record {
            partition: Partition::new(topic, 0),
            offset: 17,
            timestamp_ms: None,
            key: None,
            payload: None,
            headers: Vec::new(),
        };
        let entry = Entry {
            group: "g".into(),
            topic_id: TopicId::of_first_line("t", b"first"),
            record,
            error: error.into(),
            class: "not-json".into(),
            table: Some("public.or\u{1b}[2Jders".into()),
            version: None,
            failed_at: DateTime::UNIX_EPOCH,
            truncated: None,
        };
        Found { entry, times: 2, resolved: None }
    }

    #[test]
    fn a_table_fits_its_columns_and_says_nothing_to_the_terminal() {
        let long = "the value is not JSON\n(expected value at line 1 column 1), which goes on and on, and on and on";
        for topic in ["t", "a-topic-with-a-long-name.of-a-schema.and-a-table"] {
            let letters = [found(topic, long), found(topic, "short")];
            for columns in [80, 120, 200] {
                let text = table_of(columns, &letters.iter().collect::<Vec<_>>(), 1);
                // An origin is never shortened: it is what one copies.
                let narrow = columns == 80 && topic != "t";
                assert!(narrow || text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
                assert!(text.contains("the value is not JSON (exp"), "{text}");
                assert!(text.contains("… and 1 more (--limit)\n2 dead letters: 2 not-json\n"), "{text}");
                assert!(!text.contains('\u{1b}'), "{text}");
            }
        }
    }
}
