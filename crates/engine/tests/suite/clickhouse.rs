//! ClickHouse: a database of its own for each destination, and a proxy for what goes wrong on the way to it.

use std::collections::BTreeSet;
use std::thread;

use serde_json::Value;
use settle_core::sink::{BoxFuture, Guarantee, Sink};
use settle_core::version::Version;
use settle_engine::config::Secret;
use settle_engine::sinks::clickhouse::{ClickHouse, ClickHouseConfig};
use settle_testkit::clickhouse::Client;
use settle_testkit::proxy::{self, Plan, Proxy};
use settle_testkit::services::ClickHouseAddress;
use settle_testkit::suite::{
    Column, Contents, Destination, Fault, Form, Kind, Live, Need, RowKey, Rules, Stand, Table, text,
};

use super::forms::precious;

/// Settle's columns, as it makes them.
const ADDED: &str =
    "`_op` LowCardinality(String), `_source_ts_ms` Nullable(Int64), `_is_deleted` UInt8, `_version` UInt128";
const ENGINE: &str = "ENGINE = ReplacingMergeTree(`_version`, `_is_deleted`)";

struct Server;

pub fn stand() -> Box<dyn Stand> {
    Box::new(Server)
}

impl Stand for Server {
    fn guarantee(&self) -> Guarantee {
        Guarantee::Versioned
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            Need::Versioned | Need::Wire | Need::AnyCharacter => None,
            Need::Atomic => Some("it has no transactions: rows are inserted, and versions alone decide"),
            Need::HardDeletes => Some("a delete marker must stay, so deletes = \"hard\" is refused"),
            Need::UniqueIndexes => Some("ClickHouse has no unique indexes"),
            Need::NameLimit => Some("how long a name may be depends on the database and on the characters in it"),
        }
    }

    fn longest_name(&self) -> usize {
        // With its view, and with characters that take six bytes in the name of a file.
        40
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn Destination>> {
        Box::pin(async {
            let client = Client::with_fresh_database("suite").await;
            let (proxy, faulty) = Proxy::before_clickhouse().await;
            Box::new(Database { client, proxy, faulty }) as Box<dyn Destination>
        })
    }
}

struct Database {
    client: Client,
    proxy: Proxy,
    /// The proxy's address.
    faulty: ClickHouseAddress,
}

impl Drop for Database {
    fn drop(&mut self) {
        let (client, copy) = (self.client.clone(), self.copy());
        // A runtime cannot wait inside another; a thread of its own can.
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                client.query(&format!("DROP DATABASE IF EXISTS `{copy}`")).await;
                client.query(&format!("DROP DATABASE IF EXISTS `{}`", client.database())).await;
            });
        })
        .join();
        assert!(dropped.is_ok() || thread::panicking(), "database {} could not be dropped", self.client.database());
    }
}

impl Database {
    fn copy(&self) -> String {
        format!("{}_copy", self.client.database())
    }

    fn sink_at(&self, address: &ClickHouseAddress, rules: &Rules) -> Box<dyn Sink> {
        let mut config = ClickHouseConfig::new(&address.url, self.client.database());
        config.user = Some(address.user.clone());
        config.password = Some(secret(&address.password));
        config.group.clone_from(&rules.group);
        Box::new(ClickHouse::new(config, super::rules::target(rules, column_type)).unwrap())
    }

    /// Tables of a database, without views.
    async fn tables(&self, database: &str) -> BTreeSet<String> {
        let sql = format!("SELECT name FROM system.tables WHERE database = '{database}' AND engine != 'View'");
        self.client.json(&sql).await.into_iter().map(|row| text(&row["name"]).unwrap()).collect()
    }

    async fn contents_now(&self, table: &Table) -> Contents {
        let (name, view) = (quoted(&table.name), quoted(&format!("{}_current", table.name)));
        let (keys, columns) = (list(table.key()), list(table.columns.iter()));
        // The view is what readers see. It has no versions, so they are read beside it: the greatest of each key.
        let greatest = format!(
            "SELECT {columns}, toString(`_version`) AS `_v`, `_is_deleted` AS `_d`, ({keys}) IN (SELECT {keys} FROM {view}) \
             AS `_seen` FROM {name} ORDER BY `_version` DESC LIMIT 1 BY {keys}"
        );
        let mut contents = Contents::default();
        let answer = match self.client.try_query(&format!("{greatest} FORMAT JSONEachRow")).await {
            Ok(answer) => answer,
            // Without a table, or without its view, readers see nothing.
            Err(missing) if missing.code == Some(60) => return contents,
            Err(failure) => panic!("{failure}"),
        };
        for line in answer.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let (key, version) = (key(table, &row), Version::from(text(&row["_v"]).unwrap().parse::<u128>().unwrap()));
            let columns = table.columns.iter().map(|column| (column.name.clone(), text(&row[&column.name]))).collect();
            match (row["_d"] == 1, row["_seen"] == 1) {
                (false, true) => drop(contents.live.insert(key, Live { version, columns })),
                (true, false) => drop(contents.deleted.insert(key, version)),
                // A truncate hides it, until it is deleted.
                (false, false) => {}
                (true, true) => panic!("the view of {name} shows {key:?}, which is deleted"),
            }
        }
        contents
    }
}

fn secret(text: &str) -> Secret {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Secret::read("password", &format!("file:{}", file.path().display())).unwrap()
}

fn escaped(text: &str, quote: char) -> String {
    text.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"))
}

fn quoted(name: &str) -> String {
    format!("`{}`", escaped(name, '`'))
}

fn list<'a>(columns: impl Iterator<Item = &'a Column>) -> String {
    columns.map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
}

fn key(table: &Table, row: &Value) -> RowKey {
    table.key().map(|column| text(&row[&column.name]).unwrap()).collect()
}

fn column_type(kind: Kind, is_key: bool) -> &'static str {
    match (kind, is_key) {
        (Kind::Int, true) => "Int64",
        (Kind::Int, false) => "Nullable(Int64)",
        (Kind::Text, true) => "String",
        (Kind::Text, false) => "Nullable(String)",
    }
}

impl Destination for Database {
    fn sink(&self, rules: &Rules) -> Box<dyn Sink> {
        self.sink_at(self.client.address(), rules)
    }

    fn faulty_sink(&self, rules: &Rules) -> Box<dyn Sink> {
        self.sink_at(&self.faulty, rules)
    }

    fn contents<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Contents> {
        Box::pin(self.contents_now(table))
    }

    fn texts<'a>(&'a self, table: &'a Table, column: &'a str) -> BoxFuture<'a, Vec<String>> {
        let sql = format!("SELECT {} AS text FROM {}", quoted(column), quoted(&table.name));
        Box::pin(async move { self.client.json(&sql).await.iter().filter_map(|row| text(&row["text"])).collect() })
    }

    fn make<'a>(&'a self, table: &'a Table, form: Form<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for statement in made(table, form) {
                self.client.query(&statement).await;
            }
        })
    }

    fn purge_deletes<'a>(&'a self, _: &'a Table) -> BoxFuture<'a, ()> {
        Box::pin(async { panic!("there are no hard deletes") })
    }

    fn fail(&self, fault: Fault) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let plan = match fault {
                Fault::LoseReply => Plan::new(proxy::Fault::LoseReply).containing("ArrowStream").times(1),
                Fault::Refuse => {
                    let body =
                        "Code: 243. DB::Exception: Cannot reserve 1.00 MiB. (NOT_ENOUGH_SPACE) (version 26.9.2.1)\n";
                    let full = proxy::Fault::Answer { status: 500, code: Some(243), body: body.into() };
                    Plan::new(full).containing("INSERT")
                }
            };
            self.proxy.plan(plan);
        })
    }

    fn heal(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.proxy.pass() })
    }

    fn back_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let (database, copy) = (self.client.database(), self.copy());
            self.client.query(&format!("CREATE DATABASE `{copy}`")).await;
            for table in self.tables(database).await {
                let table = quoted(&table);
                self.client.query(&format!("CREATE TABLE `{copy}`.{table} AS `{database}`.{table}")).await;
                self.client.query(&format!("INSERT INTO `{copy}`.{table} SELECT * FROM `{database}`.{table}")).await;
            }
        })
    }

    fn restore(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let (database, copy) = (self.client.database(), self.copy());
            let kept = self.tables(&copy).await;
            for table in self.tables(database).await {
                let name = quoted(&table);
                if kept.contains(&table) {
                    self.client.query(&format!("TRUNCATE TABLE {name}")).await;
                    self.client.query(&format!("INSERT INTO {name} SELECT * FROM `{copy}`.{name}")).await;
                } else {
                    self.client.query(&format!("DROP TABLE {name}")).await;
                }
            }
        })
    }
}

fn made(table: &Table, form: Form<'_>) -> Vec<String> {
    let name = quoted(&table.name);
    let typed = |column: &Column, kind| format!("{} {}", quoted(&column.name), column_type(kind, column.is_key));
    let columns = |left_out: &str| -> String {
        let kept = table.columns.iter().filter(|column| column.name != left_out);
        kept.map(|column| typed(column, column.kind)).collect::<Vec<_>>().join(", ")
    };
    let key = list(table.key());
    let (all, fill) = (columns(""), precious(table, quoted));
    match form {
        Form::NeverNegative(checked) => {
            let checked = quoted(checked);
            let check = format!("CONSTRAINT sound CHECK {checked} IS NULL OR {checked} >= 0");
            vec![format!("CREATE TABLE {name} ({all}, {ADDED}, {check}) {ENGINE} ORDER BY ({key})")]
        }
        Form::WithoutVersions => vec![
            format!("CREATE TABLE {name} ({all}) ENGINE = MergeTree ORDER BY ({key})"),
            format!("INSERT INTO {name} SELECT {fill}"),
        ],
        Form::KeyedBy(other) => {
            let as_key = |column: &Column| {
                let is_key = column.name == other || column.is_key;
                typed(&Column { is_key, ..column.clone() }, column.kind)
            };
            let columns: Vec<String> = table.columns.iter().map(as_key).collect();
            vec![format!("CREATE TABLE {name} ({}, {ADDED}) {ENGINE} ORDER BY {}", columns.join(", "), quoted(other))]
        }
        Form::UniqueToo(_) => panic!("there are no unique indexes"),
        Form::Without(column) => {
            vec![format!("CREATE TABLE {name} ({}, {ADDED}) {ENGINE} ORDER BY ({key})", columns(column))]
        }
        Form::Holding(other, kind) => {
            let column = |column: &Column| typed(column, if column.name == other { kind } else { column.kind });
            let columns: Vec<String> = table.columns.iter().map(column).collect();
            vec![format!("CREATE TABLE {name} ({}, {ADDED}) {ENGINE} ORDER BY ({key})", columns.join(", "))]
        }
        Form::View => vec![format!("CREATE VIEW {name} AS SELECT {fill}")],
    }
}
