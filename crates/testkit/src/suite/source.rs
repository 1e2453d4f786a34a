//! A source database with its connector: what is done to its tables, and the records that come of it.
//!
//! Every change is a transaction of its own unless several are done in [`Source::transaction`]. Positions are those
//! that Debezium writes: on PostgreSQL an event carries its own lsn and the commit before its transaction; on MariaDB
//! file, position and row. Each record is kept beside what it means: its version, as the lane of its partition gives
//! it, and the whole row, whatever of it was sent.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use settle_core::change::{Event, TableName};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::{Partition, TopicId};
use settle_core::record::{Header, Record};
use settle_core::sink::PlacedPartition;
use settle_core::truncate::Cut;
use settle_core::version::Version;

use super::event::{At, UNSENT, envelope, key_json, row_json, with_schema};
use super::table::{Column, Row, RowKey, Table};

/// Whose positions the records carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Postgres,
    MariaDb,
}

/// How much of a row a change sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Whole,
    /// Texts that did not change are left out.
    Masked,
}

/// A record, and what it means.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) record: Record,
    pub(super) meaning: Meaning,
    /// It is the second half of a masked key change: it needs the record before it in its batch.
    pub(super) needs_other_half: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Meaning {
    /// A row is this from now on; none for a delete.
    Row { table: usize, key: RowKey, version: Version, row: Option<Row> },
    /// A table was emptied.
    Truncate { table: usize, cut: Cut },
    /// It concerns no row, or cannot be read.
    Nothing,
}

/// One table at the source.
struct Held {
    table: Table,
    topic: String,
    rows: BTreeMap<RowKey, Row>,
    lanes: Vec<Lane>,
}

pub(super) struct Source {
    engine: Engine,
    partitions: i32,
    clock: u64,
    last_commit: Option<u64>,
    /// Of the last change: its own position, and the commit before it.
    last_lsn: u64,
    before_last: Option<u64>,
    /// The last commit when the last full snapshot was taken.
    before_snapshot: Option<u64>,
    /// Rows of the open transaction so far.
    open: Option<u64>,
    tables: Vec<Held>,
    log: Vec<Written>,
    /// Records carry their Connect schema.
    pub(super) with_schemas: bool,
    /// `source.name` of the records.
    pub(super) server: String,
}

impl Source {
    /// An empty database with these tables, whose topics have three partitions: rows go by the first number of
    /// their key.
    pub(super) fn new(engine: Engine, tables: impl IntoIterator<Item = Table>) -> Self {
        let mut source = Self {
            engine,
            partitions: 3,
            clock: 100,
            last_commit: None,
            last_lsn: 0,
            before_last: None,
            before_snapshot: None,
            open: None,
            tables: Vec::new(),
            log: Vec::new(),
            with_schemas: true,
            server: "srv".into(),
        };
        tables.into_iter().for_each(|table| source.add_table(table));
        source.last_commit = Some(source.tick());
        source
    }

    pub(super) fn add_table(&mut self, table: Table) {
        let topic = format!("srv.public.{}", table.name);
        let lane = |n| Lane::new(Partition::new(topic.as_str(), n), 0, &[], LoneTombstones::Skip);
        let lanes = (0..self.partitions).map(lane).collect();
        self.tables.push(Held { table, topic, rows: BTreeMap::new(), lanes });
    }

    /// The source's tables.
    pub(super) fn tables(&self) -> Vec<Table> {
        self.tables.iter().map(|held| held.table.clone()).collect()
    }

    pub(super) fn table(&self, table: usize) -> &Table {
        &self.tables[table].table
    }

    /// The name of a table as its records give it.
    pub(super) fn name(&self, table: usize) -> TableName {
        TableName { namespace: "public".into(), name: self.tables[table].table.name.as_str().into() }
    }

    /// The rows that it holds.
    pub(super) fn rows(&self, table: usize) -> &BTreeMap<RowKey, Row> {
        &self.tables[table].rows
    }

    /// Every partition of its topics.
    pub(super) fn partitions(&self) -> Vec<PlacedPartition> {
        (0..self.tables.len())
            .flat_map(|table| (0..self.partitions).map(move |n| (table, n)))
            .map(|(table, n)| self.partition(table, n))
            .collect()
    }

    /// One partition of a table's topic.
    pub(super) fn partition(&self, table: usize, number: i32) -> PlacedPartition {
        let topic = self.tables[table].topic.as_str();
        PlacedPartition { topic_id: TopicId::of_first_line(topic, b"first"), partition: Partition::new(topic, number) }
    }

    /// Everything written so far, in the order of the source.
    pub(super) fn log(&self) -> &[Written] {
        &self.log
    }

    /// Several changes that are committed at once.
    pub(super) fn transaction(&mut self, work: impl FnOnce(&mut Self)) {
        self.begin();
        work(self);
        self.end_transaction();
    }

    /// What comes now is committed at once.
    pub(super) fn begin(&mut self) {
        self.open = Some(0);
    }

    pub(super) fn end_transaction(&mut self) {
        self.open = None;
        self.commit();
    }

    pub(super) fn insert(&mut self, table: usize, row: Value) -> usize {
        let row = object(row);
        let key = self.tables[table].table.key_of(&row);
        let taken = self.tables[table].rows.insert(key, row.clone());
        assert!(taken.is_none(), "a key that is not free: {row:?}");
        let at = self.position();
        self.write_row(table, "c", at, &row, &row, &[])
    }

    /// Changes columns of a row. What is left out when it is masked are texts that are not among them.
    pub(super) fn update(&mut self, table: usize, changes: Value, sent: Sent) -> usize {
        let changes = object(changes);
        let held = &mut self.tables[table];
        let key = held.table.key_of(&changes);
        let row = held.rows.get_mut(&key).expect("a row that is there");
        row.extend(changes.clone());
        let row = row.clone();
        let sent = match sent {
            Sent::Whole => row.clone(),
            Sent::Masked => self.masked(&row, &changes),
        };
        let at = self.position();
        self.write_row(table, "u", at, &row, &sent, &[])
    }

    /// Deletes the row with this key.
    pub(super) fn delete(&mut self, table: usize, key: Value) -> usize {
        let row = self.take(table, &object(key));
        let at = self.position();
        self.write_delete(table, at, &row, &[])
    }

    /// Deletes a row that no record had mentioned.
    pub(super) fn delete_unknown(&mut self, table: usize, key: Value) -> usize {
        let at = self.position();
        self.write_delete(table, at, &object(key), &[])
    }

    /// Gives a row another key: a delete and an insert at one position. Says where both are.
    pub(super) fn rename(&mut self, table: usize, from: Value, to: Value, sent: Sent) -> [usize; 2] {
        let (from, to) = (object(from), object(to));
        let old = self.take(table, &from);
        let mut row = old.clone();
        row.extend(to.clone());
        let key = self.tables[table].table.key_of(&row);
        let taken = self.tables[table].rows.insert(key, row.clone());
        assert!(taken.is_none(), "a key that is not free: {row:?}");
        let sent_row = match sent {
            Sent::Whole => row.clone(),
            Sent::Masked => self.masked(&row, &to),
        };
        let at = self.position();
        let delete = self.write_delete(table, at, &old, &[("__debezium.newkey", self.key_json(table, &row))]);
        let create =
            self.write_row(table, "c", at, &row, &sent_row, &[("__debezium.oldkey", self.key_json(table, &old))]);
        self.log[create].needs_other_half = sent_row != row;
        [delete, create]
    }

    /// Empties a table; the record comes on this partition.
    pub(super) fn truncate(&mut self, table: usize, partition: i32) -> usize {
        self.tables[table].rows.clear();
        let at = self.position();
        let envelope = self.envelope(table, "t", at, "null", None);
        self.append(table, partition, None, Some(envelope), &[], None)
    }

    /// The same by a connector that says the commit before its last full snapshot as the one before it.
    pub(super) fn truncate_behind_a_snapshot(&mut self, table: usize, partition: i32) -> usize {
        self.last_commit = self.before_snapshot;
        self.truncate(table, partition)
    }

    /// The connector lost its place and takes a full snapshot of the table. Streamed changes behind it wait for
    /// the first commit again.
    pub(super) fn snapshot(&mut self, table: usize) -> std::ops::Range<usize> {
        let now = self.tick();
        self.before_snapshot = self.last_commit;
        let rows: Vec<Row> = self.tables[table].rows.values().cloned().collect();
        let start = self.log.len();
        for (n, row) in rows.iter().enumerate() {
            let mark = if n + 1 == rows.len() { "last" } else { "true" };
            let at = match self.engine {
                Engine::Postgres => At::Postgres { last_commit: None, lsn: now },
                Engine::MariaDb => At::MariaDb { pos: now, row: 0 },
            };
            self.write_read(table, at, row, mark);
        }
        self.last_commit = None;
        start..self.log.len()
    }

    /// The same, but it reads this one row, which no record had mentioned.
    pub(super) fn snapshot_of(&mut self, table: usize, row: Value) -> usize {
        let row = object(row);
        let key = self.tables[table].table.key_of(&row);
        self.tables[table].rows.insert(key, row.clone());
        let at = At::Postgres { last_commit: None, lsn: self.tick() };
        self.write_read(table, at, &row, "last");
        self.last_commit = None;
        self.log.len() - 1
    }

    /// Rows are read again by an incremental snapshot.
    pub(super) fn read_again(&mut self, table: usize) -> std::ops::Range<usize> {
        let now = self.tick();
        let rows: Vec<Row> = self.tables[table].rows.values().cloned().collect();
        let start = self.log.len();
        for row in &rows {
            let at = match self.engine {
                Engine::Postgres => At::Postgres { last_commit: self.last_commit, lsn: now },
                Engine::MariaDb => At::MariaDb { pos: now, row: 0 },
            };
            self.write_read(table, at, row, "incremental");
        }
        start..self.log.len()
    }

    /// The connector died, and sends these records once more, behind what is there.
    pub(super) fn send_again(&mut self, records: std::ops::Range<usize>) -> std::ops::Range<usize> {
        let start = self.log.len();
        for at in records {
            let Written { record, meaning, needs_other_half } = self.log[at].clone();
            let table =
                self.tables.iter().position(|held| *held.topic == *record.partition.topic).expect("a topic of it");
            let row = match meaning {
                Meaning::Row { row, .. } => row,
                Meaning::Truncate { .. } | Meaning::Nothing => None,
            };
            let sent = self.push(table, record, row);
            self.log[sent].needs_other_half = needs_other_half;
        }
        start..self.log.len()
    }

    /// Writes something that cannot be read, under the key of a row.
    pub(super) fn garbage(&mut self, table: usize, key: Value) -> usize {
        let key = object(key);
        let partition = self.partition_of(table, &key);
        let key = self.key_json(table, &key);
        self.append(table, partition, Some(key), Some("{\"op\":".to_owned()), &[], None)
    }

    /// Writes another update of the row at the position of the last change: what no source should do.
    pub(super) fn repeat_position(&mut self, table: usize, row: Value) -> usize {
        let row = object(row);
        let at = At::Postgres { last_commit: self.before_last, lsn: self.last_lsn };
        self.write_row(table, "u", at, &row, &row, &[])
    }

    /// A row goes, and the connector does not see it.
    pub(super) fn delete_unseen(&mut self, table: usize, key: Value) {
        self.take(table, &object(key));
    }

    /// Writes a tombstone, as a connector does behind each delete.
    pub(super) fn tombstone(&mut self, table: usize, key: Value) -> usize {
        let key = object(key);
        let partition = self.partition_of(table, &key);
        let key = self.key_json(table, &key);
        self.append(table, partition, Some(key), None, &[], None)
    }

    /// Adds a column to a table; it is NULL in the rows that are there.
    pub(super) fn add_column(&mut self, table: usize, column: Column) {
        self.tables[table].table.columns.push(column);
    }

    /// The next positions are at or above this.
    pub(super) fn jump(&mut self, position: u64) {
        self.clock = self.clock.max(position);
    }

    fn masked(&self, row: &Row, changed: &Row) -> Row {
        assert_eq!(self.engine, Engine::Postgres, "MariaDB sends whole rows");
        let mask = |(name, value): (&String, &Value)| {
            let is_sent = changed.contains_key(name) || !value.is_string();
            (name.clone(), if is_sent { value.clone() } else { UNSENT.into() })
        };
        row.iter().map(mask).collect()
    }

    fn take(&mut self, table: usize, key: &Row) -> Row {
        let held = &mut self.tables[table];
        held.rows.remove(&held.table.key_of(key)).expect("a row that is there")
    }

    fn tick(&mut self) -> u64 {
        self.clock += 10;
        self.clock
    }

    /// The place of the next change, which is its own transaction unless one is open.
    fn position(&mut self) -> At {
        let row = self.open;
        self.open = row.map(|rows| rows + 1);
        match self.engine {
            Engine::Postgres => {
                (self.before_last, self.last_lsn) = (self.last_commit, self.tick());
                let at = At::Postgres { last_commit: self.before_last, lsn: self.last_lsn };
                if row.is_none() {
                    self.commit();
                }
                at
            }
            Engine::MariaDb => {
                let pos = if row.unwrap_or(0) == 0 { self.tick() } else { self.clock };
                At::MariaDb { pos, row: row.unwrap_or(0) }
            }
        }
    }

    fn commit(&mut self) {
        self.last_commit = Some(self.tick());
    }

    fn write_row(
        &mut self,
        table: usize,
        op: &str,
        at: At,
        row: &Row,
        sent: &Row,
        headers: &[(&str, String)],
    ) -> usize {
        let after = row_json(&self.tables[table].table, sent);
        let envelope = self.envelope(table, op, at, &after, None);
        let partition = self.partition_of(table, row);
        let key = self.key_json(table, row);
        self.append(table, partition, Some(key), Some(envelope), headers, Some(row.clone()))
    }

    fn write_read(&mut self, table: usize, at: At, row: &Row, mark: &str) {
        let after = row_json(&self.tables[table].table, row);
        let envelope = self.envelope(table, "r", at, &after, Some(mark));
        let partition = self.partition_of(table, row);
        let key = self.key_json(table, row);
        self.append(table, partition, Some(key), Some(envelope), &[], Some(row.clone()));
    }

    fn write_delete(&mut self, table: usize, at: At, row: &Row, headers: &[(&str, String)]) -> usize {
        let envelope = self.envelope(table, "d", at, "null", None);
        let partition = self.partition_of(table, row);
        let key = self.key_json(table, row);
        self.append(table, partition, Some(key), Some(envelope), headers, None)
    }

    fn partition_of(&self, table: usize, row: &Row) -> i32 {
        let number = |value: &Value| value.as_i64();
        let id = self.tables[table].table.key().find_map(|column| number(&row[&column.name])).unwrap_or(0);
        i32::try_from(id.rem_euclid(i64::from(self.partitions))).expect("a small number")
    }

    fn key_json(&self, table: usize, row: &Row) -> String {
        key_json(&self.tables[table].table, row)
    }

    fn envelope(&self, table: usize, op: &str, at: At, after: &str, snapshot: Option<&str>) -> String {
        let table = &self.tables[table].table;
        let envelope = envelope(table, &self.server, op, at, after, snapshot.unwrap_or("false"));
        if self.with_schemas { with_schema(table, &envelope) } else { envelope }
    }

    fn append(
        &mut self,
        table: usize,
        partition: i32,
        key: Option<String>,
        payload: Option<String>,
        headers: &[(&str, String)],
        row: Option<Row>,
    ) -> usize {
        let header = |(name, value): &(&str, String)| Header {
            name: (*name).into(),
            value: Some(Bytes::from(value.clone().into_bytes())),
        };
        let record = Record {
            partition: self.partition(table, partition).partition,
            offset: 0,
            timestamp_ms: None,
            key: key.map(|key| key.into_bytes().into()),
            payload: payload.map(|payload| payload.into_bytes().into()),
            headers: headers.iter().map(header).collect(),
        };
        self.push(table, record, row)
    }

    /// Puts a record behind the others of its partition.
    fn push(&mut self, table: usize, mut record: Record, row: Option<Row>) -> usize {
        let held = &mut self.tables[table];
        let lane = &mut held.lanes[usize::try_from(record.partition.number).expect("not negative")];
        record.offset = lane.next();
        let meaning = match lane.take_in(record.clone()).map(|fed| fed.event) {
            Ok(Event::Change(change)) => {
                let key: Row = serde_json::from_str(&change.key.to_json()).expect("a key of JSON");
                Meaning::Row { table, key: held.table.key_of(&key), version: change.version, row }
            }
            Ok(Event::Truncate(truncate)) => Meaning::Truncate { table, cut: truncate.cut() },
            Ok(Event::Control(_)) => Meaning::Nothing,
            Err(refused) => {
                let is_poison = refused.into_dead_letter(true).is_ok();
                assert!(is_poison, "the source wrote what no run may pass");
                Meaning::Nothing
            }
        };
        self.log.push(Written { record, meaning, needs_other_half: false });
        self.log.len() - 1
    }
}

fn object(value: Value) -> Row {
    match value {
        Value::Object(row) => row,
        other => panic!("no row: {other}"),
    }
}
