//! `settle epoch`: where in the log a source's positions begin anew.

use std::path::Path;

use settle_core::epoch::Epoch;
use settle_core::position::Place;
use settle_engine::config::Config;
use settle_engine::epochs::{RecordedEpoch, recorded};
use settle_engine::inspection;
use settle_engine::log::LogPartition;

use crate::args::{EpochArgs, EpochCommand};
use crate::exit::{self, Exit, fail};

/// Runs one of its commands.
pub fn execute(path: &Path, args: &EpochArgs) -> Exit {
    exit::by_config(path, async |config| match &args.command {
        EpochCommand::Ls => list(&config).await,
        EpochCommand::Bump { begins, epoch } => bump(&config, begins, *epoch).await,
    })
}

async fn list(config: &Config) -> Exit {
    let epochs = match inspection::epochs(config).await {
        Ok(epochs) => epochs,
        Err(error) => return fail(exit::of_sink(&error), &error),
    };
    if epochs.is_empty() {
        println!("no epochs: all records are of the first log");
    }
    // One that was moved to an earlier place stands at both: the earlier is where it begins.
    let is_moved = |epoch: &&RecordedEpoch| epochs.iter().any(|other| begins_before(other, epoch));
    for RecordedEpoch { topic, topic_id, partition, boundary } in epochs.iter().filter(|epoch| !is_moved(epoch)) {
        println!("epoch {} begins at {topic}:{partition}:{}  (topic id {topic_id})", boundary.epoch, boundary.offset);
    }
    Exit::Done
}

/// Whether the same epoch of the same partition begins before that.
fn begins_before(other: &RecordedEpoch, epoch: &RecordedEpoch) -> bool {
    (other.topic_id, other.partition, other.boundary.epoch) == (epoch.topic_id, epoch.partition, epoch.boundary.epoch)
        && other.boundary.offset < epoch.boundary.offset
}

async fn bump(config: &Config, begins: &[Place], asked: Option<u64>) -> Exit {
    let asked = match asked.map(Epoch::new).transpose() {
        Ok(asked) => asked,
        Err(error) => return fail(Exit::Usage, &error),
    };
    let log = match inspection::survey(config).await {
        Ok(log) => log,
        Err(error) => return fail(exit::of_source(&error), &error),
    };
    let mut known = match inspection::epochs(config).await {
        Ok(known) => known,
        Err(error) => return fail(exit::of_sink(&error), &error),
    };
    let twice =
        begins.iter().enumerate().find(|(at, place)| begins[..*at].iter().any(|p| p.partition == place.partition));
    if let Some((_, Place { partition, .. })) = twice {
        eprintln!(
            "settle: {partition} is named twice: the new log begins at one offset of it; each further epoch is a command of \
             its own"
        );
        return Exit::Usage;
    }
    // All of them are checked before one is recorded.
    let mut new: Vec<(RecordedEpoch, &LogPartition)> = Vec::new();
    for Place { partition, offset } in begins {
        let Some(found) = log.iter().find(|found| found.partition == *partition) else {
            eprintln!("settle: {partition} is none of the partitions that [source] reads");
            return Exit::Usage;
        };
        let Some(topic_id) = found.topic_id else {
            eprintln!("settle: the broker gives no topic id for {}: Kafka 2.8 or newer is needed", partition.topic);
            return Exit::Contract;
        };
        if *offset > found.end {
            eprintln!("settle: {partition} ends at offset {}: an epoch cannot begin behind it, at {offset}", found.end);
            return Exit::Usage;
        }
        let boundary = match recorded(&known, &partition.topic, topic_id, partition.number).begin(*offset, asked) {
            Ok(boundary) => boundary,
            Err(error) => {
                eprintln!("settle: {partition}: {error}");
                return Exit::Contract;
            }
        };
        let topic = partition.topic.to_string();
        let epoch = RecordedEpoch { topic, topic_id, partition: partition.number, boundary };
        if !known.contains(&epoch) {
            known.push(epoch.clone());
        }
        new.push((epoch, found));
    }
    let epochs: Vec<RecordedEpoch> = new.iter().map(|(epoch, _)| epoch.clone()).collect();
    if let Err(error) = inspection::record_epochs(config, &epochs).await {
        return fail(exit::of_sink(&error), &error);
    }
    for (epoch, found) in &new {
        let boundary = epoch.boundary;
        let later = known.iter().find(|other| begins_before(epoch, other));
        let moved = later.map(|later| format!(", and not only at {}", later.boundary.offset)).unwrap_or_default();
        println!("epoch {} begins at {}:{}{moved}", boundary.epoch, found.partition, boundary.offset);
        if found.committed.is_some_and(|committed| committed > boundary.offset) {
            println!(
                "  the group has passed it: to apply what it counted as stale, {}",
                inspection::how_to_move(config, &found.partition, boundary.offset)
            );
        }
    }
    println!("start all instances again: a running one does not know of it");
    Exit::Done
}
