//! Truncates against rows of other partitions, where a full snapshot has lifted the commit positions
//! of some: the recorded topic with the snapshot that a connector without its offsets takes behind it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use settle_core::record::Record;

use crate::support::capture::topic_of;
use crate::support::destination::{Destination, canonical};
use crate::support::line::settle;
use crate::support::sample::Placed;
use crate::support::schedule::{Seeded, interleaved};
use crate::support::table::Table;

const TABLE: &str = "public.order_items";
/// Behind everything that is recorded.
const SNAPSHOT_LSN: u64 = 1_000_000_000;

fn payload(record: &Record) -> Option<Value> {
    record.payload.as_deref().map(|payload| serde_json::from_slice(payload).unwrap())
}

fn op(record: &Record) -> Option<String> {
    payload(record).map(|payload| payload["op"].as_str().unwrap().to_owned())
}

/// The record as another operation at another position.
fn moved(record: &Record, op: &str, last_commit: Option<&str>, lsn: u64) -> Record {
    let mut payload = payload(record).unwrap();
    payload["op"] = json!(op);
    payload["source"]["lsn"] = json!(lsn);
    payload["source"]["sequence"] = json!(json!([last_commit, lsn.to_string()]).to_string());
    Record { payload: Some(payload.to_string().into_bytes().into()), ..record.clone() }
}

/// A log to which records are added at the ends of its partitions.
struct Log {
    records: Vec<Record>,
    next: BTreeMap<i32, i64>,
}

impl Log {
    fn recorded() -> Self {
        let records = topic_of("pg-hazards", "shop.public.order_items").records;
        let next = records.iter().map(|record| (record.partition.number, record.offset + 1)).collect();
        Self { records, next }
    }

    fn add(&mut self, record: Record, partition: i32) {
        let offset = self.next.get_mut(&partition).unwrap();
        self.records.push(record.at(partition, *offset));
        *offset += 1;
    }

    /// The last record of every row that the source has at the end.
    fn rows_at_the_end(&self) -> Vec<Record> {
        let mut destination = Destination::default();
        settle(&mut destination, &self.records, 1);
        let rows = destination.rows(TABLE);
        let is_row = |record: &&Record| {
            record.key.as_deref().is_some_and(|key| rows.contains_key(&*canonical(std::str::from_utf8(key).unwrap())))
        };
        let last: BTreeMap<_, _> = self.records.iter().filter(is_row).map(|r| (r.key.clone(), r.clone())).collect();
        last.into_values().collect()
    }
}

/// What is streamed comes again behind a snapshot that has rows on some of the partitions: the old
/// truncate removes neither them nor the rows of partitions without one.
fn sent_again() -> Log {
    let mut log = Log::recorded();
    let rows = log.rows_at_the_end();
    assert!(rows.iter().any(|row| row.partition.number != rows[0].partition.number), "on several partitions");
    for row in &rows {
        log.add(moved(row, "r", None, SNAPSHOT_LSN), row.partition.number);
    }
    let streamed: Vec<Record> = log.records.iter().filter(|r| op(r).as_deref() != Some("r")).cloned().collect();
    for record in streamed {
        log.add(record.clone(), record.partition.number);
    }
    log
}

#[track_caller]
fn each_order_ends(log: &Log, source: &Table, what: &str) {
    for seed in 0..50 {
        let mut seeded = Seeded::new(seed);
        let order = interleaved(&log.records, &mut seeded);
        let mut destination = Destination::default();
        settle(&mut destination, order, seeded.pick(&[1, 2, 7, 64]));
        assert_eq!(source.differences(&destination.rows(TABLE)), Vec::<String>::new(), "{what}, seed {seed}");
    }
}

#[test]
fn an_old_truncate_that_is_sent_again_behind_a_new_snapshot_removes_nothing() {
    let source = Table::expected("pg-hazards", "order_items");
    each_order_ends(&sent_again(), &source, "sent again");
    // The snapshot has rows on one partition alone, also on the truncate's.
    for lifted in 0..3 {
        let mut log = Log::recorded();
        let row = &log.rows_at_the_end()[0];
        log.add(moved(row, "r", None, SNAPSHOT_LSN), lifted);
        let again: Vec<Record> = log.records.iter().filter(|r| op(r).as_deref() == Some("t")).cloned().collect();
        assert_eq!(again.len(), 1);
        log.add(again[0].clone(), lifted);
        each_order_ends(&log, &source, &format!("a snapshot of partition {lifted}"));
    }
}

#[test]
fn a_truncate_on_any_partition_removes_the_rows_that_a_snapshot_lifted_on_others() {
    for partition in 0..3 {
        let mut log = sent_again();
        let truncate = log.records.iter().find(|r| op(r).as_deref() == Some("t")).unwrap();
        // The connector has streamed no commit since its snapshot but old ones.
        let truncate = moved(truncate, "t", Some("26520568"), SNAPSHOT_LSN + 10);
        log.add(truncate, partition);
        for seed in 0..50 {
            let mut seeded = Seeded::new(seed);
            let mut destination = Destination::default();
            settle(&mut destination, interleaved(&log.records, &mut seeded), seeded.pick(&[1, 2, 7, 64]));
            assert!(destination.rows(TABLE).is_empty(), "on {partition}, seed {seed}: {:?}", destination.rows(TABLE));
        }
    }
}
