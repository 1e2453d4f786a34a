//! How close a sink comes to its engine: rows per second of each kind of work, beside the fastest way that the
//! engine itself has for the same rows in batches of the same size, in the same run.
//!
//! Both begin with what is in memory: the sink with folded batches, whose values are still JSON, the limit with
//! values that are typed already. `cargo bench -p settle-engine --bench sinks -- --rows 200000 --batch 10000`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark")]

mod mysql;
mod postgres;
mod sqlite;
mod work;

use std::time::Instant;

use settle_core::sink::{PlacedPartition, Sink};

use work::{Step, Work};

/// The fastest that the engine itself does with rows of the same shape.
trait Limit {
    /// Makes an empty table, and what a guarded write needs.
    fn open(&mut self);
    /// One batch in one transaction, durable as the sink's is.
    fn apply(&mut self, rows: &[work::Row]);
}

struct Asked {
    rows: usize,
    batch: usize,
    times: usize,
    only: Option<String>,
}

fn asked() -> Asked {
    let mut asked = Asked { rows: 100_000, batch: 10_000, times: 3, only: None };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--rows" => asked.rows = value.parse().expect("a number of rows"),
            "--batch" => asked.batch = value.parse().expect("a number of rows"),
            "--times" => asked.times = value.parse().expect("a number of runs"),
            "--sink" => asked.only = Some(value),
            other => panic!("{other}: there are --rows, --batch, --times and --sink"),
        }
    }
    asked
}

fn main() {
    let asked = asked();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let work = Work::new(asked.rows, asked.batch);
    println!("{} rows, {} a batch, the middle one of {} runs", asked.rows, asked.batch, asked.times);
    println!("{:<10} {:<12} {:>14} {:>14} {:>8}", "sink", "work", "settle rows/s", "limit rows/s", "ratio");
    for name in ["postgres", "mariadb", "sqlite"] {
        if asked.only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let mut taken = vec![(Vec::new(), Vec::new()); work.steps.len()];
        for _ in 0..asked.times {
            // By turns, so that what else the machine does falls on both.
            let (mut sink, mut limit) = match name {
                "postgres" => postgres::pair(),
                "sqlite" => sqlite::pair(),
                "mariadb" => mysql::pair(),
                other => panic!("no sink {other}"),
            };
            limit.open();
            runtime.block_on(sink.open(&[work.part()])).expect("the sink opens");
            for (step, (ours, theirs)) in work.steps.iter().zip(&mut taken) {
                ours.push(seconds(|| {
                    step.batches.iter().for_each(|batch| {
                        let proof = runtime.block_on(sink.apply(batch)).expect("a batch is applied");
                        assert_eq!(proof.outcome.applied, step.applies(batch.row_count()), "{name}, {}", step.name);
                    })
                }));
                theirs.push(seconds(|| step.rows.iter().for_each(|rows| limit.apply(rows))));
            }
        }
        for (step, (ours, theirs)) in work.steps.iter().zip(taken) {
            tell(name, step, middle(ours), middle(theirs));
        }
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

fn middle(mut taken: Vec<f64>) -> f64 {
    taken.sort_by(f64::total_cmp);
    taken[taken.len() / 2]
}

fn tell(sink: &str, step: &Step, ours: f64, theirs: f64) {
    let rows = step.rows.iter().map(Vec::len).sum::<usize>();
    let rows = f64::from(u32::try_from(rows).expect("a few million rows"));
    println!("{sink:<10} {:<12} {:>14.0} {:>14.0} {:>8.2}", step.name, rows / ours, rows / theirs, theirs / ours);
}

/// Both sides of a comparison.
type Pair = (Box<dyn Sink>, Box<dyn Limit>);

/// Where the rows come from.
fn part_of(topic: &str) -> PlacedPartition {
    PlacedPartition {
        topic_id: settle_core::position::TopicId(uuid::Uuid::from_u128(7)),
        partition: settle_core::position::Partition::new(topic, 0),
    }
}
