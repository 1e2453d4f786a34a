//! A truncate comes on one partition, the rows that it removes on others, before it and behind it.

use serde_json::json;
use settle_core::sink::{Passed, Pending};

use crate::suite::scene::{Scene, story};
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::Stand;
use crate::suite::table::Table;

/// Rows on partitions 1 and 2, a truncate on 0, a row behind it.
fn emptied(source: &mut Source, table: usize) {
    source.insert(table, json!({"id": 1, "n": 1, "body": "old"}));
    source.insert(table, json!({"id": 2, "n": 1, "body": "old"}));
    source.delete(table, json!({"id": 2}));
    source.truncate(table, 0);
    source.insert(table, json!({"id": 1, "n": 2, "body": "new"}));
}

pub(in crate::suite) async fn a_truncate_removes_what_stood_before_it_in_any_order(stand: &dyn Stand) {
    let orders = [[0, 1, 2, 3, 4], [3, 0, 1, 2, 4], [0, 3, 1, 4, 2], [0, 4, 3, 1, 2], [3, 0, 4, 1, 2]];
    for engine in [Engine::Postgres, Engine::MariaDb] {
        let mut scene = Scene::of(stand, Source::new(engine, [])).await;
        let mut stories = Vec::new();
        for (n, (order, size)) in orders.into_iter().flat_map(|order| [1, 2, 5].map(|size| (order, size))).enumerate() {
            let table = scene.add_table(Table::of(format!("order{n}")));
            let start = scene.all().end;
            emptied(&mut scene.source, table);
            stories.push(story(start, &order, size));
        }
        let mut run = scene.run().await;
        scene.deliver_each(&mut run, &stories).await;
        scene.check(&format!("{engine:?}, every order")).await;
        scene.replay(40, scene.all()).await;
        scene.check_end(&format!("{engine:?}, and again")).await;
    }
}

/// A full snapshot lifts the versions of one partition, and not that of the truncate on another.
pub(in crate::suite) async fn rows_that_a_snapshot_lifted_do_not_survive_a_truncate(stand: &dyn Stand) {
    let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
    let orders = [[0, 1, 2, 3, 4], [3, 0, 1, 2, 4], [0, 1, 3, 2, 4], [0, 1, 2, 4, 3]];
    let mut stories = Vec::new();
    for (n, (order, size)) in orders.into_iter().flat_map(|order| [1, 5].map(|size| (order, size))).enumerate() {
        let table = scene.add_table(Table::of(format!("lifted{n}")));
        let start = scene.all().end;
        scene.source.insert(table, json!({"id": 1, "n": 1, "body": "a"}));
        scene.source.snapshot(table);
        scene.source.update(table, json!({"id": 1, "n": 2}), Sent::Whole);
        scene.source.truncate_behind_a_snapshot(table, 0);
        scene.source.insert(table, json!({"id": 4, "n": 3, "body": "behind"}));
        stories.push(story(start, &order, size));
    }
    let mut run = scene.run().await;
    scene.deliver_each(&mut run, &stories).await;
    scene.check_end("in every order").await;
}

/// A connector that lost its place takes a full snapshot, which lifts the partition of an old truncate, and sends
/// that again.
pub(in crate::suite) async fn a_truncate_that_a_snapshot_lifted_wipes_nothing_behind_it(stand: &dyn Stand) {
    let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
    let orders = [[0, 1, 2, 3, 4], [0, 3, 4, 1, 2], [1, 0, 3, 4, 2], [1, 2, 0, 3, 4]];
    let mut stories = Vec::new();
    for (n, (order, size)) in orders.into_iter().flat_map(|order| [1, 5].map(|size| (order, size))).enumerate() {
        let table = scene.add_table(Table::of(format!("lifted{n}")));
        let start = scene.all().end;
        scene.source.truncate(table, 1);
        scene.source.insert(table, json!({"id": 3, "n": 1, "body": "behind"}));
        scene.source.update(table, json!({"id": 3, "n": 2}), Sent::Whole);
        // A row of the truncate's own partition.
        scene.source.snapshot_of(table, json!({"id": 1, "n": 3, "body": "read"}));
        scene.source.send_again(start..start + 1);
        stories.push(story(start, &order, size));
    }
    let mut run = scene.run().await;
    scene.deliver_each(&mut run, &stories).await;
    scene.check_end("in every order").await;
}

pub(in crate::suite) async fn a_truncate_of_a_table_that_is_made_later_holds(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    emptied(&mut scene.source, 0);
    scene.replay(1, [3]).await;
    scene.check("the truncate alone").await;
    scene.replay(2, [0, 1]).await;
    scene.check("rows from before it").await;
    scene.replay(1, [4]).await;
    scene.check("the row behind it").await;
}

/// Another instance has read what stood before, and did not hear of the truncate.
pub(in crate::suite) async fn a_truncate_by_another_instance_holds_for_the_next_batch(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    emptied(&mut scene.source, 0);
    let part = |number| scene.source.partition(0, number);
    let (mut rows, mut truncates) = (scene.run_of(&[part(1), part(2)]).await, scene.run_of(&[part(0)]).await);
    scene.deliver(&mut rows, [0]).await;
    scene.deliver(&mut truncates, [3]).await;
    scene.check("the row is gone").await;
    scene.deliver(&mut rows, [1]).await;
    scene.check("and another from before does not come").await;
    scene.deliver(&mut rows, [2, 4]).await;
    scene.check("what came behind does").await;
}

/// Once every partition has passed a truncate, nothing of it is left to do.
pub(in crate::suite) async fn a_truncate_that_everything_has_passed_is_finished(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    emptied(&mut scene.source, 0);
    let mut run = scene.run().await;
    scene.deliver_by(1, &mut run, [0, 3, 1, 2, 4]).await;
    let mut run = scene.run().await;
    for what in run.places.pending.clone() {
        assert!(matches!(what, Pending::Truncate { .. }), "{what:?}");
        let passed = Passed { what, ends: Vec::new() };
        for time in ["once", "twice"] {
            assert_eq!(run.sink.finish(&passed).await.expect("what is pending is done"), 0);
            scene.check(&format!("finished {time}")).await;
        }
    }
    let run = scene.run().await;
    assert_eq!(run.places.pending, [], "it is done");
    scene.replay(2, scene.all()).await;
    scene.check_end("all again").await;
}
