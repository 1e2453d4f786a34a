//! A table that is gone, told from one that is still to be made.

use serde_json::json;
use settle_engine::config::target::TableRule;
use settle_testkit::kafka::unique;

use crate::database::{Database, with_rule};
use crate::log::Log;

#[test]
fn a_lost_table_is_missed_though_another_schema_has_one_of_its_name() {
    let database = Database::new();
    let name = unique("lost");
    let columns = [("id", "bigint"), ("v", "text")].map(|(column, kind)| (column.into(), kind.into())).into();
    let target = with_rule("t", TableRule { name: Some(name.clone()), columns, ..TableRule::default() });
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": "a"}))]);
    database.apply_all(&target, &log.records, 1);
    let (_, places) = database.open(target.clone(), &log.records).unwrap();
    assert_eq!(places.missing, []);
    // The schema that every user's search path ends with.
    database.run(&format!("CREATE TABLE public.{name} (id bigint); DROP TABLE {name}"));
    let opened = database.open(target, &log.records);
    database.run(&format!("DROP TABLE public.{name}"));
    let missing: Vec<_> = opened.unwrap().1.missing.into_iter().map(|missing| missing.table).collect();
    assert_eq!(missing, [name]);
}
