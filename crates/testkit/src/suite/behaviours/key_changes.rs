//! A row that changes its key: a delete and an insert, most often on partitions of their own.

use serde_json::json;

use crate::suite::scene::{Scene, story};
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::Stand;
use crate::suite::table::Table;

pub(in crate::suite) async fn the_halves_of_a_key_change_come_in_either_order(stand: &dyn Stand) {
    let orders = [[0, 1, 2, 3], [0, 2, 3, 1], [2, 0, 1, 3], [0, 2, 1, 3]];
    for engine in [Engine::Postgres, Engine::MariaDb] {
        let mut scene = Scene::of(stand, Source::new(engine, [])).await;
        let mut stories = Vec::new();
        for (n, (order, size)) in orders.into_iter().flat_map(|order| [1, 4].map(|size| (order, size))).enumerate() {
            let table = scene.add_table(Table::of(format!("order{n}")));
            let start = scene.all().end;
            scene.source.insert(table, json!({"id": 1, "n": 1, "body": "a"}));
            scene.source.rename(table, json!({"id": 1}), json!({"id": 2}), Sent::Whole);
            scene.source.update(table, json!({"id": 2, "n": 2}), Sent::Whole);
            stories.push(story(start, &order, size));
        }
        let mut run = scene.run().await;
        scene.deliver_each(&mut run, &stories).await;
        scene.check("in every order").await;
        scene.replay(15, scene.all()).await;
        scene.check_end("and again").await;
    }
}

/// Two rows change places over a third key, in one transaction.
pub(in crate::suite) async fn keys_can_be_swapped(stand: &dyn Stand) {
    let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
    // Partition 1 has key 1, partition 2 keys 2 and 5.
    let orders: [&[usize]; 4] =
        [&[0, 1, 2, 3, 4, 5, 6, 7], &[0, 2, 5, 1, 3, 4, 6, 7], &[1, 3, 4, 6, 7, 0, 2, 5], &[0, 1, 3, 2, 4, 6, 5, 7]];
    let mut stories = Vec::new();
    for (n, (order, size)) in orders.into_iter().flat_map(|order| [1, 3, 8].map(|size| (order, size))).enumerate() {
        let table = scene.add_table(Table::of(format!("swap{n}")));
        let start = scene.all().end;
        scene.source.insert(table, json!({"id": 1, "n": 1, "body": "one"}));
        scene.source.insert(table, json!({"id": 2, "n": 2, "body": "two"}));
        scene.source.transaction(|source| {
            for (from, to) in [(1, 5), (2, 1), (5, 2)] {
                source.rename(table, json!({"id": from}), json!({"id": to}), Sent::Whole);
            }
        });
        stories.push(story(start, order, size));
    }
    let mut run = scene.run().await;
    scene.deliver_each(&mut run, &stories).await;
    scene.check_end("swapped").await;
}

/// `UPDATE … SET id = id + 3`, without the texts: each row takes the key of the next, which made room for it.
pub(in crate::suite) async fn rows_that_take_each_others_keys_keep_their_own_values(stand: &dyn Stand) {
    const ROWS: i64 = 40;
    for stored in [0, 20, 40] {
        let mut scene = Scene::new(stand).await;
        for id in 1..=ROWS {
            scene.source.insert(0, json!({"id": id, "n": id, "body": format!("body {id}")}));
        }
        let moved = scene.all().end;
        scene.source.transaction(|source| {
            for id in (1..=ROWS).rev() {
                source.rename(0, json!({"id": id}), json!({"id": id + 3}), Sent::Masked);
            }
        });
        let mut run = scene.run().await;
        if stored > 0 {
            scene.deliver(&mut run, 0..stored).await;
        }
        scene.deliver(&mut run, stored..scene.all().end).await;
        scene.check(&format!("{stored} rows stored before")).await;
        scene.replay(100, moved..scene.all().end).await;
        scene.check_end("moved again").await;
    }
}
