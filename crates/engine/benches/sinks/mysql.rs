//! MySQL and MariaDB: guarded upserts of many rows a statement, one transaction a batch.

use std::path::Path;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Value};
use settle_engine::config::Target;
use settle_engine::config::target::TableRule;
use settle_engine::sinks::mysql::{Address, MySql, MySqlConfig};
use settle_testkit::mariadb::Database;
use tokio::runtime::Runtime;

use super::work::Row;
use super::{Limit, Pair};

/// Rows of a statement: more of them are no faster.
const ROWS: usize = 512;

const COLUMNS: [&str; 12] = [
    "id",
    "customer_id",
    "status",
    "amount",
    "quantity",
    "express",
    "ordered_at",
    "note",
    "_op",
    "_source_ts_ms",
    "_version_lo",
    "_version_hi",
];

pub fn pair() -> Pair {
    let columns = [
        ("id", "BIGINT"),
        ("customer_id", "BIGINT"),
        ("status", "LONGTEXT"),
        ("amount", "DECIMAL(18,2)"),
        ("quantity", "INT"),
        ("express", "TINYINT(1)"),
        ("ordered_at", "DATETIME(6)"),
        ("note", "LONGTEXT"),
    ];
    let rule = TableRule {
        columns: columns.map(|(name, kind)| (name.to_owned(), kind.to_owned())).into(),
        ..TableRule::default()
    };
    let mut target = Target { create: true, tables: [("public.orders".to_owned(), rule)].into(), ..Target::default() };
    target.conventions.time_precision = Some(settle_core::schema::TimePrecision::Microseconds);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (ours, theirs) = runtime.block_on(async { (Database::create("bench").await, Database::create("bench").await) });
    let config = MySqlConfig::at(Address::parse(&ours.url(), Path::new("")).unwrap());
    let connection = runtime.block_on(theirs.connect());
    let plain = Plain { runtime, connection: Some(connection), _databases: [ours, theirs] };
    (Box::new(MySql::new(config, target)), Box::new(plain))
}

struct Plain {
    runtime: Runtime,
    connection: Option<Conn>,
    _databases: [Database; 2],
}

impl Drop for Plain {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.runtime.block_on(connection.disconnect()).unwrap();
        }
    }
}

impl Limit for Plain {
    fn open(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        self.runtime.block_on(async {
            for statement in [
                "SET time_zone = '+00:00'",
                "CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, customer_id BIGINT, status LONGTEXT, \
                 amount DECIMAL(18,2), quantity INT, express TINYINT(1), ordered_at DATETIME(6), note LONGTEXT, \
                 _op VARCHAR(1), _source_ts_ms BIGINT, _version_lo BIGINT NOT NULL, _version_hi BIGINT NOT NULL) \
                 ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
                "CREATE TABLE tombstones (id BIGINT NOT NULL PRIMARY KEY, lo BIGINT NOT NULL, hi BIGINT NOT NULL) \
                 ENGINE = InnoDB",
            ] {
                connection.query_drop(statement).await.unwrap();
            }
        });
    }

    fn apply(&mut self, rows: &[Row]) {
        let Some(connection) = &mut self.connection else { return };
        self.runtime.block_on(async {
            connection.query_drop("START TRANSACTION").await.unwrap();
            let (deleted, written): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.op == 'd');
            for rows in written.chunks(ROWS) {
                let values = rows.iter().flat_map(|row| values(row)).collect();
                connection.exec_drop(upsert(rows.len()), Params::Positional(values)).await.unwrap();
            }
            for rows in deleted.chunks(ROWS) {
                let ids = rows.iter().map(|row| row.id.into()).collect();
                let delete = format!("DELETE FROM orders WHERE id IN ({})", list("?", rows.len()));
                connection.exec_drop(delete, Params::Positional(ids)).await.unwrap();
                let bury = format!("REPLACE INTO tombstones VALUES {}", list("(?, ?, ?)", rows.len()));
                let graves = rows
                    .iter()
                    .flat_map(|row| [row.id.into(), row.version.lo_signed().into(), row.version.hi_signed().into()]);
                connection.exec_drop(bury, Params::Positional(graves.collect())).await.unwrap();
            }
            connection.query_drop("COMMIT").await.unwrap();
        });
    }
}

fn list(one: &str, count: usize) -> String {
    vec![one; count].join(", ")
}

fn upsert(rows: usize) -> String {
    const NEWER: &str = "(VALUES(_version_hi), VALUES(_version_lo)) > (_version_hi, _version_lo)";
    let set: Vec<String> =
        COLUMNS[1..].iter().map(|column| format!("{column} = IF({NEWER}, VALUES({column}), {column})")).collect();
    let row = format!("({})", list("?", COLUMNS.len()));
    format!(
        "INSERT INTO orders ({}) VALUES {} ON DUPLICATE KEY UPDATE {}",
        COLUMNS.join(", "),
        list(&row, rows),
        set.join(", ")
    )
}

fn values(row: &Row) -> [Value; 12] {
    let moment = chrono::DateTime::from_timestamp_micros(row.ordered_at).unwrap();
    [
        row.id.into(),
        row.customer_id.into(),
        row.status.into(),
        format!("{}.{:02}", row.amount / 100, row.amount % 100).into(),
        row.quantity.into(),
        row.express.into(),
        moment.format("%Y-%m-%d %H:%M:%S%.6f").to_string().into(),
        row.note.as_str().into(),
        row.op.to_string().into(),
        row.ts_ms.into(),
        row.version.lo_signed().into(),
        row.version.hi_signed().into(),
    ]
}
