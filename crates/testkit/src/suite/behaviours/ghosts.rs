//! Ghosts: rows that were deleted while the connector had lost its place, and that no record mentions.

use std::sync::Arc;

use serde_json::json;
use settle_core::sink::{Passed, Pending, Seen, Sweep};
use settle_core::version::Version;

use crate::suite::run::Run;
use crate::suite::scene::Scene;
use crate::suite::source::{Meaning, Sent};
use crate::suite::stand::Stand;

/// Rows 1 to 4, of which 2 and 3 go unseen; then a full snapshot, and a change behind it.
fn haunt(scene: &mut Scene) -> Sweep {
    for id in 1..=4 {
        scene.source.insert(0, json!({"id": id, "n": 1, "body": "before"}));
        scene.source.update(0, json!({"id": id, "n": 2}), Sent::Whole);
    }
    scene.source.delete_unseen(0, json!({"id": 2}));
    scene.source.delete_unseen(0, json!({"id": 3}));
    let snapshot = scene.source.snapshot(0);
    let Meaning::Row { version, .. } = &scene.source.log()[snapshot.start].meaning else { panic!("a row is read") };
    let below = Version::from_halves(version.hi(), 0);
    let topic = scene.source.partition(0, 0).partition.topic;
    scene.source.insert(0, json!({"id": 5, "n": 1, "body": "behind"}));
    Sweep { table: Arc::new(scene.source.name(0)), topic, below }
}

async fn keys(scene: &Scene) -> Vec<String> {
    scene.contents(0).await.live.into_keys().flatten().collect()
}

async fn tell(scene: &Scene, run: &mut Run, sweep: &Sweep, seen: Seen) {
    let topic_id = scene.source.partition(0, 0).topic_id;
    run.sink.plan(topic_id, sweep, seen).await.expect("a plan is kept");
}

async fn finish(scene: &Scene, run: &mut Run, sweep: &Sweep) -> u64 {
    let topic_id = scene.source.partition(0, 0).topic_id;
    let end = scene.all().end as i64;
    let ends = (0..3).map(|number| (scene.source.partition(0, number).partition, end)).collect();
    let passed = Passed { what: Pending::Sweep(topic_id, sweep.clone()), ends };
    run.sink.finish(&passed).await.expect("a sweep is done")
}

/// A record from before the gap was set aside, or never read: it comes for the first time behind the
/// sweep, and there is neither its row nor a tombstone. Of one that comes later in the log, however
/// old its version, the transaction may have been open all the time.
pub(in crate::suite) async fn what_comes_first_behind_a_sweep_brings_no_ghost(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    scene.rules.sweeps = true;
    let sweep = haunt(&mut scene);
    let all = scene.all();
    // The first two are of row 1, the next two of row 2: a ghost that was never there.
    let (unread, rest): (Vec<_>, Vec<_>) = all.partition(|at| (2..4).contains(at));
    let mut run = scene.run().await;
    let records = scene.records(rest);
    run.settle(&records).await.expect("all but the ghost");
    tell(&scene, &mut run, &sweep, Seen::Gap).await;
    tell(&scene, &mut run, &sweep, Seen::Last).await;
    assert_eq!(finish(&scene, &mut run, &sweep).await, 1, "the other ghost");
    assert_eq!(keys(&scene).await, ["1", "4", "5"]);
    let records = scene.records(unread);
    scene.run().await.settle(&records).await.expect("it is read at last");
    assert_eq!(keys(&scene).await, ["1", "4", "5"]);
}

/// Two instances see the two ends of the snapshot, a third sweeps.
pub(in crate::suite) async fn ghosts_are_swept_and_stay_away(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::new(stand).await;
        (scene.rules.deletes, scene.rules.sweeps) = (Some(deletes), true);
        let sweep = haunt(&mut scene);
        let mut run = scene.run().await;
        scene.deliver_by(4, &mut run, scene.all()).await;
        scene.check("ghosts are still there").await;
        assert_eq!(keys(&scene).await, ["1", "2", "3", "4", "5"]);
        tell(&scene, &mut run, &sweep, Seen::Gap).await;
        let mut other = scene.run().await;
        tell(&scene, &mut other, &sweep, Seen::Last).await;
        tell(&scene, &mut other, &sweep, Seen::Last).await;
        let mut third = scene.run().await;
        let topic_id = scene.source.partition(0, 0).topic_id;
        assert_eq!(third.places.pending, [Pending::Sweep(topic_id, sweep.clone())], "another run knows of it");
        assert_eq!(finish(&scene, &mut third, &sweep).await, 2);
        assert_eq!(keys(&scene).await, ["1", "4", "5"], "{deletes:?} deletes");
        assert_eq!(finish(&scene, &mut third, &sweep).await, 0, "done twice it changes nothing more");
        assert_eq!(scene.run().await.places.pending, []);
        let records = scene.records(scene.all());
        for size in [1, 100] {
            let mut again = scene.run().await;
            for batch in records.chunks(size) {
                again.settle(batch).await.expect("a replay");
            }
            assert_eq!(keys(&scene).await, ["1", "4", "5"], "{deletes:?} deletes, after a replay by {size}");
        }
        let born = scene.source.insert(0, json!({"id": 2, "n": 9, "body": "another"}));
        let records = scene.records([born]);
        scene.run().await.settle(&records).await.expect("a newer row");
        assert_eq!(keys(&scene).await, ["1", "2", "4", "5"], "a newer row wins over its ghost");
    }
}

/// Whoever saw one end of the snapshot alone knows too little.
pub(in crate::suite) async fn ghosts_are_swept_only_where_all_was_seen(stand: &dyn Stand) {
    for seen in [Seen::Gap, Seen::Last] {
        let mut scene = Scene::new(stand).await;
        scene.rules.sweeps = true;
        let sweep = haunt(&mut scene);
        let mut run = scene.run().await;
        scene.deliver_by(100, &mut run, scene.all()).await;
        tell(&scene, &mut run, &sweep, seen).await;
        assert_eq!(finish(&scene, &mut run, &sweep).await, 0, "{seen:?} alone");
        scene.check("nothing is swept").await;
    }
}
