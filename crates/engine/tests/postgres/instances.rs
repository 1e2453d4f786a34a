//! Several instances at once.

use serde_json::json;
use settle_core::policy::{Verdict, decide};
use settle_core::record::Record;
use settle_core::sink::{FailureKind, Outcome, Sink};
use settle_engine::config::target::{Deletes, Target};
use settle_engine::sinks::postgres::{Postgres, PostgresConfig};

use crate::database::{Database, declared, parts, placed, row, soft};
use crate::log::{Log, batches};

fn target() -> Target {
    declared("t", &[("id", "bigint"), ("v", "text")])
}

/// Applies the records as an instance of its own, which tries again what the engine would.
async fn run(config: PostgresConfig, target: Target, records: &[Record]) -> Outcome {
    let mut sink = Postgres::new(config, target);
    loop {
        match sink.open(&parts(records)).await {
            Ok(_) => break,
            Err(error) => assert!(matches!(decide(error.kind), Verdict::Retry | Verdict::Pause), "{error}"),
        }
    }
    let mut sum = Outcome::default();
    for batch in batches(records, 5, &[]) {
        loop {
            match sink.apply(&batch).await {
                Ok(proof) => {
                    sum.applied += proof.outcome.applied;
                    sum.stale += proof.outcome.stale;
                    break;
                }
                Err(error) => assert!(matches!(decide(error.kind), Verdict::Retry | Verdict::Pause), "{error}"),
            }
        }
    }
    sum
}

/// Every partition changes its keys, each in another order; the same ones where they are shared.
fn logs(partitions: i32, keys: u64, shared: bool) -> Log {
    let mut log = Log::of("t");
    for partition in 0..partitions {
        let mine = u64::from(partition.unsigned_abs());
        for step in 0..4 * keys {
            let id = (step * (2 * mine + 3) + mine) % keys + if shared { 0 } else { 100 * mine };
            let lsn = 1_000 + step * u64::from(partitions.unsigned_abs()) + mine;
            match step % 5 {
                4 => log.add(partition, "d", lsn, &json!({"id": id}), &[]),
                _ => log.add(partition, "u", lsn, &json!({"id": id, "v": format!("{partition}-{step}")}), &[]),
            }
        }
    }
    log
}

/// What each key ends as, by its greatest position.
fn ends(log: &Log) -> Vec<crate::database::Shown> {
    let mut last: std::collections::BTreeMap<u64, (u64, Option<String>)> = std::collections::BTreeMap::new();
    for record in &log.records {
        let payload: serde_json::Value = serde_json::from_slice(record.payload.as_deref().unwrap()).unwrap();
        let key: serde_json::Value = serde_json::from_slice(record.key.as_deref().unwrap()).unwrap();
        let (id, lsn) = (key["id"].as_u64().unwrap(), payload["source"]["lsn"].as_u64().unwrap());
        let value = payload["after"]["v"].as_str().map(str::to_owned);
        let known = last.entry(id).or_default();
        if lsn > known.0 {
            *known = (lsn, value);
        }
    }
    let living = last.into_iter().filter_map(|(id, (_, value))| value.map(|value| (id.to_string(), value)));
    let mut rows: Vec<_> = living.map(|(id, value)| row(&[("id", &id), ("v", &value)])).collect();
    rows.sort();
    rows
}

/// A key is in one partition, whose lock row keeps its writers apart. Where deletes are soft the row itself
/// does, and it may be in several.
#[test]
fn instances_that_write_one_table_at_once_end_right() {
    for (target, shared) in [(target(), false), (soft(target()), true)] {
        let log = logs(3, 12, shared);
        let database = Database::new();
        let config = PostgresConfig { lock_timeout_ms: 60_000, ..database.config() };
        let of = |partition| -> Vec<Record> {
            log.records.iter().filter(|record| record.partition.number == partition).cloned().collect()
        };
        let (first, second, third) = (of(0), of(1), of(2));
        database.wait(async {
            tokio::join!(
                run(config.clone(), target.clone(), &first),
                run(config.clone(), target.clone(), &second),
                run(config.clone(), target.clone(), &third),
            )
        });
        let mut rows = database.all("t");
        if target.deletes == Some(Deletes::Soft) {
            rows.retain(|row| row["_is_deleted"].as_deref() == Some("f"));
        }
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|row| row.into_iter().filter(|(name, _)| !name.starts_with('_')).collect())
            .collect::<Vec<crate::database::Shown>>();
        rows.sort();
        assert_eq!(rows, ends(&log), "{:?}", target.deletes);
    }
}

#[test]
fn an_instance_that_waits_at_the_partitions_of_another_writes_behind_it() {
    let database = Database::new();
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": "a"})), ("u", 11, json!({"id": 1, "v": "b"}))]);
    let mut sink = database.sink(target(), &log.records);
    database.apply(&mut sink, &crate::log::batch(&log.records[..1])).unwrap();
    // The lock row of the partition is held by somebody who is in the middle of a batch.
    database.run("BEGIN; SELECT * FROM settle_positions WHERE consumer_group = '' FOR UPDATE");
    let error = database.apply(&mut sink, &crate::log::batch(&log.records[1..])).unwrap_err();
    assert_eq!(decide(error.kind), Verdict::Pause, "{error}");
    database.run("COMMIT");
    database.apply(&mut sink, &crate::log::batch(&log.records[1..])).unwrap();
    // Another takes the partition: from then on the first is fenced, whatever it holds.
    let mut other = database.sink(target(), &log.records);
    let error = database.apply(&mut sink, &crate::log::batch(&log.records[1..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Fenced, "{error}");
    assert_eq!(*error.fenced, [placed(log.records[0].partition.clone()).partition]);
    database.apply(&mut other, &crate::log::batch(&log.records[1..])).unwrap();
}
