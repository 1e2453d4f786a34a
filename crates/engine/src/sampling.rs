//! What a sample of the topics says: for `settle check` and `settle ddl`.

mod seen;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use settle_core::batch::{Batch, TableRows};
use settle_core::change::{Event, TableName};
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Fed, Lane, LoneTombstones, Past};
use settle_core::position::{Offset, Partition, Place};
use settle_core::record::Record;
use settle_core::refusal::{Refusal, Refused};
use settle_core::schema::{Inferred, RowSchema, infer};
use settle_core::sink::Places;

pub use seen::Seen;

use crate::config::Target;
use crate::run::Owners;
use crate::source::{Assignment, SourceError};

/// The sampled records as a run would see them.
#[derive(Debug)]
pub struct Sample {
    /// Their rows, folded.
    pub batch: Batch,
    /// The rows that carry all of their columns, folded: what may be tried against a destination,
    /// which need not hold yet what the others leave out.
    pub complete: Batch,
    /// Records that a run would stop at.
    pub refusals: Vec<Refusal>,
    /// Of them, those that alone are at fault: a run with a `[dlq]` sets them aside.
    pub poison: BTreeSet<Place>,
    /// Origins that a run would refuse beside the one that their table has.
    pub conflicts: Vec<SourceError>,
    /// Topics that were looked into, with their number of partitions.
    pub topics: Vec<(String, i32)>,
    /// What the records of each topic say beside their rows.
    pub seen: BTreeMap<Arc<str>, Seen>,
}

impl Sample {
    /// The columns that were not sent with every change, by table.
    pub fn unavailable(&self) -> BTreeMap<Arc<TableName>, Vec<&str>> {
        let mut columns: BTreeMap<Arc<TableName>, Vec<&str>> = BTreeMap::new();
        for (table, column) in self.seen.values().flat_map(|seen| &seen.unavailable) {
            columns.entry(table.clone()).or_default().push(column);
        }
        columns
    }
}

/// Reads the records as a run would, but goes on behind what it would stop at.
pub fn read(records: Vec<Record>) -> Sample {
    // A sample starts anywhere: a tombstone may follow a delete that was not sampled.
    let lone_tombstones = LoneTombstones::Skip;
    read_into(
        records,
        &Outset { target: &Target::default(), lone_tombstones, assignments: &[], places: &Places::default() },
    )
}

/// What a run knows before its first record.
#[derive(Clone, Copy, Debug)]
pub struct Outset<'a> {
    /// The rules: they say which origins would meet in one table.
    pub target: &'a Target,
    /// Tombstones that follow no delete.
    pub lone_tombstones: LoneTombstones,
    /// Where it begins.
    pub assignments: &'a [Assignment],
    /// What the destination knows of those places.
    pub places: &'a Places,
}

impl Outset<'_> {
    /// The lane of a partition from where the run begins in it.
    fn lane(&self, assignment: &Assignment) -> Lane {
        let Assignment { partition, topic_id, start, standing, .. } = assignment;
        let floors = topic_id.map(|id| self.places.floors_of(id, partition)).unwrap_or_default();
        let boundaries = topic_id.map(|id| self.places.epochs_of(id, partition)).unwrap_or_default();
        let marks = standing.as_ref().map(|standing| standing.marks.as_slice()).unwrap_or_default();
        let past = Past { floors: &floors, boundaries: &boundaries, marks };
        Lane::behind(partition.clone(), *start, past, self.lone_tombstones)
    }
}

/// The same for a run that begins so. Records from before its beginning are read by themselves. Only
/// the first origin of a table stays in the sample.
pub fn read_into(records: Vec<Record>, outset: &Outset<'_>) -> Sample {
    let mut ahead: HashMap<&Partition, &Assignment> =
        outset.assignments.iter().map(|assignment| (&assignment.partition, assignment)).collect();
    let mut lanes: HashMap<Partition, Lane> = HashMap::new();
    let mut schemas: HashMap<Arc<TableName>, Option<Arc<RowSchema>>> = HashMap::new();
    let mut read: Vec<(Partition, Offset, Fed)> = Vec::new();
    let mut refused: Vec<Box<Refused>> = Vec::new();
    let mut topics: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    let mut seen: BTreeMap<Arc<str>, Seen> = BTreeMap::new();
    let mut origins = Origins::new(outset.target);
    for record in records {
        let (partition, offset) = (record.partition.clone(), record.offset);
        topics.entry(partition.topic.to_string()).or_default().insert(partition.number);
        let of_topic = seen.entry(partition.topic.clone()).or_default();
        of_topic.records += 1;
        if ahead.get(&partition).is_some_and(|assignment| assignment.start <= offset)
            && let Some(assignment) = ahead.remove(&partition)
        {
            lanes.insert(partition.clone(), outset.lane(assignment));
        }
        let lane = lanes
            .entry(partition.clone())
            .or_insert_with(|| Lane::new(partition.clone(), offset, &[], outset.lone_tombstones));
        // The lane takes what it has no use for out of the record.
        let payload = record.payload.clone();
        match lane.take_in(record) {
            Ok(fed) => {
                of_topic.take(&partition, &fed.event, payload.as_deref());
                if !origins.admit(&fed.event) {
                    continue;
                }
                if let Event::Change(change) = &fed.event {
                    let known = schemas.insert(change.table.clone(), change.schema.clone());
                    if known.is_some_and(|known| known != change.schema) {
                        // What came before says nothing of this table now.
                        read.retain(|(.., fed)| !is_change_of(&fed.event, &change.table));
                    }
                }
                read.push((partition, offset, fed));
            }
            Err(refusal) => refused.push(refusal),
        }
    }
    let mut refusals: Vec<Refusal> = refused.iter().map(|refused| refused.refusal.clone()).collect();
    let resumed = |topic: &Arc<str>| outset.assignments.iter().any(|a| a.resumed && a.partition.topic == *topic);
    let keyed = |topic: &Arc<str>| {
        resumed(topic) || lanes.iter().any(|(other, lane)| other.topic == *topic && lane.knows_keys())
    };
    let alone = refused.into_iter().filter_map(|refused| {
        let keyed = keyed(&refused.record.partition.topic);
        refused.into_dead_letter(keyed).ok().map(|letter| letter.record.place())
    });
    let poison = alone.collect();
    let limits = Limits { max_rows: usize::MAX, max_bytes: usize::MAX, max_age_ms: u64::MAX };
    let (mut fold, mut complete) = (Fold::new(limits), Fold::new(limits));
    for (partition, offset, Fed { event, floor, .. }) in read {
        if carries_all(&event) {
            // Refused again below, where it counts.
            let _ = complete.push(&partition, offset, event.clone(), floor.clone(), 0);
        }
        refusals.extend(fold.push(&partition, offset, event, floor, 0).err());
    }
    let topics =
        topics.into_iter().map(|(topic, partitions)| (topic, i32::try_from(partitions.len()).unwrap_or(i32::MAX)));
    Sample {
        batch: fold.cut(),
        complete: complete.cut(),
        refusals,
        poison,
        conflicts: origins.conflicts,
        topics: topics.collect(),
        seen,
    }
}

/// Which origins may write, by the rules that a run goes by.
struct Origins {
    owners: Owners,
    conflicts: Vec<SourceError>,
    /// Said once each.
    told: BTreeSet<(Arc<TableName>, Arc<str>)>,
}

impl Origins {
    fn new(target: &Target) -> Self {
        Self { owners: Owners::new(target.clone()), conflicts: Vec::new(), told: BTreeSet::new() }
    }

    fn admit(&mut self, event: &Event) -> bool {
        let Err(conflict) = self.owners.check(event) else { return true };
        let origin = match event {
            Event::Change(change) => (change.table.clone(), change.record.partition.topic.clone()),
            Event::Truncate(truncate) => (truncate.table.clone(), truncate.record.partition.topic.clone()),
            Event::Control(_) => return true,
        };
        if self.told.insert(origin) {
            self.conflicts.push(conflict);
        }
        false
    }
}

/// True unless a value was left out, which a destination would have to know.
fn carries_all(event: &Event) -> bool {
    match event {
        Event::Change(change) => change.is_whole(),
        Event::Truncate(_) | Event::Control(_) => true,
    }
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
