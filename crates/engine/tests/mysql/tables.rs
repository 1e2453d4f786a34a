//! Tables that are made, and tables that are there with more than Settle writes.

use serde_json::json;
use settle_core::sink::{FailureKind, Outcome};
use settle_engine::config::target::{Evolution, TableRule, Target};

use crate::database::{Database, META, apply, apply_all, row, soft, target, with_columns};
use crate::log::{Log, batch};

fn log() -> Log {
    Log::from("t", &[("c", 10, json!({"id": 1, "name": "a"})), ("d", 20, json!({"id": 2}))])
}

/// A log with a Connect schema.
fn with_schema() -> Log {
    let mut log = Log::of("t");
    let fields = json!([
        {"type": "string", "optional": false, "field": "id"},
        {"type": "string", "optional": true, "field": "name"},
        {"type": "boolean", "optional": true, "field": "ok"},
        {"type": "int64", "optional": true, "name": "io.debezium.time.MicroTimestamp", "field": "at"},
        {"type": "bytes", "optional": true, "name": "org.apache.kafka.connect.data.Decimal",
         "parameters": {"scale": "2", "connect.decimal.precision": "12"}, "field": "amount"}
    ]);
    let row = json!({"id": "k", "name": null, "ok": true, "at": 1_796_056_737_085_123_i64, "amount": "BBo="});
    log.add_with_schema("c", 10, &row, &fields);
    log
}

#[tokio::test]
async fn a_table_is_made_from_the_connect_schema() {
    let (database, log) = (Database::new().await, with_schema());
    apply_all(&database, &target(), &log.records, 1).await;
    assert_eq!(
        database.ddl_of("t").await,
        "CREATE TABLE `t` (\n  `id` varchar(768) NOT NULL,\n  `name` longtext DEFAULT NULL,\n  `ok` tinyint(1) DEFAULT \
         NULL,\n  `at` datetime(6) DEFAULT NULL,\n  `amount` decimal(12,2) DEFAULT NULL,\n  `_op` varchar(1) DEFAULT \
         NULL,\n  `_source_ts_ms` bigint(20) DEFAULT NULL,\n  `_version_hi` bigint(20) NOT NULL DEFAULT 0,\n  \
         `_version_lo` bigint(20) NOT NULL DEFAULT 0,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 \
         COLLATE=utf8mb4_nopad_bin ROW_FORMAT=DYNAMIC"
    );
    assert!(database.ddl_of("t__tombstones").await.starts_with(
        "CREATE TABLE `t__tombstones` (\n  `id` varchar(768) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL,\n"
    ));
    let mut wanted = row(&[("id", "k"), ("ok", "1"), ("at", "2026-11-30 16:38:57.085123"), ("amount", "10.50")]);
    wanted.insert("name".into(), None);
    assert_eq!(database.rows("t").await, [wanted]);
}

/// An index of InnoDB has 3,072 bytes: what does not fit is refused with its row, and says why.
#[tokio::test]
async fn a_key_longer_than_an_index_takes_is_refused_and_one_that_just_fits_is_a_key() {
    let database = Database::new().await;
    let mut log = with_schema();
    log.records.clear();
    let fields = json!([{"type": "string", "optional": false, "field": "id"}]);
    for (at, length) in [(10, 768), (20, 769)] {
        log.add_with_schema("c", at, &json!({"id": "😀".repeat(length)}), &fields);
    }
    let mut sink = database.sink(target(), &log.records).await;
    apply(&mut sink, &batch(&log.records[..1])).await.unwrap();
    let error = apply(&mut sink, &batch(&log.records[1..])).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Row);
    assert_eq!(error.to_string(), "write to \"t\": record s.public.t:0:2: a value is too long for 'id'");
    assert_eq!(database.count("t").await, "1");
}

#[tokio::test]
async fn without_a_schema_columns_are_declared_or_made_by_hand_and_never_guessed() {
    let database = Database::new().await;
    let mut sink = database.sink(target(), &log().records).await;
    let error = apply(&mut sink, &batch(&log().records)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(error.context.contains("let `settle ddl` write the statement"), "{error}");
    let declared = with_columns("t", &[("id", "BIGINT"), ("name", "VARCHAR(20)"), ("more", "DECIMAL(5,1)")]);
    apply_all(&database, &declared, &log().records, 1).await;
    let ddl = database.ddl_of("t").await;
    assert!(
        ddl.contains("`id` bigint(20) NOT NULL,\n  `name` varchar(20) DEFAULT NULL,\n  `more` decimal(5,1)"),
        "{ddl}"
    );
    let other = Database::new().await;
    let target = Target { create: false, ..target() };
    other.make(&target, &log().records).await;
    assert_eq!(apply_all(&other, &target, &log().records, 1).await, Outcome { applied: 2, stale: 0 });
    assert_eq!(other.rows("t").await, [row(&[("id", "1"), ("name", "a")])]);
}

#[tokio::test]
async fn a_missing_table_that_may_not_be_made_is_told_as_sql() {
    let (database, log) = (Database::new().await, with_schema());
    let mut sink = database.sink(Target { create: false, ..target() }, &log.records).await;
    let error = apply(&mut sink, &batch(&log.records)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    let said =
        "prepare table \"t\": the table does not exist; make it, or set [sink] create = true:\nCREATE TABLE `t` (\n";
    assert!(error.to_string().starts_with(said), "{error}");
}

/// Columns of the user, defaults, computed columns, triggers and foreign keys: all of them live on.
#[tokio::test]
async fn what_the_user_added_to_a_table_is_left_alone_and_works() {
    for target in [target(), soft()] {
        let database = Database::new().await;
        database.run("CREATE TABLE parent (id BIGINT PRIMARY KEY)").await;
        database.run("CREATE TABLE seen (id BIGINT, what VARCHAR(10))").await;
        database
            .run(&format!(
                "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(20), note VARCHAR(20) NOT NULL DEFAULT 'mine', \
                 length INT GENERATED ALWAYS AS (CHAR_LENGTH(name)) STORED, at TIMESTAMP NOT NULL DEFAULT \
                 '2020-01-01 00:00:00' ON UPDATE CURRENT_TIMESTAMP, parent BIGINT REFERENCES parent (id) ON DELETE CASCADE, \
                 {META}, `_is_deleted` TINYINT NOT NULL DEFAULT 0, KEY (name))"
            ))
            .await;
        database
            .run("CREATE TRIGGER noted AFTER UPDATE ON t FOR EACH ROW INSERT INTO seen VALUES (NEW.id, 'update')")
            .await;
        let one = |name: &str| json!({"id": 1, "name": name, "parent": 7, "length": 99});
        let log = Log::from("t", &[("c", 10, one("a")), ("u", 20, one("abc")), ("u", 15, one("older"))]);
        let mut sink = database.sink(target, &log.records).await;
        apply(&mut sink, &batch(&log.records[..1])).await.unwrap();
        database.run("UPDATE t SET note = 'changed', at = '2021-01-01 00:00:00'").await;
        database.run("DELETE FROM seen").await;
        assert_eq!(apply(&mut sink, &batch(&log.records[2..])).await.unwrap(), Outcome { applied: 1, stale: 0 });
        assert_eq!(apply(&mut sink, &batch(&log.records[1..2])).await.unwrap(), Outcome { applied: 1, stale: 0 });
        // A stale row changes nothing: neither the stamp of the last change nor what a trigger notes.
        database.run("UPDATE t SET at = '2021-01-01 00:00:00'").await;
        let noted = database.count("seen").await;
        assert_eq!(apply(&mut sink, &batch(&log.records)).await.unwrap(), Outcome { applied: 0, stale: 1 });
        let shown = "SELECT CONCAT_WS(' ', name, note, length, at, parent) FROM t";
        assert_eq!(database.one(shown).await, "abc changed 3 2021-01-01 00:00:00 7");
        assert_eq!(database.count("seen").await, noted);
    }
}

#[tokio::test]
async fn a_table_that_cannot_be_written_safely_is_refused_with_the_statement_that_mends_it() {
    for (columns, said) in [
        ("id BIGINT, name TEXT", "run ALTER TABLE `t` ADD UNIQUE KEY (`id`)"),
        ("id BIGINT PRIMARY KEY, name TEXT) ENGINE = MyISAM COMMENT = ('", "run ALTER TABLE `t` ENGINE = InnoDB"),
        ("id BIGINT PRIMARY KEY, name VARCHAR(9) UNIQUE", "drop it: rows come in an order"),
        ("id VARCHAR(40), PRIMARY KEY (id(10)), name TEXT", "has no primary key or unique index over exactly"),
        ("id BIGINT, name VARCHAR(9), PRIMARY KEY (id, name)", "has no primary key or unique index over exactly"),
        ("id FLOAT PRIMARY KEY, name TEXT", "numbers above 2^53 would be one row"),
    ] {
        let database = Database::new().await;
        let sql = match columns.split_once(") ENGINE") {
            Some((columns, _)) => format!("CREATE TABLE t ({columns}, {META}) ENGINE = MyISAM"),
            None => format!("CREATE TABLE t ({columns}, {META})"),
        };
        database.run(&sql).await;
        let mut sink = database.sink(target(), &log().records).await;
        let error = apply(&mut sink, &batch(&log().records)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert!(error.context.contains(said), "{columns}: {error}");
    }
}

#[tokio::test]
async fn settles_columns_are_added_to_an_empty_table_and_told_for_one_with_rows() {
    let database = Database::new().await;
    database.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(20))").await;
    let mut sink = database.sink(target(), &log().records).await;
    assert_eq!(apply(&mut sink, &batch(&log().records)).await.unwrap(), Outcome { applied: 2, stale: 0 });
    let other = Database::new().await;
    other.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(20))").await;
    other.run("INSERT INTO t VALUES (7, 'precious')").await;
    let mut sink = other.sink(target(), &log().records).await;
    let error = apply(&mut sink, &batch(&log().records)).await.unwrap_err();
    assert!(error.context.contains("ALTER TABLE `t` ADD COLUMN `_version_hi` BIGINT NOT NULL DEFAULT 0"), "{error}");
    assert_eq!(other.count("t").await, "1");
}

#[tokio::test]
async fn a_column_is_added_with_the_type_of_its_schema_and_otherwise_told() {
    let database = Database::new().await;
    let log = with_schema();
    apply_all(&database, &target(), &log.records, 1).await;
    let mut grown = Log::of("t");
    let fields = json!([
        {"type": "string", "optional": false, "field": "id"},
        {"type": "int16", "optional": true, "field": "small"}
    ]);
    grown.add_with_schema("u", 20, &json!({"id": "k", "small": 7}), &fields);
    apply_all(&database, &target(), &grown.records, 1).await;
    assert!(database.ddl_of("t").await.contains("`small` smallint(6) DEFAULT NULL"));
    let mut bare = Log::of("t");
    bare.add(0, "u", 30, &json!({"id": "k", "bare": 1.5}), &[]);
    let mut sink = database.sink(target(), &bare.records).await;
    let error = apply(&mut sink, &batch(&bare.records)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    let said = "no schema that says its type; run ALTER TABLE `t` ADD COLUMN `bare` DOUBLE NULL if that is its type";
    assert!(error.context.contains(said), "{error}");
    let ignoring = Target { evolution: Evolution::Ignore, ..target() };
    let mut sink = database.sink(ignoring, &bare.records).await;
    assert_eq!(apply(&mut sink, &batch(&bare.records)).await.unwrap().applied, 1);
}

#[tokio::test]
async fn rows_of_another_tools_epoch_are_refused() {
    let database = Database::new().await;
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, {META})")).await;
    database.run("INSERT INTO t (id, _version_hi) VALUES (9, 9000000000000000000)").await;
    let mut sink = database.sink(target(), &log().records).await;
    let error = apply(&mut sink, &batch(&log().records)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(error.context.contains("run UPDATE `t` SET `_version_hi` = 0"), "{error}");
}

/// Names are told apart as the server does it: columns never by case, tables where its file system does.
#[tokio::test]
async fn two_columns_that_differ_by_case_are_one() {
    let database = Database::new().await;
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, Größe TEXT, {META})")).await;
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "größe": "a"}))]);
    apply_all(&database, &target(), &log.records, 1).await;
    assert_eq!(database.rows("t").await, [row(&[("id", "1"), ("Größe", "a")])]);
    let twice = Log::from("t", &[("c", 20, json!({"id": 1, "größe": "a", "GRÖSSE": "b", "GRÖßE": "c"}))]);
    let mut sink = database.sink(Target { evolution: Evolution::Ignore, ..target() }, &twice.records).await;
    let error = apply(&mut sink, &batch(&twice.records)).await.unwrap_err();
    assert!(error.context.contains("which does not tell upper from lower case"), "{error}");
    let rule = TableRule { rename: [("größe".to_owned(), "other".to_owned())].into(), ..TableRule::default() };
    let target = Target { tables: [("public.t".to_owned(), rule)].into(), evolution: Evolution::Ignore, ..target() };
    let mut sink = database.sink(target, &twice.records).await;
    assert_eq!(apply(&mut sink, &batch(&twice.records)).await.unwrap().applied, 1);
    assert_eq!(database.one("SELECT Größe FROM t").await, "c");
}

/// The server knows more capitals of a letter than Unicode does: that is said instead of being asked for ever.
#[tokio::test]
async fn columns_whose_names_are_one_to_the_server_are_refused() {
    let records = |columns: &[&str]| {
        let mut log = Log::of("t");
        let mut fields = vec![json!({"type": "int64", "optional": false, "field": "id"})];
        fields.extend(columns.iter().map(|name| json!({"type": "string", "optional": true, "field": name})));
        let mut row = json!({"id": 1});
        columns.iter().for_each(|name| row[name] = json!("a"));
        log.add_with_schema("c", 10, &row, &serde_json::Value::from(fields));
        log.records
    };
    let refused = async |database: &Database, records: &[_]| {
        let mut sink = database.sink(target(), records).await;
        let error = apply(&mut sink, &batch(records)).await.unwrap_err();
        assert!(error.to_string().contains("takes its name and another column's for one"), "{error}");
        assert_eq!(error.kind, FailureKind::Contract);
    };
    let database = Database::new().await;
    refused(&database, &records(&["İlk", "ilk"])).await;
    apply_all(&database, &target(), &records(&["İlk"]), 1).await;
    refused(&database, &records(&["ilk"])).await;
}
