//! Tables that were made by hand: what does not fit is refused before anything is written, and said so that it
//! can be mended.

use serde_json::json;
use settle_core::sink::{FailureKind, SinkError};

use crate::suite::scene::Scene;
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::{Form, PRECIOUS, Stand};
use crate::suite::table::{Column, Kind, Table};

/// One row for a table that is there.
async fn prepared(stand: &dyn Stand, form: Form<'_>) -> Scene {
    let mut scene = Scene::new(stand).await;
    scene.destination.make(scene.source.table(0), form).await;
    scene.source.insert(0, json!({"id": 1, "n": 4711, "body": "secret"}));
    scene
}

/// What a message must be: it names the table and what is wrong with it, and shows no row.
fn tells(error: &SinkError, names: &[&str]) {
    let text = error.to_string();
    assert!(!text.ends_with('.') && text.starts_with(|first: char| !first.is_uppercase()), "{text}");
    for name in ["items"].iter().chain(names) {
        assert!(text.contains(name), "{name:?} is not in: {text}");
    }
    for value in [PRECIOUS, "secret", "4711"] {
        assert!(!text.contains(value), "a row's value is in: {text}");
    }
    // A fragment behind the operation, and behind what is wrong what to do.
    assert!(text.contains("; ") && text.contains(": "), "no fix in: {text}");
}

async fn refused(scene: &Scene, names: &[&str]) {
    let records = scene.records(scene.all());
    for _ in 0..2 {
        let error = scene.run().await.settle(&records).await.expect_err("a table that does not fit");
        assert_eq!(error.kind, FailureKind::Contract, "{error}");
        tells(&error, names);
    }
}

async fn is_empty(scene: &Scene) {
    let rows = scene.destination.texts(scene.source.table(0), "n").await;
    assert!(rows.is_empty(), "rows are written");
}

/// Rows that nobody gave a version are not overwritten by guess.
pub(in crate::suite) async fn a_table_without_versions_is_refused_and_its_rows_stay(stand: &dyn Stand) {
    let mut scene = prepared(stand, Form::WithoutVersions).await;
    refused(&scene, &[]).await;
    scene.source.truncate(0, 0);
    let emptied = scene.records([1]);
    let error = scene.run().await.settle(&emptied).await.expect_err("rows without versions are not emptied");
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    let rows = scene.destination.texts(scene.source.table(0), "body").await;
    assert_eq!(rows, [PRECIOUS], "the row is as it was");
}

pub(in crate::suite) async fn a_table_with_another_key_is_refused(stand: &dyn Stand) {
    let scene = prepared(stand, Form::KeyedBy("n")).await;
    refused(&scene, &["id"]).await;
    is_empty(&scene).await;
}

/// Two rows may hold its value for a while, in whatever order they come.
pub(in crate::suite) async fn a_second_unique_index_is_refused(stand: &dyn Stand) {
    let scene = prepared(stand, Form::UniqueToo("n")).await;
    refused(&scene, &["n"]).await;
    is_empty(&scene).await;
}

pub(in crate::suite) async fn a_view_is_refused(stand: &dyn Stand) {
    let scene = prepared(stand, Form::View).await;
    refused(&scene, &["iew"]).await;
}

pub(in crate::suite) async fn a_missing_column_is_refused_where_it_may_not_be_added(stand: &dyn Stand) {
    let mut scene = prepared(stand, Form::Without("body")).await;
    scene.rules.refuses_columns = true;
    refused(&scene, &["body"]).await;
    is_empty(&scene).await;
}

pub(in crate::suite) async fn a_table_that_is_all_key_gets_no_column_that_may_not_be_added(stand: &dyn Stand) {
    let columns = vec![Column::key("left_id", Kind::Int), Column::key("right_id", Kind::Int)];
    let pairs = Table { name: "pairs".into(), columns };
    let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [pairs])).await;
    scene.rules.refuses_columns = true;
    let first = scene.source.insert(0, json!({"left_id": 1, "right_id": 2}));
    scene.replay(1, [first]).await;
    scene.source.add_column(0, Column::new("note", Kind::Text));
    scene.source.insert(0, json!({"left_id": 1, "right_id": 3, "note": "new"}));
    let records = scene.records(scene.all());
    let mut run = scene.run().await;
    let error = run.settle(&records[1..]).await.expect_err("a column that may not be added");
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert!(error.to_string().contains("note"), "{error}");
}

/// In the middle of a topic, too: the rows before have NULL in it.
pub(in crate::suite) async fn a_missing_column_is_added(stand: &dyn Stand) {
    let mut scene = prepared(stand, Form::Without("body")).await;
    scene.replay(1, scene.all()).await;
    scene.check("the table lacked it").await;
    scene.source.add_column(0, Column::new("later", Kind::Int));
    scene.rules.tables = scene.source.tables();
    let first = scene.source.insert(0, json!({"id": 2, "n": 1, "body": "b", "later": 7}));
    let last = scene.source.update(0, json!({"id": 1, "later": null}), Sent::Whole);
    let mut run = scene.run().await;
    scene.deliver(&mut run, [first]).await;
    scene.check("the source got it").await;
    scene.deliver(&mut run, [last]).await;
    scene.replay(1, 1..3).await;
    scene.check("and again").await;
}

/// Whether the table or the row is at fault, the value is not stored as something else, and not shown.
pub(in crate::suite) async fn a_column_of_another_kind_stores_nothing_else(stand: &dyn Stand) {
    let scene = prepared(stand, Form::Holding("body", Kind::Int)).await;
    let records = scene.records(scene.all());
    let mut run = scene.run().await;
    let batch = run.fold(&records).expect("records that fold");
    let error = run.apply(&batch).await.expect_err("a text for a column of numbers");
    assert!(matches!(error.kind, FailureKind::Contract | FailureKind::Row), "{:?} {error}", error.kind);
    let text = error.to_string();
    assert!(text.contains("items") && text.contains("body") && !text.contains("secret"), "{text}");
    is_empty(&scene).await;
}
