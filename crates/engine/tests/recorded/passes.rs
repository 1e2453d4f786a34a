//! How a topic is applied: in one pass, in replays, in batches of every size, the partitions in other orders.

use std::collections::{BTreeMap, VecDeque};

use settle_core::record::Record;
use settle_engine::config::target::{Deletes, Target};

use super::capture::capture;
use super::carried::Carried;
use super::engine::Engine;
use super::topic::Topic;
use crate::database::Shown;

/// Hard and soft deletes, every size of batch, the partitions in other orders.
pub fn ends_as_the_source<E: Engine>(topic: &Topic) {
    let records = capture(topic.capture);
    let carried = Carried::by::<E>(&records);
    for deletes in [None, Some(Deletes::Soft)] {
        let target = Target { deletes, ..topic.target::<E>(&records) };
        let (database, end) = end_of::<E>(topic, &target, &records, 10_000);
        let expected = database.expected(topic);
        carried.compare::<E>(topic, &expected, &end, &format!("{} {deletes:?}", topic.capture));
        // Of a large topic a prefix, which must end alike however it is cut.
        let prefix = &records[..records.len().min(E::PREFIX)];
        let seen = Carried::by::<E>(prefix);
        let end_by = |size| seen.only::<E>(topic, end_of::<E>(topic, &target, prefix, size).1);
        let whole = end_by(10_000);
        for size in [1, 2, 7] {
            assert_eq!(end_by(size), whole, "{} by {size}, {deletes:?}", topic.capture);
        }
        for seed in 1..=deletes.map_or(5, |_| E::SOFT_ORDERS) {
            let database = E::new();
            database.make(&target, &records);
            database.apply_all(&target, &interleaved(&records, seed), 70);
            let context = format!("{} in order {seed}, {deletes:?}", topic.capture);
            carried.compare::<E>(topic, &expected, &living(&database, topic), &context);
        }
    }
}

/// Applies the records, then twice again, and checks that the replays move nothing.
fn end_of<E: Engine>(topic: &Topic, target: &Target, records: &[Record], size: usize) -> (E, Vec<Shown>) {
    let database = E::new();
    database.make(target, records);
    database.apply_all(target, records, size);
    let end = database.all(topic.table());
    for _ in 0..2 {
        let again = database.apply_all(target, records, size.max(E::REPLAYED));
        assert_eq!(again.applied, 0, "{} by {size}", topic.capture);
    }
    assert!(end == database.all(topic.table()), "{} by {size}: moved by a replay", topic.capture);
    let living = living(&database, topic);
    (database, living)
}

/// The rows that are not marked deleted.
fn living<E: Engine>(database: &E, topic: &Topic) -> Vec<Shown> {
    let is_live = |row: &Shown| row.get("_is_deleted").is_none_or(|flag| flag.as_deref() == Some(E::FALSE));
    database.all(topic.table()).into_iter().filter(is_live).collect()
}

/// The partitions' records, each in its order, mixed by a seed.
fn interleaved(records: &[Record], seed: u64) -> Vec<Record> {
    let mut lanes: BTreeMap<i32, VecDeque<Record>> = BTreeMap::new();
    for record in records {
        lanes.entry(record.partition.number).or_default().push_back(record.clone());
    }
    let mut state = seed;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut mixed = Vec::with_capacity(records.len());
    while mixed.len() < records.len() {
        let alive: Vec<i32> = lanes.iter().filter(|(_, lane)| !lane.is_empty()).map(|(number, _)| *number).collect();
        let lane = lanes.get_mut(&alive[random(alive.len())]).unwrap();
        let many = (1 + random(20)).min(lane.len());
        mixed.extend(lane.drain(..many));
    }
    mixed
}

/// Checks these columns of the row with this `id`.
pub fn shows(rows: &[Shown], id: &str, wanted: &[(&str, &str)]) {
    let row = rows.iter().find(|row| row["id"].as_deref() == Some(id)).unwrap();
    for (column, wanted) in wanted {
        assert_eq!(row[*column].as_deref(), Some(*wanted), "{id} {column}");
    }
}
