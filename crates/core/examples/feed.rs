//! How many records a second one thread takes from bytes to folded batches.
//!
//! `cargo run --release -p settle-core --example feed [RECORDS]`: recorded topics over and over,
//! without a sink. Only `Lane::feed` and `Fold` are timed, by the thread's time on a processor, so that
//! others on the machine do not count. Linux only.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "prints what it measures")]

use std::collections::BTreeMap;
use std::time::Duration;

use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::record::Record;

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/it/support/capture.rs"]
mod capture;

fn main() {
    let wanted: usize = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().unwrap());
    for (folder, topic) in [
        ("pg-race", "race.public.t"),
        ("pg-connector-killed", "kl.public.t"),
        ("mariadb-duplicates", "mshop.mshop.orders"),
        ("pg-json-schemas", "shopa.public.customers"),
    ] {
        let records = capture::topic_of(folder, topic).records;
        let bytes: usize = records.iter().map(Record::size).sum();
        let (mut fed, mut lanes_took, mut fold_took) = (0, Duration::ZERO, Duration::ZERO);
        let mut lanes = BTreeMap::new();
        while fed < wanted {
            // The log goes on: the same records further behind.
            let further =
                |record: &Record| Record { offset: record.offset + i64::try_from(fed).unwrap(), ..record.clone() };
            let (lane, fold) = pass(&mut lanes, records.iter().map(further).collect());
            lanes_took += lane;
            fold_took += fold;
            fed += records.len();
        }
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let (count, size) = (fed as f64, bytes as f64 / records.len() as f64);
        let rate = count / (lanes_took + fold_took).as_secs_f64();
        println!(
            "{folder:20} {rate:>9.0} records/s {:>6.0} MB/s   lane {:>5.0} ns, fold {:>4.0} ns, {size:.0} bytes a record",
            rate * size / 1e6,
            lanes_took.as_secs_f64() * 1e9 / count,
            fold_took.as_secs_f64() * 1e9 / count,
        );
    }
}

/// Reads a topic once, in batches of the default size.
#[inline(never)]
fn pass(lanes: &mut BTreeMap<i32, Lane>, records: Vec<Record>) -> (Duration, Duration) {
    let mut fold = Fold::new(Limits::default());
    let mut events = Vec::with_capacity(records.len());
    let started = on_cpu();
    for record in records {
        let (partition, offset) = (record.partition.clone(), record.offset);
        let new = || Lane::new(record.partition.clone(), 0, &[], LoneTombstones::Refuse);
        let lane = lanes.entry(partition.number).or_insert_with(new);
        events.push((partition, offset, lane.feed(record).unwrap()));
    }
    let lanes_took = on_cpu() - started;
    let mut batches = Vec::new();
    let started = on_cpu();
    for (partition, offset, fed) in events {
        if fold.must_cut_before(&fed.event) || fold.is_full() {
            batches.push(fold.cut());
        }
        fold.push(&partition, offset, fed.event, fed.floor, 0).unwrap();
    }
    batches.push(fold.cut());
    // Records are freed behind the clock: in a run that is the writer's work.
    (lanes_took, on_cpu() - started)
}

/// How long this thread was on a processor.
fn on_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}
