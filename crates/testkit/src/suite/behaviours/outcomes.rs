//! What is not heard of, what fails, and what fails in part: the same batch again makes it right.

use serde_json::json;
use settle_core::policy::{Verdict, decide};
use settle_core::sink::{Effect, FailureKind, Outcome};

use crate::suite::scene::Scene;
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::{Fault, Form, Stand};
use crate::suite::table::Table;

/// Inserts, updates, deletes and a truncate of two tables.
fn busy(source: &mut Source) {
    for table in [0, 1] {
        for id in 1..=6 {
            source.insert(table, json!({"id": id, "n": 1, "body": format!("{table}/{id}")}));
        }
        source.update(table, json!({"id": 1, "n": 2}), Sent::Masked);
        source.delete(table, json!({"id": 2}));
        source.rename(table, json!({"id": 3}), json!({"id": 13}), Sent::Whole);
    }
    source.truncate(1, 0);
    source.insert(1, json!({"id": 1, "n": 9, "body": "behind"}));
}

async fn two_tables(stand: &dyn Stand) -> Scene {
    let mut source = Source::new(Engine::Postgres, [Table::of("items"), Table::of("more")]);
    busy(&mut source);
    Scene::of(stand, source).await
}

/// The process dies between the destination's acknowledgement and its own note of it.
pub(in crate::suite) async fn a_batch_whose_proof_was_lost_is_applied_again_without_effect(stand: &dyn Stand) {
    for size in [8, 100] {
        let mut scene = two_tables(stand).await;
        let mut run = scene.run().await;
        let which: Vec<usize> = scene.all().collect();
        for batch in which.chunks(size) {
            let records = scene.records(batch.iter().copied());
            let lost = run.fold(&records).expect("records that fold");
            drop(run.sink.apply(&lost).await.expect("a batch that is applied"));
            let written = scene.written(batch.iter().copied());
            scene.model.take(written.iter());
            scene.check("whose proof is lost").await;
            // Another process begins where the one before had proofs.
            run = scene.run().await;
            scene.deliver(&mut run, batch.iter().copied()).await;
            scene.check("applied again").await;
        }
    }
}

/// The destination has the batch, and the sink does not know: it says so, and the same again changes nothing.
pub(in crate::suite) async fn a_lost_reply_leaves_the_effect_unknown(stand: &dyn Stand) {
    let mut scene = two_tables(stand).await;
    let mut run = scene.faulty_run().await;
    // What comes with a table's first rows is not what is lost.
    scene.deliver(&mut run, 0..1).await;
    let rest = 1..9;
    let records = scene.records(rest.clone());
    let batch = run.fold(&records).expect("records that fold");
    scene.destination.fail(Fault::LoseReply).await;
    let error = run.apply(&batch).await.expect_err("the reply is lost");
    assert_eq!((error.kind, error.effect), (FailureKind::Unreachable, Effect::Unknown), "{error}");
    scene.destination.heal().await;
    let written = scene.written(rest);
    scene.model.take(written.iter());
    if scene.is_atomic {
        scene.check("whose reply was lost").await;
    }
    let outcome = run.apply(&batch).await.expect("the same batch, by the same sink");
    if scene.is_atomic {
        assert_eq!(outcome, Outcome { applied: 0, stale: outcome.applied + outcome.stale }, "it was there");
    }
    scene.check("applied again").await;
}

/// A full disk, a lock, a server that is away: it is told apart from what a row does wrong, and waited for.
pub(in crate::suite) async fn a_destination_that_refuses_for_now_loses_nothing(stand: &dyn Stand) {
    let mut scene = two_tables(stand).await;
    let mut run = scene.faulty_run().await;
    scene.deliver(&mut run, 0..5).await;
    let records = scene.records(5..scene.all().end);
    let batch = run.fold(&records).expect("records that fold");
    scene.destination.fail(Fault::Refuse).await;
    for _ in 0..2 {
        let error = run.apply(&batch).await.expect_err("it is refused");
        let verdict = decide(error.kind);
        assert!(matches!(verdict, Verdict::Pause | Verdict::Retry), "{verdict:?} after {error}");
        scene.check("nothing of it is there").await;
    }
    scene.destination.heal().await;
    run.apply(&batch).await.expect("the same batch, once it may be written");
    let written = scene.written(5..scene.all().end);
    scene.model.take(written.iter());
    scene.check("all is there").await;
}

/// Table 1 refuses one of its rows.
async fn half_poison(stand: &dyn Stand) -> (Scene, usize) {
    let source = Source::new(Engine::Postgres, [Table::of("items"), Table::of("more")]);
    let mut scene = Scene::of(stand, source).await;
    scene.destination.make(scene.source.table(1), Form::NeverNegative("n")).await;
    busy(&mut scene.source);
    let poison = scene.source.insert(1, json!({"id": 50, "n": -1, "body": "bad"}));
    scene.source.insert(1, json!({"id": 51, "n": 1, "body": "good"}));
    (scene, poison)
}

/// Rows, deletes, truncates, offsets: all of a batch, or nothing.
pub(in crate::suite) async fn a_batch_that_fails_leaves_nothing(stand: &dyn Stand) {
    let (mut scene, _) = half_poison(stand).await;
    let mut run = scene.run().await;
    scene.deliver(&mut run, 0..4).await;
    let records = scene.records(4..scene.all().end);
    let batch = run.fold(&records).expect("records that fold");
    let error = run.apply(&batch).await.expect_err("a row is refused");
    assert_eq!((error.kind, error.effect), (FailureKind::Constraint, Effect::None), "{error}");
    scene.check("nothing of the batch is there").await;
    let run = scene.run().await;
    scene.check_offsets(&run, [1, 2, 1]);
    let part = scene.source.partition(1, 0);
    assert_eq!(run.places.applied_of(part.topic_id, &part.partition).unwrap_or(0), 0);
}

/// Whatever a failed batch left: taken apart, it ends as if it had never failed.
pub(in crate::suite) async fn a_batch_that_failed_in_part_is_made_whole(stand: &dyn Stand) {
    let (mut scene, poison) = half_poison(stand).await;
    let records = scene.records(scene.all());
    let mut run = scene.run().await;
    let batch = run.fold(&records).expect("records that fold");
    run.apply(&batch).await.expect_err("a row is refused");
    let mut run = scene.run().await;
    run.settle(&records).await.expect("taken apart");
    assert_eq!(run.letters.len(), 1);
    let written = scene.written(scene.all().filter(|at| *at != poison));
    scene.model.take(written.iter());
    scene.check("in pieces").await;
}
