//! What a proof prints: at most 80 columns, but for the keys that differ.

use std::fmt::Write as _;

use settle_core::sink::Guarantee;
use settle_core::tally::Tally;
use settle_engine::log::LogPartition;

use super::looks::{Compared, Difference};
use super::{Verdict, begins_late};

/// What the two looks are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The destination before and after a replay.
    Replayed,
    /// The log applied anew, and the destination.
    AppliedAnew,
}

/// What will be read.
pub(super) fn log(log: &[LogPartition], group: &str) -> String {
    let records: i64 = log.iter().map(|part| part.settled() - part.start).sum();
    let behind: i64 = log.iter().map(|part| part.end - part.settled()).sum();
    let mut text = format!(
        "the log: {} partitions, at most {} records up to the offsets fixed now\n",
        log.len(),
        grouped(records.cast_unsigned())
    );
    if behind > 0 {
        let _ = writeln!(
            text,
            "  {} records behind what group {group} has settled are not part of it",
            grouped(behind.cast_unsigned())
        );
    }
    for part in log.iter().filter(|part| begins_late(part)) {
        let _ = writeln!(
            text,
            "  {} begins at offset {}: what lay before is in the log no more",
            part.partition, part.start
        );
    }
    text
}

/// Where the records went.
pub(super) fn tally(tally: &Tally, guarantee: Guarantee) -> String {
    let applied = if guarantee == Guarantee::Versioned { "written" } else { "applied" };
    let mut parts =
        vec![format!("{} read", counted(tally.read, "record")), format!("{} {applied}", counted(tally.applied, "row"))];
    for (count, name) in [
        (tally.stale, "stale"),
        (tally.superseded, "superseded"),
        (tally.control, "control"),
        (tally.truncates, "truncates"),
        (tally.dead_lettered, "not applicable, skipped (a run sets them aside: settle dlq ls)"),
    ] {
        if count > 0 {
            parts.push(format!("{} {name}", grouped(count)));
        }
    }
    wrapped(&parts)
}

/// Tables of which the log holds a full snapshot taken again.
pub(super) fn possible_ghosts(tables: &[String]) -> String {
    match tables {
        [] => String::new(),
        tables => format!(
            "full snapshots taken again, behind a gap that may hide deletes:\n  {}\n(a replay sweeps nothing: `settle run` does, or \
             reports)\n",
            tables.join(", ")
        ),
    }
}

/// Rows that the log has and the destination has not, in tables that an earlier configuration may have swept.
pub(super) fn perhaps_swept(tables: &[String]) -> String {
    match tables {
        [] => String::new(),
        tables => format!(
            "rows that only the log has may have been swept: it has a full snapshot taken\nagain of {}, and\n\
             on_resnapshot = \"sweep\" is not set there now; set it as it was, and prove again\n",
            tables.join(", ")
        ),
    }
}

/// Parts with commas between, on as many lines as it takes.
fn wrapped(parts: &[String]) -> String {
    let (mut text, mut width) = (String::new(), usize::MAX);
    for (at, part) in parts.iter().enumerate() {
        let comma = if at + 1 < parts.len() { "," } else { "" };
        if width.saturating_add(part.len()) > 74 {
            text.push_str("\n  ");
            width = 2;
        } else {
            text.push(' ');
        }
        width += part.len() + 2;
        let _ = write!(text, "{part}{comma}");
    }
    text
}

/// One line a table, then the keys that differ.
pub(super) fn verdicts(verdicts: &[Verdict], told: Told) -> String {
    if verdicts.is_empty() {
        return "the log writes no table: there is nothing to compare\n".to_owned();
    }
    let mut text = String::new();
    line(&mut text, ["table", "rows", "deleted", "physical rows", "left out", "checksum", ""]);
    for Verdict { watched, after, compared } in verdicts {
        let physical = match watched.before.physical {
            before if before == after.physical || told == Told::AppliedAnew => grouped(after.physical),
            before => format!("{} → {}", grouped(before), grouped(after.physical)),
        };
        line(
            &mut text,
            [
                &cut(&watched.table.name, 18),
                &grouped(compared.rows),
                &grouped(compared.deleted),
                &physical,
                &grouped(compared.left_out),
                &format!("{:08x}", compared.checksum >> 96),
                if compared.differing == 0 { "agrees" } else { "DIFFERS" },
            ],
        );
    }
    for Verdict { watched, compared, .. } in verdicts {
        differing(&mut text, &watched.table.name, compared, told);
        if compared.raised > 0 && told == Told::Replayed {
            let _ = writeln!(
                text,
                "{}: {} got a greater version with the same columns",
                watched.table.name,
                counted(compared.raised, "row")
            );
        }
    }
    let left_out: u64 = verdicts.iter().map(|verdict| verdict.compared.left_out).sum();
    if left_out > 0 {
        let _ = writeln!(
            text,
            "left out: {} of which the log has records behind the replayed ones",
            counted(left_out, "key")
        );
    }
    text
}

fn line(text: &mut String, [table, rows, deleted, physical, left_out, checksum, verdict]: [&str; 7]) {
    let line = format!("{table:<18} {rows:>9} {deleted:>8} {physical:>17} {left_out:>8} {checksum:>8} {verdict}");
    let _ = writeln!(text, "{}", line.trim_end());
}

fn differing(text: &mut String, table: &str, compared: &Compared, told: Told) {
    if compared.differing == 0 {
        return;
    }
    let _ = writeln!(text, "{table} differs in {}:", counted(compared.differing, "key"));
    for (key, difference) in &compared.named {
        let _ = writeln!(text, "  {key}: {}", difference.says(told));
    }
    let more = compared.differing - compared.named.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "  and {} more", grouped(more));
    }
}

impl Difference {
    fn says(self, told: Told) -> &'static str {
        match (told, self) {
            (Told::Replayed, Self::OnlyAfter) => "the replay brought its row back; the destination had lost it",
            (Told::Replayed, Self::OnlyBefore) => "the replay removed its row; the destination had missed the delete",
            (Told::Replayed, Self::Content) => {
                "the replay wrote other columns at the same version; the row had been changed by something else"
            }
            (Told::Replayed, Self::Newer) => "the replay brought a newer row; the destination had missed it",
            (Told::Replayed, Self::Older) => "the row went back to an older version",
            (Told::AppliedAnew, Self::OnlyAfter) => "in the destination, but not by the log",
            (Told::AppliedAnew, Self::OnlyBefore) => "not in the destination, but by the log",
            (Told::AppliedAnew, Self::Content) => "the same version, but other columns than by the log",
            (Told::AppliedAnew, Self::Newer) => "a newer version, and other columns, than by the log",
            (Told::AppliedAnew, Self::Older) => "an older version, and other columns, than by the log",
        }
    }
}

/// The last word on replays.
pub(super) fn end(agrees: bool, times: u32) -> String {
    if agrees {
        let replays = if times == 1 { "a replay".to_owned() } else { format!("{times} replays") };
        format!(
            "\nproved: {replays} of the log changed no row that a reader sees\n\
             (rows that the log knows nothing of are found by `settle prove --fresh`)\n"
        )
    } else {
        "\nNOT proved: a replay changed rows, so the destination was not what the log says\n".to_owned()
    }
}

/// The last word on a comparison with the log applied anew.
pub(super) fn end_of_fresh(agrees: bool, is_whole: bool) -> String {
    let mut text = match agrees {
        true => "\nproved: every row compared is as the log says\n".to_owned(),
        false => "\nNOT proved: the destination is not what the log says\n".to_owned(),
    };
    if !is_whole {
        text.push_str("(the log has lost its beginning: rows that only the destination has are left out)\n");
    }
    text
}

/// A number with what is counted.
fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// With commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A name that fits its column.
fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().take(width - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_names_fit() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(cut("customers", 18), "customers");
        assert_eq!(cut("a_table_with_a_long_name", 18).chars().count(), 18);
    }
}
