//! PostgreSQL: a schema of its own for each destination, and a proxy that loses replies on the way to the server.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use settle_core::sink::{BoxFuture, Guarantee, Sink};
use settle_engine::sinks::postgres::{Address, Postgres, PostgresConfig};
use settle_testkit::kafka::unique;
use settle_testkit::proxy::WireProxy;
use settle_testkit::services;
use settle_testkit::suite::{Contents, Destination, Fault, Form, Kind, Need, Rules, Shown, Stand, Table};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::contents::contents;
use super::forms::{Words, made};

const WORDS: Words = Words {
    quoted,
    typed: column_type,
    added: "\"_op\" text, \"_source_ts_ms\" bigint, \"_version_hi\" bigint NOT NULL DEFAULT 0, \
            \"_version_lo\" bigint NOT NULL DEFAULT 0, \"_is_deleted\" boolean NOT NULL DEFAULT false",
    options: "",
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
            Need::Atomic
            | Need::HardDeletes
            | Need::Wire
            | Need::UniqueIndexes
            | Need::NameLimit
            | Need::AnyCharacter => None,
            Need::Versioned => Some("it fences, so that versions are not all that keeps a zombie out"),
        }
    }

    fn longest_name(&self) -> usize {
        63
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn Destination>> {
        Box::pin(async {
            let client = connect().await;
            let schema = unique("suite");
            let make = format!("CREATE SCHEMA {0}; SET search_path = {0}", quoted(&schema));
            client.batch_execute(&make).await.unwrap();
            let server: Config = services::postgres().parse().unwrap();
            let tokio_postgres::config::Host::Tcp(host) = &server.get_hosts()[0] else {
                panic!("a server without a host")
            };
            let proxy = WireProxy::before(&format!("{host}:{}", server.get_ports()[0])).await;
            Box::new(Schema { client, schema, proxy, lock: Mutex::default() }) as Box<dyn Destination>
        })
    }
}

async fn connect() -> Client {
    let (client, connection) = tokio_postgres::connect(services::postgres(), NoTls).await.unwrap();
    tokio::spawn(connection); // ends with the client
    client
}

struct Schema {
    client: Client,
    schema: String,
    proxy: WireProxy,
    /// Somebody else who writes.
    lock: Mutex<Option<Client>>,
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (schema, copy) = (quoted(&self.schema), quoted(&self.copy()));
        // A runtime cannot wait inside another; a thread of its own can.
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let drop = format!("DROP SCHEMA IF EXISTS {copy} CASCADE; DROP SCHEMA {schema} CASCADE");
                connect().await.batch_execute(&drop).await.unwrap();
            });
        })
        .join();
        assert!(dropped.is_ok() || thread::panicking(), "schema {} could not be dropped", self.schema);
    }
}

impl Schema {
    fn copy(&self) -> String {
        format!("{}_copy", self.schema)
    }

    fn sink_at(&self, url: &str, rules: &Rules) -> Box<dyn Sink> {
        let config = PostgresConfig {
            schema: self.schema.clone(),
            group: rules.group.clone(),
            lock_timeout_ms: 300,
            ..PostgresConfig::at(Address::parse(url, Path::new("")).unwrap())
        };
        Box::new(Postgres::new(config, super::rules::target(rules, column_type)))
    }

    /// The rows of a SELECT, each with its columns' names.
    async fn select(&self, sql: &str) -> Vec<Shown> {
        let answers = self.client.simple_query(sql).await.unwrap();
        let rows = answers.into_iter().filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        rows.map(|row| {
            let cell = |at: usize| row.get(at).map(str::to_owned);
            row.columns().iter().enumerate().map(|(at, column)| (column.name().to_owned(), cell(at))).collect()
        })
        .collect()
    }

    /// The tables of a schema, without views.
    async fn tables(&self, schema: &str) -> BTreeSet<String> {
        let sql = format!("SELECT tablename AS name FROM pg_tables WHERE schemaname = '{schema}'");
        self.select(&sql).await.into_iter().filter_map(|row| row["name"].clone()).collect()
    }

    /// Every row of a table; none where it does not exist.
    async fn rows(&self, table: &str) -> Vec<Shown> {
        if !self.tables(&self.schema).await.contains(table) {
            return Vec::new();
        }
        self.select(&format!("SELECT * FROM {}", quoted(table))).await
    }

    /// The table of tombstones, which has another name where there is no room for its own.
    async fn tombstones(&self, table: &Table) -> Option<String> {
        let tables = self.tables(&self.schema).await;
        let whole = format!("{}__tombstones", table.name);
        if tables.contains(&whole) {
            return Some(whole);
        }
        let digest =
            format!("SELECT encode(sha256(convert_to('{}', 'UTF8')), 'hex') AS digest", table.name.replace('\'', "''"));
        let digest = self.select(&digest).await[0]["digest"].clone().unwrap();
        let end = format!("_{}__tombstones", &digest[..16]);
        tables.into_iter().find(|name| name.ends_with(&end))
    }

    async fn contents_now(&self, table: &Table) -> Contents {
        let tombstones = match self.tombstones(table).await {
            Some(tombstones) => self.rows(&tombstones).await,
            None => Vec::new(),
        };
        contents(table, self.rows(&table.name).await, &tombstones, "t")
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn column_type(kind: Kind, _: bool) -> &'static str {
    match kind {
        Kind::Int => "bigint",
        Kind::Text => "text",
    }
}

impl Destination for Schema {
    fn sink(&self, rules: &Rules) -> Box<dyn Sink> {
        self.sink_at(services::postgres(), rules)
    }

    fn faulty_sink(&self, rules: &Rules) -> Box<dyn Sink> {
        let (login, rest) = services::postgres().rsplit_once('@').unwrap();
        let (_, database) = rest.split_once('/').unwrap();
        self.sink_at(&format!("{login}@{}/{database}", self.proxy.address()), rules)
    }

    fn contents<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Contents> {
        Box::pin(self.contents_now(table))
    }

    fn texts<'a>(&'a self, table: &'a Table, column: &'a str) -> BoxFuture<'a, Vec<String>> {
        let sql = format!("SELECT {} AS text FROM {}", quoted(column), quoted(&table.name));
        Box::pin(async move { self.select(&sql).await.into_iter().filter_map(|row| row["text"].clone()).collect() })
    }

    fn make<'a>(&'a self, table: &'a Table, form: Form<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.client.batch_execute(&made(&WORDS, table, form).join("; ")).await.unwrap() })
    }

    fn purge_deletes<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let tombstones = self.tombstones(table).await.unwrap();
            self.client.batch_execute(&format!("DELETE FROM {}", quoted(&tombstones))).await.unwrap();
        })
    }

    fn fail(&self, fault: Fault) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match fault {
                Fault::LoseReply => self.proxy.lose_reply("COMMIT", "COMMIT\0"),
                Fault::Refuse => {
                    let other = connect().await;
                    let lock = format!("BEGIN; LOCK TABLE {}.settle_positions", quoted(&self.schema));
                    other.batch_execute(&lock).await.unwrap();
                    *self.lock.lock().unwrap() = Some(other);
                }
            }
        })
    }

    fn heal(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.proxy.pass();
            let other = self.lock.lock().unwrap().take();
            if let Some(other) = other {
                other.batch_execute("ROLLBACK").await.unwrap();
            }
        })
    }

    fn back_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let copy = quoted(&self.copy());
            self.client.batch_execute(&format!("CREATE SCHEMA {copy}")).await.unwrap();
            for table in self.tables(&self.schema).await {
                let table = quoted(&table);
                self.client
                    .batch_execute(&format!("CREATE TABLE {copy}.{table} AS SELECT * FROM {table}"))
                    .await
                    .unwrap();
            }
        })
    }

    fn restore(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let kept = self.tables(&self.copy()).await;
            for table in self.tables(&self.schema).await {
                let (name, copy) = (quoted(&table), quoted(&self.copy()));
                let put_back = match kept.contains(&table) {
                    true => format!("TRUNCATE {name}; INSERT INTO {name} SELECT * FROM {copy}.{name}"),
                    false => format!("DROP TABLE {name}"),
                };
                self.client.batch_execute(&put_back).await.unwrap();
            }
        })
    }
}
