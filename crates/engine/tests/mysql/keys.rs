//! What a key is equal to, and what else is unique.

use serde_json::{Value, json};
use settle_core::sink::{FailureKind, Outcome, Sink};
use settle_engine::sinks::mysql::{KeyFolding, MySqlConfig};
use settle_engine::sinks::unique::Unique;

use crate::database::{Database, META, apply, apply_all, parts, row, soft, target};
use crate::log::{Log, UNSENT, batch, batches};

/// Three keys that a collation may take for one.
fn alike() -> Log {
    let mut log = Log::of("t");
    for (at, id) in (1_u64..).zip(["a", "A", "a "]) {
        log.add(0, "c", at * 10, &json!({"id": id, "v": id}), &[]);
    }
    log
}

#[tokio::test]
async fn a_key_that_folds_texts_is_refused_by_the_way_in_which_it_does() {
    for (column, said) in [
        ("VARCHAR(20) COLLATE utf8mb4_general_ci", "(collation utf8mb4_general_ci) takes letters for equal"),
        ("VARCHAR(20) COLLATE utf8mb4_general_nopad_ci", "takes letters for equal that differ by case, or by accents"),
        ("VARCHAR(20) COLLATE utf8mb4_bin", "takes texts for equal that differ by spaces at their end"),
        ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin", "differ by spaces at their end"),
        ("CHAR(20) COLLATE utf8mb4_nopad_bin", "does not keep spaces at the end of a text"),
        ("BINARY(20)", "takes bytes for equal that differ by zeros at their end"),
        ("ENUM('a','b')", "takes letters for equal"),
    ] {
        let database = Database::new().await;
        database.run(&format!("CREATE TABLE t (id {column} PRIMARY KEY, v TEXT, {META}) CHARACTER SET utf8mb4")).await;
        let mut sink = database.sink(target(), &alike().records).await;
        let error = apply(&mut sink, &batch(&alike().records)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert!(error.context.contains(said), "{column}: {error}");
        assert!(error.context.contains("[sink] key_folding = \"allow\""), "{error}");
    }
}

#[tokio::test]
async fn keys_of_columns_that_fold_nothing_stay_apart() {
    for column in [
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
        "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_nopad_bin",
        "VARBINARY(20)",
    ] {
        let database = Database::new().await;
        database.run(&format!("CREATE TABLE t (id {column} PRIMARY KEY, v TEXT, {META})")).await;
        let mut log = alike();
        log.add(0, "d", 40, &json!({"id": "A"}), &[]);
        let conventions = settle_core::schema::Conventions {
            // Without a schema a string in a column of bytes must be said to be one.
            binary: Some(settle_core::schema::BinaryMode::Hex),
            ..Default::default()
        };
        let target = settle_engine::config::target::Target { conventions, ..target() };
        if column.starts_with("VARBINARY") {
            log = Log::of("t");
            for (at, id) in (1_u64..).zip(["61", "41", "6120", "6100"]) {
                log.add(0, "c", at * 10, &json!({"id": id, "v": id}), &[]);
            }
            log.add(0, "d", 50, &json!({"id": "41"}), &[]);
        }
        apply_all(&database, &target, &log.records, 1).await;
        let left = if column.starts_with("VARBINARY") { "3" } else { "2" };
        assert_eq!(database.count("t").await, left, "{column}");
        assert_eq!(apply_all(&database, &target, &log.records, 10).await.applied, 0, "{column}");
    }
}

#[tokio::test]
async fn a_key_that_its_character_set_lacks_is_the_fault_of_its_record() {
    for set in ["latin1", "utf8mb3"] {
        let database = Database::new().await;
        let id = format!("VARCHAR(20) CHARACTER SET {set} COLLATE {set}_nopad_bin");
        database.run(&format!("CREATE TABLE t (id {id} PRIMARY KEY, v TEXT, {META})")).await;
        let texts = ["a", "😀", "b"];
        let events = (10..).zip(texts).map(|(lsn, id)| ("c", lsn, json!({"id": id, "v": id})));
        let log = Log::from("t", &events.collect::<Vec<_>>());
        let mut sink = database.sink(target(), &log.records).await;
        for records in [&log.records[..], &log.records[1..2]] {
            let error = apply(&mut sink, &batch(records)).await.unwrap_err();
            assert_eq!(error.kind, FailureKind::Row, "{set}: {error}");
            assert!(!format!("{error:?}").contains('😀'), "{error:?}");
        }
        apply(&mut sink, &batch(&log.records[2..])).await.unwrap();
    }
}

/// A UUID of PostgreSQL has one spelling, so the usual collations do no harm.
#[tokio::test]
async fn a_uuid_may_be_in_a_column_that_folds_case() {
    let database = Database::new().await;
    database.run(&format!("CREATE TABLE t (id CHAR(36) PRIMARY KEY, v TEXT, {META}) CHARACTER SET utf8mb4")).await;
    let fields = json!([
        {"type": "string", "optional": false, "name": "io.debezium.data.Uuid", "field": "id"},
        {"type": "string", "optional": true, "field": "v"}
    ]);
    let ids = ["6f1c0b0e-0000-4000-8000-00000000000a", "6f1c0b0e-0000-4000-8000-00000000000b"];
    let mut log = Log::of("t");
    for (at, id) in (1_u64..).zip(ids) {
        log.add_with_schema("c", at * 10, &json!({"id": id, "v": "x"}), &fields);
    }
    log.add_with_schema("d", 30, &json!({"id": ids[0]}), &fields);
    assert_eq!(apply_all(&database, &target(), &log.records, 1).await, Outcome { applied: 3, stale: 0 });
    assert_eq!(database.rows("t").await, [row(&[("id", ids[1]), ("v", "x")])]);
    assert_eq!(apply_all(&database, &target(), &log.records, 10).await.applied, 0);
}

fn allowing(database: &Database) -> MySqlConfig {
    MySqlConfig { unique: Unique::Allow, key_folding: KeyFolding::Allow, ..database.config() }
}

#[tokio::test]
async fn where_the_sources_key_folds_alike_rows_are_found_by_any_spelling() {
    for target in [target(), soft()] {
        let database = Database::new().await;
        let flag = ", `_is_deleted` TINYINT NOT NULL DEFAULT 0";
        let columns = format!("id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v TEXT, {META}{flag}");
        database.run(&format!("CREATE TABLE t ({columns}) CHARACTER SET utf8mb4")).await;
        let mut log = Log::of("t");
        log.add(0, "c", 10, &json!({"id": "Ann", "v": "one"}), &[]);
        log.add(0, "u", 20, &json!({"id": "ANN", "v": "two"}), &[]);
        log.add(0, "c", 30, &json!({"id": "Bob", "v": "gone"}), &[]);
        log.add(0, "d", 40, &json!({"id": "bob"}), &[]);
        let (mut sink, _) = database.open(allowing(&database), target, &log.records).await.unwrap();
        for batch in batches(&log.records, 1, &[]) {
            assert_eq!(apply(&mut sink, &batch).await.unwrap(), Outcome { applied: 1, stale: 0 });
        }
        let live = database.rows("t").await;
        assert_eq!(live.iter().filter(|row| row["v"].as_deref() == Some("two")).count(), 1);
        for batch in batches(&log.records, 4, &[]) {
            assert_eq!(apply(&mut sink, &batch).await.unwrap().applied, 0);
        }
        assert_eq!(database.rows("t").await, live);
    }
}

/// What an upsert would do instead: change the row that holds the value, whatever key it has.
#[tokio::test]
async fn a_row_whose_unique_value_another_one_holds_is_refused_and_merges_into_nothing() {
    for target in [target(), soft()] {
        let database = Database::new().await;
        let flag = "`_is_deleted` TINYINT NOT NULL DEFAULT 0";
        let columns = format!("id BIGINT PRIMARY KEY, email VARCHAR(50) UNIQUE, n INT, {META}, {flag}");
        database.run(&format!("CREATE TABLE t ({columns})")).await;
        let one = |id: i64, email: &str| json!({"id": id, "email": email, "n": id});
        let log = Log::from("t", &[("c", 10, one(1, "a")), ("c", 20, one(2, "b")), ("u", 30, one(3, "a"))]);
        let error = {
            let mut sink = database.sink(target.clone(), &log.records).await;
            apply(&mut sink, &batch(&log.records[..1])).await.unwrap_err()
        };
        assert!(error.kind == FailureKind::Contract && error.context.contains("unique = \"allow\""), "{error}");
        let (mut sink, _) = database.open(allowing(&database), target, &log.records).await.unwrap();
        apply(&mut sink, &batch(&log.records[..2])).await.unwrap();
        let before = database.all("t").await;
        let error = apply(&mut sink, &batch(&log.records[2..])).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Constraint);
        assert_eq!(
            error.to_string(),
            "write to \"t\": record s.public.t:0:2: a row with the same value is there: 'email'"
        );
        assert_eq!(database.all("t").await, before, "nothing was merged");
        // In the order of the log no two rows hold it: the first gives it up, or goes, before.
        let mut log = Log::of("t");
        log.add(0, "u", 40, &one(1, "c"), &[]);
        log.add(0, "u", 50, &one(2, "a"), &[]);
        log.add(0, "d", 60, &json!({"id": 1}), &[]);
        log.add(0, "c", 70, &one(0, "d"), &[]);
        apply(&mut sink, &batch(&log.records[..2])).await.unwrap();
        apply(&mut sink, &batch(&log.records[2..])).await.unwrap();
        assert_eq!(apply(&mut sink, &batch(&log.records)).await.unwrap().applied, 0);
        let found = database.one("SELECT GROUP_CONCAT(id, email ORDER BY id) FROM t WHERE _op <> 'd'").await;
        assert_eq!(found, "0d,2a");
    }
}

/// Composite keys of every type that is looked up many at once, in one batch with their deletes.
#[tokio::test]
async fn keys_of_every_type_are_found_again() {
    let kinds: [(&str, Value, Value); 9] = [
        ("BIGINT UNSIGNED", json!(u64::MAX), json!(0)),
        ("DECIMAL(10,2)", json!("1.50"), json!("-0.10")),
        ("VARCHAR(20) COLLATE utf8mb4_nopad_bin", json!("ä\\'"), json!("")),
        ("VARBINARY(20)", json!("AAE="), json!("AA==")),
        ("DATE", json!(19782), json!(0)),
        ("DATETIME(3)", json!(1_709_251_199_123_i64), json!(0)),
        ("TIME(3)", json!(-108_000_500), json!(0)),
        ("DOUBLE", json!(0.1), json!(-1.5)),
        ("BIT(5)", json!(17), json!(0)),
    ];
    for (kind, one, other) in kinds {
        let database = Database::new().await;
        let columns = format!("id {kind}, k INT, v TEXT, {META}, PRIMARY KEY (id, k)");
        database.run(&format!("CREATE TABLE t ({columns}) CHARACTER SET utf8mb4")).await;
        let mut log = Log::of("t");
        log.key = vec!["id".into(), "k".into()];
        let at = |id: &Value, k: i64, v: &str| json!({"id": id, "k": k, "v": v});
        log.add(0, "c", 10, &at(&one, 1, "kept"), &[]);
        log.add(0, "c", 20, &at(&one, 2, "gone"), &[]);
        log.add(0, "c", 30, &at(&other, 1, "gone"), &[]);
        log.add(0, "d", 40, &at(&one, 2, ""), &[]);
        log.add(0, "d", 50, &at(&other, 1, ""), &[]);
        log.add(0, "u", 60, &at(&one, 1, UNSENT), &[]);
        log.add(0, "c", 70, &at(&other, 2, "kept"), &[]);
        let conventions = settle_core::schema::Conventions {
            time_precision: Some(settle_core::schema::TimePrecision::Connect),
            decimal: None,
            binary: Some(settle_core::schema::BinaryMode::Base64),
        };
        let target = settle_engine::config::target::Target { conventions, ..target() };
        let mut sink = database.sink(target.clone(), &log.records).await;
        sink.open(&parts(&log.records)).await.unwrap();
        for batch in [&log.records[..3], &log.records[3..]].map(batch) {
            let outcome = apply(&mut sink, &batch).await.unwrap();
            assert_eq!(outcome.stale, 0, "{kind}");
        }
        for size in [1, 10] {
            assert_eq!(apply_all(&database, &target, &log.records, size).await.applied, 0, "{kind} by {size}");
        }
        let kept = database.rows("t").await;
        assert!(kept.len() == 2 && kept.iter().all(|row| row["v"].as_deref() == Some("kept")), "{kind}: {kept:?}");
    }
}
