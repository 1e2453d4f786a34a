//! Every keyed shop topic settles as the log in order says and as the source table is: in one pass,
//! after any replay, stopped anywhere, with the partitions interleaved in any way, for any cut of
//! the batches.

use std::collections::BTreeMap;

use settle_core::record::Record;

use crate::support::capture::{self, At, Positions, topic_of};
use crate::support::destination::Destination;
use crate::support::line::{Line, settle};
use crate::support::schedule::{Seeded, interleaved};
use crate::support::table::Table;
use crate::support::truth::{Told, Truth};

/// Records that are read of a topic where many passes are made over it.
const SAMPLE: usize = 700;
/// Batch sizes.
const BATCHES: [usize; 4] = [1, 2, 7, 10_000];

/// Folder, topic, source table, and the columns that were added without an event for old rows.
const TOPICS: [(&str, &str, &str, &[&str]); 12] = [
    ("pg-hazards", "shop.public.customers", "public.customers", &["loyalty"]),
    ("pg-hazards", "shop.public.orders", "public.orders", &[]),
    ("pg-hazards", "shop.public.order_items", "public.order_items", &[]),
    ("pg-hazards", "shop.public.documents", "public.documents", &[]),
    ("pg-race", "race.public.t", "public.t", &[]),
    ("pg-restart", "rst.public.t", "public.t", &[]),
    ("pg-connector-killed", "kl.public.t", "public.t", &[]),
    ("pg-composite-key", "cmp.public.stock", "public.stock", &[]),
    ("mariadb", "mshop.mshop.customers", "mshop.customers", &["loyalty", "vip"]),
    ("mariadb", "mshop.mshop.orders", "mshop.orders", &[]),
    ("mariadb", "mshop.mshop.order_items", "mshop.order_items", &[]),
    ("mariadb-duplicates", "mshop.mshop.orders", "mshop.orders", &[]),
];

/// A topic, and what it says in order.
struct Subject {
    folder: &'static str,
    table: &'static str,
    added: &'static [&'static str],
    records: Vec<Record>,
    told: BTreeMap<At, Told>,
    positions: Positions,
}

fn subjects() -> impl Iterator<Item = Subject> {
    TOPICS.into_iter().map(|(folder, name, table, added)| {
        let topic = topic_of(folder, name);
        let positions = capture::expected_versions(&topic).unwrap();
        let told = topic.records.iter().filter_map(Told::of).map(|told| (told.at, told)).collect();
        Subject { folder, table, added, records: topic.records, told, positions }
    })
}

impl Subject {
    /// Cuts a large topic to a stretch at the start of each partition.
    fn sampled(mut self) -> Self {
        if self.records.len() > 1000 {
            let mut taken: BTreeMap<i32, usize> = BTreeMap::new();
            self.records.retain(|record| {
                let taken = taken.entry(record.partition.number).or_default();
                *taken += 1;
                *taken <= SAMPLE / 3
            });
        }
        self
    }

    fn truth<'a>(&self, records: impl IntoIterator<Item = &'a Record>) -> Truth {
        let mut truth = Truth::default();
        records.into_iter().for_each(|record| self.tell(&mut truth, record));
        truth
    }

    /// Lets the truth take one record.
    fn tell(&self, truth: &mut Truth, record: &Record) {
        let at = (record.partition.number, record.offset);
        if let Some(told) = self.told.get(&at) {
            truth.take(told, self.positions[&at]);
        }
    }

    #[track_caller]
    fn equal(&self, destination: &Destination, truth: &Truth, what: &str) {
        assert_eq!(destination.rows(self.table), truth.rows(), "{} {}: {what}", self.folder, self.table);
    }
}

#[test]
fn one_pass_equals_the_log_in_order_and_the_source_table() {
    for subject in subjects() {
        let truth = subject.truth(&subject.records);
        let source = Table::expected(subject.folder, subject.table.rsplit('.').next().unwrap());
        for batch in BATCHES {
            let mut destination = Destination::default();
            let tally = settle(&mut destination, &subject.records, batch);
            assert_eq!(tally.read, subject.records.len() as u64);
            subject.equal(&destination, &truth, &format!("batches of {batch}"));
            let rows = destination.rows(subject.table);
            assert_eq!(source.differences(&rows), Vec::<String>::new(), "{} {}", subject.folder, subject.table);
            assert_eq!(rows.len(), source.len());
            assert!(source.not_carried(&rows).iter().all(|column| subject.added.contains(column)));
        }
    }
}

#[test]
fn a_replay_from_anywhere_to_anywhere_changes_nothing() {
    for subject in subjects().map(Subject::sampled) {
        let mut destination = Destination::default();
        settle(&mut destination, &subject.records, 7);
        let settled = destination.clone();
        let mut seeded = Seeded::new(11);
        for batch in BATCHES.into_iter().cycle().take(24) {
            let (from, to) = (seeded.below(subject.records.len()), seeded.below(subject.records.len() + 1));
            let stretch = &subject.records[from.min(to)..from.max(to)];
            let tally = settle(&mut destination, stretch, batch);
            assert_eq!(tally.applied, 0, "{} {}: {from} to {to}", subject.folder, subject.table);
            assert!(destination == settled, "{} {}: {from} to {to}", subject.folder, subject.table);
        }
    }
}

#[test]
fn a_run_that_stops_anywhere_has_what_the_log_says_up_to_there() {
    for subject in subjects() {
        // Record by record, the key that it concerns.
        let (mut destination, mut truth) = (Destination::default(), Truth::default());
        let mut line = Line::new(&mut destination, 1);
        for record in &subject.records {
            line.feed(record).unwrap();
            subject.tell(&mut truth, record);
            if let Some(told) = subject.told.get(&(record.partition.number, record.offset)).filter(|t| t.op != "t") {
                let row = line.destination.row(subject.table, &told.key);
                assert_eq!(row, truth.row(&told.key), "{} {}: at {:?}", subject.folder, subject.table, told.at);
            }
        }
        line.finish();
    }
}

#[test]
fn a_run_that_stops_and_resumes_settles_the_same() {
    for subject in subjects().map(Subject::sampled) {
        let truth = subject.truth(&subject.records);
        let total = subject.records.len();
        for stop in (0..=total).step_by((total / 16).max(1)) {
            for batch in [2, 10_000] {
                let mut destination = Destination::default();
                settle(&mut destination, &subject.records[..stop], batch);
                subject.equal(&destination, &subject.truth(&subject.records[..stop]), &format!("stopped at {stop}"));
                settle(&mut destination, &subject.records[stop..], batch);
                subject.equal(&destination, &truth, &format!("resumed at {stop}"));
            }
        }
    }
}

#[test]
fn fifty_interleavings_of_the_partitions_settle_the_same() {
    for subject in subjects().map(Subject::sampled) {
        let truth = subject.truth(&subject.records);
        for seed in 0..50 {
            let mut seeded = Seeded::new(seed);
            let order = interleaved(&subject.records, &mut seeded);
            assert_eq!(order.len(), subject.records.len());
            let mut destination = Destination::default();
            settle(&mut destination, order, seeded.pick(&[1, 2, 7, 64, 10_000]));
            subject.equal(&destination, &truth, &format!("seed {seed}"));
        }
    }
}

#[test]
fn whole_large_topics_settle_the_same_interleaved_and_replayed() {
    for subject in subjects().filter(|subject| subject.records.len() > 1000) {
        let truth = subject.truth(&subject.records);
        for seed in 0..2 {
            let mut seeded = Seeded::new(seed);
            let mut destination = Destination::default();
            settle(&mut destination, interleaved(&subject.records, &mut seeded), 1000);
            subject.equal(&destination, &truth, &format!("seed {seed}"));
            let settled = destination.clone();
            settle(&mut destination, &subject.records[seeded.below(subject.records.len())..], 1000);
            assert!(destination == settled, "{}: replay {seed}", subject.folder);
        }
    }
}

#[test]
fn one_seed_is_one_order() {
    let topic = topic_of("pg-hazards", "shop.public.customers");
    let order = |seed| -> Vec<At> {
        let mixed = interleaved(&topic.records, &mut Seeded::new(seed));
        mixed.iter().map(|record| (record.partition.number, record.offset)).collect()
    };
    assert_eq!(order(3), order(3));
    assert_ne!(order(3), order(4));
}

#[test]
fn what_the_log_does_not_say_is_not_made_up() {
    let settled = |name: &str| {
        let mut destination = Destination::default();
        settle(&mut destination, &topic_of("mariadb", &format!("mshop.mshop.{name}")).records, 7);
        let table = format!("mshop.{name}");
        Table::expected("mariadb", name).differences(&destination.rows(&table))
    };
    // Rows that a cascade deleted: the binlog has no event for them.
    assert_eq!(settled("children"), [r#"{"id":10} is not in the source"#, r#"{"id":11} is not in the source"#]);
    assert_eq!(settled("parents"), Vec::<String>::new());
    // Unsigned numbers above 2^63 come wrapped, in the key, too.
    let wrapped = settled("wide");
    for line in [
        r#"{"id":-6} is not in the source"#,
        r#"{"id":-9223372036854775808} is not in the source"#,
        r#"["18446744073709551610"] is missing"#,
        r#"["9223372036854775808"] is missing"#,
        r#"{"id":1}.u64: -1 for 18446744073709551615"#,
    ] {
        assert!(wrapped.iter().any(|difference| difference == line), "{line} in {wrapped:#?}");
    }
}
