//! What a look sees, and what a proof makes and leaves.

use serde_json::json;
use settle_core::key::Key;
use settle_core::sink::Sink;
use settle_engine::contents::{Contents, SeenRow, TargetTable, Wanted};
use settle_engine::sinks::mysql::{MySql, MySqlContents, scratch};

use crate::database::{Database, META, apply_all, parts, soft, target};
use crate::log::{Log, batch};

fn log() -> Log {
    let mut log = Log::of("t");
    log.snapshot(1, 10, &json!({"id": 3, "v": "read"}));
    for (op, lsn, row) in [
        ("c", 20, json!({"id": 1, "v": "a"})),
        ("c", 30, json!({"id": 2, "v": null})),
        ("d", 40, json!({"id": 1})),
        ("u", 50, json!({"id": 2, "v": "b"})),
    ] {
        log.add(0, op, lsn, &row, &[]);
    }
    log
}

async fn database() -> Database {
    let database = Database::new().await;
    let flag = "`_is_deleted` TINYINT NOT NULL DEFAULT 0";
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT, {META}, {flag})")).await;
    database
}

async fn seen(contents: &mut MySqlContents, columns: Option<&[String]>) -> (Vec<SeenRow>, u64) {
    let table = TargetTable { name: "t".into(), key: vec!["id".into()] };
    let mut rows = Vec::new();
    let look = contents
        .rows(&table, columns, &mut |row| {
            rows.push(row);
            Ok(())
        })
        .await
        .unwrap()
        .unwrap();
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    (rows, look.physical)
}

#[tokio::test]
async fn nothing_is_seen_where_nothing_was_written() {
    let database = Database::new().await;
    let mut contents = MySqlContents::new(database.config(), target());
    assert_eq!(contents.tables().await.unwrap(), []);
    assert_eq!(contents.facts().await.unwrap(), []);
    assert_eq!(contents.places(&parts(&log().records)).await.unwrap().floors, []);
    let table = TargetTable { name: "t".into(), key: vec!["id".into()] };
    assert_eq!(contents.summary(&table).await.unwrap(), None);
}

#[tokio::test]
async fn rows_are_seen_with_their_versions_and_a_change_of_any_value_shows() {
    for (target, physical) in [(target(), 2), (soft(), 3)] {
        let (database, log) = (database().await, log());
        apply_all(&database, &target, &log.records, 2).await;
        let mut contents = MySqlContents::new(database.config(), target.clone());
        let tables = contents.tables().await.unwrap();
        assert_eq!(tables, [TargetTable { name: "t".into(), key: vec!["id".into()] }]);
        let (before, lies) = seen(&mut contents, None).await;
        let shown: Vec<(&str, bool)> = before.iter().map(|row| (row.key.as_str(), row.is_deleted)).collect();
        assert_eq!(shown, [("{\"id\":1}", true), ("{\"id\":2}", false), ("{\"id\":3}", false)]);
        assert_eq!(lies, physical);
        let summary = contents.summary(&tables[0]).await.unwrap().unwrap();
        assert_eq!((summary.physical, summary.current), (physical, 2));
        assert_eq!((summary.greatest, summary.source_ts_ms), (Some(before[1].version), Some(1_796_056_737_085)));
        apply_all(&database, &target, &log.records, 7).await;
        assert_eq!(seen(&mut contents, None).await.0, before);
        database.run("UPDATE t SET v = 'c' WHERE id = 2").await;
        let (after, _) = seen(&mut contents, Some(&["v".to_owned()])).await;
        assert_ne!(after[1].content, before[1].content);
        assert_eq!((&after[0], &after[2]), (&before[0], &before[2]));
        let floors = contents.places(&parts(&log.records)).await.unwrap().floors;
        assert_eq!(floors.iter().map(|(_, floor)| floor.commit).collect::<Vec<_>>(), [10]);
        let kinds: Vec<String> = contents.facts().await.unwrap().into_iter().map(|fact| fact.kind).collect();
        let of_hard_deletes: &[&str] = if physical == 2 { &["tombstones"] } else { &[] };
        assert_eq!(kinds, [&["filled", "filled", "floor", "scheme", "table"], of_hard_deletes].concat());
    }
}

#[tokio::test]
async fn one_row_is_found_by_its_key_as_the_log_spells_it() {
    let (database, log) = (database().await, log());
    apply_all(&database, &target(), &log.records, 2).await;
    let mut contents = MySqlContents::new(database.config(), target());
    let table = batch(&log.records).tables().next().unwrap().table.clone();
    let mut found = Vec::new();
    for key in [r#"{"id":2}"#, r#"{"id":1}"#, r#"{"id":9}"#] {
        let key = Key::parse(key, None).unwrap();
        let wanted = Wanted { table: &table, key: &key, schema: None, with_values: true };
        found.push(contents.find(wanted).await.unwrap());
    }
    let live = found[0].as_ref().unwrap();
    assert_eq!((live.is_deleted, live.columns.as_slice()), (false, &[("v".to_owned(), Some("b".to_owned()))][..]));
    assert_eq!(found[1].as_ref().map(|row| (row.is_deleted, row.columns.len())), Some((true, 0)));
    assert_eq!(found[2], None);
}

#[tokio::test]
async fn a_scratch_database_has_the_tables_without_rows_and_the_places_and_goes_without_a_trace() {
    let (database, log) = (database().await, log());
    apply_all(&database, &target(), &log.records, 2).await;
    let name = scratch::name(database.inner.name(), &"x".repeat(40));
    assert!(name.len() <= 64 && name.ends_with(&"x".repeat(40)), "{name}");
    let name = scratch::name(database.inner.name(), "proof");
    scratch::make(&database.config(), &name).await.unwrap();
    let counts = format!(
        "SELECT CONCAT_WS(' ', (SELECT COUNT(*) FROM `{name}`.t), (SELECT COUNT(*) FROM `{name}`.t__tombstones), \
         (SELECT COUNT(*) FROM `{name}`.settle_meta))"
    );
    assert_eq!(database.one(&counts).await, "0 0 6");
    let mut config = database.config();
    config.address = config.address.with_database(&name);
    let mut anew = MySql::new(config, target());
    anew.open(&parts(&log.records)).await.unwrap();
    assert_eq!(anew.apply(&batch(&log.records)).await.unwrap().outcome.applied, 3);
    let error = scratch::make(&database.config(), &name).await.unwrap_err();
    assert!(error.context.contains("database exists"), "{error}");
    drop(anew);
    scratch::remove(&database.config(), &name).await.unwrap();
    let left = format!("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '{name}'");
    assert_eq!(database.one(&left).await, "0");
    scratch::forget_group(&database.config(), "settle").await.unwrap();
    // The lock rows belong to nobody.
    let groups = "SELECT GROUP_CONCAT(DISTINCT CONCAT('[', consumer_group, ']')) FROM settle_positions";
    assert_eq!(database.one(groups).await, "[]");
}
