//! What a sample of the topics says: for `settle check` and `settle ddl`.

use std::collections::HashMap;

use settle_core::batch::Batch;
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::Partition;
use settle_core::record::Record;
use settle_core::refusal::Refusal;

/// The sampled records as a run would see them.
#[derive(Debug)]
pub struct Sample {
    /// Their rows, folded.
    pub batch: Batch,
    /// Records that a run would stop at.
    pub refusals: Vec<Refusal>,
}

/// Reads the records as a run would, but goes on behind what it would stop at.
pub fn read(records: Vec<Record>) -> Sample {
    let limits = Limits { max_rows: usize::MAX, max_bytes: usize::MAX, max_age_ms: u64::MAX };
    let mut fold = Fold::new(limits);
    let mut lanes: HashMap<Partition, Lane> = HashMap::new();
    let mut refusals = Vec::new();
    for record in records {
        let (partition, offset) = (record.partition.clone(), record.offset);
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
    Sample { batch: fold.cut(), refusals }
}
