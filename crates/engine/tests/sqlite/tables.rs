//! Tables that are made, tables that are there, and names that hold anything.

use serde_json::json;
use settle_core::sink::{FailureKind, Outcome};
use settle_engine::config::target::{Evolution, MetaNames, TableRule, Target};

use crate::database::{Database, apply, apply_all, row, soft, target, with_rule};
use crate::log::{Log, batch};

pub const META: &str = "\"_op\" TEXT, \"_source_ts_ms\" INTEGER, \"_version_hi\" INTEGER NOT NULL DEFAULT 0, \
                    \"_version_lo\" INTEGER NOT NULL DEFAULT 0";

fn log() -> Log {
    Log::from("t", &[("c", 10, json!({"id": 1, "name": "a"})), ("d", 20, json!({"id": 2}))])
}

/// Applies the log to a table made with this SQL, and says the refusal.
fn refusal(sql: &str, target: Target, log: &Log) -> String {
    let database = Database::new();
    database.run(sql);
    let mut sink = database.sink(target, &log.records);
    let error = apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    error.to_string()
}

#[test]
fn a_table_is_made_from_the_values_seen() {
    let log = Log::from(
        "shop",
        &[("c", 10, json!({"id": 1, "price": "1.50", "n": 7, "f": 1.5, "j": {"a": 1}, "nil": null}))],
    );
    let database = Database::new();
    apply_all(&database, &target(), &log.records, 1);
    assert_eq!(
        database.one::<String>("SELECT sql FROM sqlite_schema WHERE name = 'shop'"),
        "CREATE TABLE \"shop\" (\n  \"f\" REAL,\n  \"id\" INTEGER NOT NULL,\n  \"j\" TEXT,\n  \"n\" INTEGER,\n  \
         \"price\" TEXT,\n  \"_op\" TEXT,\n  \"_source_ts_ms\" INTEGER,\n  \"_version_hi\" INTEGER NOT NULL DEFAULT 0,\n  \
         \"_version_lo\" INTEGER NOT NULL DEFAULT 0,\n  PRIMARY KEY (\"id\")\n) STRICT"
    );
    assert_eq!(
        database.one::<String>("SELECT sql FROM sqlite_schema WHERE name = 'shop__tombstones'"),
        "CREATE TABLE \"shop__tombstones\" (\n  \"id\" INTEGER NOT NULL,\n  \"_version_hi\" INTEGER NOT NULL,\n  \
         \"_version_lo\" INTEGER NOT NULL,\n  \"_written_ms\" INTEGER,\n  PRIMARY KEY (\"id\")\n) STRICT"
    );
}

#[test]
fn a_table_is_made_from_the_connect_schema() {
    let log = {
        let mut log = Log::of("t");
        let fields = json!([
            {"type": "int32", "optional": false, "field": "id"},
            {"type": "string", "optional": true, "field": "name"},
            {"type": "boolean", "optional": true, "field": "ok"},
            {"type": "int64", "optional": true, "name": "io.debezium.time.MicroTimestamp", "field": "at"},
            {"type": "bytes", "optional": true, "name": "org.apache.kafka.connect.data.Decimal",
             "parameters": {"scale": "2", "connect.decimal.precision": "12"}, "field": "amount"}
        ]);
        let row = json!({"id": 1, "name": null, "ok": true, "at": 1_796_056_737_085_123_i64, "amount": "BBo="});
        log.add_with_schema("c", 10, &row, &fields);
        log
    };
    let database = Database::new();
    apply_all(&database, &target(), &log.records, 1);
    assert_eq!(
        database.one::<String>("SELECT sql FROM sqlite_schema WHERE name = 't'"),
        "CREATE TABLE \"t\" (\n  \"id\" INTEGER NOT NULL,\n  \"name\" TEXT,\n  \"ok\" BOOLEAN,\n  \"at\" TIMESTAMP(6),\n  \
         \"amount\" TEXT,\n  \"_op\" TEXT,\n  \"_source_ts_ms\" INTEGER,\n  \"_version_hi\" INTEGER NOT NULL DEFAULT 0,\n  \
         \"_version_lo\" INTEGER NOT NULL DEFAULT 0,\n  PRIMARY KEY (\"id\")\n)"
    );
    let mut wanted = row(&[("id", "1"), ("ok", "1"), ("at", "2026-11-30 16:38:57.085123"), ("amount", "10.50")]);
    wanted.insert("name".into(), None);
    assert_eq!(database.rows("t"), [wanted]);
}

#[test]
fn a_table_is_made_from_declared_columns() {
    let columns = [("id", "BIGINT"), ("name", "VARCHAR(20)"), ("amount", "DECIMAL(12,2)")];
    let rule = TableRule {
        columns: columns.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec(),
        ..TableRule::default()
    };
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "name": "a", "amount": "7.5"}))]);
    let database = Database::new();
    apply_all(&database, &with_rule("t", rule), &log.records, 1);
    let sql = database.one::<String>("SELECT sql FROM sqlite_schema WHERE name = 't'");
    assert!(sql.contains("\"id\" BIGINT NOT NULL,\n  \"name\" VARCHAR(20),\n  \"amount\" TEXT,\n"), "{sql}");
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("name", "a"), ("amount", "7.50")])], "as DECIMAL(12,2)");
}

#[test]
fn a_missing_table_that_may_not_be_made_is_told_as_sql() {
    let log = log();
    let database = Database::new();
    let mut sink = database.sink(Target { create: false, ..target() }, &log.records);
    let error = apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert_eq!(
        error.to_string(),
        "prepare table \"t\": the table does not exist; make it, or set [sink] create = true:\nCREATE TABLE \"t\" (\n  \
         \"id\" INTEGER NOT NULL,\n  \"name\" TEXT,\n  \"_op\" TEXT,\n  \"_source_ts_ms\" INTEGER,\n  \"_version_hi\" \
         INTEGER NOT NULL DEFAULT 0,\n  \"_version_lo\" INTEGER NOT NULL DEFAULT 0,\n  PRIMARY KEY (\"id\")\n) STRICT"
    );
}

#[test]
fn names_that_hold_anything_are_names() {
    let table = "Quoted_\" . Table'; DROP TABLE settle_meta; --";
    let mut log = Log::of(table);
    log.key = vec!["order".into(), "a\"b".into()];
    log.add(
        0,
        "c",
        10,
        &json!({"order": 1, "a\"b": "x", "select": "y", "t": "alias", "excluded": "e", "ä ?1": null, "": "empty"}),
        &[],
    );
    log.add(
        0,
        "u",
        20,
        &json!({"order": 1, "a\"b": "x", "select": "z", "t": "alias", "excluded": "e", "ä ?1": "set", "": "empty"}),
        &[],
    );
    log.add(0, "d", 30, &json!({"order": 2, "a\"b": "x"}), &[]);
    let database = Database::new();
    apply_all(&database, &target(), &log.records, 1);
    let wanted = row(&[
        ("order", "1"),
        ("a\"b", "x"),
        ("select", "z"),
        ("t", "alias"),
        ("excluded", "e"),
        ("ä ?1", "set"),
        ("", "empty"),
    ]);
    assert_eq!(database.rows(table), [wanted]);
    assert_eq!(database.all(&format!("{table}__tombstones")).len(), 1);
    assert_eq!(apply_all(&database, &target(), &log.records, 2).applied, 0);
}

#[test]
fn columns_are_left_out_and_renamed_by_rule() {
    let rule = TableRule {
        name: Some("orders".into()),
        exclude: vec!["secret".into()],
        rename: [("id".to_owned(), "order_id".to_owned()), ("_op".to_owned(), "operation".to_owned())].into(),
        ..TableRule::default()
    };
    let target = with_rule("t", rule);
    let log = Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "secret": "s", "_op": "add"})),
            ("c", 11, json!({"id": 2, "secret": "s", "_op": "x"})),
            ("d", 20, json!({"id": 2})),
        ],
    );
    let database = Database::new();
    apply_all(&database, &target, &log.records, 1);
    assert_eq!(database.rows("orders"), [row(&[("order_id", "1"), ("operation", "add")])]);
    assert_eq!(database.all("orders__tombstones")[0]["order_id"].as_deref(), Some("2"));
}

#[test]
fn names_that_sqlite_takes_for_one_are_refused() {
    let same = Log::from("t", &[("c", 10, json!({"id": 1, "Name": "a", "name": "b"}))]);
    let refused = refusal("SELECT 1", target(), &same);
    assert_eq!(
        refused,
        "create table \"t\": two columns of the source are called \"name\" in SQLite, which does not tell upper from \
         lower case; give one of them another name: [tables.\"…\"] rename"
    );
    let taken = Log::from("t", &[("c", 10, json!({"id": 1, "_OP": "a"}))]);
    assert_eq!(
        refusal("SELECT 1", target(), &taken),
        "create table \"t\": the source has a column \"_op\", and Settle adds one of that name; rename the source's \
         ([tables.\"…\"] rename) or Settle's ([sink.meta])"
    );
    let there = refusal(&format!("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, {META})"), target(), &taken);
    assert!(there.contains("the source has a column \"_OP\", and Settle adds one of that name"), "{there}");
    let meta = MetaNames { op: "settle_op".into(), ..MetaNames::default() };
    let database = Database::new();
    apply_all(&database, &Target { meta, ..target() }, &taken.records, 1);
    assert_eq!(database.all("t")[0]["_OP"].as_deref(), Some("a"));
}

#[test]
fn names_that_belong_to_others_are_refused() {
    for name in ["settle_meta", "sqlite_sequence", "orders__tombstones", ""] {
        let rule = TableRule { name: Some(name.into()), ..TableRule::default() };
        let refused = refusal("SELECT 1", with_rule("t", rule), &log());
        assert!(refused.ends_with("give it another name: [tables.\"public.t\"] name"), "{refused}");
    }
}

#[test]
fn a_table_whose_identity_is_another_is_refused() {
    assert_eq!(
        refusal(&format!("CREATE TABLE t (id INTEGER, name TEXT, {META})"), target(), &log()),
        "prepare table \"t\": table \"t\" has no primary key or unique index over exactly the key of the records \
         (\"id\"); run CREATE UNIQUE INDEX \"t_key\" ON \"t\" (\"id\"); or let Settle make the table"
    );
    let partial =
        format!("CREATE TABLE t (id INTEGER, name TEXT, {META}); CREATE UNIQUE INDEX u ON t(id) WHERE id > 0");
    assert!(refusal(&partial, target(), &log()).contains("has no primary key or unique index over exactly"));
    assert_eq!(
        refusal(&format!("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE, {META})"), target(), &log()),
        "prepare table \"t\": table \"t\" has \"sqlite_autoindex_t_1\", unique over \"name\", beside the key of the \
         records (\"id\"); drop it: rows come in an order in which two may hold its value for a while"
    );
    let surrogate = format!("CREATE TABLE t (nr INTEGER PRIMARY KEY, id INTEGER UNIQUE, name TEXT, {META})");
    assert!(refusal(&surrogate, target(), &log()).contains("has \"PRIMARY KEY\", unique over \"nr\""));
    assert_eq!(
        refusal("CREATE VIEW t AS SELECT 1 AS id", target(), &log()),
        "prepare table \"t\": table \"t\" is a view to SQLite, which takes no upserts; name an ordinary table: \
         [tables.\"…\"] name"
    );
}

#[test]
fn a_unique_index_over_the_key_does_in_place_of_a_primary_key() {
    let database = Database::new();
    database.run(&format!("CREATE TABLE T (ID INTEGER NOT NULL, Name TEXT, {META}); CREATE UNIQUE INDEX u ON T(ID)"));
    assert_eq!(apply_all(&database, &target(), &log().records, 1), Outcome { applied: 2, stale: 0 });
    assert_eq!(database.rows("t"), [row(&[("ID", "1"), ("Name", "a")])]);
}

#[test]
fn keys_that_sqlite_would_merge_are_refused() {
    let text = Log::from("t", &[("c", 10, json!({"id": "a", "name": "a"}))]);
    assert_eq!(
        refusal(&format!("CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY, name TEXT, {META})"), target(), &text),
        "prepare table \"t\": key column \"id\" of table \"t\" compares with NOCASE: keys that the source tells apart \
         would be one row; make the table again with COLLATE BINARY for it. Also: index \"sqlite_autoindex_t_1\" of \
         table \"t\" does not compare its text byte by byte; make it again with COLLATE BINARY: keys that differ by \
         case would be one row"
    );
    assert_eq!(
        refusal(&format!("CREATE TABLE t (id DECIMAL PRIMARY KEY, name TEXT, {META})"), target(), &text),
        "prepare table \"t\": key column \"id\" of table \"t\" is NUMERIC to SQLite, and \"id\" of the records is text \
         that it would turn into numbers; make the table again with TEXT for it: '7' and '07' would be one row"
    );
    let real = refusal(&format!("CREATE TABLE t (id REAL PRIMARY KEY, name TEXT, {META})"), target(), &log());
    assert!(real.contains("numbers above 2^53 would be one row"), "{real}");
    // Among rows whose keys are numbers it is one record that is refused, also first in its batch.
    let mut mixed = log();
    mixed.add(0, "c", 30, &json!({"id": "7", "name": "b"}), &[]);
    let database = Database::new();
    let mut sink = database.sink(target(), &mixed.records);
    apply(&mut sink, &batch(&mixed.records[..2])).unwrap();
    let error = apply(&mut sink, &batch(&mixed.records[2..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Row);
    assert!(error.context.starts_with("record s.public.t:0:2: key column \"id\" is text"), "{error}");
    let error = apply(&mut database.sink(target(), &mixed.records), &batch(&mixed.records[2..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Row, "{error}");
}

#[test]
fn keys_that_differ_by_case_accent_or_space_are_rows_of_their_own() {
    let keys = ["a", "A", "a ", "á", "7", "07", "7.0"];
    let mut log = Log::of("t");
    for (i, key) in keys.iter().enumerate() {
        log.add(0, "c", 10 + i as u64, &json!({"id": key, "n": i}), &[]);
    }
    let database = Database::new();
    apply_all(&database, &target(), &log.records, 1);
    assert_eq!(database.count("t"), 7);
}

#[test]
fn composite_keys_do_not_run_together() {
    let mut log = Log::of("t");
    log.key = vec!["a".into(), "b".into()];
    log.add(0, "c", 10, &json!({"a": "x|y", "b": "z", "v": 1}), &[]);
    log.add(0, "c", 11, &json!({"a": "x", "b": "y|z", "v": 2}), &[]);
    log.add(0, "u", 12, &json!({"a": "x|y", "b": "z", "v": 3}), &[]);
    log.add(0, "d", 13, &json!({"a": "x", "b": "y|z"}), &[]);
    log.add(0, "c", 14, &json!({"a": "x", "b": "y|z", "v": 4}), &[]);
    let database = Database::new();
    apply_all(&database, &target(), &log.records, 1);
    assert_eq!(
        database.rows("t"),
        [row(&[("a", "x"), ("b", "y|z"), ("v", "4")]), row(&[("a", "x|y"), ("b", "z"), ("v", "3")])]
    );
}

#[test]
fn a_table_with_rows_and_without_settles_columns_is_told_what_to_run() {
    assert_eq!(
        refusal("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO t VALUES (1, 'x')", target(), &log()),
        "prepare table \"t\": table \"t\" lacks columns in which Settle keeps the version of each row; run ALTER TABLE \
         \"t\" ADD COLUMN \"_op\" TEXT; ALTER TABLE \"t\" ADD COLUMN \"_source_ts_ms\" INTEGER; ALTER TABLE \"t\" ADD \
         COLUMN \"_version_hi\" INTEGER NOT NULL DEFAULT 0; ALTER TABLE \"t\" ADD COLUMN \"_version_lo\" INTEGER NOT \
         NULL DEFAULT 0; rows that are there count as older than everything"
    );
    let empty = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)";
    let refused = refusal(empty, Target { evolution: Evolution::Refuse, ..target() }, &log());
    assert!(refused.contains("lacks columns in which Settle keeps the version"), "{refused}");
    let database = Database::new();
    database.run(empty);
    assert_eq!(apply_all(&database, &target(), &log().records, 1), Outcome { applied: 2, stale: 0 });
}

#[test]
fn rows_that_were_there_before_are_older_than_everything() {
    let database = Database::new();
    database
        .run("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')");
    for meta in META.split(", ") {
        database.run(&format!("ALTER TABLE t ADD COLUMN {meta}"));
    }
    assert_eq!(apply_all(&database, &target(), &log().records, 1), Outcome { applied: 2, stale: 0 });
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("name", "a")]), row(&[("id", "3"), ("name", "z")])]);
}

#[test]
fn a_soft_mark_needs_a_table_that_takes_a_key_alone() {
    let sql = format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL, {META}, \"_is_deleted\" INTEGER NOT NULL DEFAULT 0)"
    );
    assert_eq!(
        refusal(&sql, soft(), &log()),
        "prepare table \"t\": table \"t\" has columns that are NOT NULL without a default: \"name\"; give them a default: \
         the mark of a deleted row that was never seen carries the key alone"
    );
}

#[test]
fn generated_columns_are_computed_by_the_target() {
    let log = Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "price": 10, "qty": 2, "total": 999})),
            ("u", 20, json!({"id": 1, "price": 10, "qty": 3})),
        ],
    );
    let database = Database::new();
    database.run(&format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, price INTEGER, qty INTEGER, total INTEGER AS (price * qty) STORED, {META})"
    ));
    apply_all(&database, &target(), &log.records, 1);
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("price", "10"), ("qty", "3"), ("total", "30")])]);
}

#[test]
fn a_table_of_that_name_that_holds_no_tombstones_is_refused() {
    let sql = "CREATE TABLE t__tombstones (id INTEGER, note TEXT)";
    assert_eq!(
        refusal(sql, target(), &log()),
        "prepare table \"t\": table \"t__tombstones\" is not the one in which Settle keeps the versions of deleted rows \
         of \"t\"; rename it, or give the target another name: [tables.\"…\"] name"
    );
}

#[test]
fn foreign_keys_of_the_target_hold_up_no_row_and_cascade_nothing() {
    let database = Database::new();
    database.run(&format!(
        "CREATE TABLE p (id INTEGER PRIMARY KEY, n INTEGER, {META});
         CREATE TABLE t (id INTEGER PRIMARY KEY, name INTEGER REFERENCES p(id) ON DELETE CASCADE, {META})"
    ));
    let child = Log::from("t", &[("c", 10, json!({"id": 1, "name": 5}))]);
    let parent = Log::from("p", &[("c", 9, json!({"id": 5, "n": 1})), ("d", 20, json!({"id": 5}))]);
    apply_all(&database, &target(), &child.records, 1);
    apply_all(&database, &target(), &parent.records, 1);
    assert_eq!((database.count("t"), database.count("p")), (1, 0), "the source says what goes");
}
