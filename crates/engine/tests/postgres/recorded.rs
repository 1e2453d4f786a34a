//! Topics recorded from real servers end as the source tables are, in every column that a row's
//! last event carries, for every size of batch and after replays. The server itself compares: what the
//! source had is read into a table of the same types.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde_json::Value;
use settle_core::position::Partition;
use settle_core::record::{Header, Record};
use settle_core::schema::{BinaryMode, Conventions, TimePrecision};
use settle_engine::config::target::{TableRule, Target};

use crate::database::{Database, Shown, soft, target};
use crate::log::batch;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures").join(name)
}

/// A capture, as `kcat -J` prints it.
pub fn capture(path: &str) -> Vec<Record> {
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
    /// Declared types, where the records come without a schema.
    columns: &'static [(&'static str, &'static str)],
    /// Keys that the log leaves behind and the source has not.
    left: &'static [&'static str],
    /// Values that the source's client shows otherwise: column, its text, what is sent.
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
        // The connector cuts what the server would round.
        let milliseconds = text.find('.').map(|point| point + 4).filter(|end| *end < text.len());
        if let Some(end) = milliseconds.filter(|_| self.columns.contains(&(column, "timestamp(3)"))) {
            return &text[..end];
        }
        self.spelled.iter().find(|(name, shown, _)| *name == column && *shown == text).map_or(text, |(.., sent)| *sent)
    }

    fn id(&self, row: &Shown) -> Vec<String> {
        self.key.iter().map(|name| row[*name].clone().unwrap()).collect()
    }

    /// The source's rows, as the server shows them in columns of the target's types.
    fn expected(&self, database: &Database) -> Vec<Shown> {
        database.run(&format!(
            "DROP TABLE IF EXISTS expected; CREATE TABLE expected AS SELECT * FROM \"{}\" WITH NO DATA",
            self.name()
        ));
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let rows = table(self.table);
        let known: Vec<String> = rows[0].keys().filter(|name| self.has_column(database, name)).cloned().collect();
        for row in &rows {
            let id = self.id(row);
            let known: Vec<(&String, String)> = row
                .iter()
                .filter(|(name, _)| known.contains(name) && !self.lost.contains(&(&id[0], name)))
                .map(|(name, cell)| {
                    (name, cell.as_deref().map_or("NULL".to_owned(), |text| literal(self.spelled(name, text))))
                })
                .collect();
            let names: Vec<String> = known.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            let values: Vec<&str> = known.iter().map(|(_, value)| value.as_str()).collect();
            database.run(&format!("INSERT INTO expected ({}) VALUES ({})", names.join(", "), values.join(", ")));
        }
        let shown = database.rows("expected").into_iter();
        shown.map(|row| row.into_iter().filter(|(name, _)| known.contains(name)).collect()).collect()
    }

    fn has_column(&self, database: &Database, name: &str) -> bool {
        let sql = format!(
            "SELECT count(*) FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = '{}' \
             AND column_name = '{name}'",
            self.name()
        );
        database.one(&sql) == "1"
    }

    /// Compares the database with the source table.
    fn compare(&self, expected: &[Shown], rows: &[Shown], carried: &Carried, context: &str) {
        let expected: BTreeMap<_, _> = expected.iter().map(|row| (self.id(row), row)).collect();
        let actual: BTreeMap<_, _> = rows.iter().map(|row| (self.id(row), row)).collect();
        let mut keys: Vec<_> = actual.keys().cloned().collect();
        keys.retain(|key| !self.left.contains(&key[0].as_str()));
        assert_eq!(keys, expected.keys().cloned().collect::<Vec<_>>(), "{context}: keys");
        for (key, wanted) in &expected {
            for (name, wanted) in *wanted {
                if carried.of(key).contains(name) && !self.lost.contains(&(&key[0], name)) {
                    assert_eq!(actual[key][name], *wanted, "{context}: {key:?} {name}");
                }
            }
        }
    }
}

/// The columns that each key's last event carries.
struct Carried {
    by_key: HashMap<Vec<String>, Vec<String>>,
    /// Where all rows carry the same: keys that JSON spells otherwise than PostgreSQL are not looked up.
    by_all: Option<Vec<String>>,
}

impl Carried {
    fn by(records: &[Record]) -> Self {
        let batch = batch(records);
        let rows = batch.tables().next().unwrap().rows().filter(|row| !row.is_delete());
        let by_key: HashMap<Vec<String>, Vec<String>> = rows
            .map(|row| {
                let key = row.key().fields().map(|(_, json)| plain(json));
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

/// The rows that are not marked deleted.
fn living(database: &Database, case: &Case) -> Vec<Shown> {
    let is_live = |row: &Shown| row.get("_is_deleted").is_none_or(|flag| flag.as_deref() == Some("f"));
    database.all(&case.name()).into_iter().filter(is_live).collect()
}

fn forget(database: &Database, case: &Case) {
    let name = case.name();
    database
        .run(&format!("DROP TABLE \"{name}\"; DROP TABLE IF EXISTS \"{name}__tombstones\"; DELETE FROM settle_meta; DELETE FROM settle_positions"));
}

/// Applies the records, then twice again, and checks that the replays move nothing.
fn end_of(database: &Database, case: &Case, target: &Target, records: &[Record], size: usize) -> Vec<Shown> {
    database.apply_all(target, records, size);
    let end = database.all(&case.name());
    for _ in 0..2 {
        let again = database.apply_all(target, records, size.max(100));
        assert_eq!(again.applied, 0, "{} by {size}", case.capture);
    }
    assert!(end == database.all(&case.name()), "{} by {size}: moved by a replay", case.capture);
    living(database, case)
}

/// Hard and soft deletes, every size of batch, the partitions in other orders.
fn ends_as_the_source(case: &Case) {
    let records = capture(case.capture);
    let carried = Carried::by(&records);
    let database = Database::new();
    for is_soft in [false, true] {
        let target = case.target(&records);
        let target = if is_soft { soft(target) } else { target };
        let end = end_of(&database, case, &target, &records, 10_000);
        let expected = case.expected(&database);
        case.compare(&expected, &end, &carried, &format!("{} soft: {is_soft}", case.capture));
        forget(&database, case);
        // Of a large topic a prefix, which must end alike however it is cut.
        let prefix = &records[..records.len().min(80)];
        let seen = Carried::by(prefix);
        let whole = seen.only(case, end_of(&database, case, &target, prefix, 10_000));
        forget(&database, case);
        for size in [1, 2, 7] {
            let cut = seen.only(case, end_of(&database, case, &target, prefix, size));
            assert_eq!(cut, whole, "{} by {size}, soft: {is_soft}", case.capture);
            forget(&database, case);
        }
        for seed in if is_soft { 1..=1 } else { 1..=5 } {
            let other = interleaved(&records, seed);
            database.apply_all(&target, &other, 70);
            let context = format!("{} in order {seed}, soft: {is_soft}", case.capture);
            case.compare(&expected, &living(&database, case), &carried, &context);
            forget(&database, case);
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
        #[test]
        fn $name() {
            #[allow(unused_mut, unused_assignments, reason = "not every case declares everything")]
            let mut case = Case { capture: $capture, table: $table, key: $key, columns: &[], left: &[], spelled: &[], lost: &[] };
            $(case.columns = $columns;)?
            $(case.left = $left;)?
            $(case.spelled = $spelled;)?
            $(case.lost = $lost;)?
            ends_as_the_source(&case);
        }
    )*};
}

const CUSTOMERS: &[(&str, &str)] = &[
    ("customer_id", "integer"),
    ("name", "text"),
    ("email", "text"),
    ("city", "text"),
    ("updated_at", "timestamptz"),
    ("loyalty", "integer"),
    ("vip", "boolean"),
];
const ORDERS: &[(&str, &str)] = &[
    ("order_id", "bigint"),
    ("customer_id", "integer"),
    ("status", "text"),
    ("amount", "numeric(12, 2)"),
    ("updated_at", "timestamptz"),
];
const ITEMS: &[(&str, &str)] = &[
    ("order_item_id", "integer"),
    ("order_id", "integer"),
    ("sku", "varchar(40)"),
    ("quantity", "integer"),
    ("unit_price", "numeric"),
    ("updated_at", "timestamptz"),
];
const MARIADB_ORDERS: &[(&str, &str)] = &[
    ("order_id", "integer"),
    ("customer_id", "integer"),
    ("status", "text"),
    ("amount", "numeric(12, 2)"),
    ("updated_at", "timestamp(0)"),
];

recorded! {
    pg_customers: "pg-hazards/shop.public.customers.jsonl", "pg-hazards/customers.expected.csv", &["customer_id"],
        columns: CUSTOMERS;
    pg_orders: "pg-hazards/shop.public.orders.jsonl", "pg-hazards/orders.expected.csv", &["order_id"], columns: ORDERS;
    pg_order_items_with_a_truncate:
        "pg-hazards/shop.public.order_items.jsonl", "pg-hazards/order_items.expected.csv", &["order_item_id"], columns: ITEMS;
    pg_documents_with_values_not_sent:
        "pg-hazards/shop.public.documents.jsonl", "pg-hazards/documents.expected.csv", &["id"],
        columns: &[("id", "integer"), ("title", "text"), ("body", "text"), ("n", "integer")];
    pg_composite_key:
        "pg-composite-key/cmp.public.stock.jsonl", "pg-composite-key/stock.expected.csv", &["warehouse", "sku", "bin"],
        columns: &[
            ("warehouse", "text"), ("sku", "text"), ("bin", "integer"), ("quantity", "integer"), ("price", "numeric"),
            ("counted_at", "timestamptz")
        ];
    pg_race: "pg-race/race.public.t.jsonl", "pg-race/t.expected.csv", &["id"],
        columns: &[("id", "integer"), ("n", "integer"), ("m", "integer")];
    pg_restart: "pg-restart/rst.public.t.jsonl", "pg-restart/t.expected.csv", &["id"],
        columns: &[("id", "integer"), ("n", "integer")];
    pg_customers_with_schemas:
        "pg-json-schemas/shopa.public.customers.jsonl", "pg-json-schemas/customers.expected.csv", &["customer_id"];
    pg_orders_with_schemas:
        "pg-json-schemas/shopa.public.orders.jsonl", "pg-json-schemas/orders.expected.csv", &["order_id"];
    pg_order_items_with_schemas:
        "pg-json-schemas/shopa.public.order_items.jsonl", "pg-json-schemas/order_items.expected.csv", &["order_item_id"];
    mariadb_customers: "mariadb/mshop.mshop.customers.jsonl", "mariadb/customers.expected.csv", &["customer_id"],
        columns: &[
            ("customer_id", "integer"), ("name", "text"), ("city", "text"), ("updated_at", "timestamp(3)"),
            ("loyalty", "integer"), ("vip", "smallint"), ("email", "text")
        ];
    mariadb_orders: "mariadb/mshop.mshop.orders.jsonl", "mariadb/orders.expected.csv", &["order_id"],
        columns: MARIADB_ORDERS;
    mariadb_order_items: "mariadb/mshop.mshop.order_items.jsonl", "mariadb/order_items.expected.csv", &["order_item_id"],
        columns: ITEMS;
    mariadb_parents: "mariadb/mshop.mshop.parents.jsonl", "mariadb/parents.expected.csv", &["id"],
        columns: &[("id", "integer"), ("n", "integer")];
    // The binlog does not show what a cascade deletes: rows 10 and 11 stay.
    mariadb_children_but_for_the_cascade:
        "mariadb/mshop.mshop.children.jsonl", "mariadb/children.expected.csv", &["id"],
        columns: &[("id", "integer"), ("pid", "integer")], left: &["10", "11"];
    mariadb_duplicates: "mariadb-duplicates/mshop.mshop.orders.jsonl", "mariadb-duplicates/orders.expected.csv", &["order_id"],
        columns: MARIADB_ORDERS;
    mariadb_wide: "mariadb/mshop.mshop.wide.jsonl", "mariadb/wide.expected.csv", &["id"],
        columns: &[
            ("id", "bigint"), ("u64", "bigint"), ("d0", "numeric(38, 10)"), ("dt0", "timestamp(0)"), ("dt6", "timestamp(3)"),
            ("ts0", "timestamptz"), ("ts6", "timestamptz"), ("d", "date"), ("t", "time(3)"), ("y", "smallint"), ("b1", "smallint"),
            ("bits", "bit(9)"), ("bin", "bytea"), ("tx", "text"), ("en", "text"), ("st", "text"), ("js", "json"), ("f", "real"),
            ("dbl", "double precision")
        ], spelled: &[("bits", "341", "101010101"), ("u64", "18446744073709551615", "-1"),
            // `long` mode wraps what is unsigned.
            ("id", "18446744073709551610", "-6"), ("id", "9223372036854775808", "-9223372036854775808"), ("u64", "9223372036854775808", "-9223372036854775808"), ("bin", "00FF10", "\\x00FF10")],
        // `connect` mode drops times beyond a day; the time adjuster makes year 1 of year 2001.
        lost: &[("3", "t"), ("4", "t"), ("4", "d")];
    mariadb_wide_with_schemas: "mariadb-types-schemas/mwide.mshop.wide.jsonl", "mariadb-types-schemas/wide.expected.csv", &["id"],
        columns: &[("t", "interval")], spelled: &[("bits", "341", "101010101"), ("bin", "00FF10", "\\x00FF10")],
        lost: &[("4", "d")];
}

#[test]
fn every_type_that_came_with_a_schema_is_stored_as_it_is() {
    let records = capture("pg-types-special/shopa.public.all_types.jsonl");
    let database = Database::new();
    database.apply_all(&target(), &records, 10_000);
    let rows: BTreeMap<String, Shown> =
        database.rows("all_types").into_iter().map(|row| (row["id"].clone().unwrap(), row)).collect();
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
            ("c_text", "text é \n\"q\" \\ tab\t"),
            ("c_char", "abc  "),
            ("c_bytea", "00ff10ab"),
            ("c_bool", "t"),
            ("c_date", "2024-02-29"),
            ("c_time", "23:59:59.123456"),
            ("c_timetz", "21:59:59.123456+00"),
            ("c_ts", "2024-02-29 23:59:59.123456"),
            ("c_ts3", "2024-02-29 23:59:59.123"),
            ("c_tstz", "2024-02-29 21:59:59.123456+00"),
            ("c_interval", "37091106789000"),
            ("c_uuid", "6f1c1a52-6b0e-4a5e-9b3a-111111111111"),
            ("c_json", "{\"b\":1,  \"a\":[1,2]}"),
            ("c_ints", "{1,2,NULL,4}"),
            ("c_texts", "{a,\"b c\",NULL,\"quo\\\"te\"}"),
        ],
    );
    is(
        "13",
        &[
            ("c_text", ""),
            ("c_bytea", ""),
            ("c_json", "null"),
            ("c_double", "1e+300"),
            ("c_real", "-0.1"),
            ("c_ints", "{}"),
        ],
    );
    is("20", &[("c_real", "Infinity"), ("c_double", "-Infinity")]);
    is("21", &[("c_real", "NaN"), ("c_double", "NaN")]);
    is("22", &[("c_date", "infinity"), ("c_ts", "infinity"), ("c_tstz", "-infinity")]);
    is("23", &[("c_date", "0044-03-15 BC"), ("c_tstz", "10000-01-01 00:00:00+00")]);
}
