//! The schema that everything is in.

use serde_json::json;
use settle_core::sink::FailureKind;
use settle_engine::sinks::postgres::{PostgresConfig, own_tables_ddl};

use crate::database::{Database, declared};
use crate::log::{Log, batch};

fn log() -> Log {
    Log::from("t", &[("c", 10, json!({"id": 1, "v": "a"})), ("c", 11, json!({"id": 2, "v": "b"}))])
}

#[test]
fn a_schema_of_any_name_holds_everything_and_a_missing_one_is_told() {
    let database = Database::new();
    let name = format!("{} We\"ird', x", database.schema);
    let quoted = format!("\"{}\"", name.replace('"', "\"\""));
    let config = PostgresConfig { schema: name, ..database.config() };
    let declared = declared("t", &[("id", "bigint"), ("v", "text")]);
    let error = database.open_as(config.clone(), declared.clone(), &log().records).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(error.context.contains("run CREATE SCHEMA ") && error.context.contains("[sink] schema"), "{error}");
    database.run(&format!("CREATE SCHEMA {quoted}"));
    for statement in own_tables_ddl(&config.schema) {
        assert!(statement.starts_with(&format!("CREATE TABLE IF NOT EXISTS {quoted}.\"settle_")), "{statement}");
    }
    let (mut sink, _) = database.open_as(config, declared, &log().records).unwrap();
    database.apply(&mut sink, &batch(&log().records)).unwrap();
    assert_eq!(
        database.one(&format!("SELECT count(*) FROM {quoted}.t, {quoted}.settle_meta WHERE kind = 'scheme'")),
        "2"
    );
    database.run(&format!("DROP SCHEMA {quoted} CASCADE"));
}
