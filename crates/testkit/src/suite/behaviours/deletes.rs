//! A delete leaves its version behind, whether the row is marked or goes.

use serde_json::json;

use super::every_cut;
use crate::suite::scene::Scene;
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::{Deletes, Rules, Stand};
use crate::suite::table::Table;

/// One row that comes, changes, goes, comes again and changes.
fn life(source: &mut Source, table: usize) -> std::ops::Range<usize> {
    let start = source.log().len();
    source.insert(table, json!({"id": 1, "n": 1, "body": "first life"}));
    source.update(table, json!({"id": 1, "n": 2}), Sent::Whole);
    source.delete(table, json!({"id": 1}));
    source.insert(table, json!({"id": 1, "n": 3, "body": "second life"}));
    source.update(table, json!({"id": 1, "n": 4}), Sent::Whole);
    start..source.log().len()
}

pub(in crate::suite) async fn a_row_that_comes_and_goes_ends_alike_in_every_cut(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
        scene.rules.deletes = Some(deletes);
        let mut stories = Vec::new();
        for (n, cut) in every_cut(5).into_iter().enumerate() {
            let table = scene.add_table(Table::of(format!("cut{n}")));
            let start = life(&mut scene.source, table).start;
            stories.push(cut.into_iter().map(|batch| batch.into_iter().map(|at| start + at).collect()).collect());
        }
        let mut run = scene.run().await;
        scene.deliver_each(&mut run, &stories).await;
        scene.check_end(&format!("{deletes:?} deletes, every cut")).await;
    }
}

/// A column that the source does not send any more is empty in a row that comes again: its value was another's.
pub(in crate::suite) async fn a_row_that_comes_again_has_nothing_of_the_one_before(stand: &dyn Stand) {
    let mut source = Source::new(Engine::Postgres, []);
    // With them, two schemas would be two batches.
    source.with_schemas = false;
    let mut scene = Scene::of(stand, source).await;
    let mut stories = Vec::new();
    for (n, cut) in every_cut(5).into_iter().enumerate() {
        let table = scene.add_table(Table::of(format!("cut{n}")));
        let start = scene.source.log().len();
        scene.source.insert(table, json!({"id": 1, "n": 1, "body": "first life"}));
        scene.source.insert(table, json!({"id": 2, "n": 1, "body": "its only life"}));
        scene.source.delete(table, json!({"id": 1}));
        scene.source.insert(table, json!({"id": 1, "n": 3}));
        scene.source.update(table, json!({"id": 1, "n": 4}), Sent::Whole);
        stories.push(cut.into_iter().map(|batch| batch.into_iter().map(|at| start + at).collect()).collect());
    }
    let mut run = scene.run().await;
    scene.deliver_each(&mut run, &stories).await;
    scene.check("every cut").await;
    scene.replay(32, scene.all()).await;
    scene.check_end("every cut, again").await;
}

/// What was deleted stays so, whichever older change comes late; a newer one brings the row back.
pub(in crate::suite) async fn a_late_older_change_does_not_resurrect(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::new(stand).await;
        scene.rules.deletes = Some(deletes);
        let life = life(&mut scene.source, 0);
        scene.replay(3, life.start..life.start + 3).await;
        scene.check(&format!("{deletes:?} deletes, the row is gone")).await;
        for older in [0, 1, 2] {
            scene.replay(1, [life.start + older]).await;
            scene.check(&format!("{deletes:?} deletes, record {older} again")).await;
        }
        assert_eq!(scene.contents(0).await.live.len(), 0);
        scene.replay(2, [life.start + 3, life.start + 4]).await;
        scene.check(&format!("{deletes:?} deletes, born again")).await;
        scene.replay(1, [life.start + 2]).await;
        scene.check(&format!("{deletes:?} deletes, the old delete again")).await;
        assert_eq!(scene.contents(0).await.live.len(), 1);
    }
}

pub(in crate::suite) async fn a_delete_of_a_row_never_seen_keeps_older_changes_out(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::new(stand).await;
        scene.rules.deletes = Some(deletes);
        life(&mut scene.source, 0);
        scene.replay(1, [2]).await;
        scene.check(&format!("{deletes:?} deletes, the delete alone")).await;
        scene.replay(1, [0, 1]).await;
        scene.check(&format!("{deletes:?} deletes, older changes behind it")).await;
    }
}

/// Restarted with the other setting, a pipeline stands on what the deletes of the one before left.
pub(in crate::suite) async fn a_changed_way_to_delete_brings_nothing_back(stand: &dyn Stand) {
    for first in Scene::ways_to_delete(stand) {
        for then in Scene::ways_to_delete(stand).into_iter().filter(|then| *then != first) {
            let mut scene = Scene::new(stand).await;
            // A table of both forms: the mark of soft deletes, and versions of hard ones beside it.
            scene.rules.deletes = Some(Deletes::Soft);
            life(&mut scene.source, 0);
            scene.source.insert(0, json!({"id": 2, "n": 1, "body": "another"}));
            scene.replay(1, [5]).await;
            scene.rules = Rules { deletes: Some(first), ..scene.rules };
            scene.replay(3, 0..3).await;
            scene.rules = Rules { deletes: Some(then), ..scene.rules };
            scene.replay(1, 0..3).await;
            scene.check(&format!("{then:?} behind {first:?} deletes")).await;
            scene.replay(2, 3..5).await;
            scene.check(&format!("{then:?} behind {first:?} deletes, born again")).await;
        }
    }
}
