//! Dead letters as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::SecondsFormat;
use settle_engine::dead_letter::Found;

/// Columns of a terminal.
const WIDTH: usize = 100;

/// A table of them, with a count by class beneath.
pub(super) fn table(letters: &[&Found], limit: usize) -> String {
    let mut text = String::new();
    let listed: Vec<[String; 5]> = letters.iter().take(limit).map(|found| cells(found)).collect();
    let heads = ["origin", "class", "table", "failed at", "times"].map(str::to_owned);
    let mut widths = heads.clone().map(|head| head.len());
    for row in &listed {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let left = WIDTH.saturating_sub(widths.iter().map(|width| width + 2).sum());
    let mut line = |cells: &[String; 5], error: &str| {
        for (cell, width) in cells.iter().zip(widths) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{error}");
    };
    // Where the origins are long, the errors get lines of their own.
    if !listed.is_empty() {
        line(&heads, if left >= 20 { "error" } else { "" });
    }
    for (row, found) in listed.iter().zip(letters) {
        let error = one_line(&found.entry.error);
        if left >= 20 {
            line(row, &shortened(&error, left));
        } else {
            line(row, "");
            line(
                &[String::new(), shortened(&error, WIDTH - 2 - widths[0]), String::new(), String::new(), String::new()],
                "",
            );
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
        false => writeln!(text, "{} dead letters: {}", letters.len(), classes.join(", ")),
    };
    text
}

fn cells(found: &Found) -> [String; 5] {
    let entry = &found.entry;
    let state = found.resolved.map(|resolution| format!(" {}", resolution.name())).unwrap_or_default();
    [
        entry.origin().to_string(),
        entry.class.clone(),
        entry.table.clone().unwrap_or_else(|| "-".to_owned()),
        entry.failed_at.to_rfc3339_opts(SecondsFormat::Secs, true),
        format!("{}{state}", found.times),
    ]
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// One JSON object a line; bytes of key and value are left to `show`.
pub(super) fn json(letters: &[&Found]) {
    for found in letters {
        let entry = &found.entry;
        println!(
            "{}",
            serde_json::json!({
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
}

/// Everything of one letter.
pub(super) fn in_full(found: &Found) -> String {
    let entry = &found.entry;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<10} {value}");
    };
    line("origin", &entry.origin().to_string());
    line("topic id", &entry.topic_id.to_string());
    line("class", &entry.class);
    line("error", &entry.error);
    line("table", entry.table.as_deref().unwrap_or("not known"));
    let version = entry.version.map(|version| format!("{version} (epoch/commit/rank/record)"));
    line("version", version.as_deref().unwrap_or("not known: it is taken from the record when it is retried"));
    line("failed at", &entry.failed_at.to_rfc3339_opts(SecondsFormat::Millis, true));
    line("times", &found.times.to_string());
    line("state", found.resolved.map_or("open", settle_engine::dead_letter::Resolution::name));
    for header in &entry.record.headers {
        let value = header.value.as_deref().map_or_else(|| "null".to_owned(), shown);
        line("header", &format!("{}: {value}", header.name));
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
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        // Numbers would pass through a float: shown as they are unless they survive it.
        Ok(value) => match serde_json::to_string(&value) {
            Ok(_) if has_long_number(bytes) => shown(bytes),
            Ok(_) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| shown(bytes)),
            Err(_) => shown(bytes),
        },
        Err(_) => shown(bytes),
    }
}

/// True if a number has more digits than a float holds.
fn has_long_number(bytes: &[u8]) -> bool {
    bytes.split(|byte| !byte.is_ascii_digit() && *byte != b'.').any(|number| number.len() > 15)
}

/// Text as it is, other bytes escaped.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}
