//! Topics recorded from real servers, in PostgreSQL. The server itself compares: what the source had is read
//! into a table of the same types.

#[path = "../recorded/mod.rs"]
mod topics;

use settle_core::record::Record;
use settle_core::sink::Outcome;
use settle_engine::config::target::Target;

use crate::database::{Database, Shown, target};
use topics::{Engine, Spellings, Topic, capture, every_topic, shows};

impl Engine for Database {
    const PREFIX: usize = 80;
    const SOFT_ORDERS: u64 = 1;
    const REPLAYED: usize = 100;
    const FALSE: &str = "f";

    fn new() -> Self {
        Self::new()
    }

    fn apply_all(&self, target: &Target, records: &[Record], size: usize) -> Outcome {
        self.apply_all(target, records, size)
    }

    fn all(&self, table: &str) -> Vec<Shown> {
        self.all(table)
    }

    fn columns(topic: &Topic) -> &'static [(&'static str, &'static str)] {
        match topic.name {
            "pg_customers" => CUSTOMERS,
            "pg_orders" => ORDERS,
            "pg_order_items_with_a_truncate" | "mariadb_order_items" => ITEMS,
            "pg_documents_with_values_not_sent" => {
                &[("id", "integer"), ("title", "text"), ("body", "text"), ("n", "integer")]
            }
            "pg_composite_key" => STOCK,
            "pg_race" => &[("id", "integer"), ("n", "integer"), ("m", "integer")],
            "pg_restart" | "mariadb_parents" => &[("id", "integer"), ("n", "integer")],
            "mariadb_customers" => MARIADB_CUSTOMERS,
            "mariadb_orders" | "mariadb_duplicates" => MARIADB_ORDERS,
            "mariadb_children_but_for_the_cascade" => &[("id", "integer"), ("pid", "integer")],
            "mariadb_wide" => WIDE,
            "mariadb_wide_with_schemas" => &[("t", "interval")],
            _ => &[],
        }
    }

    fn spellings(topic: &Topic) -> Spellings {
        match topic.name {
            // `long` mode wraps what is unsigned.
            "mariadb_wide" => &[
                ("bits", "341", "101010101"),
                ("u64", "18446744073709551615", "-1"),
                ("id", "18446744073709551610", "-6"),
                ("id", "9223372036854775808", "-9223372036854775808"),
                ("u64", "9223372036854775808", "-9223372036854775808"),
                ("bin", "00FF10", "\\x00FF10"),
            ],
            "mariadb_wide_with_schemas" => &[("bits", "341", "101010101"), ("bin", "00FF10", "\\x00FF10")],
            _ => &[],
        }
    }

    /// The source's rows, as the server shows them in columns of the target's types.
    fn expected(&self, topic: &Topic) -> Vec<Shown> {
        self.run(&format!("CREATE TABLE expected AS SELECT * FROM \"{}\" WITH NO DATA", topic.table()));
        let rows = topic.rows();
        let known: Vec<String> = rows[0].keys().filter(|name| has_column(self, topic, name)).cloned().collect();
        for row in &rows {
            let id = topic.id::<Self>(row);
            let is_sent = |name: &String| known.contains(name) && !topic.lost.contains(&(&id[0], name));
            let (names, values): (Vec<String>, Vec<String>) = row
                .iter()
                .filter(|(name, _)| is_sent(name))
                .map(|(name, cell)| (format!("\"{name}\""), literal(topic, name, cell.as_deref())))
                .unzip();
            self.run(&format!("INSERT INTO expected ({}) VALUES ({})", names.join(", "), values.join(", ")));
        }
        let shown = self.rows("expected").into_iter();
        shown.map(|row| row.into_iter().filter(|(name, _)| known.contains(name)).collect()).collect()
    }

    fn comparable(text: &str) -> String {
        text.to_owned()
    }

    fn same(wanted: Option<&str>, found: Option<&str>) -> bool {
        wanted == found
    }
}

every_topic!(Database);

fn has_column(database: &Database, topic: &Topic, name: &str) -> bool {
    let sql = format!(
        "SELECT count(*) FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = '{}' \
         AND column_name = '{name}'",
        topic.table()
    );
    database.one(&sql) == "1"
}

/// A cell of the source as the server is given it.
fn literal(topic: &Topic, name: &str, cell: Option<&str>) -> String {
    let Some(text) = cell else { return "NULL".to_owned() };
    // The connector cuts what the server would round.
    let milliseconds = text.find('.').map(|point| point + 4).filter(|end| *end < text.len());
    let sent = match milliseconds.filter(|_| Database::columns(topic).contains(&(name, "timestamp(3)"))) {
        Some(end) => &text[..end],
        None => Database::spelled(topic, name, text),
    };
    format!("'{}'", sent.replace('\'', "''"))
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

const STOCK: &[(&str, &str)] = &[
    ("warehouse", "text"),
    ("sku", "text"),
    ("bin", "integer"),
    ("quantity", "integer"),
    ("price", "numeric"),
    ("counted_at", "timestamptz"),
];
const MARIADB_CUSTOMERS: &[(&str, &str)] = &[
    ("customer_id", "integer"),
    ("name", "text"),
    ("city", "text"),
    ("updated_at", "timestamp(3)"),
    ("loyalty", "integer"),
    ("vip", "smallint"),
    ("email", "text"),
];
const WIDE: &[(&str, &str)] = &[
    ("id", "bigint"),
    ("u64", "bigint"),
    ("d0", "numeric(38, 10)"),
    ("dt0", "timestamp(0)"),
    ("dt6", "timestamp(3)"),
    ("ts0", "timestamptz"),
    ("ts6", "timestamptz"),
    ("d", "date"),
    ("t", "time(3)"),
    ("y", "smallint"),
    ("b1", "smallint"),
    ("bits", "bit(9)"),
    ("bin", "bytea"),
    ("tx", "text"),
    ("en", "text"),
    ("st", "text"),
    ("js", "json"),
    ("f", "real"),
    ("dbl", "double precision"),
];

#[test]
fn every_type_that_came_with_a_schema_is_stored_as_it_is() {
    let records = capture("pg-types-special/shopa.public.all_types.jsonl");
    let database = Database::new();
    database.apply_all(&target(), &records, 10_000);
    let rows = database.rows("all_types");
    let is = |id, wanted| shows(&rows, id, wanted);
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
