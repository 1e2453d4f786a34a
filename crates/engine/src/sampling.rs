//! What a sample of the topics says: for `settle check` and `settle ddl`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use settle_core::batch::{Batch, TableRows};
use settle_core::change::{Event, TableName};
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Fed, Lane, LoneTombstones};
use settle_core::position::{Offset, Partition};
use settle_core::record::Record;
use settle_core::refusal::Refusal;
use settle_core::schema::{Inferred, RowSchema, infer};

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
    let mut schemas: HashMap<Arc<TableName>, Option<Arc<RowSchema>>> = HashMap::new();
    let mut read: Vec<(Partition, Offset, Fed)> = Vec::new();
    let mut refusals = Vec::new();
    let mut topics: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for record in records {
        let (partition, offset) = (record.partition.clone(), record.offset);
        topics.entry(partition.topic.to_string()).or_default().insert(partition.number);
        // A sample starts anywhere: a tombstone may follow a delete that was not sampled.
        let lane = lanes
            .entry(partition.clone())
            .or_insert_with(|| Lane::new(partition.clone(), offset, &[], LoneTombstones::Skip));
        match lane.feed(record) {
            Ok(fed) => {
                if let Event::Change(change) = &fed.event {
                    let known = schemas.insert(change.table.clone(), change.schema.clone());
                    if known.is_some_and(|known| known != change.schema) {
                        // What came before says nothing of this table now.
                        read.retain(|(.., fed)| !is_change_of(&fed.event, &change.table));
                    }
                }
                read.push((partition, offset, fed));
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    for (partition, offset, Fed { event, floor, .. }) in read {
        refusals.extend(fold.push(&partition, offset, event, floor, 0).err());
    }
    let topics =
        topics.into_iter().map(|(topic, partitions)| (topic, i32::try_from(partitions.len()).unwrap_or(i32::MAX)));
    Sample { batch: fold.cut(), refusals, topics: topics.collect() }
}

fn is_change_of(event: &Event, table: &Arc<TableName>) -> bool {
    matches!(event, Event::Change(change) if change.table == *table)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(table: &str, offset: Offset, has_schema: bool) -> Record {
        let row = r#"{"type":"struct","field":"after","fields":[{"type":"int32","optional":false,"field":"id"}]}"#;
        let lsn = 10 + offset;
        let source = format!(
            r#"{{"connector":"postgresql","name":"s","db":"d","schema":"public","table":"{table}","ts_ms":0,"lsn":{lsn},"sequence":"[\"1\",\"{lsn}\"]"}}"#
        );
        let envelope = format!(r#"{{"op":"c","before":null,"after":{{"id":{offset}}},"source":{source}}}"#);
        let payload = match has_schema {
            true => format!(r#"{{"schema":{{"type":"struct","fields":[{row}]}},"payload":{envelope}}}"#),
            false => envelope,
        };
        Record {
            partition: Partition::new(table, 0),
            offset,
            timestamp_ms: None,
            key: Some(format!(r#"{{"id":{offset}}}"#).into()),
            payload: Some(payload.into()),
            headers: Vec::new(),
        }
    }

    #[test]
    fn a_table_whose_schema_changes_leaves_the_others_in_the_sample() {
        let sample = read(vec![
            record("steady", 0, false),
            record("changing", 1, false),
            record("changing", 2, true),
            record("steady", 3, false),
        ]);
        assert_eq!(sample.refusals.len(), 0, "{:?}", sample.refusals);
        let rows: Vec<(&str, usize)> =
            sample.batch.tables().map(|rows| (&*rows.table.name, rows.rows().len())).collect();
        assert_eq!(rows, [("changing", 1), ("steady", 2)]);
    }
}
