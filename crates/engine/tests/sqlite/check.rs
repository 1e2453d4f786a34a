//! The look before a run, and the SQL for who makes tables by hand.

use serde_json::json;
use settle_core::record::Record;
use settle_engine::config::target::{Deletes, TableRule, Target};
use settle_engine::finding::Severity;
use settle_engine::finding::{Cause, Finding};
use settle_engine::sampling;
use settle_engine::sinks::sqlite::{self, SqliteConfig, create_table_ddl};

use crate::database::{Database, apply_all, target};
use crate::log::{Log, batch};
use crate::tables::META;

fn log() -> Log {
    Log::from("t", &[("c", 10, json!({"id": 1, "name": "a"}))])
}

/// What is found for a run over these records.
fn look(config: &SqliteConfig, target: &Target, records: &[Record]) -> Vec<Finding> {
    sqlite::check(config, target, &sampling::read(records.to_vec()), &[])
}

fn told(database: &Database, target: &Target) -> Vec<(Severity, String)> {
    let findings = look(&database.config(), target, &log().records);
    let path = database.path().display().to_string();
    findings.iter().map(|finding| (finding.severity, finding.to_string().replace(&path, "FILE"))).collect()
}

#[test]
fn a_look_changes_nothing() {
    let database = Database::new();
    let made = "table \"t\" is made, its columns told from the values seen: CREATE TABLE \"t\" (\n  \"id\" INTEGER NOT \
                NULL,\n  \"name\" TEXT,\n  \"_op\" TEXT,\n  \"_source_ts_ms\" INTEGER,\n  \"_version_hi\" INTEGER NOT \
                NULL DEFAULT 0,\n  \"_version_lo\" INTEGER NOT NULL DEFAULT 0,\n  PRIMARY KEY (\"id\")\n) STRICT";
    assert_eq!(
        told(&database, &target()),
        [(Severity::Note, "FILE does not exist yet; a run makes it".to_owned()), (Severity::Note, made.to_owned())]
    );
    assert_eq!(std::fs::read_dir(database.path().parent().unwrap()).unwrap().count(), 0);
    database.run("CREATE TABLE other (a)");
    assert_eq!(told(&database, &target()), [(Severity::Note, made.to_owned())]);
    assert_eq!(database.one::<i64>("SELECT count(*) FROM sqlite_schema"), 1);
    apply_all(&database, &target(), &log().records, 1);
    assert_eq!(told(&database, &target()), []);
}

#[test]
fn a_look_finds_everything_that_is_wrong_and_what_may_surprise() {
    let database = Database::new();
    database.run(
        "CREATE TABLE p (id INTEGER PRIMARY KEY);
         CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY, name TEXT UNIQUE, p INTEGER NOT NULL REFERENCES p(id));
         INSERT INTO p VALUES (1); INSERT INTO t VALUES ('x', 'y', 1);
         CREATE TRIGGER seen AFTER INSERT ON t BEGIN SELECT 1; END",
    );
    let told = told(&database, &target());
    let severities: Vec<_> = told.iter().map(|(severity, _)| *severity).collect();
    use Severity::{Error, Warning};
    assert_eq!(severities, [Error, Error, Error, Error, Warning, Warning, Warning], "{told:#?}");
    assert_eq!(
        told[4].1,
        "table \"t\" has columns that are NOT NULL without a default: \"p\"; a record that does not carry them is \
         refused; give them a default if that can happen"
    );
}

#[test]
fn a_look_says_which_values_are_not_stored_for_the_table_computes_them() {
    let database = Database::new();
    database.run(&format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, twice TEXT AS (name || name), other INTEGER AS (1), {META})"
    ));
    let sent = Log::from("t", &[("c", 10, json!({"id": 1, "name": "a", "twice": "b"}))]);
    let told: Vec<String> =
        look(&database.config(), &target(), &sent.records).iter().map(ToString::to_string).collect();
    let said = "column \"twice\" of table \"t\" is computed by the database: what the source sends for it is not stored; exclude it \
         ([tables.\"…\"] exclude), or make it an ordinary column";
    assert_eq!(told, [said]);
}

#[test]
fn a_look_says_why_the_file_cannot_be_used() {
    let database = Database::new();
    let missing = SqliteConfig::at(database.path().join("nowhere.db").join("shop.db"));
    let findings = look(&missing, &target(), &log().records);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].what.ends_with("does not exist; create it"), "{}", findings[0]);
    std::fs::write(database.path(), "no database, but long enough to be looked at").unwrap();
    let findings = look(&database.config(), &target(), &log().records);
    assert!(findings[0].is_error() && findings[0].what.contains("not a SQLite database"), "{findings:?}");
}

#[test]
fn a_look_finds_a_missing_table_that_may_not_be_made_and_a_locked_file() {
    let database = Database::new();
    database.run("CREATE TABLE other (a)");
    let told_without = told(&database, &Target { create: false, ..target() });
    assert_eq!(told_without.len(), 1);
    assert!(told_without[0].1.contains("the table does not exist; make it"), "{told_without:?}");
    let other = database.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let locked = look(&database.config(), &target(), &log().records);
    assert_eq!(locked.len(), 1);
    assert_eq!(locked[0].cause, Cause::SinkAway);
    let said = locked[0].to_string().replace(&database.path().display().to_string(), "FILE");
    assert_eq!(
        said,
        "another connection holds the write lock of FILE, so it could not be looked at; check again when the lock is \
         free; a run waits for it"
    );
}

#[test]
fn a_look_tries_the_records_themselves_and_leaves_no_trace() {
    let database = Database::new();
    database.run("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT CHECK (length(name) < 3), _op TEXT, \
                  _source_ts_ms INTEGER, _version_hi INTEGER NOT NULL DEFAULT 0, _version_lo INTEGER NOT NULL DEFAULT 0)");
    assert_eq!(look(&database.config(), &target(), &log().records), [], "it fits");
    let long = Log::from("t", &[("c", 10, json!({"id": 1, "name": "a"})), ("c", 20, json!({"id": 2, "name": "long"}))]);
    let found = look(&database.config(), &target(), &long.records);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].severity, found[0].cause), (Severity::Error, Cause::Record));
    assert!(found[0].what.contains("record s.public.t:0:1") && !found[0].what.contains("long"), "{}", found[0]);
    assert_eq!(database.count("t"), 0);
    let undeclared = Log::from("t", &[("c", 10, json!({"id": 1, "at": 1_700_000_000_000_i64}))]);
    let rule = TableRule { columns: vec![("at".into(), "TIMESTAMP(3)".into())], ..TableRule::default() };
    let target = Target { tables: [("public.t".to_owned(), rule)].into(), ..target() };
    let found = look(&Database::new().config(), &target, &undeclared.records);
    let errors: Vec<_> = found.iter().filter(|finding| finding.is_error()).collect();
    assert!(errors.len() == 1 && errors[0].cause == Cause::Contract, "{found:?}");
    assert!(errors[0].what.contains("time_precision_mode"), "{}", errors[0]);
}

#[test]
fn the_sql_for_a_table_is_what_a_run_would_use() {
    let sample = batch(&log().records);
    for deletes in [Deletes::Hard, Deletes::Soft] {
        let target = Target { deletes: Some(deletes), create: false, ..target() };
        let statements = create_table_ddl(&target, sample.tables().next().unwrap()).unwrap();
        assert_eq!(statements.len(), if deletes == Deletes::Hard { 2 } else { 1 });
        let database = Database::new();
        database.run(&statements.join(";\n"));
        let tables = "SELECT group_concat(name, ' ') FROM sqlite_schema WHERE name NOT LIKE 'settle#_%' ESCAPE '#'";
        let by_hand: String = database.one(tables);
        apply_all(&database, &target, &log().records, 1);
        assert_eq!(database.one::<String>(tables), by_hand, "a run makes no other");
        assert_eq!(database.count("t"), 1);
    }
}
