//! The version of every recorded record is the one that an independent implementation of the
//! scheme computes, wherever reading starts.

use std::collections::BTreeMap;

use settle_core::change::{Control, Event};
use settle_core::key::KeyError;
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::Offset;
use settle_core::record::Record;
use settle_core::refusal::Reason;
use settle_core::version::{Floor, Version};

use crate::support::capture::{self, At, Positions, Topic};

/// What became of the records of a topic.
#[derive(Default)]
struct Read {
    versions: Positions,
    signals: Vec<At>,
    without_key: Vec<At>,
    floors: BTreeMap<i32, Vec<Floor>>,
}

/// Feeds each partition to a lane of its own.
fn read(records: &[Record]) -> Read {
    let mut lanes: BTreeMap<i32, Lane> = BTreeMap::new();
    let mut read = Read::default();
    for record in records {
        let at = (record.partition.number, record.offset);
        let new = || Lane::new(record.partition.clone(), 0, &[], LoneTombstones::Refuse);
        let lane = lanes.entry(at.0).or_insert_with(new);
        match lane.feed(record.clone()) {
            Ok(fed) => {
                read.versions.extend(version(&fed.event).map(|version| (at, (version.hi(), version.lo()))));
                if matches!(fed.event, Event::Control(Control::Signal)) {
                    read.signals.push(at);
                }
                read.floors.entry(at.0).or_default().extend(fed.floor);
            }
            Err(refusal) if refusal.reason == Reason::Key(KeyError::Missing) => read.without_key.push(at),
            Err(refusal) => panic!("{refusal}"),
        }
    }
    read
}

fn version(event: &Event) -> Option<Version> {
    match event {
        Event::Change(change) => Some(change.version),
        Event::Truncate(truncate) => Some(truncate.version),
        Event::Control(_) => None,
    }
}

fn topics_with_versions() -> Vec<(Topic, Positions)> {
    let topics = capture::all().into_iter();
    topics.filter_map(|topic| capture::expected_versions(&topic).map(|expected| (topic, expected))).collect()
}

#[test]
fn every_recorded_record_has_the_version_of_the_reference() {
    let (mut topics, mut records) = (0, 0);
    for (topic, expected) in topics_with_versions() {
        let read = read(&topic.records);
        let name = format!("{}/{}", topic.folder, topic.name);
        if topic.name.ends_with("debezium_signal") {
            assert_eq!(read.signals, expected.keys().copied().collect::<Vec<_>>(), "{name}: signals change no row");
            assert_eq!(read.versions, BTreeMap::new(), "{name}");
        } else if topic.name.ends_with("nokey") {
            assert_eq!(read.without_key, expected.keys().copied().collect::<Vec<_>>(), "{name}: no identity");
        } else {
            assert_eq!(read.versions, expected, "{name}");
            assert_eq!((read.signals, read.without_key), (vec![], vec![]), "{name}");
            topics += 1;
            records += expected.len();
        }
    }
    // So that a moved folder does not make this test compare nothing.
    assert_eq!((topics, records), (33, 24_472));
}

#[test]
fn a_start_anywhere_with_the_recorded_floors_gives_the_versions_of_a_full_read() {
    for (topic, expected) in topics_with_versions() {
        let Read { floors, .. } = read(&topic.records);
        let (stretch, step) = if topic.records.len() > 1000 { (100, 97) } else { (usize::MAX, 1) };
        for start in (0..topic.records.len()).step_by(step) {
            let first = &topic.records[start];
            let number = first.partition.number;
            let floors = floors.get(&number).cloned().unwrap_or_default();
            let mut lane = Lane::new(first.partition.clone(), first.offset, &floors, LoneTombstones::Refuse);
            let behind = topic.records[start..].iter().take_while(|record| record.partition.number == number);
            for record in behind.take(stretch) {
                let Ok(fed) = lane.feed(record.clone()) else { continue };
                let Some(version) = version(&fed.event) else { continue };
                let at = (number, record.offset);
                assert_eq!((version.hi(), version.lo()), expected[&at], "{}: {at:?} from {}", topic.name, first.offset);
            }
        }
    }
}

#[test]
fn floors_are_recorded_where_a_full_snapshot_was_read_and_nowhere_else() {
    let floors = |folder, name| -> Vec<(i32, Vec<(Offset, u64)>)> {
        let read = read(&capture::topic_of(folder, name).records);
        let short = |floors: Vec<Floor>| floors.into_iter().map(|floor| (floor.offset, floor.commit)).collect();
        read.floors.into_iter().map(|(partition, floors)| (partition, short(floors))).collect()
    };
    // One snapshot, whose rows share a position; the blocking and the incremental one are exact.
    let one = vec![(0, 26_509_704)];
    assert_eq!(floors("pg-hazards", "shop.public.customers"), [(0, one.clone()), (1, one.clone()), (2, one)]);
    // Killed three times before it had stored an offset: four snapshots in one topic.
    for (partition, floors) in floors("pg-restart", "rst.public.t") {
        let rising = floors.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1);
        assert!(rising && floors.len() == 4, "partition {partition}: {floors:?}");
    }
    for (_, floors) in floors("mariadb", "mshop.mshop.customers") {
        assert_eq!(floors, [], "a binlog position needs none");
    }
}
