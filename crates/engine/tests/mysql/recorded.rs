//! Topics recorded from real servers end as the source tables are, in every column that a row's
//! last event carries, for every size of batch and after replays.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde_json::Value;
use settle_core::position::Partition;
use settle_core::record::{Header, Record};
use settle_core::schema::{BinaryMode, Conventions, TimePrecision};
use settle_core::sink::FailureKind;
use settle_engine::config::target::{TableRule, Target};

use crate::database::{Database, Shown, apply, apply_all, soft, target};
use crate::log::batch;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures").join(name)
}

/// A capture, as `kcat -J` prints it.
fn capture(path: &str) -> Vec<Record> {
    let text = std::fs::read_to_string(folder(path)).unwrap();
    let mut records: Vec<Record> = text.lines().map(record).collect();
    records.sort_by_key(|record| (record.partition.number, record.offset));
    records
}

fn record(line: &str) -> Record {
    let line: Value = serde_json::from_str(line).unwrap();
    let bytes = |value: &Value| value.as_str().map(|text| text.as_bytes().to_vec().into());
    let headers = line["headers"].as_array().map_or(&[][..], Vec::as_slice);
    Record {
        partition: Partition::new(
            line["topic"].as_str().unwrap(),
            i32::try_from(line["partition"].as_i64().unwrap()).unwrap(),
        ),
        offset: line["offset"].as_i64().unwrap(),
        timestamp_ms: line["ts"].as_i64(),
        key: bytes(&line["key"]),
        payload: bytes(&line["payload"]),
        headers: headers
            .chunks(2)
            .map(|pair| Header { name: pair[0].as_str().unwrap().into(), value: bytes(&pair[1]) })
            .collect(),
    }
}

/// The source table when the recording ended; an empty field is NULL.
fn table(path: &str) -> Vec<Shown> {
    let rows = csv(&std::fs::read_to_string(folder(path)).unwrap());
    let (names, rows) = rows.split_first().unwrap();
    rows.iter()
        .filter(|row| row.len() == names.len())
        .map(|row| {
            let cells = row.iter().map(|cell| Some(cell.clone()).filter(|cell| !cell.is_empty()));
            names.iter().cloned().zip(cells).collect()
        })
        .collect()
}

fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                cell.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

/// One topic with its table.
struct Case {
    capture: &'static str,
    table: &'static str,
    key: &'static [&'static str],
    /// Declared types, where values alone do not tell.
    columns: &'static [(&'static str, &'static str)],
    /// Keys that the log leaves behind and the source has not, by name.
    left: &'static [&'static str],
    /// Values that the source's client shows otherwise: column, its text, MySQL's.
    spelled: &'static [(&'static str, &'static str, &'static str)],
    /// Key and column of values that the connector drops or changes.
    lost: &'static [(&'static str, &'static str)],
}

impl Case {
    fn name(&self) -> String {
        let name = self.table.rsplit('/').next().unwrap();
        name.split('.').next().unwrap().to_owned()
    }

    fn target(&self, records: &[Record]) -> Target {
        let source = batch(records).tables().next().unwrap().table.to_string();
        let columns = self.columns.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
        let rule = TableRule { name: Some(self.name()), columns, ..TableRule::default() };
        let conventions = Conventions {
            time_precision: Some(TimePrecision::Connect),
            decimal: None,
            binary: Some(BinaryMode::Base64),
        };
        Target { tables: [(source, rule)].into(), conventions, ..target() }
    }

    fn spelled<'a>(&self, column: &str, text: &'a str) -> &'a str {
        self.spelled.iter().find(|(name, shown, _)| *name == column && *shown == text).map_or(text, |(.., ours)| *ours)
    }

    fn id(&self, row: &Shown) -> Vec<String> {
        self.key.iter().map(|name| comparable(row[*name].as_deref()).unwrap()).collect()
    }

    /// Compares the database with the source table.
    fn compare(&self, rows: &[Shown], carried: &Carried, context: &str) {
        let expected: BTreeMap<_, _> = table(self.table).into_iter().map(|row| (self.id(&row), row)).collect();
        let actual: BTreeMap<_, _> = rows.iter().map(|row| (self.id(row), row)).collect();
        let mut keys: Vec<_> = actual.keys().cloned().collect();
        keys.retain(|key| !self.left.contains(&key[0].as_str()));
        assert_eq!(keys, expected.keys().cloned().collect::<Vec<_>>(), "{context}: keys");
        for (key, wanted) in &expected {
            for (name, wanted) in wanted {
                if carried.of(key).contains(name) && !self.lost.contains(&(&key[0], name)) {
                    let found = comparable(actual[key].get(name).and_then(Option::as_deref));
                    let wanted = comparable(wanted.as_deref().map(|wanted| self.spelled(name, wanted)));
                    assert!(
                        same(wanted.as_deref(), found.as_deref()),
                        "{context}: {key:?} {name}: {wanted:?} {found:?}"
                    );
                }
            }
        }
    }
}

/// The columns that each key's last event carries.
struct Carried {
    by_key: HashMap<Vec<String>, Vec<String>>,
    /// Where all rows carry the same: keys that JSON spells otherwise than MySQL are not looked up.
    by_all: Option<Vec<String>>,
}

impl Carried {
    fn by(records: &[Record]) -> Self {
        let batch = batch(records);
        let rows = batch.tables().next().unwrap().rows().filter(|row| !row.is_delete());
        let by_key: HashMap<Vec<String>, Vec<String>> = rows
            .map(|row| {
                let key = row.key().fields().map(|(_, json)| comparable(Some(&plain(json))).unwrap());
                (key.collect(), row.columns().iter().map(|column| column.name.to_string()).collect())
            })
            .collect();
        let first = by_key.values().next().unwrap().clone();
        let by_all = by_key.values().all(|names| *names == first).then_some(first);
        Self { by_key, by_all }
    }

    fn of(&self, key: &[String]) -> &[String] {
        self.by_all.as_ref().unwrap_or_else(|| &self.by_key[key])
    }

    /// The rows without what their last event does not carry: a column that was dropped at the
    /// source keeps its values, if the table got it at all.
    fn only(&self, case: &Case, mut rows: Vec<Shown>) -> Vec<Shown> {
        for row in &mut rows {
            let names = self.of(&case.id(row)).to_vec();
            row.retain(|name, _| names.contains(name));
        }
        rows
    }
}

/// A JSON scalar as text.
fn plain(json: &str) -> String {
    match serde_json::from_str(json).unwrap() {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// A value in one spelling, whoever wrote it: times without zone marks and trailing zeros, wrapped
/// unsigned numbers as the connector's `long` mode sends them, booleans and bytes as the tests show them.
fn comparable(text: Option<&str>) -> Option<String> {
    let text = text?;
    if let Ok(wide) = text.parse::<u64>() {
        return Some(wide.cast_signed().to_string());
    }
    let date = |t: &str| t.len() >= 10 && t.as_bytes()[4] == b'-' && t.as_bytes()[7] == b'-';
    let time = |t: &str| t.trim_start_matches('-').split(':').count() == 3 && !t.contains(' ');
    if date(text) || time(text) {
        let text = text.replace('T', " ");
        let text = text.trim_end_matches('Z').trim_end_matches("+00");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
        return Some(text.to_owned());
    }
    Some(text.to_ascii_lowercase())
}

/// Equal; or times of which the connector sent the milliseconds alone (`time.precision.mode=connect`).
fn same(wanted: Option<&str>, found: Option<&str>) -> bool {
    if wanted == found {
        return true;
    }
    let (Some(wanted), Some(found)) = (wanted, found) else { return false };
    let fraction = |t: &str| t.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let cut = wanted.len().saturating_sub(fraction(wanted).saturating_sub(3));
    fraction(wanted) > 3 && wanted.contains(':') && comparable(Some(&wanted[..cut])).as_deref() == Some(found)
}

/// The rows that are not marked deleted.
async fn living(database: &Database, case: &Case) -> Vec<Shown> {
    let is_live = |row: &Shown| row.get("_is_deleted").is_none_or(|flag| flag.as_deref() == Some("0"));
    database.all(&case.name()).await.into_iter().filter(is_live).collect()
}

/// Applies the records, then twice again, and checks that the replays move nothing.
async fn end_of(case: &Case, target: &Target, records: &[Record], size: usize) -> Vec<Shown> {
    let database = Database::new().await;
    database.make(target, records).await;
    apply_all(&database, target, records, size).await;
    let end = database.all(&case.name()).await;
    for _ in 0..2 {
        let again = apply_all(&database, target, records, size).await;
        assert_eq!(again.applied, 0, "{} by {size}", case.capture);
    }
    assert!(end == database.all(&case.name()).await, "{} by {size}: moved by a replay", case.capture);
    living(&database, case).await
}

/// Hard and soft deletes, every size of batch, the partitions in other orders.
async fn ends_as_the_source(case: &Case) {
    let records = capture(case.capture);
    let carried = Carried::by(&records);
    for deletes in [None, soft().deletes] {
        let target = Target { deletes, ..case.target(&records) };
        case.compare(
            &end_of(case, &target, &records, 10_000).await,
            &carried,
            &format!("{} {deletes:?}", case.capture),
        );
        // Of a large topic a prefix, which must end alike however it is cut.
        let prefix = &records[..records.len().min(150)];
        let seen = Carried::by(prefix);
        let whole = seen.only(case, end_of(case, &target, prefix, 10_000).await);
        for size in [1, 2, 7] {
            let cut = seen.only(case, end_of(case, &target, prefix, size).await);
            assert_eq!(cut, whole, "{} by {size}, {deletes:?}", case.capture);
        }
        for seed in 1..=5 {
            let other = interleaved(&records, seed);
            let database = Database::new().await;
            database.make(&target, &records).await;
            apply_all(&database, &target, &other, 70).await;
            case.compare(
                &living(&database, case).await,
                &carried,
                &format!("{} in order {seed}, {deletes:?}", case.capture),
            );
        }
    }
}

/// The partitions' records, each in its order, mixed by a seed.
fn interleaved(records: &[Record], seed: u64) -> Vec<Record> {
    let mut lanes: BTreeMap<i32, std::collections::VecDeque<Record>> = BTreeMap::new();
    for record in records {
        lanes.entry(record.partition.number).or_default().push_back(record.clone());
    }
    let mut state = seed;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut mixed = Vec::with_capacity(records.len());
    while mixed.len() < records.len() {
        let alive: Vec<i32> = lanes.iter().filter(|(_, lane)| !lane.is_empty()).map(|(number, _)| *number).collect();
        let lane = lanes.get_mut(&alive[random(alive.len())]).unwrap();
        let many = (1 + random(20)).min(lane.len());
        mixed.extend(lane.drain(..many));
    }
    mixed
}

macro_rules! recorded {
    ($($name:ident: $capture:literal, $table:literal, $key:expr $(, columns: $columns:expr)? $(, left: $left:expr)? $(, spelled: $spelled:expr)? $(, lost: $lost:expr)?;)*) => {$(
        #[tokio::test]
        async fn $name() {
            #[allow(unused_mut, unused_assignments, reason = "not every case declares everything")]
            let mut case = Case { capture: $capture, table: $table, key: $key, columns: &[], left: &[], spelled: &[], lost: &[] };
            $(case.columns = $columns;)?
            $(case.left = $left;)?
            $(case.spelled = $spelled;)?
            $(case.lost = $lost;)?
            ends_as_the_source(&case).await;
        }
    )*};
}

recorded! {
    pg_customers: "pg-hazards/shop.public.customers.jsonl", "pg-hazards/customers.expected.csv", &["customer_id"];
    pg_orders: "pg-hazards/shop.public.orders.jsonl", "pg-hazards/orders.expected.csv", &["order_id"];
    pg_order_items_with_a_truncate:
        "pg-hazards/shop.public.order_items.jsonl", "pg-hazards/order_items.expected.csv", &["order_item_id"];
    pg_documents_with_values_not_sent:
        "pg-hazards/shop.public.documents.jsonl", "pg-hazards/documents.expected.csv", &["id"];
    pg_composite_key:
        "pg-composite-key/cmp.public.stock.jsonl", "pg-composite-key/stock.expected.csv", &["warehouse", "sku", "bin"];
    pg_race: "pg-race/race.public.t.jsonl", "pg-race/t.expected.csv", &["id"];
    pg_restart: "pg-restart/rst.public.t.jsonl", "pg-restart/t.expected.csv", &["id"];
    pg_customers_with_schemas:
        "pg-json-schemas/shopa.public.customers.jsonl", "pg-json-schemas/customers.expected.csv", &["customer_id"];
    pg_orders_with_schemas:
        "pg-json-schemas/shopa.public.orders.jsonl", "pg-json-schemas/orders.expected.csv", &["order_id"];
    pg_order_items_with_schemas:
        "pg-json-schemas/shopa.public.order_items.jsonl", "pg-json-schemas/order_items.expected.csv", &["order_item_id"];
    mariadb_customers: "mariadb/mshop.mshop.customers.jsonl", "mariadb/customers.expected.csv", &["customer_id"],
        columns: &[("customer_id", "INT"), ("name", "TEXT"), ("updated_at", "DATETIME(3)")];
    mariadb_orders: "mariadb/mshop.mshop.orders.jsonl", "mariadb/orders.expected.csv", &["order_id"],
        columns: &[("order_id", "INT"), ("updated_at", "DATETIME(0)"), ("amount", "DECIMAL(12,2)")];
    mariadb_order_items: "mariadb/mshop.mshop.order_items.jsonl", "mariadb/order_items.expected.csv", &["order_item_id"];
    mariadb_parents: "mariadb/mshop.mshop.parents.jsonl", "mariadb/parents.expected.csv", &["id"];
    // The binlog does not show what a cascade deletes: rows 10 and 11 stay.
    mariadb_children_but_for_the_cascade:
        "mariadb/mshop.mshop.children.jsonl", "mariadb/children.expected.csv", &["id"], left: &["10", "11"];
    mariadb_duplicates: "mariadb-duplicates/mshop.mshop.orders.jsonl", "mariadb-duplicates/orders.expected.csv", &["order_id"],
        columns: &[("order_id", "INT"), ("updated_at", "DATETIME(0)")];
    mariadb_wide: "mariadb/mshop.mshop.wide.jsonl", "mariadb/wide.expected.csv", &["id"],
        columns: &[
            ("id", "BIGINT"), ("d0", "DECIMAL(38,10)"), ("dt0", "DATETIME(0)"), ("dt6", "DATETIME(6)"), ("ts6", "TIMESTAMP(6)"),
            ("d", "DATE"), ("t", "TIME(6)"), ("bits", "BLOB"), ("bin", "BLOB")
        ], spelled: &[("bits", "341", "5501")],
        // `connect` mode drops times beyond a day; the time adjuster makes year 1 of year 2001.
        lost: &[("3", "t"), ("4", "t"), ("4", "d")];
    mariadb_wide_with_schemas: "mariadb-types-schemas/mwide.mshop.wide.jsonl", "mariadb-types-schemas/wide.expected.csv", &["id"],
        lost: &[("4", "d")];
}

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
    let rows: BTreeMap<String, Shown> =
        database.rows("all_types").await.into_iter().map(|row| (row["id"].clone().unwrap(), row)).collect();
    let is = |id: &str, wanted: &[(&str, &str)]| {
        for (column, wanted) in wanted {
            assert_eq!(rows[id][*column].as_deref(), Some(*wanted), "{id} {column}");
        }
    };
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
