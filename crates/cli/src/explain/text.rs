//! What `settle explain` prints.

use std::cmp::Ordering;
use std::fmt::Write as _;

use settle_core::truncate::Cuts;
use settle_engine::check::count;
use settle_engine::contents::Found;
use settle_engine::dead_letter::Resolution;

use super::letters::{Letter, OfRow};
use super::truncates::Emptied;
use super::{Row, Seen};

/// Records, and letters, that are shown: the first and the last ones.
const SHOWN: usize = 40;

/// A row: its records, its dead letters, what the destination has of it, and why.
pub(super) fn of_row(row: &Row, letters: &OfRow, recorded: Cuts, found: Option<&Found>, values: bool) -> String {
    let mut text = String::new();
    let table = row.table.as_ref().map(ToString::to_string).unwrap_or_default();
    let key = row.key.as_ref().map(ToString::to_string).unwrap_or_default();
    let seen = count(row.seen.len() as u64, "record", "records");
    let _ = writeln!(text, "{table} {key}: {seen}; versions are epoch/commit/rank/record");
    let greatest = row.seen.iter().map(|seen| seen.version).max();
    let winner = row.seen.iter().position(|seen| Some(seen.version) == greatest);
    records(&mut text, row, winner, values);
    text.push_str(&of_letters(letters));
    let winner = winner.map(|at| &row.seen[at]);
    let _ = writeln!(text, "{}", destination(row, letters, recorded, found, winner));
    if let Some(found) = found.filter(|_| values) {
        for (name, value) in &found.columns {
            let _ = writeln!(text, "      {name} = {}", value.as_deref().unwrap_or("NULL"));
        }
    }
    text
}

fn records(text: &mut String, row: &Row, winner: Option<usize>, values: bool) {
    let mut newest = None;
    for (at, seen) in row.seen.iter().enumerate() {
        let before = newest;
        newest = newest.max(Some(seen.version));
        if row.seen.len() > SHOWN && (SHOWN / 2..row.seen.len() - SHOWN / 2).contains(&at) {
            if at == SHOWN / 2 {
                let _ = writeln!(text, "  … {} more …", row.seen.len() - SHOWN);
            }
            continue;
        }
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
}

/// The dead letters of a row, a line each.
pub(super) fn of_letters(letters: &OfRow) -> String {
    let mut text = String::new();
    for letter in letters.letters.iter().take(SHOWN) {
        let _ = writeln!(text, "  {letter}");
    }
    if letters.letters.len() > SHOWN {
        let _ = writeln!(text, "  … {} more dead letters (settle dlq ls --all) …", letters.letters.len() - SHOWN);
    }
    if let Some(first) = &letters.held {
        let _ = writeln!(
            text,
            "  the row is held since {first}: a change that leaves columns out is set aside, until a whole row comes"
        );
    }
    if let Some(why) = &letters.unread {
        let _ = writeln!(text, "  its dead letters, if there are any, could not be looked at: {why}");
    }
    text
}

fn destination(row: &Row, letters: &OfRow, recorded: Cuts, found: Option<&Found>, winner: Option<&Seen>) -> String {
    let Some(winner) = winner else {
        return match found {
            Some(found) => format!("the destination has version {}", found.version),
            None => "the destination has nothing of it".to_owned(),
        };
    };
    let unapplied = letters.unapplied(&winner.place).map(|letter| why_not_applied(letter, letters));
    let emptied = row.table.as_ref().and_then(|table| row.truncates.empty(table, winner.version, recorded));
    let emptied = match emptied {
        Some(Emptied::By(place)) => Some(format!("the truncate {place} emptied its table, behind the record that wins")),
        Some(Emptied::ByOneOfBefore) => Some(
            "a truncate emptied its table behind the record that wins: the destination has recorded it, and the log has \
             it no more"
                .to_owned(),
        ),
        Some(Emptied::NotYet(_)) | None => None,
    };
    let Some(found) = found else {
        let why = emptied.or(unapplied).unwrap_or_else(|| "not read yet, or removed by hand".to_owned());
        return format!("the destination has nothing of it: {why}");
    };
    // A row that a truncate empties is there until that is carried out, and no reader sees it.
    if let Some(emptied) = emptied.filter(|_| recorded.empties(found.version)) {
        return format!("the destination shows nothing of it: {emptied}");
    }
    let why = match found.version.cmp(&winner.version) {
        Ordering::Equal => {
            match row.table.as_ref().and_then(|table| row.truncates.empty(table, winner.version, recorded)) {
                Some(Emptied::NotYet(place)) => format!("the truncate {place} removes it, and was not applied yet"),
                _ => "as the log says".to_owned(),
            }
        }
        Ordering::Less => {
            let why = unapplied.unwrap_or_else(|| "the record that wins was not applied yet".to_owned());
            format!("older than the log: {why}")
        }
        Ordering::Greater => "newer than the log: its records are not in it any more, or it was swept".to_owned(),
    };
    let state = if found.is_deleted { "deleted" } else { "a row" };
    format!("the destination has {state}, version {}: {why}", found.version)
}

/// Letters that a command names.
const NAMED: usize = 5;

fn why_not_applied(letter: &Letter, letters: &OfRow) -> String {
    let Letter { place, class, resolved } = letter;
    match resolved {
        Some(Resolution::Dropped) => format!(
            "the record that wins was set aside ({class}) and its dead letter dropped; a later record of the row, or a \
             new snapshot of it, brings it"
        ),
        _ => {
            // What it stands on comes before it.
            let open = letters.letters.iter().filter(|other| other.resolved.is_none());
            let before = open
                .map(|other| &other.place)
                .filter(|other| other.partition == place.partition && other.offset <= place.offset);
            let mut before: Vec<String> = before.map(ToString::to_string).collect();
            if before.len() > NAMED {
                before.clear();
            }
            format!(
                "the record that wins was set aside ({class}): once what made it fail is mended, settle dlq retry {}",
                before.join(" ")
            )
            .trim_end()
            .to_owned()
        }
    }
}
