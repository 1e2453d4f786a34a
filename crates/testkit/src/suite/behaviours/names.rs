//! Names of tables and columns hold whatever the source allows.

use serde_json::{Value, json};
use settle_core::sink::FailureKind;

use crate::suite::scene::Scene;
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::{Need, Stand};
use crate::suite::table::{Column, Kind, Table};

const HOSTILE: [&str; 12] = [
    "it's",
    "dou\"ble",
    "back`tick",
    "back\\slash",
    "a.b",
    "with space",
    "größe_表_🦀",
    "select",
    "order",
    "MixedCase",
    "x'; DROP TABLE settle_meta; --",
    "100%_?",
];

/// All that can be done to a row, under these names of the key and the other columns.
fn life(scene: &mut Scene, table: usize, key: &str, number: &str, text: &str) {
    let row = |id: i64| Value::Object([(key.to_owned(), json!(id))].into_iter().collect());
    let with = |id: i64, more: &[(&str, Value)]| {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Value::Object([(key.to_owned(), json!(id))].into_iter().chain(more).collect())
    };
    let whole = |id, value: &str| with(id, &[(number, json!(id)), (text, json!(value))]);
    let source = &mut scene.source;
    source.insert(table, whole(1, "gone with the truncate"));
    source.truncate(table, 0);
    source.insert(table, whole(1, "kept"));
    source.insert(table, whole(2, "deleted"));
    source.insert(table, whole(3, "moved"));
    source.update(table, with(1, &[(number, json!(7))]), Sent::Masked);
    source.delete(table, row(2));
    source.rename(table, row(3), row(4), Sent::Masked);
    source.update(table, with(4, &[(text, Value::Null)]), Sent::Whole);
}

const LENGTH: usize = 10;

pub(in crate::suite) async fn hostile_names_are_names(stand: &dyn Stand) {
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
        scene.rules.deletes = Some(deletes);
        let may = |c: &char| *c <= '\u{ffff}' || stand.lacks(Need::AnyCharacter).is_none();
        let names = HOSTILE.map(|name| name.chars().filter(may).collect::<String>());
        let next = |n: usize| names[n % names.len()].as_str();
        for (n, name) in names.iter().enumerate() {
            let (key, number, text) = (next(n + 1), next(n + 2), next(n + 3));
            let columns =
                vec![Column::key(key, Kind::Int), Column::new(number, Kind::Int), Column::new(text, Kind::Text)];
            let table = scene.add_table(Table { name: name.into(), columns });
            life(&mut scene, table, key, number, text);
        }
        let tables = scene.source.tables().len();
        for table in 0..tables {
            let start = table * LENGTH;
            let mut run = scene.run_on(table).await;
            scene.deliver(&mut run, start..start + 1).await;
            scene.deliver(&mut run, start + 1..start + 5).await;
            scene.deliver(&mut run, start + 5..start + LENGTH).await;
        }
        scene.check(&format!("{deletes:?} deletes")).await;
        scene.replay(LENGTH * tables, scene.all()).await;
        scene.check("all of them in one batch again").await;
    }
}

/// Names as long as the engine lets them be, in one byte a character and in more. One byte more is refused before
/// anything is written.
pub(in crate::suite) async fn the_longest_name_is_a_name(stand: &dyn Stand) {
    let longest = stand.longest_name();
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
        scene.rules.deletes = Some(deletes);
        let of_bytes = |text: &str| {
            let mut name = text.repeat(longest / text.len());
            name.push_str(&"_".repeat(longest - name.len()));
            name
        };
        let names = [of_bytes("x"), of_bytes("ü"), format!("{}y", &of_bytes("x")[1..])];
        for name in &names {
            let table = scene.add_table(Table::of(name.clone()));
            life(&mut scene, table, "id", "n", "body");
            let mut run = scene.run_on(table).await;
            scene.deliver_by(4, &mut run, table * LENGTH..(table + 1) * LENGTH).await;
        }
        scene.check(&format!("{deletes:?} deletes")).await;
    }
}

pub(in crate::suite) async fn a_name_that_is_too_long_is_refused(stand: &dyn Stand) {
    let longest = stand.longest_name();
    let mut scene = Scene::of(stand, Source::new(Engine::Postgres, [])).await;
    let table = scene.add_table(Table::of("z".repeat(longest + 1)));
    scene.source.insert(table, json!({"id": 1, "n": 1, "body": "secret"}));
    let records = scene.records([0]);
    let error = scene.run_on(table).await.settle(&records).await.expect_err("a name that is too long");
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    // Cut short it would be another table's.
    let cut = scene.add_table(Table::of("z".repeat(longest)));
    assert_eq!(scene.contents(cut).await.live.len(), 0);
}

/// A key of text and a number, each text with two rows that change and go.
fn regions(names: &[&str]) -> Source {
    let columns =
        vec![Column::key("region", Kind::Text), Column::key("id", Kind::Int), Column::new("body", Kind::Text)];
    let mut source = Source::new(Engine::Postgres, [Table { name: "regions".into(), columns }]);
    for region in names {
        for id in [1, 2] {
            source.insert(0, json!({"region": region, "id": id, "body": format!("{region}{id}")}));
        }
    }
    for region in names {
        source.update(0, json!({"region": region, "id": 1, "body": format!("{region} changed")}), Sent::Whole);
        source.delete(0, json!({"region": region, "id": 2}));
    }
    source
}

/// The parts of a key do not run together, and texts that differ in case, accents, spaces or digits are not one.
pub(in crate::suite) async fn keys_of_any_text_stay_apart(stand: &dyn Stand) {
    let names = ["a", "A", "á", "a ", " a", "", "it's", "x\"y", "\\", "7", "07", "ß", "ss", "表", "null", "a|b"];
    for deletes in Scene::ways_to_delete(stand) {
        let mut scene = Scene::of(stand, regions(&names)).await;
        scene.rules.deletes = Some(deletes);
        let mut run = scene.run().await;
        scene.deliver_by(25, &mut run, scene.all()).await;
        scene.check(&format!("{deletes:?} deletes")).await;
        scene.replay(7, scene.all()).await;
        scene.check(&format!("{deletes:?} deletes, again")).await;
        assert_eq!(scene.contents(0).await.live.len(), names.len());
    }
}
