//! PostgreSQL: rows by binary COPY into a temporary table, then one guarded merge, one transaction a batch.

use std::path::Path;
use std::pin::pin;

use settle_engine::config::Target;
use settle_engine::config::target::TableRule;
use settle_engine::sinks::postgres::{Address, Postgres, PostgresConfig};
use settle_testkit::postgres::Database;
use tokio::runtime::Runtime;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};

use super::work::Row;
use super::{Limit, Pair};

const COLUMNS: [(&str, &str); 8] = [
    ("id", "bigint"),
    ("customer_id", "bigint"),
    ("status", "text"),
    ("amount", "numeric(18,2)"),
    ("quantity", "integer"),
    ("express", "boolean"),
    ("ordered_at", "timestamp"),
    ("note", "text"),
];

pub fn pair() -> Pair {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let databases = runtime.block_on(async { [Database::create("bench").await, Database::create("bench").await] });
    let rule = TableRule {
        columns: COLUMNS.map(|(name, kind)| (name.to_owned(), kind.to_owned())).into(),
        ..TableRule::default()
    };
    let mut target = Target { create: true, tables: [("public.orders".to_owned(), rule)].into(), ..Target::default() };
    target.conventions.time_precision = Some(settle_core::schema::TimePrecision::Microseconds);
    let address = Address::parse(&databases[0].url(), Path::new("")).unwrap();
    let sink = Postgres::new(PostgresConfig::at(address), target);
    let client = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&databases[1].url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    });
    (Box::new(sink), Box::new(Merge { client, runtime, _databases: databases }))
}

struct Merge {
    client: Client,
    runtime: Runtime,
    _databases: [Database; 2],
}

/// Hundredths as PostgreSQL's text, which it reads into a numeric.
fn amount(row: &Row) -> String {
    format!("{}.{:02}", row.amount / 100, row.amount % 100)
}

impl Limit for Merge {
    fn open(&mut self) {
        let columns: Vec<String> = COLUMNS.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        let columns = columns.join(", ");
        let sql = format!(
            "CREATE TABLE orders ({columns}, op text, ts_ms bigint, hi bigint NOT NULL, lo bigint NOT NULL, PRIMARY KEY (id));
             CREATE TABLE tombstones (id bigint PRIMARY KEY, hi bigint NOT NULL, lo bigint NOT NULL);
             CREATE TEMPORARY TABLE stage ({}, op text, ts_ms bigint, hi bigint, lo bigint) ON COMMIT DELETE ROWS",
            columns.replace("numeric(18,2)", "text")
        );
        self.runtime.block_on(self.client.batch_execute(&sql)).unwrap();
    }

    fn apply(&mut self, rows: &[Row]) {
        let Self { client, runtime, .. } = self;
        runtime.block_on(async {
            client.batch_execute("BEGIN").await.unwrap();
            let sink = client.copy_in("COPY stage FROM STDIN (FORMAT binary)").await.unwrap();
            let types = [
                Type::INT8,
                Type::INT8,
                Type::TEXT,
                Type::TEXT,
                Type::INT4,
                Type::BOOL,
                Type::TIMESTAMP,
                Type::TEXT,
                Type::TEXT,
                Type::INT8,
                Type::INT8,
                Type::INT8,
            ];
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
            for row in rows {
                let (amount, op) = (amount(row), row.op.to_string());
                let moment = std::time::UNIX_EPOCH
                    + std::time::Duration::from_micros(u64::try_from(row.ordered_at).expect("after 1970"));
                let (hi, lo) = (row.version.hi_signed(), row.version.lo_signed());
                let values: [&(dyn ToSql + Sync); 12] = [
                    &row.id,
                    &row.customer_id,
                    &row.status,
                    &amount,
                    &row.quantity,
                    &row.express,
                    &moment,
                    &row.note,
                    &op,
                    &row.ts_ms,
                    &hi,
                    &lo,
                ];
                writer.as_mut().write(&values).await.unwrap();
            }
            writer.finish().await.unwrap();
            client
                .batch_execute(
                    "DELETE FROM orders t USING stage s WHERE s.op = 'd' AND t.id = s.id AND (t.hi, t.lo) < (s.hi, s.lo);
                     INSERT INTO tombstones AS g SELECT id, hi, lo FROM stage s WHERE op = 'd'
                       AND NOT EXISTS (SELECT FROM orders t WHERE t.id = s.id)
                       ON CONFLICT (id) DO UPDATE SET hi = excluded.hi, lo = excluded.lo
                       WHERE (excluded.hi, excluded.lo) > (g.hi, g.lo);
                     INSERT INTO orders AS t SELECT id, customer_id, status, amount::numeric(18,2), quantity, express, ordered_at,
                         note, op, ts_ms, hi, lo FROM stage s WHERE op <> 'd'
                       AND NOT EXISTS (SELECT FROM tombstones g WHERE g.id = s.id AND (g.hi, g.lo) >= (s.hi, s.lo))
                       ORDER BY id ON CONFLICT (id) DO UPDATE SET customer_id = excluded.customer_id,
                         status = excluded.status, amount = excluded.amount, quantity = excluded.quantity,
                         express = excluded.express, ordered_at = excluded.ordered_at, note = excluded.note,
                         op = excluded.op, ts_ms = excluded.ts_ms, hi = excluded.hi, lo = excluded.lo
                       WHERE (excluded.hi, excluded.lo) > (t.hi, t.lo);
                     COMMIT",
                )
                .await
                .unwrap();
        });
    }
}
