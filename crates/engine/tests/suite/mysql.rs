//! MariaDB: a database of its own for each destination, and a wire on which the reply to COMMIT can be lost.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};
use settle_core::sink::{BoxFuture, Guarantee, Sink};
use settle_engine::sinks::mysql::{Address, MySql, MySqlConfig};
use settle_testkit::mariadb;
use settle_testkit::proxy::WireProxy;
use settle_testkit::suite::{Contents, Destination, Fault, Form, Kind, Need, Rules, Shown, Stand, Table};
use sha2::{Digest, Sha256};

use super::contents::contents;
use super::forms::{Words, made};

const WORDS: Words = Words {
    quoted,
    typed: |kind, is_key| match (kind, is_key) {
        (Kind::Int, true) => "BIGINT NOT NULL",
        (Kind::Text, true) => "VARCHAR(60) NOT NULL",
        _ => column_type(kind, is_key),
    },
    added: "`_op` VARCHAR(1), `_source_ts_ms` BIGINT, `_version_hi` BIGINT NOT NULL DEFAULT 0, \
            `_version_lo` BIGINT NOT NULL DEFAULT 0, `_is_deleted` TINYINT(1) NOT NULL DEFAULT 0",
    options: " ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
};

struct Server;

pub fn stand() -> Box<dyn Stand> {
    Box::new(Server)
}

impl Stand for Server {
    fn guarantee(&self) -> Guarantee {
        Guarantee::Atomic
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            Need::Atomic | Need::HardDeletes | Need::UniqueIndexes | Need::Wire | Need::NameLimit => None,
            Need::AnyCharacter => Some("names of MySQL have no characters above U+FFFF"),
            Need::Versioned => Some("it fences, so that versions are not all that keeps a zombie out"),
        }
    }

    fn longest_name(&self) -> usize {
        64
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn Destination>> {
        Box::pin(async {
            let inner = mariadb::Database::create("suite").await;
            let wire = WireProxy::before(&format!("{}:{}", inner.host(), inner.port())).await;
            Box::new(Database { inner, wire, lock: Mutex::default() }) as Box<dyn Destination>
        })
    }
}

struct Database {
    inner: mariadb::Database,
    wire: WireProxy,
    /// Somebody else who holds the lock rows.
    lock: Mutex<Option<Conn>>,
}

impl Drop for Database {
    fn drop(&mut self) {
        let (url, copy) = (self.inner.url(), self.copy());
        // A runtime cannot wait inside another; a thread of its own can.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut connection = Conn::from_url(url).await.unwrap();
                connection.query_drop(format!("DROP DATABASE IF EXISTS `{copy}`")).await.unwrap();
                connection.disconnect().await.unwrap();
            });
        })
        .join();
        assert!(dropped.is_ok() || std::thread::panicking(), "the copy could not be dropped");
    }
}

impl Database {
    fn copy(&self) -> String {
        format!("{}_copy", self.inner.name())
    }

    fn sink_at(&self, url: &str, rules: &Rules) -> Box<dyn Sink> {
        let address = Address::parse(url, Path::new("")).unwrap();
        let config = MySqlConfig { group: rules.group.clone(), lock_timeout_ms: 1000, ..MySqlConfig::at(address) };
        Box::new(MySql::new(config, super::rules::target(rules, column_type)))
    }

    async fn tables(&self, database: &str) -> BTreeSet<String> {
        let sql = format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = '{database}' AND table_type = 'BASE TABLE'"
        );
        self.inner.rows(&sql).await.into_iter().map(|mut row| row.remove(0).unwrap()).collect()
    }

    /// Every row of a table; none where it does not exist.
    async fn rows(&self, table: &str) -> Vec<Shown> {
        if !self.tables(self.inner.name()).await.contains(table) {
            return Vec::new();
        }
        let mut connection = self.inner.connect().await;
        let mut answer = connection.exec_iter(format!("SELECT * FROM {}", quoted(table)), ()).await.unwrap();
        let names: Vec<String> = answer.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
        let rows: Vec<Row> = answer.collect().await.unwrap();
        drop(answer);
        connection.disconnect().await.unwrap();
        let shown = |row: Row| names.iter().cloned().zip(row.unwrap().into_iter().map(text)).collect();
        rows.into_iter().map(shown).collect()
    }

    async fn contents_now(&self, table: &Table) -> Contents {
        contents(table, self.rows(&table.name).await, &self.rows(&tombstones(table)).await, "1")
    }

    /// Copies every table of one database into another, and drops what only that has.
    async fn copy_tables(&self, from: &str, to: &str) {
        let kept = self.tables(from).await;
        for table in self.tables(to).await.difference(&kept) {
            self.inner.execute(&format!("DROP TABLE `{to}`.{}", quoted(table))).await;
        }
        for table in kept {
            let table = quoted(&table);
            self.inner.execute(&format!("CREATE TABLE IF NOT EXISTS `{to}`.{table} LIKE `{from}`.{table}")).await;
            self.inner.execute(&format!("DELETE FROM `{to}`.{table}")).await;
            self.inner.execute(&format!("INSERT INTO `{to}`.{table} SELECT * FROM `{from}`.{table}")).await;
        }
    }
}

/// The table that keeps the versions of deleted rows: a digest stands for the end of a long name.
fn tombstones(table: &Table) -> String {
    if table.name.chars().count() <= 52 {
        return format!("{}__tombstones", table.name);
    }
    let head: String = table.name.chars().take(35).collect();
    let digest: String = Sha256::digest(&table.name).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{head}_{digest}__tombstones")
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Int(number) => Some(number.to_string()),
        Value::Bytes(text) => Some(String::from_utf8(text).unwrap()),
        other => panic!("a value that the suite does not write: {other:?}"),
    }
}

fn column_type(kind: Kind, is_key: bool) -> &'static str {
    match (kind, is_key) {
        (Kind::Int, _) => "BIGINT",
        (Kind::Text, true) => "VARCHAR(60)",
        (Kind::Text, false) => "LONGTEXT",
    }
}

impl Destination for Database {
    fn sink(&self, rules: &Rules) -> Box<dyn Sink> {
        self.sink_at(&self.inner.url(), rules)
    }

    fn faulty_sink(&self, rules: &Rules) -> Box<dyn Sink> {
        let place = format!("{}:{}", self.inner.host(), self.inner.port());
        self.sink_at(&self.inner.url().replace(&place, &format!("127.0.0.1:{}", self.wire.address().port())), rules)
    }

    fn contents<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Contents> {
        Box::pin(self.contents_now(table))
    }

    fn texts<'a>(&'a self, table: &'a Table, column: &'a str) -> BoxFuture<'a, Vec<String>> {
        let sql = format!("SELECT {} FROM {}", quoted(column), quoted(&table.name));
        Box::pin(async move { self.inner.rows(&sql).await.into_iter().flatten().flatten().collect() })
    }

    fn make<'a>(&'a self, table: &'a Table, form: Form<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for statement in made(&WORDS, table, form) {
                self.inner.execute(&statement).await;
            }
        })
    }

    fn purge_deletes<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, ()> {
        let purge = format!("DELETE FROM {}", quoted(&tombstones(table)));
        Box::pin(async move { self.inner.execute(&purge).await })
    }

    fn fail(&self, fault: Fault) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match fault {
                Fault::LoseReply => self.wire.lose_reply("COMMIT", ""),
                Fault::Refuse => {
                    let mut other = self.inner.connect().await;
                    other.query_drop("START TRANSACTION").await.unwrap();
                    other.query_drop("SELECT * FROM settle_positions FOR UPDATE").await.unwrap();
                    *self.lock.lock().unwrap() = Some(other);
                }
            }
        })
    }

    fn heal(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.wire.pass();
            let other = self.lock.lock().unwrap().take();
            if let Some(other) = other {
                other.disconnect().await.unwrap();
            }
        })
    }

    fn back_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.inner.execute(&format!("CREATE DATABASE `{}`", self.copy())).await;
            self.copy_tables(self.inner.name(), &self.copy()).await;
        })
    }

    fn restore(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.copy_tables(&self.copy(), self.inner.name()).await })
    }
}
