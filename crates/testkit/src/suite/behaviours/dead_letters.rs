//! Poison: found by taking the batch apart, set aside, and what stands on it with it. Everything else is applied.

use serde_json::json;
use settle_core::dead_letter::ErrorClass;

use crate::suite::run::Run;
use crate::suite::scene::Scene;
use crate::suite::source::Sent;
use crate::suite::stand::{Form, Stand};

/// A table by whose constraint the engine refuses rows whose `n` is negative.
async fn choosy(stand: &dyn Stand) -> Scene {
    let scene = Scene::new(stand).await;
    scene.destination.make(scene.source.table(0), Form::NeverNegative("n")).await;
    scene
}

/// Settles these records as one batch: all but the poison are applied.
async fn settle(scene: &mut Scene, run: &mut Run, which: std::ops::Range<usize>, poison: &[(usize, ErrorClass)]) {
    let before = run.letters.len();
    let records = scene.records(which.clone());
    run.settle(&records).await.expect("a batch that is taken apart");
    let places = |at: usize| scene.source.log()[at].record.place();
    let mut told: Vec<_> = run.letters[before..].iter().map(|letter| (letter.record.place(), letter.class)).collect();
    let mut wanted: Vec<_> = poison.iter().map(|&(at, class)| (places(at), class)).collect();
    told.sort();
    wanted.sort();
    assert_eq!(told, wanted, "what was set aside");
    let applied = scene.written(which.filter(|at| poison.iter().all(|(poison, _)| poison != at)));
    scene.model.take(applied.iter());
    scene.check("beside what was set aside").await;
}

pub(in crate::suite) async fn poison_among_many_rows_is_found_and_its_neighbours_are_applied(stand: &dyn Stand) {
    let mut scene = choosy(stand).await;
    let poison = [0, 37, 38, 99];
    for id in 0..100_usize {
        let n = if poison.contains(&id) { -1 } else { 1 };
        scene.source.insert(0, json!({"id": id, "n": n, "body": "x"}));
    }
    let mut run = scene.run().await;
    settle(&mut scene, &mut run, 0..100, &poison.map(|at| (at, ErrorClass::Constraint))).await;
    assert_eq!((run.tally.applied, run.tally.dead_lettered), (96, 4));
    let ends: Vec<_> = run.committed.values().copied().collect();
    assert_eq!(ends, [34, 33, 33], "committed over what was set aside");
    // Poison alone.
    let alone = scene.source.insert(0, json!({"id": 200, "n": -1, "body": "x"}));
    settle(&mut scene, &mut run, alone..alone + 1, &[(alone, ErrorClass::Constraint)]).await;
    // It comes again with sound rows.
    let sound = scene.source.insert(0, json!({"id": 201, "n": 1, "body": "x"}));
    let mut run = scene.run().await;
    settle(&mut scene, &mut run, alone..sound + 1, &[(alone, ErrorClass::Constraint)]).await;
}

/// A value that its column cannot hold: refused by the sink or by the engine, and never shown.
pub(in crate::suite) async fn a_value_that_does_not_fit_is_set_aside(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": "a"}));
    scene.source.insert(0, json!({"id": 2, "n": "4711-not-a-number", "body": "b"}));
    scene.source.insert(0, json!({"id": 3, "n": 3, "body": "c"}));
    let mut run = scene.run().await;
    settle(&mut scene, &mut run, 0..3, &[(1, ErrorClass::Value)]).await;
    let error = &run.letters[0].error;
    assert!(error.contains("srv.public.items:2:0") && !error.contains("4711"), "{error}");
}

/// The survivor of a row is poison: the change before it is what is true and can be applied.
pub(in crate::suite) async fn the_last_good_change_of_a_row_is_applied(stand: &dyn Stand) {
    let mut scene = choosy(stand).await;
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": "good"}));
    scene.source.update(0, json!({"id": 1, "n": 2, "body": "better"}), Sent::Whole);
    scene.source.update(0, json!({"id": 1, "n": -1, "body": "bad"}), Sent::Whole);
    scene.source.insert(0, json!({"id": 4, "n": 1, "body": "neighbour"}));
    scene.source.update(0, json!({"id": 1, "n": -2, "body": "worse"}), Sent::Whole);
    let mut run = scene.run().await;
    let poison = [(2, ErrorClass::Constraint), (4, ErrorClass::Constraint)];
    settle(&mut scene, &mut run, 0..5, &poison).await;
    scene.source.update(0, json!({"id": 1, "n": 5}), Sent::Whole);
    settle(&mut scene, &mut run, 5..6, &[]).await;
}

/// The row's last values are in a dead letter: a change that does not carry them must not stand on older ones,
/// in this run or in the next, until a whole row comes.
pub(in crate::suite) async fn what_was_not_sent_behind_a_dead_letter_follows_it(stand: &dyn Stand) {
    for restarts in [false, true] {
        let mut scene = choosy(stand).await;
        scene.source.insert(0, json!({"id": 1, "n": 1, "body": "old"}));
        scene.source.update(0, json!({"id": 1, "n": -1, "body": "last"}), Sent::Whole);
        scene.source.update(0, json!({"id": 1, "n": 3}), Sent::Masked);
        scene.source.insert(0, json!({"id": 4, "n": 1, "body": "neighbour"}));
        scene.source.update(0, json!({"id": 1, "n": 4}), Sent::Masked);
        scene.source.update(0, json!({"id": 1, "n": 5, "body": "whole"}), Sent::Whole);
        scene.source.update(0, json!({"id": 1, "n": 6}), Sent::Masked);
        let mut run = scene.run().await;
        settle(&mut scene, &mut run, 0..2, &[(1, ErrorClass::Constraint)]).await;
        if restarts {
            run = scene.run().await;
            assert_eq!(run.places.holds.len(), 1, "the destination remembers");
        }
        settle(&mut scene, &mut run, 2..4, &[(2, ErrorClass::FollowsADeadLetter)]).await;
        let held = run.held().await.expect("the holds");
        assert_eq!(held.iter().map(|hold| hold.held.last - hold.held.first).collect::<Vec<_>>(), [1]);
        if restarts {
            run = scene.run().await;
        }
        settle(&mut scene, &mut run, 4..5, &[(4, ErrorClass::FollowsADeadLetter)]).await;
        settle(&mut scene, &mut run, 5..6, &[]).await;
        assert_eq!(run.held().await.expect("the holds"), []);
        if restarts {
            run = scene.run().await;
            assert_eq!(run.places.holds, [], "a whole row lifts it");
        }
        settle(&mut scene, &mut run, 6..7, &[]).await;
    }
}

/// A record that is no change event at all hides what became of its row.
pub(in crate::suite) async fn what_was_not_sent_behind_a_record_that_cannot_be_read_follows_it(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": "old"}));
    scene.source.garbage(0, json!({"id": 1}));
    scene.source.update(0, json!({"id": 1, "n": 3}), Sent::Masked);
    scene.source.insert(0, json!({"id": 4, "n": 1, "body": "neighbour"}));
    scene.source.delete(0, json!({"id": 1}));
    let mut run = scene.run().await;
    let poison = [(1, ErrorClass::NotJson), (2, ErrorClass::FollowsADeadLetter)];
    settle(&mut scene, &mut run, 0..4, &poison).await;
    settle(&mut scene, &mut run, 4..5, &[]).await;
    assert_eq!(scene.run().await.places.holds, [], "a delete lifts it, too");
}

/// A key change whose new row is poison, and the values that it did not send.
pub(in crate::suite) async fn a_key_change_into_poison_leaves_the_rest_right(stand: &dyn Stand) {
    let mut scene = choosy(stand).await;
    scene.source.insert(0, json!({"id": 1, "n": 1, "body": "moves"}));
    scene.source.update(0, json!({"id": 1, "n": 1}), Sent::Masked);
    scene.source.rename(0, json!({"id": 1}), json!({"id": 2, "n": -1}), Sent::Masked);
    scene.source.insert(0, json!({"id": 3, "n": 1, "body": "neighbour"}));
    let mut run = scene.run().await;
    scene.deliver(&mut run, 0..2).await;
    settle(&mut scene, &mut run, 2..5, &[(3, ErrorClass::Constraint)]).await;
    assert_eq!(scene.contents(0).await.live.into_keys().flatten().collect::<Vec<_>>(), ["3"]);
}
