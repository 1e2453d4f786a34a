//! Topics recorded from real servers, in MariaDB.

#[path = "../recorded/mod.rs"]
mod topics;

use serde_json::Value;
use settle_core::record::Record;
use settle_core::sink::{FailureKind, Outcome};
use settle_engine::config::target::Target;
use tokio::runtime::Runtime;

use crate::database::{Database, Shown, apply, apply_all, target};
use crate::log::batch;
use topics::{Engine, Spellings, Topic, capture, every_topic, shows};

struct Server {
    runtime: Runtime,
    database: Database,
}

impl Engine for Server {
    const PREFIX: usize = 150;

    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let database = runtime.block_on(Database::new());
        Self { runtime, database }
    }

    fn make(&self, target: &Target, records: &[Record]) {
        self.runtime.block_on(self.database.make(target, records));
    }

    fn apply_all(&self, target: &Target, records: &[Record], size: usize) -> Outcome {
        self.runtime.block_on(apply_all(&self.database, target, records, size))
    }

    fn all(&self, table: &str) -> Vec<Shown> {
        self.runtime.block_on(self.database.all(table))
    }

    fn spellings(topic: &Topic) -> Spellings {
        match topic.name {
            "mariadb_wide" => &[("bits", "341", "5501")],
            _ => &[],
        }
    }
}

every_topic!(Server);

#[tokio::test]
async fn every_type_that_came_with_a_schema_is_stored_as_it_is_or_refused() {
    let records = capture("pg-types-special/shopa.public.all_types.jsonl");
    let id = |record: &Record| {
        let key: Value = serde_json::from_slice(record.key.as_deref().unwrap()).unwrap();
        key["payload"]["id"].as_i64().unwrap()
    };
    // MySQL has no NaN, no infinities, no years beyond 9999 or before 0.
    let (strange, stored): (Vec<Record>, Vec<Record>) =
        records.into_iter().partition(|record| (20..=23).contains(&id(record)));
    let database = Database::new().await;
    apply_all(&database, &target(), &stored, 10_000).await;
    let rows = database.rows("all_types").await;
    let is = |id, wanted| shows(&rows, id, wanted);
    is(
        "1",
        &[
            ("c_big", "9223372036854775807"),
            ("c_num38", "1234567890123456789012345678.0123456789"),
            ("c_num", "12345678901234567890.123456789"),
            ("c_money", "12.34"),
            ("c_bytea", "00ff10ab"),
            ("c_bool", "1"),
            ("c_date", "2024-02-29"),
            ("c_time", "23:59:59.123456"),
            ("c_timetz", "21:59:59.123456Z"),
            ("c_ts", "2024-02-29 23:59:59.123456"),
            ("c_ts3", "2024-02-29 23:59:59.123000"),
            ("c_tstz", "2024-02-29 21:59:59.123456"),
            ("c_interval", "37091106789000"),
            ("c_json", "{\"b\":1,  \"a\":[1,2]}"),
            ("c_ints", "[1,2,null,4]"),
            ("c_texts", "[\"a\",\"b c\",null,\"quo\\\"te\"]"),
        ],
    );
    is("13", &[("c_text", ""), ("c_bytea", ""), ("c_json", "null"), ("c_double", "1e300"), ("c_real", "-0.1")]);
    let mut sink = database.sink(target(), &strange).await;
    for record in &strange {
        let error = apply(&mut sink, &batch(std::slice::from_ref(record))).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Row, "{error}");
        assert_eq!(error.place.unwrap().offset, record.offset);
        let said = ["MySQL has no ", "an infinite ", "a year outside of 0 to 9999"];
        assert!(said.iter().any(|said| error.context.contains(said)), "{} {}", id(record), error.context);
    }
}
