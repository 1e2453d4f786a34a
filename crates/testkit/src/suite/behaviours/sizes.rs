//! The smallest batch, the greatest, and long rows.

use serde_json::{Value, json};
use settle_core::batch::Batch;
use settle_core::fold::Limits;
use settle_core::sink::Outcome;

use crate::suite::run::Run;
use crate::suite::scene::Scene;
use crate::suite::source::Sent;
use crate::suite::stand::Stand;

/// A text that no compression makes short, of this many bytes.
fn long(bytes: usize, seed: u64) -> String {
    let mut state = seed | 1;
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push(char::from(b' ' + u8::try_from((state >> 33) % 95).expect("below 95")));
    }
    text
}

pub(in crate::suite) async fn a_row_of_8_mib_is_a_row(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    let body = |seed| Value::from(long(8 << 20, seed));
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": body(1)}));
    scene.source.insert(0, json!({"id": 4, "n": 1, "body": "short"}));
    scene.source.update(0, json!({"id": 1, "n": 2}), Sent::Masked);
    scene.source.update(0, json!({"id": 4, "body": body(2)}), Sent::Whole);
    let mut run = scene.run().await;
    scene.deliver(&mut run, 0..2).await;
    scene.deliver(&mut run, 2..4).await;
    scene.check("all of it").await;
    scene.replay(4, 0..4).await;
    scene.check("all of it").await;
}

pub(in crate::suite) async fn a_batch_may_be_of_one_record(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    scene.source.delete_unknown(0, json!({"id": 9}));
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": "a"}));
    scene.source.tombstone(0, json!({"id": 9}));
    scene.source.truncate(0, 0);
    scene.source.insert(0, json!({"id": 1, "n": 2, "body": ""}));
    let mut run = scene.run().await;
    for at in scene.all() {
        scene.deliver(&mut run, [at]).await;
        scene.check(&format!("record {at}")).await;
    }
}

/// Applies the one batch that the default limits make of all records but the last, and the last.
async fn at_the_limit(scene: &mut Scene, run: &mut Run) -> (Batch, Outcome) {
    let records = scene.records(scene.all());
    let batches = run.fold_by(Limits::default(), &records);
    let [full, rest] = <[Batch; 2]>::try_from(batches).expect("one full batch, and one behind it");
    assert_eq!(rest.tally().read, 1, "the last record did not fit");
    let outcome = run.apply(&full).await.expect("a batch at the limit");
    run.apply(&rest).await.expect("the rest");
    let written = scene.written(scene.all());
    scene.model.take(written.iter());
    (full, outcome)
}

/// As many records as a batch takes, each of a row of its own.
pub(in crate::suite) async fn a_batch_may_be_of_as_many_rows_as_the_limit_allows(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    let rows = Limits::default().max_rows;
    for id in 0..=rows {
        scene.source.insert(0, json!({"id": id * 7919 % (rows + 1), "n": id, "body": format!("body {id}")}));
    }
    let mut run = scene.run().await;
    let (full, outcome) = at_the_limit(&mut scene, &mut run).await;
    assert_eq!((full.row_count(), outcome), (rows, Outcome { applied: rows as u64, stale: 0 }));
    scene.check("all of it").await;
}

/// As many records as a batch takes, all of one row, or of a few that come and go.
pub(in crate::suite) async fn a_batch_may_be_of_one_hot_row(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    let records = Limits::default().max_rows + 1;
    scene.source.insert(0, json!({"id": 1, "n": 0, "body": "kept through all of it"}));
    for n in 1..records {
        scene.source.update(0, json!({"id": 1, "n": n}), Sent::Masked);
    }
    let mut run = scene.run().await;
    let (full, outcome) = at_the_limit(&mut scene, &mut run).await;
    assert_eq!((full.row_count(), outcome), (1, Outcome { applied: 1, stale: 0 }));
    scene.check("one hot row").await;
}

/// As many bytes as a batch takes, in rows of 64 KiB.
pub(in crate::suite) async fn a_batch_may_be_of_as_many_bytes_as_the_limit_allows(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    let limit = Limits::default().max_bytes;
    let (mut id, mut bytes) = (0_u64, 0);
    while bytes < limit {
        let at = scene.source.insert(0, json!({"id": id, "n": 1, "body": long(64 << 10, id)}));
        bytes += scene.source.log()[at].record.size();
        id += 1;
    }
    scene.source.update(0, json!({"id": 0, "n": 2}), Sent::Masked);
    let mut run = scene.run().await;
    let (full, outcome) = at_the_limit(&mut scene, &mut run).await;
    assert!(full.size() >= limit);
    assert_eq!(outcome, Outcome { applied: id, stale: 0 });
    scene.check("all of it").await;
}

/// Deletes of many rows at once, of which half were never there.
pub(in crate::suite) async fn a_batch_may_be_of_deletes_alone(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::new(stand).await;
        scene.rules.deletes = Some(deletes);
        for id in 0..1000 {
            scene.source.insert(0, json!({"id": id, "n": 1, "body": "x"}));
        }
        let mut run = scene.run().await;
        scene.deliver(&mut run, 0..1000).await;
        for id in 500..1500 {
            if id < 1000 {
                scene.source.delete(0, json!({"id": id}));
            } else {
                scene.source.delete_unknown(0, json!({"id": id}));
            }
        }
        scene.deliver(&mut run, 1000..2000).await;
        scene.check("all of it").await;
        scene.replay(2000, scene.all()).await;
        scene.check("all of it").await;
    }
}
