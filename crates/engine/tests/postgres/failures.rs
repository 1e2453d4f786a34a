//! What goes wrong with the server and on the way to it, and what is left of a batch then.

use std::path::Path;

use serde_json::json;
use settle_core::sink::{Effect, FailureKind, Outcome, Sink};
use settle_engine::config::target::Target;
use settle_engine::sinks::postgres::{Address, Postgres, PostgresConfig};
use settle_testkit::kafka::unique;
use settle_testkit::services;

use crate::database::{Database, META, declared, parts, row, target};
use crate::log::{Log, batch};

fn log() -> Log {
    Log::from("t", &[("c", 10, json!({"id": 1, "v": "a"})), ("u", 11, json!({"id": 1, "v": "b"}))])
}

fn declared_target() -> Target {
    declared("t", &[("id", "bigint"), ("v", "text")])
}

/// The server's address with another user.
fn as_user(user: &str, password: &str) -> Address {
    let (_, rest) = services::postgres().rsplit_once('@').unwrap();
    Address::parse(&format!("postgres://{user}:{password}@{rest}"), Path::new("")).unwrap()
}

#[test]
fn a_session_that_is_ended_is_told_and_the_batch_passes_over_a_new_one() {
    let database = Database::new();
    let log = log();
    let config = PostgresConfig { group: database.schema.clone(), ..database.config() };
    let (mut sink, _) = database.open_as(config, declared_target(), &log.records).unwrap();
    database.apply(&mut sink, &batch(&log.records[..1])).unwrap();
    let end = format!(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE application_name = 'settle {}'",
        database.schema
    );
    assert_eq!(database.one(&end), "t");
    let error = database.apply(&mut sink, &batch(&log.records[1..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
    assert_eq!(database.apply(&mut sink, &batch(&log.records[1..])).unwrap(), Outcome { applied: 1, stale: 0 });
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "b")])]);
}

#[test]
fn a_lock_that_is_held_for_too_long_puts_the_batch_off() {
    let database = Database::new();
    let log = log();
    let mut sink = database.sink(declared_target(), &log.records);
    database.apply(&mut sink, &batch(&log.records[..1])).unwrap();
    database.run("BEGIN; SELECT * FROM t FOR UPDATE");
    let error = database.apply(&mut sink, &batch(&log.records[1..])).unwrap_err();
    assert_eq!((error.kind, error.effect), (FailureKind::Overloaded, Effect::None), "{error}");
    database.run("COMMIT");
    assert_eq!(database.apply(&mut sink, &batch(&log.records[1..])).unwrap(), Outcome { applied: 1, stale: 0 });
}

#[test]
fn a_statement_that_takes_too_long_is_ended() {
    let database = Database::new();
    database.run(&format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text, {META});
         CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN new; END $$;
         CREATE TRIGGER slow BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION slow()"
    ));
    let log = log();
    let config = PostgresConfig { request_timeout_ms: 3_000, ..database.config() };
    let (mut sink, _) = database.open_as(config, target(), &log.records).unwrap();
    let error = database.apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert_eq!((error.kind, error.effect), (FailureKind::Overloaded, Effect::None), "{error}");
    assert!(error.context.contains("request_timeout_ms"), "{error}");
}

#[test]
fn a_batch_that_nobody_waits_for_any_more_leaves_nothing() {
    let database = Database::new();
    database.run(&format!("CREATE TABLE t (id bigint PRIMARY KEY, v text, {META})"));
    let log = log();
    let patient = PostgresConfig { lock_timeout_ms: 60_000, ..database.config() };
    let (mut sink, _) = database.open_as(patient, target(), &log.records).unwrap();
    database.run("BEGIN; LOCK TABLE t");
    let whole = batch(&log.records);
    database.wait(async {
        let mut applying = sink.apply(&whole);
        // Given up at a place of its own choosing: once the server waits for the lock.
        loop {
            tokio::select! {
                biased;
                applied = &mut applying => panic!("not while the table is locked: {applied:?}"),
                waits = database.waits_for_a_lock() => if waits { break },
            }
        }
    });
    database.run("COMMIT");
    assert_eq!(database.apply(&mut sink, &whole).unwrap(), Outcome { applied: 1, stale: 0 });
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "b")])]);
}

#[test]
fn a_user_who_may_not_is_told_what_he_lacks() {
    let database = Database::new();
    let (user, log) = (unique("user"), log());
    database.run(&format!("CREATE ROLE {user} LOGIN PASSWORD 'right'"));
    let config = |password| PostgresConfig { address: as_user(&user, password), ..database.config() };
    let open = |config: PostgresConfig| database.open_as(config, declared_target(), &log.records);
    // Another schema where it may do anything is not taken in place of the one that was named.
    let other = format!("{}_other", database.schema);
    database.run(&format!("CREATE SCHEMA {other} AUTHORIZATION {user}; ALTER ROLE {user} SET search_path = {other}"));
    let error = open(config("right")).unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied, "{error}");
    assert!(error.context.contains("run GRANT USAGE, CREATE ON SCHEMA"), "{error}");
    assert_eq!(database.one(&format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{other}'")), "0");
    database.run(&format!("GRANT USAGE ON SCHEMA {} TO {user}", database.quoted_schema()));
    let error = open(config("right")).unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied, "{error}");
    assert!(error.context.contains("permission denied for schema"), "{error}");
    database.run(&format!("GRANT USAGE, CREATE ON SCHEMA {} TO {user}", database.quoted_schema()));
    let (mut sink, _) = open(config("right")).unwrap();
    database.apply(&mut sink, &batch(&log.records)).unwrap();
    drop(sink);

    // Policies that hide rows from it.
    database.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY; ALTER TABLE t FORCE ROW LEVEL SECURITY");
    let (mut sink, _) = open(config("right")).unwrap();
    let error = database.apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert!(error.context.contains("row-level security of table \"t\" applies to this user"), "{error}");
    assert!(error.context.contains("BYPASSRLS"), "{error}");
    drop(sink);

    database.run(&format!("ALTER ROLE {user} CONNECTION LIMIT 0"));
    let error = open(config("right")).unwrap_err();
    assert_eq!(error.kind, FailureKind::Overloaded, "{error}");
    database.run(&format!("ALTER ROLE {user} NOLOGIN"));
    assert_eq!(open(config("right")).unwrap_err().kind, FailureKind::Denied);
    database.run(&format!("DROP OWNED BY {user} CASCADE; DROP ROLE {user}"));
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let database = Database::new();
    let address = |url: &str| Address::parse(url, Path::new("")).unwrap();
    let config = PostgresConfig::at(address(&format!("postgres://u:s3cret@127.0.0.1:{port}/d")));
    let mut sink = Postgres::new(config, target());
    let error = database.wait(sink.open(&parts(&log().records))).unwrap_err();
    assert_eq!((error.kind, error.effect), (FailureKind::Unreachable, Effect::None));
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    // The server here has no TLS.
    let (login, rest) = services::postgres().rsplit_once('@').unwrap();
    let config = PostgresConfig::at(address(&format!("{login}@{rest}?sslmode=require")));
    let error = database.wait(Postgres::new(config, target()).open(&parts(&log().records))).unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
    let config = PostgresConfig::at(address(&format!("{login}@{}/none_such", rest.split_once('/').unwrap().0)));
    let error = database.wait(Postgres::new(config, target()).open(&parts(&log().records))).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert!(error.context.ends_with("create it, or name another in [sink] url"), "{error}");
}

#[test]
fn a_type_that_has_the_name_of_the_table_is_refused() {
    let (database, log) = (Database::new(), log());
    database.run("CREATE TYPE t AS ENUM ('a')");
    let mut sink = database.sink(declared_target(), &log.records);
    let error = database.apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert!(error.context.contains("type \"t\" already exists; drop that, or give the table another name"), "{error}");
}
