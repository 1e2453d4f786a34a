//! Connectors as users handle them: on a real worker, at real databases, with real mistakes.

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::{Value, json};
use settle::connector::{self, Configuration, Manner, Outcome, Registered, Worker};
use settle::database::Address;
use settle::simulate::{self, Hazard, Hazards, Options};
use settle_testkit::connect::Client;
use settle_testkit::kafka::{Record, delete_topic, read_topic_until, unique};
use settle_testkit::{mariadb, postgres, services};

use crate::stage::{Stage, said};

/// A database of the shop, and what is registered at it; both gone with the value.
struct Shop {
    stage: Stage,
    name: String,
    url: String,
    password: String,
    topics: BTreeSet<String>,
    /// Dropped after the connector.
    database: Database,
}

enum Database {
    Postgres(Box<postgres::Database>),
    MariaDb(mariadb::Database),
}

impl Shop {
    async fn postgres() -> Self {
        let database = postgres::Database::create("conn").await;
        let (url, password) = (database.url(), database.password().to_owned());
        Self::of(unique("conn"), url, password, Database::Postgres(Box::new(database))).await
    }

    async fn mariadb() -> Self {
        let database = mariadb::Database::create("conn").await;
        let (url, password) = (database.url(), database.password().to_owned());
        Self::of(unique("conn"), url, password, Database::MariaDb(database)).await
    }

    async fn of(name: String, url: String, password: String, database: Database) -> Self {
        let mut options = Options::new(&url).unwrap();
        options.hazards = Hazards::default().with(Hazard::Keyless);
        simulate::prepare(&options).await.unwrap();
        Self { stage: Stage::new(), name, url, password, topics: BTreeSet::new(), database }
    }

    async fn execute(&self, sql: &str) {
        match &self.database {
            Database::Postgres(database) => database.execute(sql).await,
            Database::MariaDb(database) => database.execute(sql).await,
        }
    }

    async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        match &self.database {
            Database::Postgres(database) => database.rows(sql).await,
            Database::MariaDb(database) => database.rows(sql).await,
        }
    }

    /// A subcommand for the connector of this shop.
    fn settle(&self, subcommand: &str, more: &[&str]) -> Output {
        self.settle_at(services::connect(), subcommand, more)
    }

    fn settle_at(&self, connect: &str, subcommand: &str, more: &[&str]) -> Output {
        self.settle_as(&self.name, connect, subcommand, more)
    }

    fn settle_as(&self, name: &str, connect: &str, subcommand: &str, more: &[&str]) -> Output {
        let mut args = vec!["connector", subcommand, "--connect", connect, "--name", name];
        args.extend(more);
        let output = self.stage.settle(&args).env("SHOP_URL", &self.url).output().unwrap();
        for text in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(text).contains(&self.password), "the password is shown: {output:?}");
        }
        output
    }

    /// Registers with the signal table, and quick answers to signals.
    fn register(&self, more: &[&str]) -> Output {
        let mut args = vec!["--url", "env:SHOP_URL", "--kafka", services::kafka(), "--replication-factor", "1"];
        args.extend(["--signal", "debezium_signal", "--set", "signal.poll.interval.ms=500"]);
        args.extend(["--set", "poll.interval.ms=50"]);
        args.extend(more);
        self.settle("register", &args)
    }

    fn configuration(&self) -> Configuration {
        let mut all = Configuration::new(&self.name, &self.name, Address::parse(&self.url).unwrap());
        all.replication_factor = Some(1);
        all.kafka = Some(services::kafka().to_owned());
        all
    }

    async fn topic(&mut self, topic: &str, wanted: impl Fn(&[Record]) -> bool) -> Vec<Record> {
        let topic = format!("{}.{topic}", self.name);
        self.topics.insert(topic.clone());
        read_topic_until(&topic, wanted).await
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let (name, topics) = (self.name.clone(), std::mem::take(&mut self.topics));
        // A runtime cannot wait inside another; a thread of its own can.
        let gone = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                Client::shared().delete(&name).await.unwrap();
                for topic in topics {
                    delete_topic(&topic).await;
                }
            });
        });
        let gone = gone.join();
        assert!(gone.is_ok() || std::thread::panicking(), "the connector could not be taken away");
    }
}

fn assert_said(output: &Output, code: i32, parts: &[&str]) {
    let (exit, text) = said(output);
    assert_eq!(exit, code, "{text}");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

fn payload(record: &Record) -> Value {
    let value: Value = record.payload.as_ref().map_or(Value::Null, |bytes| serde_json::from_slice(bytes).unwrap());
    value["payload"].clone()
}

fn of_op(records: &[Record], op: &str) -> usize {
    records.iter().filter(|record| payload(record)["op"] == op).count()
}

#[tokio::test]
async fn a_connector_for_postgres_lives_from_register_to_delete() {
    let mut shop = Shop::postgres().await;
    let slot = format!("settle_{}", shop.name.replace('-', "_"));
    let tables = ["--tables", "orders,public.customers"];
    assert_said(&shop.register(&tables), 0, &["is registered, and runs", &format!("topics = [\"{}.*\"]", shop.name)]);
    assert_said(&shop.settle("status", &[]), 0, &["RUNNING", "task 0: RUNNING"]);
    let again = shop.register(&tables);
    assert_said(&again, 0, &["was registered already, with the same settings", &format!("slot {slot} is there")]);

    let orders = shop.topic("public.orders", |records| of_op(records, "r") == 20).await;
    let row = payload(&orders[0]);
    assert!(row["after"]["amount"].is_string(), "decimals are text: {row}");
    assert_eq!(row["source"]["connector"], "postgresql");

    // Only what was asked for, under our names.
    let published = format!("SELECT tablename FROM pg_publication_tables WHERE pubname = '{slot}' ORDER BY 1");
    let published: Vec<String> =
        shop.rows(&published).await.into_iter().map(|mut row| row.remove(0).unwrap()).collect();
    assert_eq!(published, ["customers", "debezium_signal", "orders"]);

    shop.execute("TRUNCATE orders").await;
    shop.topic("public.orders", |records| of_op(records, "t") == 1).await;
    shop.execute("INSERT INTO orders VALUES (1, 1, 'new', 1.50, NULL, '2024-01-01Z')").await;
    for (kind, rows) in [("incremental", 21), ("blocking", 22)] {
        assert_said(
            &shop.settle("snapshot", &["--type", kind, "--tables", "orders"]),
            0,
            &["for a snapshot of orders (signal settle-"],
        );
        shop.topic("public.orders", |records| of_op(records, "r") == rows).await;
    }

    assert_said(&shop.settle("pause", &[]), 0, &["paused"]);
    let state = async || Client::shared().status(&shop.name).await.unwrap()["connector"]["state"].clone();
    crate::child::until("a paused connector", state, |state| state == "PAUSED").await;
    assert_said(&shop.settle("resume", &[]), 0, &["resumed"]);
    assert_said(&shop.settle("restart", &[]), 0, &["restarted"]);
    Client::shared().wait_running(&shop.name).await;

    assert_said(&shop.settle("delete", &["--drop-slot"]), 0, &["its slot and its publication"]);
    assert_eq!(Client::shared().status(&shop.name).await, None);
    let left = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() \
                UNION ALL SELECT pubname FROM pg_publication";
    assert!(shop.rows(left).await.is_empty());
    assert_said(&shop.settle("status", &[]), 5, &["there is no connector", &shop.name]);
    assert_said(&shop.settle("delete", &[]), 5, &["there is no connector", &shop.name]);
}

#[tokio::test]
async fn a_connector_for_mariadb_sends_unsigned_bigints_and_snapshots_on_request() {
    let mut shop = Shop::mariadb().await;
    shop.execute("UPDATE products SET sold = 18446744073709551615 WHERE product_id = 1").await;
    let Database::MariaDb(database) = &shop.database else { unreachable!("made so above") };
    let schema = database.name().to_owned();
    assert_said(&shop.register(&["--tables", "products"]), 0, &["is registered, and runs"]);
    let topic = format!("{schema}.products");
    let products = shop.topic(&topic, |records| of_op(records, "r") == 20).await;
    let first = products.iter().map(payload).find(|row| row["after"]["product_id"] == 1).unwrap();
    // 2^64 - 1, as bytes: `long` would send -1.
    assert_eq!(first["after"]["sold"], "AP//////////");
    assert_eq!(first["source"]["connector"], "mariadb");

    assert_said(&shop.settle("snapshot", &["--tables", "products"]), 0, &["(signal settle-"]);
    shop.topic(&topic, |records| of_op(records, "r") == 40).await;
    assert_said(&shop.settle("snapshot", &["--tables", "product"]), 5, &[&format!("no table {schema}.product in")]);
    assert_said(&shop.settle("delete", &["--drop-slot"]), 2, &["--drop-slot is for PostgreSQL"]);
    assert_said(&shop.settle("delete", &[]), 0, &["deleted"]);
}

#[tokio::test]
async fn another_connector_of_the_same_name_is_replaced_only_when_asked() {
    let shop = Shop::postgres().await;
    let worker = Worker::at(services::connect()).unwrap();
    let mut wanted = shop.configuration();
    wanted.tables = vec!["orders".to_owned()];
    let Registered { outcome, settings, .. } = connector::register(&worker, &wanted, Manner::default()).await.unwrap();
    assert_eq!((outcome, settings.get("topic.prefix")), (Outcome::Created, Some(shop.name.as_str())));
    assert_eq!(settings.to_json()["database.password"], json!(shop.password));
    assert!(!format!("{settings:?}").contains(&shop.password));

    let url = ["--url", "env:SHOP_URL", "--replication-factor", "1", "--tables", "orders,customers"];
    let output = shop.settle("register", &url);
    assert_said(&output, 5, &["with other settings", "table.include.list: \"public.orders\" there", "--replace"]);
    let output = shop.settle("register", &[&url[..], &["--replace"]].concat());
    assert_said(&output, 0, &["has its new settings, and runs"]);
}

/// Columns of the products whose values need words of their own without a schema, as SQLite keeps
/// them and as the source has them.
const PRODUCTS: [(&str, &str, &str, &str); 10] = [
    ("product_id", "INTEGER", "product_id", "product_id::text"),
    ("active", "BOOLEAN", "active", "active::int::text"),
    ("price", "TEXT", "price", "price::text"),
    ("picture", "BLOB", "lower(hex(picture))", "coalesce(encode(picture, 'hex'), '')"),
    ("tags", "TEXT", "tags", "tags::text"),
    ("released", "DATE", "released", "released::text"),
    ("opens", "TIME(6)", "opens", "to_char(opens, 'HH24:MI:SS.US')"),
    ("created", "TIMESTAMP(6)", "created", "to_char(created, 'YYYY-MM-DD HH24:MI:SS.US')"),
    ("seen_ms", "TIMESTAMP(3)", "seen_ms", "to_char(seen_ms, 'YYYY-MM-DD HH24:MI:SS.US')"),
    ("changed", "TIMESTAMP(6)", "changed", "to_char(changed AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"),
];

#[tokio::test]
async fn without_schemas_records_carry_none_and_a_run_settles_them_as_register_says() {
    let mut shop = Shop::postgres().await;
    let output = shop.register(&["--schemas", "off", "--tables", "products"]);
    let (code, text) = said(&output);
    assert_eq!(code, 0, "{text}");
    shop.execute("UPDATE products SET picture = NULL, changed = '2024-02-29 23:59:59.999999+00' WHERE product_id = 2")
        .await;
    let streamed = |record: &Record| {
        let value: Value = serde_json::from_slice(record.payload.as_ref().unwrap()).unwrap();
        value["op"] == "u"
    };
    let products = shop.topic("public.products", |records| records.iter().any(streamed)).await;
    for record in &products {
        let key: Value = serde_json::from_slice(record.key.as_ref().unwrap()).unwrap();
        let value: Value = serde_json::from_slice(record.payload.as_ref().unwrap()).unwrap();
        assert!(key["product_id"].is_number() && value["after"].is_object(), "{key} {value}");
        assert!(key.get("schema").is_none() && value.get("schema").is_none(), "{key} {value}");
    }

    let section = &text[text.find("# settle.toml").expect("what a run needs")..];
    let columns: String = PRODUCTS.iter().map(|(name, kind, ..)| format!("{name} = \"{kind}\"\n")).collect();
    let sink = "[sink]\nkind = \"sqlite\"\npath = \"shop.db\"\n";
    shop.stage.write("settle.toml", &format!("{section}{sink}[tables.\"public.products\".columns]\n{columns}"));
    assert_eq!(shop.stage.run(&["--until-end"]).dead_lettered, 0);

    let list = |at: fn(&(&str, &str, &'static str, &'static str)) -> &'static str| {
        PRODUCTS.iter().map(at).collect::<Vec<_>>().join(", ")
    };
    let expected =
        shop.rows(&format!("SELECT {} FROM products ORDER BY products.product_id", list(|column| column.3))).await;
    let connection = rusqlite::Connection::open(shop.stage.path("shop.db")).unwrap();
    let casts: Vec<String> =
        list(|column| column.2).split(", ").map(|column| format!("CAST({column} AS TEXT)")).collect();
    let mut select =
        connection.prepare(&format!("SELECT {} FROM products ORDER BY product_id", casts.join(", "))).unwrap();
    let row =
        |row: &rusqlite::Row<'_>| (0..PRODUCTS.len()).map(|at| row.get(at)).collect::<Result<Vec<Option<String>>, _>>();
    let actual: Vec<Vec<Option<String>>> = select.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(actual.len(), 20);
    assert_eq!(actual, expected);
}

#[tokio::test]
async fn a_prefix_or_a_slot_that_another_connector_has_is_taken_only_when_asked() {
    let shop = Shop::postgres().await;
    let first = ["--url", "env:SHOP_URL", "--replication-factor", "1", "--tables", "orders"];
    assert_said(&shop.settle("register", &first), 0, &["is registered, and runs"]);
    let slot = shop.configuration().slot();
    let other = unique("conn");
    let register = |more: &[&str]| {
        shop.settle_as(&other, services::connect(), "register", &[&first[..], &["--prefix", &shop.name], more].concat())
    };
    assert_said(
        &register(&["--slot", &slot]),
        5,
        &[
            &format!("topic prefix {0} is that of connector {0}", shop.name),
            &format!("slot {slot} is that of connector {}", shop.name),
            "another connector would be disturbed (--shared registers all the same)",
        ],
    );
    assert_eq!(Client::shared().status(&other).await, None);
    // Where its reader is on no worker that is asked, the database tells.
    let wanted = Configuration { name: other.clone(), slot: Some(slot), ..shop.configuration() };
    let look = async || connector::inspect(&wanted).await.unwrap();
    crate::child::until("the slot is read", look, |fitness| fitness.slot_is_read).await;
    assert_said(&register(&["--shared"]), 0, &["is registered, and runs"]);
    // One that stays as it is takes nothing from anybody.
    assert_said(&shop.settle("register", &first), 0, &["was registered already, with the same settings"]);
    Client::shared().delete(&other).await.unwrap();
}

#[tokio::test]
async fn a_name_that_no_worker_takes_is_told() {
    let stage = Stage::new();
    for name in ["brk/odd na", "a%b", "..", "a\\b"] {
        let args = ["connector", "status", "--connect", services::connect(), "--name", name];
        let (code, text) = said(&stage.settle(&args).output().unwrap());
        assert_eq!(code, 2, "{name}: {text}");
        assert!(text.contains("a connector") && !text.contains("none of Connect's"), "{name}: {text}");
    }
}

#[tokio::test]
async fn printing_a_configuration_registers_nothing() {
    let shop = Shop::postgres().await;
    let output =
        shop.register(&["--print", "--schemas", "off", "--set", "snapshot.mode=no_data", "--key", "visits:page"]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["database.password"], "***");
    assert_eq!(printed["snapshot.mode"], "no_data");
    assert_eq!(printed["value.converter.schemas.enable"], "false");
    assert_eq!(printed["message.key.columns"], "public.visits:page");
    assert_eq!(Client::shared().status(&shop.name).await, None);
}

#[tokio::test]
async fn a_database_that_is_not_fit_is_told_before_anything_is_registered() {
    let shop = Shop::postgres().await;
    let role = shop.name.replace('-', "_");
    shop.execute(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'weak'; CREATE UNLOGGED TABLE sessions (id int PRIMARY KEY)"
    ))
    .await;
    let url = shop.url.replace("//settle:", &format!("//{role}:")).replace(&format!(":{}@", shop.password), ":weak@");
    let output = shop.settle("register", &["--url", &url, "--signal", "signals"]);
    shop.execute(&format!("DROP ROLE {role}")).await;
    let parts = [
        &format!("{role} may not replicate")[..],
        &format!("ALTER ROLE {role} WITH REPLICATION"),
        "there is no signal table public.signals",
        "without a primary key: public.visits",
        "--key 'public.visits:",
        "public.documents: an update that does not touch them sends a placeholder",
        "REPLICA IDENTITY FULL",
        "unlogged, so that no change of them is ever sent: public.sessions",
        "does not own",
        "not fit to be captured",
    ];
    assert_said(&output, 5, &parts);
    assert_eq!(Client::shared().status(&shop.name).await, None);
}

#[tokio::test]
async fn cascades_of_mariadb_are_warned_of() {
    let shop = Shop::mariadb().await;
    shop.execute(
        "CREATE TABLE parents (id int PRIMARY KEY); CREATE TABLE children (id int PRIMARY KEY, pid int, \
         FOREIGN KEY (pid) REFERENCES parents(id) ON DELETE CASCADE)",
    )
    .await;
    let output = shop.register(&["--print", "--tables", "children"]);
    assert_said(&output, 0, &["children: foreign keys with CASCADE", "statements of their own"]);
    let others = shop.register(&["--print", "--tables", "orders"]);
    assert!(!said(&others).1.contains("CASCADE"), "{others:?}");
    let without = shop.settle("register", &["--url", "env:SHOP_URL"]);
    assert_said(&without, 2, &["--kafka: ", "history of the schemas"]);
}

#[tokio::test]
async fn what_the_connector_refuses_is_told_setting_by_setting() {
    let shop = Shop::postgres().await;
    let output = shop.register(&["--set", "snapshot.mode=blue", "--set", "skipped.operations=x"]);
    assert_said(
        &output,
        5,
        &["the connector refuses its configuration:", "\n  snapshot.mode: ", "\n  skipped.operations: "],
    );
    assert_eq!(Client::shared().status(&shop.name).await, None);
}

#[tokio::test]
async fn a_plugin_that_is_missing_is_told_with_those_that_are_there() {
    let shop = Shop::postgres().await;
    let args = ["--url", "mysql://ann:secret@127.0.0.1:1/shop", "--no-check", "--kafka", "127.0.0.1:1"];
    let output = shop.settle("register", &args);
    let parts =
        ["no plugin io.debezium.connector.mysql.MySqlConnector", "`plugin.path`", "mariadb.MariaDbConnector 3."];
    assert_said(&output, 5, &parts);
}

#[tokio::test]
async fn a_worker_that_is_away_or_is_something_else_is_told() {
    let shop = Shop::postgres().await;
    let away = ["no Connect worker answers at http://127.0.0.1:1 ", "--connect"];
    assert_said(&shop.settle_at("http://127.0.0.1:1", "status", &[]), 3, &away);
    let other = services::clickhouse().url.clone();
    assert_said(&shop.settle_at(&other, "status", &[]), 5, &["none of Connect's; is --connect its REST interface?"]);
    assert_said(&shop.settle_at("shop", "status", &[]), 2, &["--connect: not an http address"]);
}

#[tokio::test]
async fn a_connector_that_fails_is_told_with_its_reason() {
    let shop = Shop::postgres().await;
    let output = shop.register(&["--set", "publication.autocreate.mode=disabled"]);
    assert_said(&output, 5, &["is registered and has failed: ", "autocreation is disabled"]);
    assert_said(&shop.settle("status", &[]), 5, &["task 0: FAILED", "autocreation is disabled"]);
    let json = shop.settle("status", &["--report", "json"]);
    let status: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(status["tasks"][0]["state"], "FAILED");
}

#[tokio::test]
async fn a_snapshot_needs_a_connector_that_reads_signals() {
    let shop = Shop::postgres().await;
    let args = ["--url", "env:SHOP_URL", "--replication-factor", "1", "--tables", "orders"];
    assert_said(&shop.settle("register", &args), 0, &[]);
    let output = shop.settle("snapshot", &["--tables", "orders"]);
    assert_said(&output, 5, &["reads no signal table", "--signal TABLE", "CREATE TABLE debezium_signal"]);
    assert!(shop.rows("SELECT 1 FROM debezium_signal").await.is_empty());
}
