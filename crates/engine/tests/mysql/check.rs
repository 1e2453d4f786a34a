//! The look before a run, and the SQL for who makes tables by hand.

use serde_json::json;
use settle_core::record::Record;
use settle_engine::config::target::{Deletes, Target};
use settle_engine::finding::{Cause, Finding, Severity};
use settle_engine::sampling;
use settle_engine::sinks::mysql::{self, Address, MySqlConfig};

use crate::database::{Database, META, apply_all, target, with_columns};
use crate::log::Log;

fn log() -> Log {
    Log::from("t", &[("c", 10, json!({"id": 1, "name": "a"})), ("d", 20, json!({"id": 2}))])
}

async fn look(config: &MySqlConfig, target: &Target, records: &[Record]) -> Vec<Finding> {
    mysql::check(config, target, &sampling::read(records.to_vec())).await
}

async fn told(database: &Database, target: &Target) -> Vec<(Severity, String)> {
    let findings = look(&database.config(), target, &log().records).await;
    findings.iter().map(|finding| (finding.severity, finding.to_string())).collect()
}

#[tokio::test]
async fn a_look_changes_nothing_and_tells_what_a_run_would_make() {
    let database = Database::new().await;
    let target = with_columns("t", &[("id", "BIGINT"), ("name", "TEXT")]);
    let told_first = told(&database, &target).await;
    let severities: Vec<_> = told_first.iter().map(|(severity, _)| *severity).collect();
    assert_eq!(severities, [Severity::Note, Severity::Note], "{told_first:#?}");
    assert_eq!(told_first[0].1, "settle_meta and settle_positions do not exist yet; a run makes them");
    assert!(told_first[1].1.starts_with("table \"t\" does not exist yet; a run makes it: CREATE TABLE `t` ("));
    let tables = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()";
    assert_eq!(database.one(tables).await, "0");
    apply_all(&database, &target, &log().records, 1).await;
    let state = (database.all("t").await, database.all("settle_meta").await, database.all("settle_positions").await);
    assert_eq!(told(&database, &target).await, []);
    let after = (database.all("t").await, database.all("settle_meta").await, database.all("settle_positions").await);
    assert_eq!(after, state);
}

#[tokio::test]
async fn a_look_finds_everything_that_is_wrong_and_what_may_surprise() {
    let database = Database::new().await;
    database.run("CREATE TABLE p (id BIGINT PRIMARY KEY)").await;
    database
        .run(
            "CREATE TABLE t (id VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, name VARCHAR(9) UNIQUE, c CHAR(3), \
             p BIGINT NOT NULL REFERENCES p (id)) CHARACTER SET utf8mb4",
        )
        .await;
    database.run("INSERT INTO p VALUES (1)").await;
    database.run("INSERT INTO t VALUES ('x', 'y', 'z', 1)").await;
    database.run("CREATE TRIGGER seen AFTER INSERT ON t FOR EACH ROW SET @x = 1").await;
    let told = told(&database, &target()).await;
    let severities: Vec<_> = told.iter().map(|(severity, _)| *severity).collect();
    use Severity::{Error, Note, Warning};
    assert_eq!(severities, [Note, Error, Error, Error, Warning, Warning, Warning, Warning], "{told:#?}");
    assert!(told[1].1.contains("(collation utf8mb4_general_ci) takes letters for equal"), "{told:#?}");
    assert!(told[2].1.contains("\"name\", unique over `name`"), "{told:#?}");
    assert!(told[3].1.contains("ALTER TABLE `t` ADD COLUMN `_version_hi` BIGINT NOT NULL DEFAULT 0"), "{told:#?}");
}

#[tokio::test]
async fn a_look_tries_the_records_themselves_and_leaves_no_trace() {
    let database = Database::new().await;
    database.run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(3), {META})")).await;
    let errors = |findings: Vec<Finding>| -> Vec<Finding> { findings.into_iter().filter(Finding::is_error).collect() };
    assert_eq!(errors(look(&database.config(), &target(), &log().records).await), [], "it fits");
    let long = Log::from("t", &[("c", 10, json!({"id": 1, "name": "a"})), ("c", 20, json!({"id": 2, "name": "long"}))]);
    let found = errors(look(&database.config(), &target(), &long.records).await);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].severity, found[0].cause), (Severity::Error, Cause::Record));
    assert!(found[0].what.contains("record s.public.t:0:1: a value is too long for 'name'"), "{}", found[0]);
    assert_eq!(database.count("t").await, "0");
    let undeclared = Log::from("t", &[("c", 10, json!({"id": 1, "at": 1_700_000_000_000_i64}))]);
    let columns = with_columns("t", &[("id", "BIGINT"), ("at", "DATETIME(3)")]);
    let found = errors(look(&Database::new().await.config(), &columns, &undeclared.records).await);
    assert!(found.len() == 1 && found[0].cause == Cause::Contract, "{found:?}");
    assert!(found[0].what.contains("time_precision_mode"), "{}", found[0]);
}

#[tokio::test]
async fn a_look_says_what_the_user_may_not_do() {
    let database = Database::new().await;
    let user = format!("u{}", &database.inner.name()[database.inner.name().len() - 12..]);
    let name = database.inner.name();
    database.run(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")).await;
    database.run(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON `{name}`.* TO '{user}'@'%'")).await;
    let url = format!("mysql://{user}:pw@{}:{}/{name}", database.inner.host(), database.inner.port());
    let config = MySqlConfig { address: Address::parse(&url, std::path::Path::new("")).unwrap(), ..database.config() };
    let columns = with_columns("t", &[("id", "BIGINT"), ("name", "TEXT")]);
    let found = look(&config, &columns, &log().records).await;
    let errors: Vec<&Finding> = found.iter().filter(|finding| finding.is_error()).collect();
    assert_eq!(errors.len(), 1, "{found:?}");
    assert_eq!(
        errors[0].to_string(),
        format!(
            "'{user}'@'%' has no CREATE privilege on the database {name}, and a run needs it; run GRANT CREATE ON \
             `{name}`.* TO '{user}'@'%'; or make the tables by hand (`settle ddl`)"
        )
    );
    // With the tables made by somebody else the same user may run.
    for statement in mysql::own_tables_ddl() {
        database.run(&statement).await;
    }
    database.make(&columns, &log().records).await;
    let found = look(&config, &Target { create: false, ..columns.clone() }, &log().records).await;
    assert_eq!(found, []);
    let (mut sink, _) = database.open(config, columns, &log().records).await.unwrap();
    crate::database::apply(&mut sink, &crate::log::batch(&log().records)).await.unwrap();
    database.run(&format!("DROP USER '{user}'@'%'")).await;
}

/// Without them a run would begin, and wait for ever.
#[tokio::test]
async fn a_look_says_which_rows_the_user_may_not_write() {
    let database = Database::new().await;
    let columns = with_columns("t", &[("id", "BIGINT"), ("name", "TEXT")]);
    for statement in mysql::own_tables_ddl() {
        database.run(&statement).await;
    }
    database.make(&columns, &log().records).await;
    let name = database.inner.name();
    let user = format!("w{}", &name[name.len() - 12..]);
    database.run(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")).await;
    for table in ["settle_meta", "settle_positions", "t__tombstones"] {
        database.run(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON `{name}`.`{table}` TO '{user}'@'%'")).await;
    }
    database.run(&format!("GRANT SELECT, INSERT, UPDATE ON `{name}`.t TO '{user}'@'%'")).await;
    let url = format!("mysql://{user}:pw@{}:{}/{name}", database.inner.host(), database.inner.port());
    let config = MySqlConfig { address: Address::parse(&url, std::path::Path::new("")).unwrap(), ..database.config() };
    let target = Target { create: false, ..columns };
    // No delete is among these: nothing that is tried tells it.
    let kept = Log::from("t", &[("c", 10, json!({"id": 1, "name": "a"}))]);
    let told: Vec<String> =
        look(&config, &target, &kept.records).await.iter().map(|finding| finding.to_string()).collect();
    let said = format!(
        "'{user}'@'%' has no DELETE privilege on `t` of the database {name}, and a run needs it; run GRANT DELETE \
         ON `{name}`.* TO '{user}'@'%'"
    );
    assert_eq!(told, [said]);
    // Each of the three places where it may be granted is enough.
    database.run(&format!("GRANT DELETE ON `{name}`.t TO '{user}'@'%'")).await;
    assert_eq!(look(&config, &target, &kept.records).await, []);
    database.run(&format!("REVOKE DELETE ON `{name}`.t FROM '{user}'@'%'")).await;
    database.run(&format!("REVOKE SELECT ON `{name}`.settle_meta FROM '{user}'@'%'")).await;
    let denied = look(&config, &target, &kept.records).await;
    assert!(denied[0].to_string().contains("has no SELECT privilege on `settle_meta` of the database"), "{denied:?}");
    database.run(&format!("GRANT SELECT ON `{name}`.settle_meta TO '{user}'@'%'")).await;
    database.run(&format!("GRANT DELETE ON *.* TO '{user}'@'%'")).await;
    assert_eq!(look(&config, &target, &kept.records).await, []);
    database.run(&format!("DROP USER '{user}'@'%'")).await;
}

#[tokio::test]
async fn a_look_says_which_values_are_not_stored_for_the_server_computes_them() {
    let database = Database::new().await;
    database
        .run(&format!(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(9), Twice VARCHAR(18) AS (CONCAT(name, name)), other INT AS \
             (1), {META})"
        ))
        .await;
    let sent = Log::from("t", &[("c", 10, json!({"id": 1, "name": "a", "twice": "b"}))]);
    let found: Vec<Finding> = look(&database.config(), &target(), &sent.records).await;
    let told: Vec<_> = found.iter().filter(|f| f.severity == Severity::Warning).map(ToString::to_string).collect();
    let said = "column \"Twice\" of table \"t\" is computed by the database: what the source sends for it is not stored; exclude it \
         ([tables.\"…\"] exclude), or make it an ordinary column";
    assert_eq!(told, [said]);
}

#[tokio::test]
async fn the_sql_for_a_table_is_what_a_run_would_use() {
    for deletes in [Deletes::Hard, Deletes::Soft] {
        let columns = with_columns("t", &[("id", "BIGINT"), ("name", "TEXT"), ("k", "DECIMAL(5,1)")]);
        let target = Target { deletes: Some(deletes), ..columns };
        let (by_hand, by_run) = (Database::new().await, Database::new().await);
        by_hand.make(&target, &log().records).await;
        apply_all(&by_hand, &Target { create: false, ..target.clone() }, &log().records, 1).await;
        apply_all(&by_run, &target, &log().records, 1).await;
        let tables: &[&str] = if deletes == Deletes::Hard { &["t", "t__tombstones"] } else { &["t"] };
        for table in tables {
            let plain = |ddl: String| {
                ddl.replace(" CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", "")
                    .replace("utf8mb4_nopad_bin", "utf8mb4_bin")
            };
            assert_eq!(plain(by_hand.ddl_of(table).await), plain(by_run.ddl_of(table).await));
        }
    }
}
