//! What several tasks do at one destination at the same time: whoever comes first, it ends alike.

use serde_json::json;
use settle_core::policy::backoff_ms;
use settle_core::record::Record;
use settle_core::sink::{FailureKind, PlacedPartition, Sink};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use super::instances::two_tables;
use crate::services::is_full;
use crate::suite::run::{Run, passes};
use crate::suite::scene::Scene;
use crate::suite::source::Sent;
use crate::suite::stand::Stand;

/// Rounds of a race, each with a destination of its own.
fn rounds() -> usize {
    if is_full() { 20 } else { 2 }
}

/// A run that waits where others are in its way, also to open.
async fn patient(mut sink: Box<dyn Sink>, parts: &[PlacedPartition]) -> Run {
    for attempt in 1.. {
        match sink.open(parts).await {
            Ok(_) => break,
            Err(error) => {
                let passes = passes(&error);
                assert!(passes && attempt < 15, "{error}");
                let wait = backoff_ms(attempt, 0.0);
                sleep(Duration::from_millis(wait)).await;
            }
        }
    }
    let mut run = Run::start(sink, &[]).await.expect("a sink that is open");
    run.is_patient = true;
    run
}

/// Delivers the records in batches of this size, whatever others do.
async fn delivered(sink: Box<dyn Sink>, parts: Vec<PlacedPartition>, records: Vec<Record>, size: usize) -> Run {
    let mut run = patient(sink, &parts).await;
    for batch in records.chunks(size) {
        run.settle(batch).await.expect("a batch that is applied");
    }
    run
}

fn of_partition(scene: &Scene, number: i32) -> Vec<usize> {
    scene.all().filter(|at| scene.source.log()[*at].record.partition.number == number).collect()
}

/// Each instance has a partition of each topic, and all of them begin with an empty destination at once.
pub(in crate::suite) async fn instances_that_start_together_share_everything(stand: &dyn Stand) {
    let mut scene = two_tables(stand).await;
    let mut instances = JoinSet::new();
    for number in 0..3 {
        let parts = [scene.source.partition(0, number), scene.source.partition(1, number)];
        let records = scene.records(of_partition(&scene, number));
        let sink = scene.sink();
        instances.spawn(async move {
            let mut run = patient(sink, &parts).await;
            for batch in records.chunks(7) {
                run.settle(batch).await.expect("a batch that is applied");
            }
            run.committed
        });
    }
    let committed = instances.join_all().await;
    assert!(committed.iter().all(|of_one| of_one.values().all(|end| *end == 20)), "{committed:?}");
    let written = scene.written(scene.all());
    scene.model.take(written.iter());
    scene.check_end("three instances at once").await;
}

/// A partition changes hands while the one before is in the middle of its batches: either finishes its batch
/// first, or is fenced, or writes what is older by then.
pub(in crate::suite) async fn a_race_with_a_successor_ends_right(stand: &dyn Stand) {
    for round in 0..rounds() {
        let mut scene = two_tables(stand).await;
        let records = scene.records(scene.all());
        let (first, second) = (scene.sink(), scene.sink());
        let parts = scene.source.partitions();
        let mut zombie = patient(first, &parts).await;
        zombie.settle(&records[..20]).await.expect("before the race");
        let (mine, theirs) = (records.clone(), records);
        let older = tokio::spawn(async move {
            for batch in mine[20..].chunks(6) {
                if let Err(error) = zombie.settle(batch).await {
                    assert_eq!(error.kind, FailureKind::Fenced, "{error}");
                    return;
                }
            }
        });
        let newer = tokio::spawn(async move {
            let mut successor = patient(second, &parts).await;
            for batch in theirs[20..].chunks(5 + round) {
                successor.settle(batch).await.expect("a batch that is applied");
            }
        });
        newer.await.expect("the successor reaches the end");
        older.await.expect("the other ends by itself");
        let written = scene.written(scene.all());
        scene.model.take(written.iter());
        scene.check_end("after the race").await;
    }
}

/// One instance reads the partition with the truncate, the others rows from before it and behind it.
pub(in crate::suite) async fn rows_and_a_truncate_at_once_end_alike(stand: &dyn Stand) {
    for round in 0..rounds() {
        let mut scene = Scene::new(stand).await;
        for turn in 0..4 {
            for id in 0..24 {
                if id % 3 > 0 {
                    scene.source.insert(0, json!({"id": id, "n": turn, "body": "x"}));
                }
            }
            scene.source.truncate(0, 0);
        }
        scene.source.insert(0, json!({"id": 1, "n": 9, "body": "behind"}));
        let mut instances = JoinSet::new();
        for number in 0..3 {
            let part = scene.source.partition(0, number);
            let records = scene.records(of_partition(&scene, number));
            instances.spawn(delivered(scene.sink(), vec![part], records, 1 + round));
        }
        instances.join_all().await;
        let written = scene.written(scene.all());
        scene.model.take(written.iter());
        scene.check_end("rows and truncates at once").await;
    }
}

/// Two groups read the same log from its beginning at their own pace: what one deletes, the other has not seen yet.
pub(in crate::suite) async fn two_groups_at_once_bring_nothing_back(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        for round in 0..rounds() {
            let mut scene = Scene::new(stand).await;
            scene.rules.deletes = Some(deletes);
            for id in 0..30 {
                scene.source.insert(0, json!({"id": id, "n": 0, "body": "x"}));
            }
            for id in 0..30 {
                scene.source.update(0, json!({"id": id, "n": 1}), Sent::Masked);
                scene.source.delete(0, json!({"id": id}));
            }
            let records = scene.records(scene.all());
            let parts = scene.source.partitions();
            let mut groups = JoinSet::new();
            for (group, size) in [("g", 4 + round), ("another", 5), ("third", 90)] {
                let sink = scene.sink_of(group);
                groups.spawn(delivered(sink, parts.clone(), records.clone(), size));
            }
            groups.join_all().await;
            let written = scene.written(scene.all());
            scene.model.take(written.iter());
            scene.check(&format!("{deletes:?} deletes, three groups at once")).await;
            assert_eq!(scene.contents(0).await.live.len(), 0);
        }
    }
}
