//! Full snapshots that hide a gap are told from those that do not, over the recorded topics.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use settle_core::epoch::{Boundary, Epoch};
use settle_core::lane::{Lane, LoneTombstones, Past};
use settle_core::position::{Offset, TopicId};
use settle_core::record::{Header, Record};
use settle_core::standing::Standing;

use crate::support::capture;

type At = (i32, Offset);

/// Offsets of rows that are told to begin a snapshot behind a gap, and of rows told to be the last of
/// one.
fn told(records: &[Record]) -> (Vec<At>, Vec<At>) {
    let mut lanes: BTreeMap<i32, Lane> = BTreeMap::new();
    let (mut begin, mut last) = (Vec::new(), Vec::new());
    for record in records {
        let at = (record.partition.number, record.offset);
        let new = || Lane::new(record.partition.clone(), 0, &[], LoneTombstones::Refuse);
        if let Ok(fed) = lanes.entry(at.0).or_insert_with(new).feed(record.clone()) {
            begin.extend(fed.full.begins.then_some(at));
            last.extend(fed.full.last.then_some(at));
        }
    }
    (begin, last)
}

/// As above, but each record is read by a run of its own, which knows what the one before left.
fn told_by_one_run_a_record(records: &[Record]) -> (BTreeSet<At>, BTreeSet<At>) {
    let id = TopicId::of_first_line("t", b"");
    let mut lines: BTreeMap<i32, String> = BTreeMap::new();
    let (mut begin, mut last) = (BTreeSet::new(), BTreeSet::new());
    for record in records {
        let at = (record.partition.number, record.offset);
        let line = lines.entry(at.0).or_default();
        let marks = Standing::parse(line).unwrap().map(|standing| standing.marks).unwrap_or_default();
        let past = Past { marks: &marks, ..Past::default() };
        let mut lane = Lane::behind(record.partition.clone(), record.offset, past, LoneTombstones::Skip);
        if let Ok(fed) = lane.feed(record.clone()) {
            begin.extend(fed.full.begins.then_some(at));
            last.extend(fed.full.last.then_some(at));
        }
        *line = lane.standing(id, lane.next(), 3).line();
    }
    (begin, last)
}

/// A connector that lost its place three times.
fn restarts() -> Vec<At> {
    [0, 1, 2].map(|partition| [10, 20, 30].map(|offset| (partition, offset))).concat()
}

#[test]
fn only_a_snapshot_behind_a_lost_place_may_hide_deletes() {
    let mut found = Vec::new();
    for topic in capture::all() {
        let (begin, _) = told(&topic.records);
        if !begin.is_empty() {
            found.push(format!("{}/{} {begin:?}", topic.folder, topic.name));
        }
    }
    assert_eq!(found, [format!("pg-restart/rst.public.t {:?}", restarts())]);
}

#[test]
fn runs_that_know_only_what_the_one_before_left_tell_no_other_snapshot() {
    let mut told_anywhere = 0;
    for topic in capture::all().into_iter().filter(|topic| topic.records.len() < 3_000) {
        let what = format!("{}/{}", topic.folder, topic.name);
        let (whole, last) = told(&topic.records);
        let (begin, last_of_runs) = told_by_one_run_a_record(&topic.records);
        assert_eq!(last_of_runs, last.into_iter().collect(), "{what}");
        assert!(whole.iter().all(|at| begin.contains(at)), "{what}");
        if whole.is_empty() {
            assert!(begin.is_empty(), "{what}: {begin:?}");
        } else {
            // Behind a restart it is told again, at a row of the same snapshot.
            let full = |at: &At| topic.records.iter().any(|r| (r.partition.number, r.offset) == *at && is_full(r));
            assert!(begin.iter().all(full), "{what}");
        }
        told_anywhere += begin.len();
    }
    assert!(told_anywhere >= 9, "{told_anywhere}");
}

fn is_full(record: &Record) -> bool {
    let payload = String::from_utf8_lossy(record.payload.as_deref().unwrap_or_default());
    payload.contains(r#""op":"r""#) && payload.contains("[null,")
}

fn binlog(partition: i32, offset: Offset, op: &str, snapshot: &str, server: u32, run: &str) -> Record {
    let pos = 1_000 + offset;
    let value = format!(
        r#"{{"op":"{op}","before":null,"after":{{"id":1}},"source":{{"connector":"mysql","name":"s","db":"d","table":"t","snapshot":"{snapshot}","ts_ms":{pos},"server_id":{server},"file":"bin.000001","pos":{pos},"row":0}}}}"#
    );
    let run = Header { name: "__debezium.context.runId".into(), value: Some(Bytes::from(run.to_owned())) };
    Record {
        partition: settle_core::position::Partition::new("t", partition),
        offset,
        timestamp_ms: None,
        key: Some(Bytes::from_static(br#"{"id":1}"#)),
        payload: Some(value.into()),
        headers: vec![run],
    }
}

#[test]
fn on_a_binlog_only_a_task_that_had_read_nothing_of_it_takes_a_snapshot_behind_a_gap() {
    let first = [binlog(0, 0, "r", "last", 0, "one"), binlog(0, 1, "u", "false", 7, "one")];
    let behind = |record: Record| told(&[&first[..], &[record]].concat()).0;
    assert_eq!(behind(binlog(0, 2, "r", "first", 0, "two")), [(0, 2)], "it lost its place");
    assert_eq!(behind(binlog(0, 2, "r", "first", 7, "one")), [], "blocking");
    assert_eq!(behind(binlog(0, 2, "r", "first", 7, "two")), [], "blocking, behind a restart that kept its place");
    assert_eq!(behind(binlog(0, 2, "r", "first", 0, "one")), [], "of the same run");
    assert_eq!(behind(binlog(0, 2, "r", "incremental", 0, "two")), [], "incremental");
}

#[test]
fn the_first_snapshot_of_a_new_epoch_may_hide_what_the_one_before_had() {
    let records = [
        binlog(0, 0, "r", "last", 0, "one"),
        binlog(0, 1, "u", "false", 7, "one"),
        binlog(0, 2, "r", "first", 0, "two"),
        binlog(0, 3, "r", "last", 0, "two"),
        binlog(0, 4, "u", "false", 7, "two"),
    ];
    let boundaries = [Boundary { epoch: Epoch::new(1).unwrap(), offset: 2 }];
    for start in 0..4 {
        let past = Past { boundaries: &boundaries, ..Past::default() };
        let mut lane = Lane::behind(records[0].partition.clone(), start, past, LoneTombstones::Skip);
        let from = usize::try_from(start).unwrap();
        let begin: Vec<Offset> =
            records[from..].iter().filter(|r| lane.feed((*r).clone()).unwrap().full.begins).map(|r| r.offset).collect();
        assert_eq!(begin, [start.max(2)], "read from {start}");
    }
}
