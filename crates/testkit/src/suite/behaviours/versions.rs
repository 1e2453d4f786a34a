//! Greater wins, equal is a no-op, less is stale: whatever is delivered again, in whatever batches.

use serde_json::json;
use settle_core::refusal::Reason;

use crate::suite::scene::Scene;
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::Stand;
use crate::suite::table::Table;

/// Rows that come, change, go and come again, in three partitions.
fn lives(source: &mut Source) {
    source.insert(0, json!({"id": 1, "n": 1, "body": "a"}));
    source.insert(0, json!({"id": 2, "n": 1, "body": "b"}));
    source.update(0, json!({"id": 1, "n": 2}), Sent::Whole);
    source.delete(0, json!({"id": 1}));
    source.insert(0, json!({"id": 3, "n": null, "body": "c"}));
    source.insert(0, json!({"id": 1, "n": 3, "body": null}));
    source.delete(0, json!({"id": 2}));
    source.update(0, json!({"id": 3, "body": "c2"}), Sent::Whole);
}

pub(in crate::suite) async fn a_replay_changes_nothing(stand: &dyn Stand) {
    for (engine, size) in [(Engine::Postgres, 1), (Engine::Postgres, 8), (Engine::MariaDb, 3)] {
        let mut scene = Scene::of(stand, Source::new(engine, [Table::of("items")])).await;
        lives(&mut scene.source);
        let mut run = scene.run().await;
        scene.deliver_by(size, &mut run, scene.all()).await;
        scene.check_end("after one pass").await;
        assert_eq!(run.tally.read, 8);
        for (from, size) in [(0, 8), (0, 2), (3, 1), (5, 3)] {
            scene.replay(size, from..8).await;
            scene.check(&format!("{engine:?}, records from {from} again in batches of {size}")).await;
        }
    }
}

pub(in crate::suite) async fn an_older_change_changes_nothing(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    lives(&mut scene.source);
    scene.source.update(0, json!({"id": 1, "n": 4, "body": "newest"}), Sent::Whole);
    scene.replay(1, [8, 7]).await;
    scene.check("the newest alone").await;
    for older in [0, 2, 3, 5, 4] {
        scene.replay(1, [older]).await;
        scene.check(&format!("record {older} behind newer ones")).await;
    }
}

/// A connector that was killed sends its last records once more, at offsets of their own.
pub(in crate::suite) async fn an_equal_change_changes_nothing(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    lives(&mut scene.source);
    scene.source.send_again(5..8);
    scene.source.send_again(2..8);
    let mut run = scene.run().await;
    scene.deliver(&mut run, 0..8).await;
    scene.deliver(&mut run, 8..11).await;
    scene.check("sent again in a batch of their own").await;
    scene.deliver(&mut run, 11..17).await;
    scene.check("a longer stretch").await;
    scene.replay(17, 0..17).await;
    scene.check("all in one batch").await;
}

/// No order between the two is known, so nothing is guessed: the batch is refused before it goes anywhere.
pub(in crate::suite) async fn equal_versions_with_other_content_are_refused_in_one_batch(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": "first"}));
    scene.source.repeat_position(0, json!({"id": 1, "n": 2, "body": "second"}));
    let records = scene.records(0..2);
    let mut run = scene.run().await;
    let refusal = run.fold(&records).expect_err("one of the two would win by accident");
    assert!(matches!(refusal.reason, Reason::EqualVersionOtherContent { .. }), "{refusal}");
    let mut run = scene.run().await;
    scene.deliver(&mut run, [0]).await;
    scene.check("what came before").await;
}

/// The destination is never compared: an equal version is a no-op, whatever it says.
pub(in crate::suite) async fn of_equal_versions_the_first_stays(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": "first"}));
    scene.source.repeat_position(0, json!({"id": 1, "n": 2, "body": "second"}));
    let mut run = scene.run().await;
    scene.deliver(&mut run, [0]).await;
    let outcome = scene.deliver(&mut run, [1]).await;
    assert_eq!((outcome.applied, outcome.stale), (0, 1));
    scene.check("behind an equal version").await;
}

/// Positions that differ in their last bits only, and in none of the first 53.
pub(in crate::suite) async fn versions_are_compared_in_all_their_bits(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": "small"}));
    for (n, position) in [(2, 1 << 33), (3, 1 << 54), (4, (1 << 55) + 1), (5, (1 << 56) - 40)] {
        scene.source.jump(position);
        scene.source.update(0, json!({"id": 1, "n": n}), Sent::Whole);
        scene.source.update(0, json!({"id": 1, "n": 10 * n}), Sent::Whole);
    }
    for which in [vec![8], vec![7], vec![0], vec![3, 4], vec![1], vec![5, 6, 8]] {
        scene.replay(1, which.iter().copied()).await;
        scene.check(&format!("records {which:?}")).await;
    }
    let mut scene = Scene::of(stand, scene.source).await;
    let mut run = scene.run().await;
    scene.deliver_by(1, &mut run, scene.all()).await;
    scene.check_end("in their order").await;
}

/// Rows that are read again while changes stream on: each says what was so at its place.
pub(in crate::suite) async fn rows_that_are_read_again_stand_at_their_place(stand: &dyn Stand) {
    for (engine, size) in [(Engine::Postgres, 1), (Engine::Postgres, 100), (Engine::MariaDb, 4)] {
        let mut scene = Scene::of(stand, Source::new(engine, [Table::of("items")])).await;
        lives(&mut scene.source);
        scene.source.read_again(0);
        scene.source.update(0, json!({"id": 1, "n": 7}), Sent::Whole);
        scene.source.snapshot(0);
        scene.source.delete(0, json!({"id": 3}));
        scene.source.read_again(0);
        let mut run = scene.run().await;
        scene.deliver_by(size, &mut run, scene.all()).await;
        scene.check(&format!("{engine:?} in batches of {size}")).await;
        scene.replay(size, 6..scene.all().end).await;
        scene.check_end(&format!("{engine:?}, the end again in batches of {size}")).await;
    }
}
