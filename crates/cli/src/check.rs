//! `settle check`: everything that a run depends on, every finding with its fix.

use std::path::Path;

use settle_engine::config::Config;
use settle_engine::finding::{Finding, Severity};
use settle_engine::pipeline;
use settle_engine::sampling::Sample;

use crate::args::CheckArgs;
use crate::exit::{self, Exit, fail};

/// Refused records are listed up to this number.
const LISTED: usize = 5;

/// Checks and prints; exit 0 only if a run would start.
pub fn execute(path: &Path, args: &CheckArgs) -> Exit {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(error) => return fail(Exit::Usage, &error),
    };
    let mut worst = Exit::Done;
    say(&Finding::note(format!("configuration {}", path.display())));
    let sample = match exit::block_on(pipeline::sample(&config, args.sample)) {
        Ok(Ok(sample)) => {
            for finding in of_sample(&sample) {
                worst = worst.worse(say(&finding));
            }
            sample
        }
        Ok(Err(error)) => {
            worst = exit::of_source(&error);
            say(&Finding::error(format!("source: {}", exit::chain(&error)), ""));
            // The destination can still be looked at.
            settle_engine::sampling::read(Vec::new())
        }
        Err(error) => return fail(Exit::Bug, &error),
    };
    match exit::block_on(pipeline::check_sink(&config, &sample)) {
        Ok(Ok(findings)) => {
            for finding in findings {
                worst = worst.worse(say(&finding));
            }
        }
        Ok(Err(error)) => {
            worst = worst.worse(exit::of_sink(&error));
            say(&Finding::error(format!("sink: {}", exit::chain(&error)), ""));
        }
        Err(error) => return fail(Exit::Bug, &error),
    }
    println!("{}", if worst == Exit::Done { "a run would start" } else { "a run would not start" });
    worst
}

fn of_sample(sample: &Sample) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (topic, partitions) in &sample.topics {
        findings.push(Finding::note(format!("topic {topic}, {partitions} partitions")));
    }
    if sample.topics.is_empty() {
        findings.push(Finding::warning("the source holds no records", "is it the right file or topic?"));
    }
    for table in sample.batch.tables() {
        let key: Vec<&str> = table.rows().next().map(|row| row.key().names().collect()).unwrap_or_default();
        let types = if table.schema().is_some() { "types in the records" } else { "no types in the records" };
        findings.push(Finding::note(format!("table {}, key {}, {types}", table.table, key.join(", "))));
    }
    for refusal in sample.refusals.iter().take(LISTED) {
        findings.push(Finding::error(refusal.to_string(), ""));
    }
    if sample.refusals.len() > LISTED {
        findings.push(Finding::error(format!("{} more records like these", sample.refusals.len() - LISTED), ""));
    }
    findings
}

/// Prints one finding; says what it means for the exit code.
fn say(finding: &Finding) -> Exit {
    let (mark, exit) = match finding.severity {
        Severity::Note => ("ok  ", Exit::Done),
        Severity::Warning => ("note", Exit::Done),
        Severity::Error => ("FAIL", Exit::Contract),
    };
    println!("{mark}  {}", finding.what);
    if !finding.fix.is_empty() {
        println!("      fix: {}", finding.fix);
    }
    exit
}
