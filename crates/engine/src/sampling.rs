//! What a sample of the topics says of the tables: for `settle check` and `settle ddl`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use settle_core::change::{Change, Event, TableName};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::Partition;
use settle_core::record::Record;
use settle_core::refusal::Refusal;
use settle_core::schema::{Inferred, RowSchema, infer};

/// A table as the sampled records show it.
#[derive(Clone, Debug)]
pub struct SampledTable {
    /// Source table.
    pub table: TableName,
    /// Topic that carries it.
    pub topic: Arc<str>,
    /// Key columns, in the order of the message key.
    pub key: Vec<String>,
    /// The last Connect schema, where records carry one.
    pub schema: Option<Arc<RowSchema>>,
    /// Columns in the order of the last row; without a schema with the type of the values seen
    /// (none where only NULLs were).
    pub columns: Vec<(String, Option<Inferred>)>,
    /// Rows looked at.
    pub rows: usize,
}

/// The sampled tables, and the records that a run would stop at.
#[derive(Debug, Default)]
pub struct Sample {
    /// By source table.
    pub tables: BTreeMap<TableName, SampledTable>,
    /// Records that cannot be applied.
    pub refusals: Vec<Refusal>,
}

/// Reads the records as a run would.
pub fn read(records: Vec<Record>) -> Sample {
    let mut sample = Sample::default();
    let mut lanes: HashMap<Partition, Lane> = HashMap::new();
    for record in records {
        let partition = record.partition.clone();
        // A sample starts anywhere: a tombstone may follow a delete that was not sampled.
        let lane = lanes
            .entry(partition.clone())
            .or_insert_with(|| Lane::new(partition, record.offset, &[], LoneTombstones::Skip));
        match lane.feed(record) {
            Ok(fed) => {
                if let Event::Change(change) = fed.event {
                    note(&mut sample.tables, &change);
                }
            }
            Err(refusal) => sample.refusals.push(refusal),
        }
    }
    sample
}

fn note(tables: &mut BTreeMap<TableName, SampledTable>, change: &Change) {
    let sampled = tables.entry((*change.table).clone()).or_insert_with(|| SampledTable {
        table: (*change.table).clone(),
        topic: change.record.partition.topic.clone(),
        key: change.key.names().map(str::to_owned).collect(),
        schema: None,
        columns: Vec::new(),
        rows: 0,
    });
    sampled.rows += 1;
    if change.schema.is_some() {
        sampled.schema.clone_from(&change.schema);
    }
    for column in change.columns().iter().filter(|column| !column.is_unavailable()) {
        let seen = infer(column.json);
        match sampled.columns.iter_mut().find(|(name, _)| *name == column.name) {
            Some((_, known)) => *known = known.map_or(seen, |known| Some(seen.map_or(known, |seen| known.or(seen)))),
            None => sampled.columns.push((column.name.to_string(), seen)),
        }
    }
}
