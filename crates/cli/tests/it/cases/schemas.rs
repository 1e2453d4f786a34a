//! Worse than the handed cases: Connect schemas that change in the middle of a topic, and types at
//! their borders, through the real binary into both destinations.

use serde_json::{Value, json};

use super::case::Entry;
use super::poison::{past_poison, stops};
use super::stand::{Sink, Stand, same_rows};
use super::walk::refused;

const SINKS: [Sink; 2] = [Sink::Sqlite, Sink::ClickHouse];

/// A record with a schema: fields and row.
fn entry(offset: i64, fields: &Value, row: &Value) -> Entry {
    let lsn = 100 + 10 * offset;
    let row_schema = |field: &str| json!({"type": "struct", "optional": true, "field": field, "fields": fields});
    let envelope = json!({
        "before": null, "after": row, "op": "u", "ts_ms": 1,
        "source": {"connector": "postgresql", "name": "srv", "db": "appdb", "schema": "public", "table": "t", "ts_ms": lsn,
                   "lsn": lsn, "sequence": format!("[\"{}\",\"{lsn}\"]", lsn - 8)},
    });
    let schema = json!({"type": "struct", "optional": false, "name": "srv.public.t.Envelope",
                        "fields": [row_schema("before"), row_schema("after")]});
    Entry {
        topic: "srv.public.t".to_owned(),
        partition: 0,
        offset,
        key: Some(json!({"id": row["id"]}).to_string().into_bytes()),
        value: Some(json!({"schema": schema, "payload": envelope}).to_string().into_bytes()),
        headers: Vec::new(),
    }
}

fn field(name: &str, kind: &str) -> Value {
    json!({"field": name, "type": kind, "optional": name != "id"})
}

fn named(name: &str, kind: &str, semantic: &str) -> Value {
    json!({"field": name, "type": kind, "optional": true, "name": semantic, "version": 1})
}

fn fed(sink: Sink, entries: &[Entry], batch: usize) -> Stand {
    let mut stand = Stand::new(sink);
    stand.settings.batch = format!("max_rows = {batch}");
    stand.configure();
    stand.feed(entries.to_vec());
    stand
}

fn has(stand: &Stand, rows: &Value) {
    let key = ["id".to_owned()];
    same_rows(rows, &stand.table("t"), &key, true).unwrap_or_else(|why| panic!("{}: {why}", stand.sink.name()));
}

#[test]
fn columns_come_go_and_change_places_in_the_schema() {
    let (id, a, b, c) = (field("id", "int64"), field("a", "string"), field("b", "int32"), field("c", "boolean"));
    let entries = [
        entry(0, &json!([id, a]), &json!({"id": 1, "a": "x"})),
        entry(1, &json!([id, a, b]), &json!({"id": 2, "a": "y", "b": 2})),
        entry(2, &json!([b, id, a]), &json!({"b": 3, "id": 1, "a": "x3"})),
        entry(3, &json!([c, b, id]), &json!({"c": true, "b": 4, "id": 3})),
        entry(4, &json!([id, a, b, c]), &json!({"id": 2, "a": null, "b": null, "c": false})),
    ];
    for sink in SINKS {
        for batch in [1, 2, 100] {
            let stand = fed(sink, &entries, batch);
            stand.run_to_end().unwrap();
            let rows = json!([
                {"id": 1, "a": "x3", "b": 3, "c": null}, {"id": 2, "a": null, "b": null, "c": false},
                {"id": 3, "a": null, "b": 4, "c": true},
            ]);
            has(&stand, &rows);
        }
    }
}

#[test]
fn a_type_that_grows_is_taken_or_stops_with_the_statement_to_run() {
    let entries = [
        entry(0, &json!([field("id", "int64"), field("n", "int32")]), &json!({"id": 1, "n": 1})),
        entry(1, &json!([field("id", "int64"), field("n", "int64")]), &json!({"id": 2, "n": 5_000_000_000_i64})),
    ];
    let sqlite = fed(Sink::Sqlite, &entries, 100);
    sqlite.run_to_end().unwrap();
    has(&sqlite, &json!([{"id": 1, "n": 1}, {"id": 2, "n": 5_000_000_000_i64}]));
    let stand = fed(Sink::ClickHouse, &entries, 100);
    refused(&stand.run(&["--until-end"]), &["record srv.public.t:0:1", "MODIFY COLUMN `n` Nullable(Int64)"]).unwrap();
    assert_eq!(stand.committed("srv.public.t", 0), Some(1));
    stand.sql("ALTER TABLE t MODIFY COLUMN n Nullable(Int64)").unwrap();
    stand.run_to_end().unwrap();
    has(&stand, &json!([{"id": 1, "n": 1}, {"id": 2, "n": 5_000_000_000_i64}]));
}

#[test]
fn a_number_that_becomes_text_never_turns_into_another_value() {
    let number = json!([field("id", "int64"), field("n", "int32")]);
    let text = json!([field("id", "int64"), field("n", "string")]);
    let entries = [entry(0, &number, &json!({"id": 1, "n": 7})), entry(1, &text, &json!({"id": 2, "n": "007"}))];
    for sink in SINKS {
        let stand = fed(sink, &entries, 100);
        let ran = stand.run(&["--until-end"]);
        refused(&ran, &["record srv.public.t:0:1", &sink.quoted("n")]).unwrap();
        has(&stand, &json!([{"id": 1, "n": 7}]));
    }
}

#[test]
fn decimals_of_any_scale_are_exact() {
    let decimal = |scale: &str| {
        json!({"field": "d", "type": "bytes", "optional": true, "name": "org.apache.kafka.connect.data.Decimal",
               "version": 1, "parameters": {"scale": scale, "connect.decimal.precision": "20"}})
    };
    let id = field("id", "int64");
    // 0x00FF = 255; 0x80 = -128.
    let entries = [
        entry(0, &json!([id, decimal("0")]), &json!({"id": 1, "d": "AP8="})),
        entry(1, &json!([id, decimal("0")]), &json!({"id": 2, "d": "gA=="})),
        entry(2, &json!([id, decimal("0")]), &json!({"id": 3, "d": ""})),
    ];
    for sink in SINKS {
        let mut stand = Stand::new(sink);
        let found = past_poison(&mut stand, entries.to_vec()).unwrap();
        stops(&found, &[(2, "decimal of no bytes")]).unwrap();
        has(&stand, &json!([{"id": 1, "d": "255"}, {"id": 2, "d": "-128"}]));
    }
    let entries = [
        entry(0, &json!([id, decimal("2")]), &json!({"id": 1, "d": "AP8="})),
        entry(1, &json!([id, decimal("3")]), &json!({"id": 2, "d": "AP8="})),
    ];
    let sqlite = fed(Sink::Sqlite, &entries, 100);
    sqlite.run_to_end().unwrap();
    has(&sqlite, &json!([{"id": 1, "d": "2.55"}, {"id": 2, "d": "0.255"}]));
    let stand = fed(Sink::ClickHouse, &entries, 100);
    refused(&stand.run(&["--until-end"]), &["record srv.public.t:0:1", "MODIFY COLUMN `d`"]).unwrap();
}

#[test]
fn odd_types_have_a_stated_form() {
    let point = json!({"field": "p", "type": "struct", "optional": true, "name": "io.debezium.data.geometry.Point",
                       "fields": [field("x", "double"), field("y", "double")]});
    let bits = json!({"field": "bits", "type": "bytes", "optional": true, "name": "io.debezium.data.Bits", "version": 1,
                      "parameters": {"length": "10"}});
    let list = json!({"field": "l", "type": "array", "optional": true, "items": {"type": "int32", "optional": true}});
    let fields = json!([
        field("id", "int64"),
        named("u", "string", "io.debezium.data.Uuid"),
        named("e", "string", "io.debezium.data.Enum"),
        named("x", "string", "io.debezium.data.Xml"),
        named("y", "int32", "io.debezium.time.Year"),
        named("t", "int64", "io.debezium.time.MicroTime"),
        named("z", "string", "io.debezium.time.ZonedTime"),
        named("v", "struct", "io.debezium.data.VariableScaleDecimal"),
        bits,
        list,
    ]);
    let row = json!({
        "id": 1, "u": "6f1e9d3c-1111-4222-8333-444455556666", "e": "", "x": "<a/>", "y": 1901, "t": -3_600_000_001_i64,
        "z": "23:59:59.999999Z", "v": {"scale": 3, "value": "AP8="}, "bits": "AQI=", "l": [1, null, -2],
    });
    for sink in SINKS {
        let stand = fed(sink, &[entry(0, &fields, &row)], 100);
        stand.run_to_end().unwrap();
        let wanted = json!([{
            "id": 1, "u": "6f1e9d3c-1111-4222-8333-444455556666", "e": "", "x": "<a/>", "y": 1901, "t": "-01:00:00.000001",
            "z": "23:59:59.999999Z", "v": "0.255", "bits": "1000000001", "l": [1, null, -2],
        }]);
        has(&stand, &wanted);
        // A struct without a mapping is kept as its JSON, or refused with what to do.
        let fields = json!([field("id", "int64"), point]);
        let stand = fed(sink, &[entry(0, &fields, &json!({"id": 1, "p": {"x": 1.5, "y": -2.0}}))], 100);
        let ran = stand.run(&["--until-end"]);
        if ran.code == 0 {
            has(&stand, &json!([{"id": 1, "p": {"x": 1.5, "y": -2.0}}]));
        } else {
            refused(&ran, &["Point", "`p`"]).unwrap();
        }
    }
}
