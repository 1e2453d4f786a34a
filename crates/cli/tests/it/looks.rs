//! `settle status`, `settle explain` and `settle replay`, on a recorded log and on the real services.

use rusqlite::Connection;
use serde_json::Value;

use crate::live::Live;
use crate::shop::shop;
use crate::stage::Stage;

fn json(stage: &Stage) -> Value {
    let (code, text) = stage.said(&["status", "--json"]);
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn settled() -> Stage {
    let (shop, stage) = (shop("pg-hazards", "shop.public.customers"), Stage::new());
    stage.capture_into_sqlite(&shop, &shop.lines(), 7);
    stage.run(&["--until-end"]);
    stage
}

#[test]
fn status_of_a_settled_capture() {
    let stage = settled();
    let (code, text) = stage.said(&["status"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    insta::assert_snapshot!(text);
    let status = json(&stage);
    assert_eq!(status["source"]["lag"], 0);
    assert_eq!(status["destination"]["tables"][0]["rows"], 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_tells_the_lag_and_shows_one_end_where_the_other_is_away() {
    let shop = shop("pg-hazards", "shop.public.orders");
    let live = Live::of(shop, &shop.lines(), "max_rows = 7").await;
    live.stage.run(&["--max-messages", "5"]);
    let status = json(&live.stage);
    let ends: i64 = live.ends().await.iter().sum();
    assert_eq!(status["source"]["lag"], ends - 5, "{status}");
    assert_eq!(status["dead_letters"], Value::Null);
    live.stage.reconfigure(&live.database.address().url, "http://127.0.0.1:1");
    let (code, text) = live.stage.said(&["status"]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("destination: NOT REACHED") && text.contains("behind"), "{text}");
}

#[test]
fn a_row_is_explained_by_its_key_and_by_one_of_its_records() {
    let stage = settled();
    let (code, by_key) = stage.said(&["explain", "--table", "public.customers", "--key", "{\"customer_id\":2}"]);
    assert_eq!(code, 0, "{by_key}");
    insta::assert_snapshot!(by_key);
    let place = by_key.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert_eq!(stage.said(&["explain", place]), (0, by_key.clone()));
    assert!(!by_key.contains("DURING-INC"), "no values unasked");
    let (_, with) = stage.said(&["explain", place, "--values"]);
    assert!(with.contains("DURING-INC"), "{with}");
    let (code, none) = stage.said(&["explain", "--table", "public.customers", "--key", "{\"customer_id\":77777}"]);
    assert_eq!((code, none.as_str()), (5, "the log has no record of that row\n"));
    for (table, key, why) in [
        (
            "customers",
            "{\"customer_id\":2}",
            "it has no row of table customers; did you mean public.customers? Its tables are ",
        ),
        ("public.customer", "{\"customer_id\":2}", "did you mean public.customers? "),
        (
            "public.customers",
            "{\"customer_idd\":2}",
            "the keys of public.customers have the form {\"customer_id\":<number>}\n",
        ),
        (
            "public.customers",
            "{\"customer_id\":\"2\"}",
            "the keys of public.customers have the form {\"customer_id\":<number>}\n",
        ),
    ] {
        let (code, told) = stage.said(&["explain", "--table", table, "--key", key]);
        assert!(code == 5 && told.contains(why), "{told}");
    }
    let (code, told) = stage.said(&["explain", "--table", "public.customers", "--key", "2"]);
    assert!(code == 2 && told.contains("--key is not the JSON object of a key"), "{told}");
}

#[test]
fn a_replay_brings_back_what_was_lost_and_moves_no_offset() {
    let stage = settled();
    let offsets = std::fs::read_to_string(stage.path("capture.jsonl.g.offsets")).unwrap();
    let database = || Connection::open(stage.path("shop.db")).unwrap();
    assert_eq!(database().execute("DELETE FROM customers WHERE customer_id = 2", []).unwrap(), 1);
    let (_, told) = stage.said(&["explain", "--table", "public.customers", "--key", "{\"customer_id\":2}"]);
    assert!(told.contains("the destination has nothing of it"), "{told}");
    let winner = told.lines().find(|line| line.ends_with("wins")).unwrap();
    let place = winner.split_whitespace().next().unwrap();
    let (code, text) = stage.said(&["replay", "--from", place, "--to", place]);
    assert_eq!(code, 0, "{text}");
    let count: i64 =
        database().query_row("SELECT count(*) FROM customers WHERE customer_id = 2", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
    let (code, text) = stage.said(&["replay", "--since", "2020-01-01T00:00:00Z", "--report", "json"]);
    assert!(code == 0 && text.contains("\"applied\":0"), "{text}");
    assert_eq!(std::fs::read_to_string(stage.path("capture.jsonl.g.offsets")).unwrap(), offsets);
    let (code, text) = stage.said(&["replay", "--from", "shop.public.customers:0:99999"]);
    assert_eq!(code, 2, "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_of_a_kafka_partition_leaves_clickhouse_as_it_is() {
    let shop = shop("pg-hazards", "shop.public.orders");
    let live = Live::of(shop, &shop.lines(), "").await;
    live.stage.run(&["--until-end"]);
    let (rows, committed) = (live.table().await, live.committed().await);
    let (code, text) = live.stage.said(&["replay", "--from", &format!("{}:0:0", live.topic)]);
    assert_eq!(code, 0, "{text}");
    assert_eq!((live.table().await, live.committed().await), (rows.clone(), committed.clone()));
    let (code, text) = live.stage.said(&["replay", "--since", "2020-01-01T00:00:00Z", "--report", "json"]);
    assert_eq!(code, 0, "{text}");
    let all: i64 = live.ends().await.iter().sum();
    assert!(text.contains(&format!("\"read\":{all},")), "every partition is replayed: {text}");
    assert_eq!((live.table().await, live.committed().await), (rows, committed));
}
