//! Logs with gaps: compacted topics, aborted transactions, markers as the last record.

use settle_testkit::kafka::{self, Isolation, Record, Transaction};

use crate::child::until;
use crate::live::Live;
use crate::shop::shop;

fn records(topic: &str, lines: &[String]) -> Vec<Record> {
    lines.iter().map(|line| Record::from_kcat(line).in_topic(topic)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compacted_topic_is_read_to_its_end() {
    let shop = shop("pg-race", "race.public.t");
    let topic = kafka::unique("compacted");
    let config = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("max.compaction.lag.ms", "100"),
    ];
    kafka::create_topic(&topic, 3, &config).await;
    let lines = shop.lines();
    let (most, last) = lines.split_at(lines.len() - 30);
    kafka::produce(records(&topic, most)).await;
    // A segment is closed by a later record only; the last ones come when the first are compacted.
    kafka::produce(records(&topic, last)).await;
    let kept = until(
        "compaction",
        async || kafka::read_topic(&topic, Isolation::ReadCommitted).await.len(),
        |kept| *kept < lines.len() / 2,
    )
    .await;
    let live = Live::reading(shop, topic, "").await;
    let report = live.stage.run(&["--until-end"]);
    assert!(report.read <= kept as u64 && report.read > 0, "{} of {kept}", report.read);
    assert_eq!(live.committed().await, live.ends().await, "committed to the end, gaps and all");
    live.assert_equals_source("compacted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_transactions_are_not_read_and_a_marker_at_the_end_is_passed() {
    let shop = shop("pg-hazards", "shop.public.orders");
    let topic = kafka::unique("transactions");
    kafka::create_topic(&topic, 3, &[]).await;
    let lines = shop.lines();
    let (first, rest) = lines.split_at(5);
    kafka::produce_transaction(records(&topic, first), Transaction::Commit).await;
    let wrong: Vec<Record> = records(&topic, first)
        .into_iter()
        .map(|mut record| {
            record.payload = Some(b"{aborted".to_vec());
            record
        })
        .collect();
    kafka::produce_transaction(wrong.clone(), Transaction::Abort).await;
    kafka::produce_transaction(records(&topic, rest), Transaction::Commit).await;
    kafka::produce_transaction(wrong, Transaction::Abort).await;
    let live = Live::reading(shop, topic, "").await;
    let report = live.stage.run(&["--until-end"]);
    assert_eq!(report.read, lines.len() as u64);
    assert_eq!(live.committed().await, live.ends().await, "the markers are behind us");
    live.assert_equals_source("aborted transactions").await;
    let again = live.stage.run(&["--until-end"]);
    assert_eq!(again.read, 0, "a second run finds nothing new and ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_topic_ends_at_once() {
    let shop = shop("pg-hazards", "shop.public.orders");
    let live = Live::of(shop, &[], "").await;
    let report = live.stage.run(&["--until-end"]);
    assert_eq!((report.read, report.ended.as_str()), (0, "end"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_batch_lands_within_its_age_and_idle_time_ends_the_run() {
    let shop = shop("pg-hazards", "shop.public.orders");
    let live = Live::of(shop, &shop.lines(), "max_rows = 100000\nmax_age_ms = 200").await;
    let run = crate::child::Running::start(&live.stage, &["--idle-timeout", "20s"]);
    // The run goes on: what lands did so by its age.
    let ends = live.ends().await;
    until("the batch lands", async || live.committed().await, |committed| *committed == ends).await;
    live.assert_equals_source("by age").await;
    run.kill();
    let report = live.stage.run(&["--idle-timeout", "1s"]);
    assert_eq!((report.ended.as_str(), report.read), ("idle", 0));
}
