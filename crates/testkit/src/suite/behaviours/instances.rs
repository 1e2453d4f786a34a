//! Several sinks at one destination: instances of a group, one that is a zombie, and another group.

use serde_json::json;
use settle_core::batch::Batch;
use settle_core::position::Partition;
use settle_core::sink::{FailureKind, SinkError};

use crate::suite::run::Run;
use crate::suite::scene::Scene;
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::{Deletes, Form, Stand};
use crate::suite::table::Table;

/// Rows of two tables in all partitions, of which many change and some go.
fn traffic(source: &mut Source) {
    for table in [0, 1] {
        for id in 0..30 {
            source.insert(table, json!({"id": id, "n": 1, "body": format!("{table}/{id}")}));
        }
        for id in 0..30 {
            match id % 5 {
                0 => source.delete(table, json!({"id": id})),
                1 => source.update(table, json!({"id": id, "body": "changed"}), Sent::Whole),
                _ => source.update(table, json!({"id": id, "n": 2}), Sent::Masked),
            };
        }
    }
}

pub(super) async fn two_tables(stand: &dyn Stand) -> Scene {
    let mut source = Source::new(Engine::Postgres, [Table::of("items"), Table::of("more")]);
    traffic(&mut source);
    Scene::of(stand, source).await
}

/// An instance stalls with a batch in its hands while its partitions move to another, which goes on without it.
struct Stalled {
    scene: Scene,
    zombie: Run,
    /// Rows of all partitions that the other has deleted since.
    held: Batch,
    successor: Run,
}

/// Rows 1 to 3 are there and the zombie holds rows 4 to 6, when the other takes all partitions over, writes them
/// too, and deletes them.
async fn stalled(stand: &dyn Stand, deletes: Deletes) -> Stalled {
    let mut scene = Scene::new(stand).await;
    scene.rules.deletes = Some(deletes);
    for id in 1..=6 {
        scene.source.insert(0, json!({"id": id, "n": 1, "body": "a"}));
    }
    for id in 4..=6 {
        scene.source.delete(0, json!({"id": id}));
    }
    let mut zombie = scene.run().await;
    scene.deliver(&mut zombie, 0..3).await;
    let held = zombie.fold(&scene.records(3..6)).expect("records that fold");
    let mut successor = scene.run().await;
    scene.deliver_by(2, &mut successor, 3..9).await;
    scene.check("without the zombie").await;
    Stalled { scene, zombie, held, successor }
}

fn is_fenced(error: &SinkError, partitions: &[i32]) {
    assert_eq!(error.kind, FailureKind::Fenced, "{error}");
    let wanted: Vec<Partition> = partitions.iter().map(|n| Partition::new("srv.public.items", *n)).collect();
    let mut told = error.fenced.to_vec();
    told.sort();
    assert_eq!(told.to_vec(), wanted, "{error}");
}

pub(in crate::suite) async fn a_zombie_is_fenced(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let Stalled { mut scene, mut zombie, held, mut successor } = stalled(stand, deletes).await;
        for _ in 0..2 {
            is_fenced(&zombie.apply(&held).await.expect_err("it was overtaken"), &[0, 1, 2]);
            scene.check("the zombie woke").await;
        }
        let more = scene.source.insert(0, json!({"id": 7, "n": 1, "body": "b"}));
        scene.deliver(&mut successor, [more]).await;
        scene.check("the other goes on").await;
    }
}

/// With nothing but versions it may write what it likes: all of it is older.
pub(in crate::suite) async fn a_zombie_changes_nothing(stand: &dyn Stand) {
    let Stalled { mut scene, mut zombie, held, mut successor } = stalled(stand, Deletes::Soft).await;
    zombie.apply(&held).await.expect("nobody keeps it out");
    scene.check("the zombie woke").await;
    let more = scene.source.update(0, json!({"id": 1, "n": 2}), Sent::Masked);
    scene.deliver(&mut successor, [more]).await;
    scene.check("the other goes on").await;
}

/// The versions of the deleted rows are forgotten by now: nothing but the fence keeps the rows away.
pub(in crate::suite) async fn a_zombie_brings_back_no_row_whose_delete_is_forgotten(stand: &dyn Stand) {
    let Stalled { scene, mut zombie, held, .. } = stalled(stand, Deletes::Hard).await;
    let before = scene.contents(0).await.live;
    scene.destination.purge_deletes(scene.source.table(0)).await;
    let woke = zombie.apply(&held).await;
    assert_eq!(scene.contents(0).await.live, before, "{woke:?}");
    is_fenced(&woke.expect_err("it was overtaken"), &[0, 1, 2]);
}

/// Pieces of a batch prove nothing, but they write.
pub(in crate::suite) async fn a_zombie_that_takes_a_batch_apart_is_fenced(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    scene.destination.make(scene.source.table(0), Form::NeverNegative("n")).await;
    for (id, n) in [(1, 1), (4, -1), (2, 1), (5, 1)] {
        scene.source.insert(0, json!({"id": id, "n": n, "body": "a"}));
    }
    for id in [1, 2, 5] {
        scene.source.delete(0, json!({"id": id}));
    }
    let mut zombie = scene.run().await;
    let held = zombie.fold(&scene.records(0..4)).expect("records that fold");
    let error = zombie.apply(&held).await.expect_err("a row is refused");
    let mut holds = settle_core::holds::Holds::default();
    let mut pieces = settle_core::unfold::Pieces::of_refused(held, &mut holds, &error);
    let piece = pieces.next_piece().expect("a piece folds").expect("a piece");
    let mut successor = scene.run().await;
    successor.settle(&scene.records(0..7)).await.expect("taken apart by the other");
    if stand.lacks(crate::suite::stand::Need::HardDeletes).is_none() {
        scene.destination.purge_deletes(scene.source.table(0)).await;
    }
    let before = scene.contents(0).await;
    let woke = zombie.sink.apply(&piece).await;
    assert_eq!(scene.contents(0).await, before, "{woke:?}");
    assert_eq!(woke.expect_err("it was overtaken").kind, FailureKind::Fenced);
}

/// The others of its partitions are still its own.
pub(in crate::suite) async fn only_partitions_that_were_taken_are_fenced(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    for id in 0..6 {
        scene.source.insert(0, json!({"id": id, "n": 1, "body": "a"}));
    }
    let mut first = scene.run().await;
    scene.deliver(&mut first, 0..3).await;
    let both = first.fold(&scene.records([3, 4])).expect("records that fold");
    let own = first.fold(&scene.records([5])).expect("records that fold");
    let mut second = scene.run_of(&[scene.source.partition(0, 1)]).await;
    is_fenced(&first.apply(&both).await.expect_err("one of the two was taken"), &[1]);
    scene.check("nothing of the batch is there").await;
    first.apply(&own).await.expect("a partition of its own");
    let written = scene.written([5]);
    scene.model.take(written.iter());
    scene.deliver(&mut second, [4]).await;
    scene.check("each its own").await;
    // It takes the partition back, and goes on where the other stands.
    first.open(&[scene.source.partition(0, 1)]).await.expect("opened anew");
    let more = scene.source.insert(0, json!({"id": 7, "n": 1, "body": "b"}));
    scene.deliver(&mut first, [more]).await;
    let records = scene.records([more]);
    is_fenced(&second.settle(&records).await.expect_err("now it is the other's"), &[1]);
    scene.check("taken back").await;
}

/// They read the same topics into the same tables, each at its own pace and with its own offsets.
pub(in crate::suite) async fn two_groups_write_one_destination(stand: &dyn Stand) {
    let mut scene = two_tables(stand).await;
    let (mut one, mut two) = (scene.run().await, scene.run_as("another").await);
    let all: Vec<usize> = scene.all().collect();
    let (mut ahead, mut behind) = (all.chunks(16), all.chunks(5));
    scene.deliver(&mut one, ahead.next().unwrap_or_default().iter().copied()).await;
    for batch in ahead {
        scene.deliver(&mut one, batch.iter().copied()).await;
        if let Some(batch) = behind.next() {
            scene.deliver(&mut two, batch.iter().copied()).await;
        }
    }
    scene.check("both at work").await;
    two = scene.run_as("another").await;
    scene.check_offsets(&two, [12, 12, 11]);
    for batch in behind {
        scene.deliver(&mut two, batch.iter().copied()).await;
    }
    scene.check("both at the end").await;
    one = scene.run().await;
    scene.check_offsets(&one, [20, 20, 20]);
}
