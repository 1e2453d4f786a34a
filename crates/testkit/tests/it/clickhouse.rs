//! The client's answers and errors, and databases apart from each other.

use serde_json::json;
use settle_testkit::clickhouse::Client;

#[tokio::test]
async fn rows_numbers_and_json_are_exact() {
    let client = Client::with_fresh_database("client").await;
    client.query("CREATE TABLE t (id UInt64, v UInt128, s Nullable(String)) ENGINE = MergeTree ORDER BY id").await;
    let data = b"{\"id\":1,\"v\":\"340282366920938463463374607431768211455\",\"s\":null}".to_vec();
    client.insert("INSERT INTO t FORMAT JSONEachRow", data).await.unwrap();
    client.query("INSERT INTO t VALUES (2, 0, 'a\tb')").await;

    assert_eq!(client.number("SELECT count() FROM t").await, 2);
    let rows = client.rows("SELECT id, s FROM t ORDER BY id").await;
    assert_eq!(rows, [["1", "\\N"], ["2", "a\\tb"]]);
    let read = client.json("SELECT * FROM t ORDER BY id LIMIT 1").await;
    let greatest = u128::MAX.to_string();
    assert_eq!(read, [json!({"id": "1", "v": greatest, "s": null})]);
}

#[tokio::test]
async fn an_error_has_its_code_status_and_text() {
    let failure = Client::new().try_query("SELECT * FROM nowhere").await.unwrap_err();
    assert_eq!((failure.status, failure.code), (404, Some(60)));
    assert!(failure.text.starts_with("Code: 60. DB::Exception: "), "{failure}");
}

#[tokio::test]
async fn a_fresh_database_is_persistent_and_apart() {
    let (one, two) = (Client::with_fresh_database("apart").await, Client::with_fresh_database("apart").await);
    for client in [&one, &two] {
        client.query("CREATE TABLE t (n UInt8) ENGINE = MergeTree ORDER BY n").await;
    }
    one.query("INSERT INTO t VALUES (1)").await;
    assert_eq!(two.number("SELECT count() FROM t").await, 0);
    let engine = one.query("SELECT engine FROM system.databases WHERE name = currentDatabase()").await;
    assert_eq!(engine, "Atomic\n");
}
