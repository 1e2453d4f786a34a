//! SQLite: prepared statements, one transaction a batch.

use rusqlite::{Connection, params};
use settle_engine::config::Target;
use settle_engine::config::target::TableRule;
use settle_engine::sinks::sqlite::{Sqlite, SqliteConfig};

use super::work::Row;
use super::{Limit, Pair};

pub fn pair() -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let columns = [
        ("id", "INTEGER"),
        ("customer_id", "INTEGER"),
        ("status", "TEXT"),
        ("amount", "DECIMAL(18,2)"),
        ("quantity", "INTEGER"),
        ("express", "BOOLEAN"),
        ("ordered_at", "TIMESTAMP(6)"),
        ("note", "TEXT"),
    ];
    let rule = TableRule {
        columns: columns.map(|(name, kind)| (name.to_owned(), kind.to_owned())).into(),
        ..TableRule::default()
    };
    let mut target = Target { create: true, tables: [("public.orders".to_owned(), rule)].into(), ..Target::default() };
    target.conventions.time_precision = Some(settle_core::schema::TimePrecision::Microseconds);
    let sink = Sqlite::new(SqliteConfig::at(folder.path().join("settle.db")), target).unwrap();
    let connection = Connection::open(folder.path().join("limit.db")).unwrap();
    (Box::new(sink), Box::new(Plain { connection, _folder: folder }))
}

struct Plain {
    connection: Connection,
    _folder: tempfile::TempDir,
}

impl Limit for Plain {
    fn open(&mut self) {
        // As the sink has it: the write-ahead log, and a COMMIT that has reached the disk.
        self.connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                 CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, customer_id INTEGER, status TEXT, amount TEXT,
                   quantity INTEGER, express INTEGER, ordered_at TEXT, note TEXT, _op TEXT, _source_ts_ms INTEGER,
                   _version_hi INTEGER NOT NULL, _version_lo INTEGER NOT NULL);
                 CREATE TABLE tombstones (id INTEGER NOT NULL PRIMARY KEY, hi INTEGER NOT NULL, lo INTEGER NOT NULL)",
            )
            .unwrap();
    }

    fn apply(&mut self, rows: &[Row]) {
        let transaction = self.connection.transaction().unwrap();
        {
            let mut upsert = transaction
                .prepare_cached(
                    "INSERT INTO orders AS t VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                     ON CONFLICT (id) DO UPDATE SET customer_id = excluded.customer_id, status = excluded.status,
                       amount = excluded.amount, quantity = excluded.quantity, express = excluded.express,
                       ordered_at = excluded.ordered_at, note = excluded.note, _op = excluded._op,
                       _source_ts_ms = excluded._source_ts_ms, _version_hi = excluded._version_hi,
                       _version_lo = excluded._version_lo
                     WHERE (excluded._version_hi, excluded._version_lo) > (t._version_hi, t._version_lo)",
                )
                .unwrap();
            let mut delete = transaction
                .prepare_cached("DELETE FROM orders WHERE id = ?1 AND (_version_hi, _version_lo) < (?2, ?3)")
                .unwrap();
            let mut bury = transaction.prepare_cached("INSERT OR REPLACE INTO tombstones VALUES (?1, ?2, ?3)").unwrap();
            for row in rows {
                let (hi, lo) = (row.version.hi_signed(), row.version.lo_signed());
                if row.op == 'd' {
                    delete.execute(params![row.id, hi, lo]).unwrap();
                    bury.execute(params![row.id, hi, lo]).unwrap();
                    continue;
                }
                let amount = format!("{}.{:02}", row.amount / 100, row.amount % 100);
                let moment = chrono::DateTime::from_timestamp_micros(row.ordered_at).unwrap();
                let moment = moment.format("%Y-%m-%d %H:%M:%S%.6f").to_string();
                let op = row.op.to_string();
                upsert
                    .execute(params![
                        row.id,
                        row.customer_id,
                        row.status,
                        amount,
                        row.quantity,
                        row.express,
                        moment,
                        row.note,
                        op,
                        row.ts_ms,
                        hi,
                        lo
                    ])
                    .unwrap();
            }
        }
        transaction.commit().unwrap();
    }
}
