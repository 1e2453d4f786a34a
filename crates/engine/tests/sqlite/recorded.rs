//! Topics recorded from real servers, in SQLite.

#[path = "../recorded/mod.rs"]
mod topics;

use settle_core::record::Record;
use settle_core::sink::Outcome;
use settle_engine::config::target::Target;

use crate::database::{Database, Shown, apply, apply_all, target};
use crate::log::batch;
use topics::{Engine, Spellings, Topic, capture, every_topic, shows};

impl Engine for Database {
    const PREFIX: usize = 300;

    fn new() -> Self {
        Self::new()
    }

    fn apply_all(&self, target: &Target, records: &[Record], size: usize) -> Outcome {
        apply_all(self, target, records, size)
    }

    fn all(&self, table: &str) -> Vec<Shown> {
        self.all(table)
    }

    fn spellings(topic: &Topic) -> Spellings {
        match topic.name {
            "mariadb_wide" => &[("bits", "341", "5501")],
            "mariadb_wide_with_schemas" => &[("bits", "341", "101010101")],
            _ => &[],
        }
    }
}

every_topic!(Database);

#[test]
fn every_type_that_came_with_a_schema_is_stored_as_it_is() {
    let records = capture("pg-types-special/shopa.public.all_types.jsonl");
    let is_nan = |record: &Record| record.key.as_deref().is_some_and(|key| key.ends_with(b"{\"id\":21}}"));
    let (nan, stored): (Vec<Record>, Vec<Record>) = records.into_iter().partition(is_nan);
    let database = Database::new();
    apply_all(&database, &target(), &stored, 10_000);
    let rows = database.rows("all_types");
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
            ("c_ts3", "2024-02-29 23:59:59.123"),
            ("c_tstz", "2024-02-29 21:59:59.123456"),
            ("c_interval", "37091106789000"),
            ("c_json", "{\"b\":1,  \"a\":[1,2]}"),
            ("c_ints", "[1,2,null,4]"),
            ("c_texts", "[\"a\",\"b c\",null,\"quo\\\"te\"]"),
        ],
    );
    is("13", &[("c_text", ""), ("c_bytea", ""), ("c_json", "null"), ("c_double", "1e300"), ("c_real", "-0.1")]);
    is("20", &[("c_real", "inf"), ("c_double", "-inf")]);
    is("22", &[("c_date", "infinity"), ("c_ts", "infinity"), ("c_tstz", "-infinity")]);
    is("23", &[("c_date", "-0043-03-15"), ("c_tstz", "+10000-01-01 00:00:00.000000")]);
    let mut sink = database.sink(target(), &nan);
    let error = apply(&mut sink, &batch(&nan[..1])).unwrap_err();
    assert!(error.context.ends_with("column \"c_real\": SQLite stores NaN as NULL; make the column TEXT"), "{error}");
}
