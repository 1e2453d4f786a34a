//! Full snapshots that hide a gap are told from those that do not, over the recorded topics.

use std::collections::BTreeMap;

use settle_core::lane::{Lane, LoneTombstones};
use settle_core::record::Record;

use crate::support::capture;

/// Offsets of rows that are told to begin a snapshot behind a gap.
fn told(records: &[Record]) -> Vec<(i32, i64)> {
    let mut lanes: BTreeMap<i32, Lane> = BTreeMap::new();
    let mut told = Vec::new();
    for record in records {
        let at = (record.partition.number, record.offset);
        let new = || Lane::new(record.partition.clone(), 0, &[], LoneTombstones::Refuse);
        if let Ok(fed) = lanes.entry(at.0).or_insert_with(new).feed(record.clone())
            && fed.full.begins
        {
            told.push(at);
        }
    }
    told
}

#[test]
fn only_a_snapshot_behind_a_lost_place_may_hide_deletes() {
    let mut found = Vec::new();
    for topic in capture::all() {
        let told = told(&topic.records);
        if !told.is_empty() {
            found.push(format!("{}/{} {told:?}", topic.folder, topic.name));
        }
    }
    // A connector that lost its place three times; and on MariaDB a partition in which the new run of
    // the connector had streamed nothing when its blocking snapshot came: it may be one.
    let restarts = [0, 1, 2].map(|partition| [10, 20, 30].map(|offset| (partition, offset))).concat();
    let expected =
        ["mariadb-duplicates/mshop.mshop.orders [(1, 2)]".to_owned(), format!("pg-restart/rst.public.t {restarts:?}")];
    assert_eq!(found, expected);
}
