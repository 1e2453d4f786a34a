//! Healthy logs are never taken for new ones: over all recordings, read from anywhere, with and
//! without what an earlier run left behind, and with long stretches sent again. A recorded log that
//! begins anew with later times is told at its first record.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use settle_core::change::{Event, Op};
use settle_core::epoch::{Boundary, Epoch};
use settle_core::lane::{Lane, LoneTombstones, Past};
use settle_core::position::{Offset, TopicId};
use settle_core::record::{Header, Record};
use settle_core::refusal::Reason;
use settle_core::standing::Standing;

use crate::support::capture::{self, Topic};

/// The recorded topics, a partition at a time.
fn partitions() -> Vec<(String, Vec<Record>)> {
    let mut partitions: BTreeMap<(String, i32), Vec<Record>> = BTreeMap::new();
    for Topic { folder, name, records } in capture::all() {
        for record in records {
            partitions.entry((format!("{folder}/{name}"), record.partition.number)).or_default().push(record);
        }
    }
    partitions.into_iter().map(|((name, number), records)| (format!("{name}:{number}"), records)).collect()
}

/// Reads records and fails on one that tells of a new log or of a repeated position.
fn read_quietly(lane: &mut Lane, records: &[Record], what: &str) {
    for record in records {
        match lane.feed(record.clone()) {
            Err(refusal) if matches!(refusal.reason, Reason::NewLog(_) | Reason::PositionRepeats { .. }) => {
                panic!("{what}: {refusal}")
            }
            _ => {}
        }
    }
}

fn lane_at(first: &Record, past: Past<'_>) -> Lane {
    Lane::behind(first.partition.clone(), first.offset, past, LoneTombstones::Skip)
}

/// Few enough starts that the longest recordings take no minutes.
fn starts(records: &[Record]) -> impl Iterator<Item = usize> + use<> {
    let most = if records.len() > 1000 { 4 } else { 15 };
    (0..records.len()).step_by((records.len() / most).max(1))
}

#[test]
fn no_recording_is_taken_for_a_new_log_wherever_detection_begins() {
    let mut read = 0;
    for (name, records) in partitions() {
        for start in starts(&records) {
            let behind = &records[start..];
            read_quietly(&mut lane_at(&behind[0], Past::default()), behind, &format!("{name} from {start}"));
            read += behind.len();
        }
    }
    assert!(read > 50_000, "{read}");
}

#[test]
fn no_restart_with_what_was_left_behind_sees_a_new_log() {
    let id = TopicId::of_first_line("t", b"");
    for (name, records) in partitions() {
        for each in [1, 7, 61, 500] {
            if records.len() / each > 2000 {
                continue;
            }
            let mut line = String::new();
            for run in records.chunks(each) {
                let standing = Standing::parse(&line).unwrap();
                let marks = standing.map(|standing| standing.marks).unwrap_or_default();
                let mut lane = lane_at(&run[0], Past { marks: &marks, ..Past::default() });
                read_quietly(&mut lane, run, &format!("{name} in runs of {each}"));
                line = lane.standing(id, lane.next(), 3).line();
            }
        }
    }
}

/// The records once more, at the end of the log, by another run of the connector.
fn sent_again(records: &[Record], at: Offset) -> Vec<Record> {
    let again = |(record, offset): (&Record, Offset)| {
        let header = |header: &Header| match &*header.name {
            "__debezium.context.runId" => {
                let run = String::from_utf8(header.value.as_deref().unwrap().to_vec()).unwrap();
                Header { name: header.name.clone(), value: Some(Bytes::from(format!("{run} at {at}"))) }
            }
            _ => header.clone(),
        };
        Record { offset, headers: record.headers.iter().map(header).collect(), ..record.clone() }
    };
    records.iter().zip(at..).map(again).collect()
}

#[test]
fn a_connector_that_sends_any_stretch_again_is_no_new_log() {
    for (name, records) in partitions() {
        let end = records[records.len() - 1].offset + 1;
        for start in starts(&records) {
            let mut lane = lane_at(&records[0], Past::default());
            read_quietly(&mut lane, &records, &name);
            // Killed again and again, each time a little further. A full snapshot is never sent again
            // at its position: another has another.
            let behind = records[start..].iter().filter(|record| !is_full_snapshot(record)).cloned();
            let (mut end, stretch) = (end, behind.collect::<Vec<Record>>());
            for part in [stretch.len() / 3, stretch.len() / 2, stretch.len()] {
                let again = sent_again(&stretch[..part], end);
                read_quietly(&mut lane, &again, &format!("{name}, again from {start}"));
                end += Offset::try_from(again.len()).unwrap();
            }
        }
    }
}

fn is_full_snapshot(record: &Record) -> bool {
    let payload = String::from_utf8_lossy(record.payload.as_deref().unwrap_or_default()).replace("\": ", "\":");
    payload.contains("\"op\":\"r\"") && !payload.contains("\"snapshot\":\"incremental\"")
}

/// The records as a restored database would write them: the same positions, years later.
fn years_later(records: &[Record], at: Offset) -> Vec<Record> {
    let later = |record: Record| {
        let payload = record.payload.as_deref().map(|bytes| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            Bytes::from(text.replace("\"ts_ms\":17", "\"ts_ms\":19"))
        });
        Record { payload, ..record }
    };
    sent_again(records, at).into_iter().map(later).collect()
}

#[test]
fn a_recorded_log_that_begins_anew_stops_at_its_first_record_and_goes_on_in_a_new_epoch() {
    let (mut told, mut untold) = (0, Vec::new());
    let folders = ["pg-hazards", "pg-race", "pg-connector-killed", "mariadb/", "mariadb-duplicates", "pg-json-schemas"];
    for (name, records) in partitions() {
        if !folders.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        let end = records[records.len() - 1].offset + 1;
        let mut lane = lane_at(&records[0], Past::default());
        read_quietly(&mut lane, &records, &name);
        let anew = years_later(&records, end);
        let stop = anew.iter().find_map(|record| lane.feed(record.clone()).err().filter(|r| is_new_log(&r.reason)));
        let Some(stop) = stop else {
            untold.push((name, records));
            continue;
        };
        told += 1;
        let Reason::NewLog(new_log) = &stop.reason else { panic!("{stop}") };
        assert_eq!(new_log.begins, stop.place, "{name}");
        // Before it came nothing that could have told: rows of a binlog's snapshot, controls.
        let boundaries = [Boundary { offset: stop.place.offset, epoch: Epoch::FIRST.next().unwrap() }];
        let past = Past { boundaries: &boundaries, ..Past::default() };
        let mut again = lane_at(&records[0], past);
        read_quietly(&mut again, &[&records[..], &anew].concat(), &name);
        let behind: Vec<Record> = anew.iter().filter(|r| r.offset >= stop.place.offset).cloned().collect();
        read_quietly(&mut lane_at(&behind[0], past), &behind, &name);
    }
    assert_eq!(told, 35);
    for (name, records) in untold {
        let commits = deciding_commits(&records);
        assert!(commits.len() <= 1, "{name} was not told though it has the positions {commits:?}");
    }
}

/// The commit positions of what decides: none for rows of a binlog's snapshot and for controls.
fn deciding_commits(records: &[Record]) -> BTreeSet<u64> {
    let mut lane = lane_at(&records[0], Past::default());
    let commit = |record: &Record| match lane.feed(record.clone()).ok()?.event {
        Event::Change(change) if change.op != Op::Read || !change.may_tie => Some(change.version.commit()),
        Event::Truncate(truncate) => Some(truncate.version.commit()),
        _ => None,
    };
    records.iter().filter_map(commit).collect()
}

fn is_new_log(reason: &Reason) -> bool {
    matches!(reason, Reason::NewLog(_))
}
