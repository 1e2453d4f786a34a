//! The ways through a case that many share: its steps in order, every cut of them, and past records
//! that cannot be applied.

use super::case::Case;
use super::stand::{Ran, Stand, same_rows};
use super::verdict::{Outcome, Verdict, first_words};

/// Does the case's steps in order: records are read up to each other step and at the end.
pub fn steps(stand: &mut Stand, case: &Case) -> Result<(), String> {
    stand.configure();
    let mut fresh = Vec::new();
    for step in &case.steps {
        match step.step.as_str() {
            "produce" => fresh.push(step.entry()),
            "replay_from" | "flush" | "restart" | "target" => {
                catch_up(stand, &mut fresh)?;
                if step.step == "target" {
                    stand.sql(step.sql.as_deref().ok_or("no SQL")?)?;
                }
                if step.step == "replay_from" {
                    let (topic, offset) = (step.topic.as_deref().ok_or("no topic")?, step.offset.ok_or("no offset")?);
                    stand.rewind(topic, step.partition.unwrap_or(0), offset);
                    match step.until {
                        Some(until) => {
                            let count = (until - offset + 1).to_string();
                            let ran = stand.run(&["--max-messages", &count]);
                            if ran.code != 0 {
                                return Err(format!("exit {}: {}", ran.code, ran.said));
                            }
                        }
                        None => drop(stand.run_to_end()?),
                    }
                }
            }
            "note" => {}
            other => return Err(format!("the step {other} needs a script of its own")),
        }
    }
    catch_up(stand, &mut fresh)
}

fn catch_up(stand: &mut Stand, fresh: &mut Vec<super::case::Entry>) -> Result<(), String> {
    if fresh.is_empty() {
        return Ok(());
    }
    stand.feed(fresh.drain(..));
    stand.run_to_end().map(drop)
}

/// The table's name at the destination.
pub fn target(case: &Case) -> &str {
    case.table.name.rsplit('.').next().unwrap_or(&case.table.name)
}

/// Holds the case's `rows` against its table; they are all that it has.
pub fn has_rows(stand: &Stand, case: &Case) -> Result<(), String> {
    same_rows(&case.expect["rows"], &stand.table(target(case)), &case.table.key, true)
}

/// Every cut of `entries` into runs must end in the same rows, and so must every size of batches.
pub fn every_cut(
    case: &Case,
    stand: impl Fn() -> Stand,
    entries: &[super::case::Entry],
    all: bool,
) -> Result<(), String> {
    for size in 1..=entries.len() {
        let mut stand = stand();
        stand.settings.batch = format!("max_rows = {size}");
        stand.configure();
        stand.feed(entries.to_vec());
        stand.run_to_end()?;
        has_rows(&stand, case).map_err(|why| format!("batches of {size}: {why}"))?;
    }
    let borders = entries.len() - 1;
    let cuts = (0_u32..1 << borders).filter(|cut| all || cut.count_ones() == 1);
    for cut in cuts {
        let mut stand = stand();
        stand.configure();
        stand.feed(entries.to_vec());
        let mut length = 1;
        for border in 0..borders {
            if cut & 1 << border == 0 {
                length += 1;
                continue;
            }
            let ran = stand.run(&["--max-messages", &length.to_string()]);
            if ran.code != 0 {
                return Err(format!("cut {cut:b}: exit {}: {}", ran.code, ran.said));
            }
            length = 1;
        }
        stand.run_to_end().map_err(|why| format!("cut {cut:b}: {why}"))?;
        has_rows(&stand, case).map_err(|why| format!("cut {cut:b}: {why}"))?;
    }
    Ok(())
}

/// The run must have stopped at a broken contract, with a message that holds all of `words`.
pub fn refused(ran: &Ran, words: &[&str]) -> Outcome {
    if ran.code != 5 {
        return Err(format!("exit {} where a refusal is wanted: {}", ran.code, ran.said));
    }
    for word in words {
        if !ran.said.contains(word) {
            return Err(format!("the refusal does not say {word}: {}", ran.said));
        }
    }
    Ok(Verdict::Refused(first_words(&ran.said)))
}

/// A shape that a later part reads: today it is refused by name, and nothing is stored or committed.
pub fn not_read_yet(stand: &mut Stand, case: &Case, part: u8, why: &str) -> Outcome {
    let entries = case.entries();
    let first = entries[0].clone();
    stand.configure();
    stand.feed(entries);
    let ran = stand.run(&["--until-end"]);
    refused(&ran, &[&format!("record {}:{}:{}", first.topic, first.partition, first.offset)])?;
    if stand.committed(&first.topic, first.partition).is_some_and(|offset| offset > first.offset) {
        return Err("the offset of a record that was not read was committed".to_owned());
    }
    if !stand.table(target(case)).is_empty() {
        return Err("rows are there though nothing was read".to_owned());
    }
    Ok(Verdict::Part(part, why.to_owned()))
}
