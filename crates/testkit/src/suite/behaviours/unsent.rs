//! Values that PostgreSQL did not send (TOAST): the stored one is kept, and where there is none the run stops.

use serde_json::{Value, json};
use settle_core::sink::{FailureKind, Outcome, SinkError};

use super::every_cut;
use crate::suite::scene::Scene;
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::Stand;
use crate::suite::table::Table;

/// A whole life before the one that counts.
fn two_lives(source: &mut Source, table: usize) -> usize {
    let start = source.log().len();
    source.insert(table, json!({"id": 1, "n": 1, "body": "first life"}));
    source.update(table, json!({"id": 1, "n": 2}), Sent::Masked);
    source.delete(table, json!({"id": 1}));
    source.insert(table, json!({"id": 1, "n": 3, "body": "second life"}));
    source.update(table, json!({"id": 1, "n": 4}), Sent::Masked);
    start
}

/// Row 1 becomes row 2, whose insert does not carry the body, and is changed once more.
fn moving(source: &mut Source, table: usize) -> usize {
    let start = source.log().len();
    source.insert(table, json!({"id": 1, "n": 1, "body": "long"}));
    source.update(table, json!({"id": 1, "body": "last"}), Sent::Whole);
    source.rename(table, json!({"id": 1}), json!({"id": 2}), Sent::Masked);
    source.update(table, json!({"id": 2, "n": 2}), Sent::Masked);
    start
}

/// What a sink says where it has no value to keep.
fn is_the_cure(error: &SinkError, table: &str, column: &str) {
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    let text = error.to_string();
    for part in [table, column, "REPLICA IDENTITY FULL", "record srv.public."] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

pub(in crate::suite) async fn a_value_that_was_not_sent_is_kept_in_every_cut(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
        scene.rules.deletes = Some(deletes);
        let mut stories = Vec::new();
        for (n, cut) in every_cut(5).into_iter().enumerate() {
            let table = scene.add_table(Table::of(format!("cut{n}")));
            let start = two_lives(&mut scene.source, table);
            stories.push(cut.into_iter().map(|batch| batch.into_iter().map(|at| start + at).collect()).collect());
        }
        let mut run = scene.run().await;
        scene.deliver_each(&mut run, &stories).await;
        scene.check(&format!("{deletes:?} deletes, every cut")).await;
        scene.replay(32, scene.all()).await;
        scene.check_end(&format!("{deletes:?} deletes, again")).await;
    }
}

/// The next batch is made while the one before is still on its way, as in a run.
pub(in crate::suite) async fn batches_made_ahead_keep_what_those_before_them_wrote(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    two_lives(&mut scene.source, 0);
    scene.source.update(0, json!({"id": 1, "n": 5}), Sent::Masked);
    let cuts = [0..1, 1..4, 4..5, 5..6];
    let mut run = scene.run().await;
    let batches: Vec<_> =
        cuts.iter().map(|cut| run.fold(&scene.records(cut.clone())).expect("records that fold")).collect();
    for (cut, batch) in cuts.into_iter().zip(&batches) {
        run.apply(batch).await.expect("a batch that was made ahead");
        let written = scene.written(cut);
        scene.model.take(written.iter());
    }
    scene.check_end("batches made ahead").await;
}

/// A value of another life, or of another row, is never taken for it; nor is NULL.
pub(in crate::suite) async fn without_a_stored_value_the_run_stops(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::new(stand).await;
        scene.rules.deletes = Some(deletes);
        two_lives(&mut scene.source, 0);
        let masked = scene.records([4]);
        let mut run = scene.run().await;
        is_the_cure(&run.settle(&masked).await.expect_err("no row at all"), "items", "body");
        scene.check("nothing is written").await;
        scene.replay(3, 0..3).await;
        let mut run = scene.run().await;
        is_the_cure(&run.settle(&masked).await.expect_err("a deleted row"), "items", "body");
        scene.check("nothing is written").await;
        scene.replay(1, [3, 4]).await;
        scene.check("with the row before it").await;
    }
}

pub(in crate::suite) async fn a_change_that_is_stale_needs_no_value(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    two_lives(&mut scene.source, 0);
    scene.source.truncate(0, 0);
    scene.replay(1, [2]).await;
    scene.replay(1, [1]).await;
    scene.check("below a delete").await;
    scene.replay(1, [3]).await;
    scene.replay(1, [1]).await;
    scene.check("below a row").await;
    scene.replay(1, [5]).await;
    scene.replay(1, [4]).await;
    scene.check("below a truncate").await;
}

pub(in crate::suite) async fn null_is_a_value_that_is_kept(stand: &dyn Stand) {
    let columns = || json!({"id": 1, "n": 1, "body": null});
    for size in [1, 2] {
        let mut scene = Scene::new(stand).await;
        scene.source.insert(0, columns());
        scene.source.update(0, json!({"id": 1, "n": 2}), Sent::Masked);
        scene.source.update(0, json!({"id": 1, "body": "text"}), Sent::Whole);
        scene.source.update(0, json!({"id": 1, "n": 3}), Sent::Masked);
        let mut run = scene.run().await;
        scene.deliver_by(size, &mut run, scene.all()).await;
        scene.check(&format!("by {size}")).await;
    }
}

pub(in crate::suite) async fn a_key_change_keeps_what_was_not_sent(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
        scene.rules.deletes = Some(deletes);
        let batches: [&[&[usize]]; 7] = [
            &[&[0], &[1], &[2, 3], &[4]],
            &[&[0], &[1], &[3, 2], &[4]],
            &[&[0], &[1, 2, 3], &[4]],
            &[&[0], &[3, 1, 2], &[4]],
            &[&[0, 1], &[3, 4, 2]],
            &[&[0, 1, 2, 3, 4]],
            &[&[3, 0, 1, 2, 4]],
        ];
        let mut stories = Vec::new();
        for (n, batches) in batches.into_iter().enumerate() {
            let table = scene.add_table(Table::of(format!("order{n}")));
            let start = moving(&mut scene.source, table);
            stories.push(batches.iter().map(|batch| batch.iter().map(|at| start + at).collect()).collect());
        }
        let mut run = scene.run().await;
        scene.deliver_each(&mut run, &stories).await;
        scene.check(&format!("{deletes:?} deletes, every order")).await;
        let from_the_change = scene.all().filter(|at| at % 5 >= 2).collect::<Vec<_>>();
        scene.replay(100, from_the_change).await;
        scene.check_end(&format!("{deletes:?} deletes, the key change again")).await;
    }
}

/// The old row is gone, or what is stored of it need not be the last: nothing is guessed.
pub(in crate::suite) async fn a_key_change_without_its_other_half_stops_the_run(stand: &dyn Stand) {
    for before in [vec![0], vec![0, 1, 2]] {
        let mut scene = Scene::new(stand).await;
        moving(&mut scene.source, 0);
        scene.replay(1, before.iter().copied()).await;
        let create = scene.records([3]);
        let error = scene.run().await.settle(&create).await.expect_err("a value that is not there");
        is_the_cure(&error, "items", "body");
        scene.check("nothing is written").await;
    }
}

/// The old key was taken by another row since: a replay finds that one in the table.
pub(in crate::suite) async fn a_value_of_the_next_row_under_the_old_key_is_not_taken(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::new(stand).await;
        scene.rules.deletes = Some(deletes);
        moving(&mut scene.source, 0);
        let next = scene.source.insert(0, json!({"id": 1, "n": 9, "body": "another row"}));
        scene.replay(1, [next]).await;
        let halves = scene.records([2, 3]);
        let error = scene.run().await.settle(&halves).await.expect_err("the row that had the value is gone");
        is_the_cure(&error, "items", "body");
        scene.check("nothing is written").await;
    }
}

/// A connector that was killed sends its last records again, and goes on with new ones in the same batch.
pub(in crate::suite) async fn records_that_come_again_with_newer_ones_stand_on_what_was_made_of_them(
    stand: &dyn Stand,
) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
        scene.rules.deletes = Some(deletes);
        // What was applied, in batches, and where the log begins again.
        let cases: [(&[usize], usize); 7] =
            [(&[2, 4], 1), (&[2, 4], 2), (&[2, 4], 3), (&[4], 0), (&[4], 2), (&[2, 4, 5], 3), (&[2, 5], 1)];
        let (mut stories, mut rest) = (Vec::new(), Vec::new());
        for (n, (applied, again)) in cases.into_iter().enumerate() {
            let table = scene.add_table(Table::of(format!("again{n}")));
            let start = moving(&mut scene.source, table);
            scene.source.update(table, json!({"id": 2, "n": 3}), Sent::Masked);
            let starts = std::iter::once(0).chain(applied.iter().copied());
            stories.push(starts.zip(applied).map(|(from, to)| (start + from..start + to).collect()).collect());
            rest.extend(start + again..start + 6);
        }
        let mut run = scene.run().await;
        scene.deliver_each(&mut run, &stories).await;
        let mut run = scene.run().await;
        scene.deliver(&mut run, rest).await;
        scene.check_end(&format!("{deletes:?} deletes")).await;
    }
}

/// An insert that does not say which row it was before has nothing to stand on.
pub(in crate::suite) async fn an_insert_without_a_value_is_refused(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    moving(&mut scene.source, 0);
    scene.source.insert(0, json!({"id": 5, "n": 1, "body": "other"}));
    let mut run = scene.run().await;
    scene.deliver(&mut run, [5]).await;
    let mut record = scene.records([3]).remove(0);
    record.headers.clear();
    let error = scene.run().await.settle([&record]).await.expect_err("a transform dropped the header");
    is_the_cure(&error, "items", "body");
    scene.check("nothing is written").await;
}

/// Rows with and without their values, whose texts differ in nothing but length, each keep their own.
pub(in crate::suite) async fn long_values_that_were_not_sent_are_kept(stand: &dyn Stand) {
    let mut scene = Scene::new(stand).await;
    let body = |id: usize| Value::from("x".repeat(200_000 + id));
    for id in 0..12_usize {
        scene.source.insert(0, json!({"id": id, "n": 0, "body": body(id)}));
    }
    for id in 0..12_usize {
        scene.source.update(0, json!({"id": id, "n": 1}), Sent::Masked);
    }
    let mut run = scene.run().await;
    scene.deliver(&mut run, 0..12).await;
    let outcome = scene.deliver(&mut run, 12..24).await;
    assert_eq!(outcome, Outcome { applied: 12, stale: 0 });
    scene.check("long values").await;
}
