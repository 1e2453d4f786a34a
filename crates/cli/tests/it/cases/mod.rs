//! The handed cases, each into the destinations that it concerns: what came of it is a line of a
//! table, and the table is checked in, so that no case changes its verdict unseen.

mod case;
mod consumers;
mod faults;
mod poison;
mod refusals;
mod rows;
mod schemas;
mod server;
mod stand;
mod types;
mod variants;
mod verdict;
mod walk;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::Case;
use stand::Sink;
use verdict::{Line, Outcome, Verdict, counts};

/// How a case is executed.
#[derive(Clone, Copy)]
enum Script {
    /// By this function, in each destination of this part that the case concerns.
    Run(fn(&Case, Sink) -> Outcome),
    /// A later part brings what it needs.
    Later(u8, &'static str),
}

fn script(id: &str) -> Option<Script> {
    use Script::{Later, Run};
    Some(match id {
        "B01" | "B03" | "B08" | "B10" | "B28" | "B31" | "B91" | "B93" => Run(rows::plain),
        "B05" => Run(rows::one_transaction),
        "B06" => Run(refusals::other_connector),
        "B11" | "B65" => Run(rows::flattened),
        "B13" | "B16" => Run(refusals::new_log),
        "B15" => Run(rows::binlog_numbers),
        "B18" => Run(rows::any_cut),
        "B20" => Run(rows::delete_markers),
        "B21" => Run(refusals::other_sorting_key),
        "B23" => Run(refusals::other_versions),
        "B25" => Run(faults::late_truncate),
        "B26" => Run(types::wide_integers),
        "B30" => Run(poison::not_finite),
        "B33" => Run(types::before_1970),
        "B35" => Run(poison::infinite),
        "B36" => Run(types::far_years),
        "B38" => Run(types::units),
        "B40" => Run(types::intervals),
        "B41" => Run(poison::null_where_none_may_be),
        "B43" => Run(types::bytes),
        "B45" => Run(rows::toast_in_any_cut),
        "B46" => Run(poison::key_not_sent),
        "B48" => Run(types::null_is_null),
        "B50" => Run(types::json_text),
        "B51" => Run(types::maps),
        "B53" => Run(types::named_text),
        "B55" => Run(poison::unknown_label),
        "B56" => Run(types::generated),
        "B58" => Run(rows::hostile_names),
        "B60" => Run(poison::incomplete_key),
        "B61" => Run(rows::close_keys),
        "B63" => Run(rows::tombstones),
        "B66" => Run(rows::renamed_column),
        "B68" => Run(types::dropped_column),
        "B70" => Run(poison::no_json),
        "B71" => Run(rows::avro),
        "B73" => Run(poison::large),
        "B75" => Run(poison::one_bad_row),
        "B76" => Run(consumers::killed_before_the_write),
        "B78" => Run(consumers::away_and_back),
        "B80" => Run(consumers::revoked_in_a_batch),
        "B81" => Run(consumers::late_write),
        "B83" => Run(consumers::gone_from_the_log),
        "B85" => Run(faults::too_many_parts),
        "B86" => Run(faults::state_with_rows),
        "B88" => Run(refusals::append),
        "B90" => Run(faults::second_chunk_fails),
        "B95" => Run(faults::locked),
        "B96" => Run(faults::kinds_of_errors),
        "B98" => Later(4, "inbox and HTTP"),
        "B100" => Later(4, "inbox"),
        "B101" => Later(6, "Kafka to Kafka"),
        _ => return None,
    })
}

/// The destinations of this part in which a case is executed: those that it names; one that names
/// only others runs in all.
fn sinks(case: &Case) -> Vec<Sink> {
    let named = |sink: &Sink| case.sinks.iter().any(|name| name == sink.name());
    let all = [Sink::ClickHouse, Sink::Sqlite, Sink::Postgres, Sink::MySql];
    let ours: Vec<Sink> = all.into_iter().filter(named).collect();
    if ours.is_empty() { all.to_vec() } else { ours }
}

fn outcome(script: fn(&Case, Sink) -> Outcome, case: &Case, sink: Sink) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| script(case, sink))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a word")))
    })
}

/// Executes them, a few at a time; the lines in the order of the cases.
fn execute(cases: &[Case]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut jobs = Vec::new();
    for case in cases {
        match script(&case.id) {
            Some(Script::Run(script)) => {
                for sink in sinks(case) {
                    jobs.push((lines.len(), script, case, sink));
                    lines.push(Line { case: case.id.clone(), sink: sink.name(), outcome: Ok(Verdict::Pass("")) });
                }
            }
            Some(Script::Later(part, why)) => {
                let outcome = Ok(Verdict::Part(part, why.to_owned()));
                lines.push(Line { case: case.id.clone(), sink: "-", outcome });
            }
            None => lines.push(Line { case: case.id.clone(), sink: "-", outcome: Err("has no script".to_owned()) }),
        }
    }
    let lines = Mutex::new(lines);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(&(at, script, case, sink)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = outcome(script, case, sink);
                    lines.lock().unwrap()[at].outcome = outcome;
                }
            });
        }
    });
    lines.into_inner().unwrap()
}

#[test]
fn every_handed_case_passes_or_is_named() {
    let all = case::all();
    assert_eq!(all.len(), 61);
    // One case alone, while it is worked on.
    let only = std::env::var("SETTLE_TEST_CASES").ok();
    let chosen: Vec<Case> = all
        .into_iter()
        .filter(|case| only.as_ref().is_none_or(|only| only.split(',').any(|id| id == case.id)))
        .collect();
    let lines = execute(&chosen);
    let table: String = lines.iter().map(|line| format!("{line}\n")).collect();
    println!("{table}{}", counts(&lines));
    let failed: Vec<String> = lines.iter().filter(|line| line.outcome.is_err()).map(Line::to_string).collect();
    assert!(failed.is_empty(), "{} of {} FAIL:\n{}", failed.len(), lines.len(), failed.join("\n"));
    let path = case::folder().join("verdicts.txt");
    if std::env::var_os("SETTLE_TEST_UPDATE_VERDICTS").is_some() && only.is_none() {
        std::fs::write(&path, &table).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let missing: Vec<&str> = table.lines().filter(|line| !known.lines().any(|known| known == *line)).collect();
    assert!(missing.is_empty(), "verdicts that {} does not have:\n{}", path.display(), missing.join("\n"));
    if only.is_none() {
        assert_eq!(known, table, "verdicts.txt has lines that no case gives any more");
    }
}
