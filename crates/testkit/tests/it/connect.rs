//! What is written in a source database arrives as Debezium's records, also when the worker in between is killed.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use settle_testkit::connect::{Client, Config, Connector, Worker};
use settle_testkit::kafka::{Record, read_topic_until, unique};
use settle_testkit::{mariadb, postgres};

#[expect(clippy::expect_used, reason = "a record that is not JSON fails the test")]
fn json(bytes: Option<&Vec<u8>>) -> Value {
    bytes.map_or(Value::Null, |bytes| serde_json::from_slice(bytes).expect("a record of JSON"))
}

/// Operation and row of each record, in log order; a tombstone is two nulls.
fn changes(records: &[Record]) -> Vec<(Value, Value)> {
    let change = |record: &Record| {
        let envelope = json(record.payload.as_ref());
        (envelope["op"].clone(), envelope["after"].clone())
    };
    records.iter().map(change).collect()
}

fn of_key(records: &[Record], id: i64) -> Vec<Record> {
    records.iter().filter(|record| json(record.key.as_ref()) == json!({"id": id})).cloned().collect()
}

const WRITES: &str = "INSERT INTO orders VALUES (2, '20.00'); INSERT INTO orders VALUES (3, '3.00');\
                      UPDATE orders SET total = '21.50' WHERE id = 2; DELETE FROM orders WHERE id = 2;";

/// The snapshot's row, then the writes, each key in order.
fn assert_writes(records: &[Record]) {
    assert_eq!(changes(&of_key(records, 1)), [(json!("r"), json!({"id": 1, "total": "10.00"}))]);
    let second = [
        (json!("c"), json!({"id": 2, "total": "20.00"})),
        (json!("u"), json!({"id": 2, "total": "21.50"})),
        (json!("d"), Value::Null),
        (Value::Null, Value::Null),
    ];
    assert_eq!(changes(&of_key(records, 2)), second);
    assert_eq!(changes(&of_key(records, 3)), [(json!("c"), json!({"id": 3, "total": "3.00"}))]);
    assert_eq!(records.len(), 6);
}

#[tokio::test]
async fn what_is_written_in_postgres_arrives_in_kafka() {
    let (database, prefix) = (postgres::Database::create("source").await, unique("pg"));
    database
        .execute("CREATE TABLE orders (id int PRIMARY KEY, total numeric(10,2)); INSERT INTO orders VALUES (1, 10)")
        .await;
    let connector = Connector::start(&prefix, &Config::postgres(&database, &prefix)).await;
    let topic = format!("{prefix}.public.orders");
    read_topic_until(&topic, |records| records.len() == 1).await;

    database.execute(WRITES).await;
    assert_writes(&read_topic_until(&topic, |records| records.len() >= 6).await);

    drop(connector);
    assert_eq!(Client::shared().status(&prefix).await, None);
}

#[tokio::test]
async fn what_is_written_in_mariadb_arrives_in_kafka() {
    let (database, prefix) = (mariadb::Database::create("source").await, unique("maria"));
    database
        .execute("CREATE TABLE orders (id int PRIMARY KEY, total decimal(10,2)); INSERT INTO orders VALUES (1, 10)")
        .await;
    let _connector = Connector::start(&prefix, &Config::mariadb(&database, &prefix)).await;
    let topic = format!("{prefix}.{}.orders", database.name());
    read_topic_until(&topic, |records| records.len() == 1).await;

    database.execute(WRITES).await;
    assert_writes(&read_topic_until(&topic, |records| records.len() >= 6).await);
}

#[tokio::test]
async fn a_killed_worker_goes_on_where_it_was() {
    let (database, prefix) = (postgres::Database::create("killed").await, unique("killed"));
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)").await;
    let topic = format!("{prefix}.public.orders");
    let insert = |from: i64| {
        let sql = format!("INSERT INTO orders SELECT generate_series({from}, {})", from + 99);
        let database = &database;
        async move { database.execute(&sql).await }
    };
    let ids = |records: &[Record]| -> BTreeSet<i64> {
        records.iter().filter_map(|record| json(record.payload.as_ref())["after"]["id"].as_i64()).collect()
    };

    let mut worker = Worker::start().await;
    worker.client().register(&prefix, &Config::postgres(&database, &prefix)).await;
    insert(1).await;
    read_topic_until(&topic, |records| ids(records).len() == 100).await;
    for round in 1..=2 {
        insert(round * 200 - 99).await; // on its way, or not, when the worker dies
        worker.kill();
        assert_eq!(worker.client().delete(&prefix).await.map_err(|refused| refused.status), Err(0));
        insert(round * 200 + 1).await;
        worker.restart().await;
        let wanted: BTreeSet<i64> = (1..=round * 200 + 100).collect();
        read_topic_until(&topic, |records| ids(records) == wanted).await;
    }
}

#[tokio::test]
async fn a_failed_connector_is_reported_with_its_reason() {
    let (database, prefix) = (postgres::Database::create("failed").await, unique("failed"));
    let config = Config::postgres(&database, &prefix).with("publication.autocreate.mode", "disabled");
    let refused = tokio::spawn(async move {
        let _connector = Connector::start(&prefix, &config).await;
    });
    let panic = refused.await.expect_err("no publication").into_panic();
    let text = panic.downcast_ref::<String>().expect("a message");
    assert!(text.contains("autocreation is disabled"), "{text}");
}
