//! The run report, for people and for machines.

use settle_core::sink::Guarantee;
use settle_engine::run::Report;

use crate::args::ReportFormat;

/// Prints the report on standard output.
pub(crate) fn print(report: &Report, guarantee: Guarantee, format: ReportFormat) {
    match format {
        ReportFormat::Json => {
            if let Ok(json) = serde_json::to_string(report) {
                println!("{json}");
            }
        }
        ReportFormat::Human => print!("{}", human(report, guarantee)),
    }
}

/// The report as text, at most 80 columns.
pub(crate) fn human(report: &Report, guarantee: Guarantee) -> String {
    use std::fmt::Write;

    let tally = &report.tally;
    // ClickHouse keeps every version until it merges, so it cannot know which rows were stale.
    let applied = if guarantee == Guarantee::Versioned { "written" } else { "applied" };
    let mut text = String::new();
    let mut line = |name: &str, count: u64, note: &str| {
        if count > 0 || matches!(name, "read" | "applied" | "written") {
            let _ = writeln!(text, "  {name:<14}{count:>12}  {note}");
        }
    };
    line("read", tally.read, "records");
    line(applied, tally.applied, "rows");
    line("superseded", tally.superseded, "overtaken by a newer change in their batch");
    line("stale", tally.stale, "the destination had as new or newer");
    line("control", tally.control, "tombstones, heartbeats, transactions, signals");
    line("truncates", tally.truncates, "of tables");
    line("dead-lettered", tally.dead_lettered, "could not be applied, set aside: settle dlq ls");
    for (class, count) in &report.dead_letters_by_class {
        line("", *count, &format!("  {class}"));
    }
    line("", report.dlq_truncated, "  were too big for the queue: it has their origin");
    line("swept", report.swept, "ghosts: the last full snapshot did not refresh them");
    line("unsettled", report.unsettled, "not durable: will be delivered again");
    line("re-delivered", report.redelivered, "of the records read");
    line("retries", report.retries, "of batches");
    line("revoked", report.revoked, "partitions");
    line("lost", report.lost, "partitions");
    line("fenced", report.fenced, "partitions: another instance had taken them");
    for table in &report.possible_ghosts {
        let _ = writeln!(text, "  possible ghosts in {table}: a full snapshot behind a gap");
    }
    let balance =
        if report.balances() { "every record is in exactly one place" } else { "THE COUNTERS DO NOT BALANCE" };
    let seconds = report.elapsed_ms / 1000;
    let millis = report.elapsed_ms % 1000;
    format!(
        "ended: {} after {seconds}.{millis:03} s, {} batches; {balance}\n{text}",
        report.ended.name(),
        report.batches
    )
}

#[cfg(test)]
mod tests {
    use settle_core::tally::Tally;

    use super::*;

    #[test]
    fn dead_letters_are_told_with_their_classes() {
        let report = Report {
            tally: Tally { read: 5, applied: 2, dead_lettered: 3, ..Tally::default() },
            dead_letters_by_class: [("not-json".to_owned(), 2), ("value".to_owned(), 1)].into(),
            dlq_truncated: 1,
            ..Report::default()
        };
        let text = human(&report, Guarantee::Atomic);
        let told: Vec<Vec<&str>> = text.lines().skip(3).map(|line| line.split_whitespace().take(3).collect()).collect();
        assert_eq!(
            told[..3],
            [vec!["dead-lettered", "3", "could"], vec!["2", "not-json"], vec!["1", "value"]],
            "{text}"
        );
        assert_eq!(told[3], ["1", "were", "too"], "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
