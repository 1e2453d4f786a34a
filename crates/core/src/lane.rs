//! One partition's line from record to versioned event. Fed in log order; no clock, no I/O.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::change::{Change, Control, Event, Lineage, Op, TableName, Truncate};
use crate::debezium::connect::SchemaCache;
use crate::debezium::envelope;
use crate::debezium::source::{Position, Snapshot, SourceBlock};
use crate::epoch::{Boundary, Epoch};
use crate::key::{Key, KeyError};
use crate::new_log::{Log, Mark, NewLogs, RUN_ID, Sighting};
use crate::position::{Offset, Partition, TopicId};
use crate::recognise::{Shape, recognise};
use crate::record::Record;
use crate::refusal::{Reason, Refusal, Refused};
use crate::resnapshot::Resnapshots;
use crate::row_order::{RowOrder, Streamed};
use crate::standing::{MAX_LINEAGES, Standing};
use crate::truncate::LogOrder;
use crate::version::{Floor, Version, Versioner};

/// Deleted keys that are remembered to tell a tombstone that follows its delete from one alone.
const REMEMBERED_DELETES: usize = 64;

/// What to do with a tombstone that follows no delete in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoneTombstones {
    /// Stop: it carries no position, so it cannot delete.
    #[default]
    Refuse,
    /// Count it as control. Rows that were deleted while nobody read, and whose delete event was
    /// compacted away, stay in the destination.
    Skip,
}

/// A record turned into an event, with the floor that it raised.
#[derive(Clone, Debug)]
pub struct Fed {
    /// What the record says.
    pub event: Event,
    /// A floor to be recorded before or with the event.
    pub floor: Option<Floor>,
    /// What the event says of a full snapshot of its table.
    pub full: FullRow,
}

/// What a row says of a full snapshot of its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullRow {
    /// It is the first row that this lane reads of a full snapshot that comes after streamed changes:
    /// the connector had lost its place, and the gap may have hidden deletes.
    pub begins: bool,
    /// It is the last row of its table in a full snapshot.
    pub last: bool,
}

impl Fed {
    fn control(control: Control) -> Self {
        Self { event: Event::Control(control), floor: None, full: FullRow::default() }
    }
}

/// What is known of a partition from before the first record that is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past<'a> {
    /// The floors recorded for it.
    pub floors: &'a [Floor],
    /// Where its epochs begin.
    pub boundaries: &'a [Boundary],
    /// What the records before say of new logs. Without it, detection starts anew.
    pub marks: &'a [Mark],
}

/// The state of one assigned partition.
#[derive(Debug)]
pub struct Lane {
    partition: Partition,
    next: Offset,
    versioner: Versioner,
    new_logs: NewLogs,
    row_order: RowOrder,
    resnapshots: Resnapshots,
    lone_tombstones: LoneTombstones,
    schemas: SchemaCache,
    table: Option<Arc<TableName>>,
    lineage: Option<Arc<Lineage>>,
    key: Option<Key>,
    deleted: VecDeque<Key>,
    /// Keys of refused records that were no keys, to the byte: their tombstones say nothing more.
    unreadable: VecDeque<Bytes>,
    started: bool,
}

impl Lane {
    /// A lane whose next record to read is at or behind `start`; `floors` are those recorded for
    /// the partition.
    pub fn new(partition: Partition, start: Offset, floors: &[Floor], lone_tombstones: LoneTombstones) -> Self {
        Self::behind(partition, start, Past { floors, ..Past::default() }, lone_tombstones)
    }

    /// A lane whose next record to read is at or behind `start`, with what is known from before.
    pub fn behind(partition: Partition, start: Offset, past: Past<'_>, lone_tombstones: LoneTombstones) -> Self {
        let versioner = Versioner::starting_at(start, past.floors, past.boundaries);
        // Marks are of the records before: where an epoch begins, they say nothing of those behind.
        let begins = versioner.epoch() > Epoch::FIRST && versioner.epoch_begin() == start;
        Self {
            versioner,
            new_logs: NewLogs::resume(if begins { &[] } else { past.marks }),
            row_order: RowOrder::default(),
            resnapshots: Resnapshots::default(),
            partition,
            next: start,
            lone_tombstones,
            schemas: SchemaCache::default(),
            table: None,
            lineage: None,
            key: None,
            deleted: VecDeque::new(),
            unreadable: VecDeque::new(),
            started: false,
        }
    }

    /// Its partition.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The next offset to read.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// The epoch of the last record taken, or of the start.
    pub fn epoch(&self) -> Epoch {
        self.versioner.epoch()
    }

    /// The greatest commit position taken of a lineage (P), as it stands in versions.
    pub fn passed(&self, lineage: &Lineage) -> Option<u64> {
        self.new_logs.passed(lineage)
    }

    /// What is to be kept with the offset when it is committed: the last record taken, or the place
    /// behind it. `partitions` is what the group knows of the topic's size.
    pub fn standing(&self, topic_id: TopicId, offset: Offset, partitions: u32) -> Standing {
        let epoch = if offset > self.versioner.epoch_begin() { self.epoch() } else { self.versioner.epoch_before() };
        let marks = self.new_logs.marks_before(offset, MAX_LINEAGES);
        Standing { topic_id, offset, partitions, epoch, marks }
    }

    /// Moves past the log's end where nothing is left but markers.
    pub fn pass(&mut self, end: Offset) {
        self.next = self.next.max(end);
    }

    /// True if a record of the partition was read whose key told its row.
    pub fn knows_keys(&self) -> bool {
        self.key.is_some()
    }

    /// Takes the next record. After a refusal the lane stands behind the record, too: whether to
    /// go on is the caller's.
    pub fn feed(&mut self, record: Record) -> Result<Fed, Refusal> {
        self.take_in(record).map_err(|refused| refused.refusal)
    }

    /// As [`Lane::feed`], but a refused record is given back, so that it can be set aside.
    pub fn take_in(&mut self, mut record: Record) -> Result<Fed, Box<Refused>> {
        let offset = record.offset;
        let read = if offset < self.next {
            Err(Reason::OffsetWentBack { last: self.next - 1, found: offset })
        } else {
            // What came before the first record was read by another run, or is not in the log any more.
            let has_unread_past = !self.started && offset > 0;
            self.started = true;
            if has_unread_past {
                self.row_order = RowOrder::within_the_log();
            }
            self.next = offset.saturating_add(1);
            if self.versioner.enter(offset) {
                self.new_logs.reset();
                self.resnapshots.begin_epoch();
            }
            self.read(&mut record, has_unread_past)
        };
        read.map_err(|reason| {
            let key = self.key(record.key.as_deref()).ok();
            Box::new(Refused { refusal: Refusal { place: record.place(), reason }, record, key })
        })
    }

    /// Takes the bytes out of the record where it becomes an event; a refused one stays whole.
    fn read(&mut self, record: &mut Record, has_unread_past: bool) -> Result<Fed, Reason> {
        let shape = match recognise(record) {
            Ok(shape) => shape,
            Err(reason) => {
                self.remember_possible_delete(record);
                return Err(reason);
            }
        };
        match shape {
            Shape::Control(control) => {
                if control == Control::Signal {
                    self.remember_possible_delete(record);
                }
                Ok(Fed::control(control))
            }
            Shape::NoValue => Ok(Fed::control(self.tombstone(record, has_unread_past)?)),
            Shape::Truncate { source } => {
                let (table, lineage) = (self.table(&source), self.lineage(&source));
                let (version, floor) = self.versioner.version(&source, &lineage, false, record.offset)?;
                self.look_for_new_log(record, &source, &lineage, version, true)?;
                let order = LogOrder::of(&source.position);
                let event =
                    Event::Truncate(Box::new(Truncate { record: record.take(), table, lineage, version, order }));
                Ok(Fed { event, floor, full: FullRow::default() })
            }
            Shape::Row { op, after, source, schema } => {
                let key = match self.key(record.key.as_deref()) {
                    Ok(key) => key,
                    Err(reason) => {
                        self.remember_possible_delete(record);
                        return Err(reason);
                    }
                };
                if op == Op::Delete {
                    remember(&mut self.deleted, key.clone());
                }
                let schema = schema.map(|text| self.schemas.row_of_envelope(text)).transpose()?;
                let after = range_in(after, record.payload.as_deref().unwrap_or_default());
                let old_key = record.header("__debezium.oldkey").and_then(|bytes| key_in_header(bytes, &key));
                let snapshot = op == Op::Read;
                let (table, lineage) = (self.table(&source), self.lineage(&source));
                let (version, floor) = self.versioner.version(&source, &lineage, snapshot, record.offset)?;
                if !snapshot || source.full_snapshot_form {
                    self.look_for_new_log(record, &source, &lineage, version, !snapshot)?;
                }
                if let Position::Binlog { file, pos, row } = source.position
                    && !snapshot
                {
                    let has_old_key = old_key.is_some();
                    let (key, after) = (&key, &after);
                    let next = Streamed { record, file, pos, row, op, key, after, has_old_key };
                    if !self.row_order.take(&next) {
                        return Err(Reason::PositionRepeats { file, pos, row });
                    }
                }
                let full = self.follow_snapshots(record, &source, &table, &lineage, snapshot);
                let may_tie = snapshot && !source.full_snapshot_form;
                let event = Event::Change(Box::new(Change {
                    record: record.take(),
                    table,
                    lineage,
                    key,
                    op,
                    version,
                    may_tie,
                    source_ts_ms: source.ts_ms,
                    schema,
                    after,
                    old_key,
                }));
                Ok(Fed { event, floor, full })
            }
        }
    }

    fn look_for_new_log(
        &mut self,
        record: &Record,
        source: &SourceBlock,
        lineage: &Arc<Lineage>,
        version: Version,
        streamed: bool,
    ) -> Result<(), Reason> {
        let log = match source.position {
            Position::Postgres { .. } => Log::Postgres,
            Position::Binlog { .. } => Log::Binlog,
        };
        let sighting = Sighting { record, version, time_ms: source.ts_ms, streamed, log };
        self.new_logs.look(lineage, sighting).map_err(|new_log| Reason::NewLog(Box::new(new_log)))
    }

    /// What the row says of a full snapshot that the connector took because it had lost its place. One
    /// that was asked for while it streamed (blocking) hides no gap, and may be filtered: on PostgreSQL
    /// its rows have a commit before them, elsewhere they name the server whose binlog is read. A task
    /// may have read nothing of it yet; then its run tells, where that streamed in this partition.
    ///
    /// An epoch is a log of its own: whatever the destination holds of the one before, its first
    /// snapshot may not name again.
    fn follow_snapshots(
        &mut self,
        record: &Record,
        source: &SourceBlock,
        table: &Arc<TableName>,
        lineage: &Lineage,
        snapshot: bool,
    ) -> FullRow {
        let run = record.header(RUN_ID).unwrap_or_default();
        if !snapshot {
            self.resnapshots.streamed(table, run);
            return FullRow::default();
        }
        let full = match source.position {
            Position::Postgres { .. } => source.full_snapshot_form,
            Position::Binlog { .. } => {
                matches!(source.snapshot, Snapshot::Full | Snapshot::FullLast)
                    && source.no_server
                    && !self.resnapshots.is_of_run(run)
            }
        };
        if !full {
            return FullRow::default();
        }
        let had_streamed = self.epoch() > Epoch::FIRST || self.new_logs.had_streamed(lineage);
        let begins = self.resnapshots.read(table, had_streamed);
        FullRow { begins, last: source.snapshot == Snapshot::FullLast }
    }

    fn key(&mut self, bytes: Option<&[u8]>) -> Result<Key, Reason> {
        let bytes = bytes.ok_or(KeyError::Missing)?;
        let text = std::str::from_utf8(bytes).map_err(|_| KeyError::NotAnObject("found no JSON".to_owned()))?;
        let text = envelope::unwrap(text);
        if text == "null" {
            return Err(KeyError::Missing.into());
        }
        let key = Key::parse(text, self.key.as_ref())?;
        self.key = Some(key.clone());
        Ok(key)
    }

    /// A record without a value: control where its delete came before it.
    fn tombstone(&mut self, record: &Record, has_unread_past: bool) -> Result<Control, Reason> {
        let Some(bytes) = &record.key else { return Ok(Control::Empty) };
        let key = match self.key(Some(bytes)) {
            Ok(key) => key,
            Err(_) if has_unread_past || self.unreadable.contains(bytes) => return Ok(Control::Tombstone),
            Err(reason) => return Err(reason),
        };
        let follows = has_unread_past || self.deleted.iter().rev().any(|deleted| *deleted == key);
        match self.lone_tombstones {
            LoneTombstones::Refuse if !follows => Err(Reason::LoneTombstone),
            _ => Ok(Control::Tombstone),
        }
    }

    /// A record that was refused, or concerned no row, may have been a delete: its tombstone says
    /// nothing new then.
    fn remember_possible_delete(&mut self, record: &Record) {
        let Some(bytes) = &record.key else { return };
        match self.key(Some(bytes)) {
            Ok(key) => remember(&mut self.deleted, key),
            Err(_) => remember(&mut self.unreadable, bytes.clone()),
        }
    }

    fn table(&mut self, source: &SourceBlock) -> Arc<TableName> {
        match &self.table {
            Some(known) if *known.namespace == *source.namespace && *known.name == *source.table => known.clone(),
            _ => {
                let table = Arc::new(TableName {
                    namespace: source.namespace.as_str().into(),
                    name: source.table.as_str().into(),
                });
                self.table.insert(table).clone()
            }
        }
    }

    fn lineage(&mut self, source: &SourceBlock) -> Arc<Lineage> {
        match &self.lineage {
            Some(known) if *known.source == *source.name && *known.database == *source.database => known.clone(),
            _ => {
                let lineage = Arc::new(Lineage {
                    source: source.name.as_str().into(),
                    database: source.database.as_str().into(),
                });
                self.lineage.insert(lineage).clone()
            }
        }
    }
}

/// Keeps the last ones.
fn remember<T>(known: &mut VecDeque<T>, another: T) {
    if known.len() == REMEMBERED_DELETES {
        known.pop_front();
    }
    known.push_back(another);
}

/// A key in a header. It only helps to find a stored value, so one that is not readable is none.
fn key_in_header(bytes: &[u8], known: &Key) -> Option<Key> {
    let text = std::str::from_utf8(bytes).ok()?;
    Key::parse(envelope::unwrap(text), Some(known)).ok()
}

/// Where `part`, a slice of `whole`, lies in it.
fn range_in(part: Option<&str>, whole: &[u8]) -> std::ops::Range<usize> {
    let Some(part) = part else { return 0..0 };
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

#[cfg(test)]
mod tests;
