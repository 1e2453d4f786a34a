//! What a destination keeps of the log's places beside the rows: a run that begins anew stands on it.

use serde_json::json;
use settle_core::position::TopicId;
use settle_core::sink::{FailureKind, PlacedPartition};

use crate::suite::run::Run;
use crate::suite::scene::Scene;
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::Stand;
use crate::suite::table::Table;

/// A table that is read whole, changes, is emptied, and fills again.
fn history(source: &mut Source) {
    for id in 1..=5 {
        source.insert(0, json!({"id": id, "n": 1, "body": format!("body {id}")}));
    }
    source.snapshot(0);
    source.update(0, json!({"id": 1, "n": 2}), Sent::Masked);
    source.update(0, json!({"id": 2, "n": 2}), Sent::Masked);
    source.delete(0, json!({"id": 3}));
    source.truncate(0, 2);
    source.insert(0, json!({"id": 1, "n": 3, "body": "again"}));
    source.update(0, json!({"id": 1, "n": 4}), Sent::Masked);
    source.rename(0, json!({"id": 1}), json!({"id": 6}), Sent::Whole);
}

async fn scene(stand: &dyn Stand) -> Scene {
    let mut source = Source::new(Engine::Postgres, [Table::of("items")]);
    history(&mut source);
    Scene::of(stand, source).await
}

/// Next offset of each partition of table 0 behind the first `end` records of the log.
fn ends(scene: &Scene, end: usize) -> [i64; 3] {
    [0, 1, 2].map(|number| {
        let of_partition = |at: &usize| scene.source.log()[*at].record.partition.number == number;
        i64::try_from((0..end).filter(of_partition).count()).expect("a short log")
    })
}

pub(in crate::suite) async fn a_run_that_is_stopped_behind_any_batch_goes_on(stand: &dyn Stand) {
    for size in [1, 4] {
        let mut scene = scene(stand).await;
        let all: Vec<usize> = scene.all().collect();
        for batch in all.chunks(size) {
            let mut run = scene.run().await;
            scene.check_offsets(&run, ends(&scene, batch[0]));
            scene.deliver(&mut run, batch.iter().copied()).await;
        }
        scene.check(&format!("a new process for every {size} records")).await;
    }
}

/// Half of what it had done is committed, the rest comes again.
pub(in crate::suite) async fn a_run_that_is_killed_begins_anew_where_it_was_committed(stand: &dyn Stand) {
    let mut scene = scene(stand).await;
    let end = scene.all().end;
    for (from, to) in [(0, 4), (2, 7), (5, 12), (5, end - 2), (end - 3, end)] {
        let mut run = scene.run().await;
        scene.deliver_by(3, &mut run, from..to).await;
        scene.check(&format!("records {from} to {to}")).await;
    }
}

/// Without its floor a change behind the snapshot would be older than the row that was read.
pub(in crate::suite) async fn a_start_behind_a_snapshot_gives_the_versions_of_a_run_that_read_it(stand: &dyn Stand) {
    let mut scene = scene(stand).await;
    scene.replay(100, 0..10).await;
    let run = scene.run().await;
    let floors: Vec<_> =
        run.places.floors.iter().map(|(place, floor)| (place.partition.number, floor.offset)).collect();
    assert_eq!(floors.len(), 3, "one a partition: {floors:?}");
    for at in 10..scene.all().end {
        scene.replay(1, [at]).await;
        scene.check(&format!("record {at} by a run of its own")).await;
    }
    let parts = [scene.source.partition(0, 1)];
    let run = scene.run_of(&parts).await;
    assert_eq!(run.places.floors.len(), 1, "of the partitions that are asked for");
}

/// A topic that was made anew, or whose offsets are gone, is told by it.
pub(in crate::suite) async fn that_a_group_has_offsets_is_remembered(stand: &dyn Stand) {
    let scene = scene(stand).await;
    let (one, other) = (scene.source.partition(0, 1), scene.source.partition(0, 2));
    let mut run = scene.run().await;
    assert_eq!(run.places.written, []);
    for offset in [5, 7, 6] {
        run.sink.stored(&[(one.clone(), offset)]).await.expect("a note is kept");
    }
    let run = scene.run().await;
    assert!(run.places.wrote(one.topic_id, &one.partition) && !run.places.wrote(other.topic_id, &other.partition));
    // Whoever keeps its places with the rows knows better.
    let noted = (!scene.is_atomic).then_some(7);
    assert_eq!(run.places.applied_of(one.topic_id, &one.partition), noted, "the greatest");
    let another = scene.run_as("another").await;
    assert!(!another.places.wrote(one.topic_id, &one.partition), "a group of its own");
    let anew = TopicId::of_first_line("anew", b"");
    let parts = [PlacedPartition { topic_id: anew, ..one.clone() }];
    let run = scene.run_of(&parts).await;
    assert!(!run.places.wrote(anew, &one.partition));
    assert_eq!(run.places.former_topic(anew, &one.partition.topic), Some(one.topic_id));
}

/// Kafka is never ahead of the destination: what has no row moves the offset, too.
pub(in crate::suite) async fn an_offset_moves_with_its_batch_and_never_back(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": "a"}));
    scene.source.update(0, json!({"id": 1, "n": 2}), Sent::Whole);
    scene.source.delete(0, json!({"id": 1}));
    scene.source.tombstone(0, json!({"id": 1}));
    scene.source.truncate(0, 1);
    scene.source.send_again(0..3);
    for (which, end) in [(0..2, 2), (2..3, 3), (3..4, 4), (4..5, 5), (0..3, 5), (5..8, 8), (1..8, 8)] {
        let mut run = scene.run().await;
        scene.deliver(&mut run, which.clone()).await;
        let run = scene.run().await;
        scene.check_offsets(&run, [0, end, 0]);
        scene.check(&format!("records {which:?}")).await;
    }
}

/// An older copy of the destination is put back while the log and the group's offsets stay as they are. A sink
/// that keeps offsets with its rows says how far the copy is; read again from there, or from the beginning, all
/// is right.
pub(in crate::suite) async fn a_destination_restored_from_a_backup_is_mended_by_a_replay(stand: &dyn Stand) {
    let mut scene = scene(stand).await;
    let (copied, end) = (9, scene.all().end);
    scene.replay(2, 0..copied).await;
    scene.destination.back_up().await;
    let as_copied = scene.model.clone();
    scene.replay(2, copied..end).await;
    scene.check("before the disaster").await;
    scene.destination.restore().await;
    let at_end = std::mem::replace(&mut scene.model, as_copied);
    scene.check("as it was when it was copied").await;
    let mut run = scene.run().await;
    scene.check_offsets(&run, ends(&scene, copied));
    let from = if scene.is_atomic { copied } else { 0 };
    scene.deliver_by(2, &mut run, from..end).await;
    scene.check("read again").await;
    assert_eq!(scene.model.contents(&scene.source, 0), at_end.contents(&scene.source, 0));
}

/// Positions of two servers do not compare.
pub(in crate::suite) async fn a_table_that_another_source_fills_is_refused(stand: &dyn Stand) {
    let mut scene = scene(stand).await;
    scene.replay(100, 0..5).await;
    scene.source.server = "elsewhere".into();
    let foreign = scene.source.insert(0, json!({"id": 90, "n": 1, "body": "foreign"}));
    let emptied = scene.source.truncate(0, 1);
    for at in [foreign, emptied] {
        let records = scene.records([at]);
        let mut run: Run = scene.run().await;
        let error = run.settle(&records).await.expect_err("another server's rows");
        assert_eq!(error.kind, FailureKind::Contract, "{error}");
        let text = error.to_string();
        assert!(text.contains("elsewhere") && text.contains("items") && !text.contains("foreign"), "{text}");
        scene.check("nothing of it is there").await;
    }
}
