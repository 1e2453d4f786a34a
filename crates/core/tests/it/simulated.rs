//! A destination ends as the source is, for any history of the source, any crash of its connector,
//! any delivery of the log and any cut of the batches.

use std::collections::BTreeMap;

use proptest::prelude::*;
use settle_core::record::Record;

use crate::support::destination::{Columns, Destination};
use crate::support::line::{Line, settle};
use crate::support::schedule::{Seeded, interleaved};
use crate::support::source::{Kind, Source, acts};

fn rows(destination: &Destination) -> BTreeMap<String, Columns> {
    let table = if destination.rows("public.t").is_empty() { "d.t" } else { "public.t" };
    destination.rows(table).into_iter().map(|(key, columns)| (key.to_owned(), columns.clone())).collect()
}

/// Delivers a log as badly as it may be: interleaved, stopped at any record, resumed where the
/// group had committed or anywhere before, to the end at last.
fn deliver(records: &[Record], seeded: &mut Seeded) -> Destination {
    let mut destination = Destination::default();
    let mut next: BTreeMap<i32, i64> = BTreeMap::new();
    for _ in 0..seeded.below(4) {
        let waiting: Vec<Record> = records.iter().filter(|r| r.offset >= next_of(&next, r)).cloned().collect();
        let order = interleaved(&waiting, seeded);
        let mut line = Line::new(&mut destination, seeded.pick(&[1, 2, 3, 7, 50]));
        for record in &order[..seeded.below(order.len() + 1)] {
            line.feed(record).unwrap();
        }
        // Killed: what is gathered is gone. Whoever goes on may also go back.
        for (partition, committed) in line.committed() {
            let back = i64::try_from(seeded.below(6)).unwrap();
            next.insert(partition.number, (committed - back).max(0));
        }
    }
    let rest: Vec<Record> = records.iter().filter(|r| r.offset >= next_of(&next, r)).cloned().collect();
    settle(&mut destination, interleaved(&rest, seeded), seeded.pick(&[1, 2, 3, 7, 50]));
    destination
}

fn next_of(next: &BTreeMap<i32, i64>, record: &Record) -> i64 {
    next.get(&record.partition.number).copied().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_postgresql_table_is_settled_whatever_happens(acts in acts(), seed in any::<u64>()) {
        let source = Source::run(Kind::Postgres, &acts);
        let destination = deliver(&source.records(), &mut Seeded::new(seed));
        prop_assert_eq!(rows(&destination), source.table());
    }

    #[test]
    fn a_mariadb_table_is_settled_whatever_happens(acts in acts(), seed in any::<u64>()) {
        let source = Source::run(Kind::MariaDb, &acts);
        let destination = deliver(&source.records(), &mut Seeded::new(seed));
        prop_assert_eq!(rows(&destination), source.table());
    }
}
