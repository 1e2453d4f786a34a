//! What a sample of the topics says: for `settle check` and `settle ddl`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use settle_core::batch::{Batch, TableRows};
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::Partition;
use settle_core::record::Record;
use settle_core::refusal::Refusal;
use settle_core::schema::{Inferred, infer};

/// The sampled records as a run would see them.
#[derive(Debug)]
pub struct Sample {
    /// Their rows, folded.
    pub batch: Batch,
    /// Records that a run would stop at.
    pub refusals: Vec<Refusal>,
    /// Topics that were looked into, with their number of partitions.
    pub topics: Vec<(String, i32)>,
}

/// Reads the records as a run would, but goes on behind what it would stop at.
pub fn read(records: Vec<Record>) -> Sample {
    let limits = Limits { max_rows: usize::MAX, max_bytes: usize::MAX, max_age_ms: u64::MAX };
    let mut fold = Fold::new(limits);
    let mut lanes: HashMap<Partition, Lane> = HashMap::new();
    let mut refusals = Vec::new();
    let mut topics: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for record in records {
        let (partition, offset) = (record.partition.clone(), record.offset);
        topics.entry(partition.topic.to_string()).or_default().insert(partition.number);
        // A sample starts anywhere: a tombstone may follow a delete that was not sampled.
        let lane = lanes
            .entry(partition.clone())
            .or_insert_with(|| Lane::new(partition.clone(), offset, &[], LoneTombstones::Skip));
        let read = lane.feed(record).and_then(|fed| {
            if fold.must_cut_before(&fed.event) {
                // The table's schema changed: what came before it says nothing of the table now.
                drop(fold.cut());
            }
            fold.push(&partition, offset, fed.event, fed.floor, 0)
        });
        refusals.extend(read.err());
    }
    let topics =
        topics.into_iter().map(|(topic, partitions)| (topic, i32::try_from(partitions.len()).unwrap_or(i32::MAX)));
    Sample { batch: fold.cut(), refusals, topics: topics.collect() }
}

/// The columns of a table as its rows show them, each with the type of the values seen; none where
/// only NULLs were.
pub fn seen(rows: TableRows<'_>) -> Vec<(String, Option<Inferred>)> {
    let mut columns: Vec<(String, Option<Inferred>)> = Vec::new();
    for row in rows.rows() {
        for column in row.columns().iter().filter(|column| !column.is_unavailable()) {
            let seen = infer(column.json);
            match columns.iter_mut().find(|(name, _)| *name == column.name) {
                Some((_, known)) => {
                    *known = known.map_or(seen, |known| Some(seen.map_or(known, |seen| known.or(seen))))
                }
                None => columns.push((column.name.to_string(), seen)),
            }
        }
    }
    columns
}
