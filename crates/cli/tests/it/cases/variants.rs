//! Worse than the handed cases, of the same kinds: names, numbers, keys, schemas and deliveries at
//! their borders, each through the real binary into both destinations.

use serde_json::{Value, json};

use super::case::Entry;
use super::poison::{past_poison, stops};
use super::stand::{Row, Sink, Stand, same_rows};
use super::walk::refused;

const SINKS: [Sink; 2] = [Sink::Sqlite, Sink::ClickHouse];

/// A log of one PostgreSQL table, with rising positions.
struct Log {
    table: String,
    entries: Vec<Entry>,
    lsn: u64,
    /// Added to the connector's own times, which a re-send has anew.
    clock: u64,
}

impl Log {
    fn of(table: &str) -> Self {
        Self { table: table.to_owned(), entries: Vec::new(), lsn: 100, clock: 0 }
    }

    fn envelope(&self, op: &str, row: &Value, lsn: u64) -> Value {
        let after = if op == "d" { &Value::Null } else { row };
        json!({
            "before": null, "after": after, "op": op, "ts_ms": 1_767_225_600_000_u64 + self.clock,
            "source": {
                "connector": "postgresql", "name": "srv", "db": "appdb", "schema": "public", "table": self.table,
                "ts_ms": 1_767_225_600_000_u64 + lsn, "lsn": lsn, "sequence": format!("[\"{}\",\"{lsn}\"]", lsn - 8),
                "snapshot": "false",
            },
        })
    }

    fn push(&mut self, partition: i32, key: &str, value: Option<String>, headers: &[(&str, String)]) -> &mut Self {
        let offset = self.entries.iter().filter(|entry| entry.partition == partition).count();
        self.entries.push(Entry {
            topic: "srv.public.log".to_owned(),
            partition,
            offset: i64::try_from(offset).unwrap(),
            key: Some(key.as_bytes().to_vec()),
            value: value.map(String::into_bytes),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        });
        self
    }

    /// The next change of the row with this key.
    fn change(&mut self, op: &str, key: &Value, row: &Value) -> &mut Self {
        self.lsn += 10;
        let value = self.envelope(op, row, self.lsn).to_string();
        self.push(0, &key.to_string(), Some(value), &[])
    }

    /// The same, the row as this very text.
    fn change_text(&mut self, op: &str, key: &str, row: &str) -> &mut Self {
        self.lsn += 10;
        let value = self.envelope(op, &json!("ROW"), self.lsn).to_string().replace("\"ROW\"", row);
        self.push(0, key, Some(value), &[])
    }

    fn tombstone(&mut self, key: &Value) -> &mut Self {
        self.push(0, &key.to_string(), None, &[])
    }

    /// Both halves of a key change, each in its key's partition, one position.
    fn move_key(&mut self, old: i64, new: i64, v: &str) -> &mut Self {
        self.lsn += 10;
        let partition = |id: i64| i32::try_from(id % 2).unwrap();
        let (old_key, new_key) = (json!({"id": old}).to_string(), json!({"id": new}).to_string());
        let delete = self.envelope("d", &json!({"id": old}), self.lsn).to_string();
        let create = self.envelope("c", &json!({"id": new, "v": v}), self.lsn).to_string();
        self.push(partition(old), &old_key, Some(delete), &[("__debezium.newkey", new_key.clone())]);
        self.push(partition(old), &old_key, None, &[]);
        self.push(partition(new), &new_key, Some(create), &[("__debezium.oldkey", old_key)])
    }

    /// The record at this place of the log is sent again, with the connector's clock of now.
    fn resend(&mut self, at: usize) -> &mut Self {
        self.clock += 3_600_000;
        let again = self.entries[at].clone();
        let mut envelope = again.envelope().unwrap();
        envelope["ts_ms"] = (1_767_225_600_000 + self.clock).into();
        self.push(again.partition, &String::from_utf8(again.key.unwrap()).unwrap(), Some(envelope.to_string()), &[])
    }
}

/// A stand with these columns declared for ClickHouse.
fn stand(sink: Sink, table: &str, columns: &[(&str, &str)]) -> Stand {
    let mut stand = Stand::new(sink);
    if sink == Sink::ClickHouse {
        for (name, kind) in columns {
            stand.retype(&format!("public.{table}"), name, kind);
        }
    }
    stand
}

/// Runs the log to its end.
fn settled(mut stand: Stand, entries: &[Entry]) -> Stand {
    stand.configure();
    stand.feed(entries.to_vec());
    stand.run_to_end().unwrap_or_else(|why| panic!("{}: {why}", stand.sink.name()));
    stand
}

fn has(stand: &Stand, table: &str, rows: &Value, key: &str) {
    same_rows(rows, &stand.table(table), &[key.to_owned()], true)
        .unwrap_or_else(|why| panic!("{}: {why}", stand.sink.name()));
}

#[test]
fn numbers_at_their_borders_are_exact() {
    let mut log = Log::of("n");
    let wide = "12345678901234567890123456789012345678";
    log.change_text(
        "c",
        r#"{"id":-9223372036854775808}"#,
        &format!(r#"{{"id":-9223372036854775808,"i":9223372036854775807,"d":"{wide}.5","f":5e-324,"t":18446744073709551616}}"#),
    );
    log.change_text(
        "c",
        r#"{"id":9223372036854775807}"#,
        r#"{"id":9223372036854775807,"i":-9223372036854775808,"d":"-0.1","f":-1.7976931348623157e308,"t":-1e-7}"#,
    );
    log.change_text(
        "c",
        r#"{"id":0}"#,
        r#"{"id":0,"i":1e3,"d":"1E+2","f":0.1,"t":0.30000000000000000000000000000000004}"#,
    );
    let columns = [
        ("id", "Int64"),
        ("i", "Nullable(Int64)"),
        ("d", "Nullable(Decimal(40, 1))"),
        ("f", "Nullable(Float64)"),
        ("t", "Nullable(String)"),
    ];
    for sink in SINKS {
        let mut stand = stand(sink, "n", &columns);
        if sink == Sink::Sqlite {
            for (name, kind) in
                [("id", "INTEGER"), ("i", "INTEGER"), ("d", "DECIMAL(40,1)"), ("f", "REAL"), ("t", "TEXT")]
            {
                stand.retype("public.n", name, kind);
            }
        }
        // `1E+2` could be base64, too: which it is must be declared.
        stand.settings.source = "decimal_handling_mode = \"string\"\n".to_owned();
        let stand = settled(stand, &log.entries);
        let rows = stand.table("n");
        let of =
            |id: &str| rows.iter().find(|row| row["id"].as_deref() == Some(id)).unwrap_or_else(|| panic!("{rows:?}"));
        let exact = |row: &Row, i: &str, d: &str, f: f64, t: &str| {
            assert_eq!((row["i"].as_deref(), row["d"].as_deref(), row["t"].as_deref()), (Some(i), Some(d), Some(t)));
            assert_eq!(row["f"].as_deref().unwrap().parse::<f64>().unwrap(), f);
        };
        exact(of("-9223372036854775808"), "9223372036854775807", &format!("{wide}.5"), 5e-324, "18446744073709551616");
        exact(of("9223372036854775807"), "-9223372036854775808", "-0.1", f64::MIN, "-1e-7");
        exact(of("0"), "1000", "100.0", 0.1, "0.30000000000000000000000000000000004");
    }
}

#[test]
fn numbers_beyond_their_columns_are_one_records_fault() {
    let mut log = Log::of("n");
    for (id, i) in [(1, "9223372036854775808"), (2, "1.5"), (3, "1e400"), (4, "\"7\""), (5, "true"), (6, "7")] {
        log.change_text("c", &format!(r#"{{"id":{id}}}"#), &format!(r#"{{"id":{id},"i":{i}}}"#));
    }
    for sink in SINKS {
        let mut stand = stand(sink, "n", &[("id", "Int64"), ("i", "Nullable(Int64)")]);
        if sink == Sink::Sqlite {
            stand.retype("public.n", "id", "INTEGER");
            stand.retype("public.n", "i", "INTEGER");
        }
        let found = past_poison(&mut stand, log.entries.clone()).unwrap();
        let kept: Vec<String> = stand.table("n").iter().map(|row| format!("{:?}", row["i"])).collect();
        assert!(kept.contains(&"Some(\"7\")".to_owned()), "{}: {kept:?} {found:?}", sink.name());
        let offsets: Vec<i64> = found.iter().map(|stop| stop.offset).collect();
        assert!(offsets.starts_with(&[0, 1, 2]), "{}: {found:#?}", sink.name());
        for stop in &found {
            assert!(stop.said.contains(&sink.quoted("i")), "{stop:?}");
        }
    }
}

#[test]
fn hostile_names_are_names_or_refused() {
    let long = "n".repeat(200);
    let names =
        ["line\nbreak", "back\\slash", "%s {} $1", "\u{1f980}", "tab\there", " ", "0", "'", "\u{e9}", long.as_str()];
    for sink in SINKS {
        for (at, table) in ["drop\"; DROP TABLE x; --", "`t`", "a/b\\c", "\u{1f980} crab", "group"].iter().enumerate() {
            let mut log = Log::of(table);
            let mut row = json!({"id": 1});
            for name in names {
                row[name] = format!("value of {at}").into();
            }
            log.change("c", &json!({"id": 1}), &row);
            let columns: Vec<(&str, &str)> =
                std::iter::once(("id", "Int64")).chain(names.iter().map(|name| (*name, "Nullable(String)"))).collect();
            let stand = settled(stand(sink, table, &columns), &log.entries);
            has(&stand, table, &json!([row]), "id");
        }
        // Names that belong to Settle or to the engine stop the run with the cure.
        for table in ["settle_meta", "settle_positions"] {
            let mut log = Log::of(table);
            log.change("c", &json!({"id": 1}), &json!({"id": 1}));
            let mut stand = stand(sink, table, &[("id", "Int64")]);
            stand.configure();
            stand.feed(log.entries);
            let ran = stand.run(&["--until-end"]);
            assert!(ran.code == 5 || (sink == Sink::ClickHouse && table == "settle_positions"), "{table}: {ran:?}");
        }
        for column in ["_op", "_version"] {
            let mut log = Log::of("t");
            log.change("c", &json!({"id": 1}), &json!({"id": 1, column: "x"}));
            let mut stand = stand(sink, "t", &[("id", "Int64")]);
            stand.configure();
            stand.feed(log.entries);
            let ran = stand.run(&["--until-end"]);
            assert!(
                (ran.code == 5 && ran.said.contains(column))
                    || (sink == Sink::Sqlite && column == "_version" && ran.code == 0),
                "{column}: {ran:?}"
            );
        }
    }
}

#[test]
fn a_table_with_the_name_of_anothers_view_is_refused_or_kept_apart() {
    let mut first = Log::of("t");
    first.change("c", &json!({"id": 1}), &json!({"id": 1, "v": "a"}));
    let mut second = Log::of("t_current");
    second.change("c", &json!({"id": 2}), &json!({"id": 2, "v": "b"}));
    for order in [[&first, &second], [&second, &first]] {
        let mut stand = stand(Sink::ClickHouse, "t", &[("id", "Int64"), ("v", "Nullable(String)")]);
        stand.retype("public.t_current", "id", "Int64");
        stand.retype("public.t_current", "v", "Nullable(String)");
        stand.configure();
        for (at, log) in order.iter().enumerate() {
            let mut entries = log.entries.clone();
            entries[0].topic = format!("topic-{at}");
            stand.feed(entries);
        }
        let ran = stand.run(&["--until-end"]);
        refused(&ran, &["t_current"]).unwrap();
    }
}

#[test]
fn keys_of_odd_types_are_rows_of_their_own() {
    let texts = ["", " ", "7", "07", "7.0", "a\u{0}b", "\u{1f980}", "null", "{}", "a\"b\\c'd", "A", "a"];
    for sink in SINKS {
        let mut log = Log::of("k");
        for (n, text) in texts.iter().enumerate() {
            log.change("c", &json!({"k": text}), &json!({"k": text, "n": n}));
        }
        // Another spelling of one key, and a delete by it.
        log.change_text("u", r#"{"k":"\u0041"}"#, r#"{"k":"\u0041","n":77}"#);
        log.change_text("d", r#"{"k":"\u0037"}"#, "null");
        let stand = settled(stand(sink, "k", &[("k", "String"), ("n", "Nullable(Int64)")]), &log.entries);
        let rows: Vec<Value> = texts
            .iter()
            .enumerate()
            .filter(|(_, text)| **text != "7")
            .map(|(n, text)| json!({"k": text, "n": if *text == "A" { 77 } else { n }}))
            .collect();
        let found = stand.table("k");
        // Told apart to the byte: the comparison of rows would take "7" and "7.0" for two anyway.
        assert_eq!(found.len(), rows.len(), "{}: {found:?}", sink.name());
        for row in &rows {
            let key = row["k"].as_str().unwrap();
            let n: Vec<_> = found.iter().filter(|r| r["k"].as_deref() == Some(key)).map(|r| r["n"].clone()).collect();
            assert_eq!(n, [Some(row["n"].to_string())], "{} {key:?}", sink.name());
        }
    }
    for sink in SINKS {
        let mut log = Log::of("k");
        for key in [json!({"b": true, "f": 1.5}), json!({"b": false, "f": 1.5}), json!({"b": true, "f": -2.25})] {
            let mut row = key.clone();
            row["v"] = "first".into();
            log.change("c", &key, &row);
            row["v"] = "second".into();
            log.change("u", &key, &row);
        }
        log.change("d", &json!({"b": false, "f": 1.5}), &json!(null)).tombstone(&json!({"b": false, "f": 1.5}));
        let columns = [("b", "Bool"), ("f", "Float64"), ("v", "Nullable(String)")];
        let stand = settled(stand(sink, "k", &columns), &log.entries);
        let rows = json!([{"b": true, "f": 1.5, "v": "second"}, {"b": true, "f": -2.25, "v": "second"}]);
        same_rows(&rows, &stand.table("k"), &["b".to_owned(), "f".to_owned()], true).unwrap();
    }
}

#[test]
fn re_sent_records_change_nothing_whatever_the_connectors_clock() {
    let mut log = Log::of("t");
    let key = json!({"id": 1});
    log.change("c", &key, &json!({"id": 1, "v": "a"}));
    log.change("u", &key, &json!({"id": 1, "v": "b"}));
    log.change("d", &key, &json!({"id": 1})).tombstone(&key);
    log.change("c", &key, &json!({"id": 1, "v": "again"}));
    for at in [0, 1, 2, 4, 2, 0] {
        log.resend(at);
    }
    log.tombstone(&key);
    for sink in SINKS {
        for batch in [1, 3, 100] {
            let mut stand = stand(sink, "t", &[("id", "Int64"), ("v", "Nullable(String)")]);
            stand.settings.batch = format!("max_rows = {batch}");
            let stand = settled(stand, &log.entries);
            has(&stand, "t", &json!([{"id": 1, "v": "again"}]), "id");
        }
    }
    // The same position with other content is no re-send: the run stops, and the record is named.
    let mut other = log.entries[4].clone();
    other.offset = 100;
    other.value = other.value.map(|value| String::from_utf8(value).unwrap().replace("again", "other").into_bytes());
    let mut entries = log.entries.clone();
    entries.push(other);
    for sink in SINKS {
        let mut stand = stand(sink, "t", &[("id", "Int64"), ("v", "Nullable(String)")]);
        stand.configure();
        stand.feed(entries.clone());
        refused(&stand.run(&["--until-end"]), &["record srv.public.log:0:100", "same position"]).unwrap();
    }
}

#[test]
fn keys_that_go_round_in_a_circle_end_right_in_any_order_of_the_partitions() {
    let mut log = Log::of("t");
    log.change("c", &json!({"id": 2}), &json!({"id": 2, "v": "two"}));
    log.lsn += 10;
    let one = log.envelope("c", &json!({"id": 1, "v": "one"}), log.lsn).to_string();
    log.push(1, &json!({"id": 1}).to_string(), Some(one), &[]);
    // 1 and 2 change places by way of 3, then 3 comes back once more.
    log.move_key(1, 3, "one").move_key(2, 1, "two").move_key(3, 2, "one").move_key(1, 3, "two").move_key(3, 1, "two");
    let orders: Vec<Vec<Entry>> = {
        let of = |partition: i32| log.entries.iter().filter(move |entry| entry.partition == partition).cloned();
        let turns = || {
            let (mut a, mut b) = (of(0), of(1));
            let mut mixed = Vec::new();
            loop {
                let (x, y) = (a.next(), b.next());
                if x.is_none() && y.is_none() {
                    return mixed;
                }
                mixed.extend(x.into_iter().chain(y));
            }
        };
        vec![log.entries.clone(), of(0).chain(of(1)).collect(), of(1).chain(of(0)).collect(), turns()]
    };
    for sink in SINKS {
        for (at, order) in orders.iter().enumerate() {
            for batch in [1, 4, 100] {
                let mut stand = stand(sink, "t", &[("id", "Int64"), ("v", "Nullable(String)")]);
                stand.settings.batch = format!("max_rows = {batch}");
                let stand = settled(stand, order);
                let rows = json!([{"id": 1, "v": "two"}, {"id": 2, "v": "one"}]);
                same_rows(&rows, &stand.table("t"), &["id".to_owned()], true)
                    .unwrap_or_else(|why| panic!("{} order {at} batch {batch}: {why}", sink.name()));
            }
        }
    }
}

#[test]
fn a_topic_whose_columns_come_go_and_change_keeps_every_value() {
    let mut log = Log::of("t");
    let key = |id: i64| json!({"id": id});
    log.change("c", &key(1), &json!({"id": 1, "a": "x"}));
    log.change("c", &key(2), &json!({"id": 2, "a": "y", "b": 1}));
    log.change("u", &key(1), &json!({"b": 2, "id": 1, "a": "x2"}));
    log.change("c", &key(3), &json!({"id": 3, "b": 3, "c": true}));
    log.change("u", &key(2), &json!({"id": 2, "c": null, "a": "y2", "b": 4}));
    log.change("c", &key(4), &json!({"id": 4, "a": null, "b": null, "c": null, "d": null}));
    for sink in SINKS {
        for batch in [1, 2, 100] {
            let mut stand = stand(sink, "t", &[("id", "Int64"), ("a", "Nullable(String)")]);
            stand.settings.batch = format!("max_rows = {batch}");
            let stand = settled(stand, &log.entries);
            let rows = json!([
                {"id": 1, "a": "x2", "b": 2, "c": null}, {"id": 2, "a": "y2", "b": 4, "c": null},
                {"id": 3, "a": null, "b": 3, "c": true}, {"id": 4, "a": null, "b": null, "c": null},
            ]);
            has(&stand, "t", &rows, "id");
        }
    }
    // A column that is wanted as a number and comes as text is the record's fault, not the table's.
    let mut log = Log::of("t");
    log.change("c", &key(1), &json!({"id": 1, "b": 1}));
    log.change("c", &key(2), &json!({"id": 2, "b": "two"}));
    log.change("c", &key(3), &json!({"id": 3, "b": 3}));
    for sink in SINKS {
        let mut stand = stand(sink, "t", &[("id", "Int64"), ("b", "Nullable(Int64)")]);
        if sink == Sink::Sqlite {
            stand.retype("public.t", "id", "INTEGER");
            stand.retype("public.t", "b", "INTEGER");
        }
        let found = past_poison(&mut stand, log.entries.clone()).unwrap();
        stops(&found, &[(1, &sink.quoted("b"))]).unwrap();
        has(&stand, "t", &json!([{"id": 1, "b": 1}, {"id": 3, "b": 3}]), "id");
    }
}

#[test]
fn a_key_that_gains_a_column_in_the_middle_stops_the_run() {
    let mut log = Log::of("t");
    log.change("c", &json!({"id": 1}), &json!({"id": 1, "tenant": 1}));
    log.change("c", &json!({"tenant": 1, "id": 2}), &json!({"id": 2, "tenant": 1}));
    for sink in SINKS {
        for batch in [1, 100] {
            let mut stand = stand(sink, "t", &[("id", "Int64"), ("tenant", "Nullable(Int64)")]);
            stand.settings.batch = format!("max_rows = {batch}");
            stand.configure();
            stand.feed(log.entries.clone());
            refused(&stand.run(&["--until-end"]), &["record srv.public.log:0:1", "key"]).unwrap();
        }
    }
}
