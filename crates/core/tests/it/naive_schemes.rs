//! Two versions that most consumers order by, and why Settle does not: on topics that real servers
//! wrote they leave keys wrong. The same harness finds none wrong with Settle's own.

use std::collections::BTreeMap;

use crate::support::capture::{self, Positions, topic_of};
use crate::support::destination::Columns;
use crate::support::truth::{Told, Truth};

type Version = (u64, u64, u64);

/// Keys that are wrong at the end, and keys that were wrong at some point on the way.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    at_the_end: usize,
    on_the_way: usize,
}

/// Reads a topic in order; greatest version wins, and the last written of equal ones, as a
/// ReplacingMergeTree has it.
fn wrong(folder: &str, name: &str, version: impl Fn(&Told, &Positions) -> Version) -> Wrong {
    let topic = topic_of(folder, name);
    let positions = capture::expected_versions(&topic).unwrap();
    let mut truth = Truth::default();
    let mut rows: BTreeMap<String, (Version, Option<Columns>)> = BTreeMap::new();
    let mut on_the_way: BTreeMap<String, bool> = BTreeMap::new();
    for told in topic.records.iter().filter_map(Told::of) {
        truth.take(&told, positions[&told.at]);
        if told.op == "t" {
            continue;
        }
        let version = version(&told, &positions);
        let stored = rows.get(&told.key);
        if stored.is_none_or(|(before, _)| version >= *before) {
            let row = told.over(stored.and_then(|(_, row)| row.as_ref()));
            rows.insert(told.key.clone(), (version, row));
        }
        let row = rows.get(&told.key).and_then(|(_, row)| row.as_ref());
        *on_the_way.entry(told.key.clone()).or_default() |= row != truth.row(&told.key);
    }
    let at_the_end = rows.iter().filter(|(key, (_, row))| row.as_ref() != truth.row(key)).count();
    Wrong { at_the_end, on_the_way: on_the_way.values().filter(|wrong| **wrong).count() }
}

fn by_source_time(told: &Told, _: &Positions) -> Version {
    (told.ts_ms, 0, 0)
}

fn by_bare_position(told: &Told, _: &Positions) -> Version {
    (told.bare_position.0, told.bare_position.1, 0)
}

fn ours(told: &Told, positions: &Positions) -> Version {
    let (hi, lo) = positions[&told.at];
    (hi, lo, 0)
}

const RIGHT: Wrong = Wrong { at_the_end: 0, on_the_way: 0 };

#[test]
fn the_source_time_leaves_keys_wrong() {
    for (folder, name) in
        [("pg-race", "race.public.t"), ("pg-connector-killed", "kl.public.t"), ("mariadb", "mshop.mshop.customers")]
    {
        let found = wrong(folder, name, by_source_time);
        assert!(found.on_the_way > 0, "{folder}: {found:?}");
        assert_eq!(wrong(folder, name, ours), RIGHT, "{folder}");
    }
    assert!(wrong("mariadb", "mshop.mshop.customers", by_source_time).at_the_end > 0, "after a single pass");
}

#[test]
fn the_bare_position_leaves_keys_wrong() {
    for (folder, name) in [("pg-hazards", "shop.public.customers"), ("pg-race", "race.public.t")] {
        let found = wrong(folder, name, by_bare_position);
        assert!(found.on_the_way > 0, "{folder}: {found:?}");
        assert_eq!(wrong(folder, name, ours), RIGHT, "{folder}");
    }
    assert!(wrong("pg-hazards", "shop.public.customers", by_bare_position).at_the_end > 0, "after a single pass");
}
