//! `settle explain` where the record that wins is not in the destination: it names the truncate, or
//! the dead letter, that is the reason.

use serde_json::json;

use crate::dead_letters::{Line, Pairs};

const UNSENT: &str = "__debezium_unavailable_value";

fn source(lsn: u64) -> serde_json::Value {
    json!({"connector": "postgresql", "name": "srv", "db": "shop", "schema": "public", "table": "t",
           "ts_ms": 1_700_000_000_000_u64, "lsn": lsn, "sequence": format!("[\"{lsn}\",\"{lsn}\"]")})
}

fn record(id: u64, n: i64, note: &str, lsn: u64) -> (Option<String>, Option<String>) {
    let value = json!({"op": "u", "before": null, "after": {"id": id, "n": n, "note": note}, "source": source(lsn)});
    (Some(json!({"id": id}).to_string()), Some(value.to_string()))
}

fn truncate(lsn: u64) -> (Option<String>, Option<String>) {
    (None, Some(json!({"op": "t", "before": null, "after": null, "source": source(lsn)}).to_string()))
}

fn explain(line: &Line, id: u64) -> String {
    let key = json!({ "id": id }).to_string();
    let (code, text) = line.stage.said(&["explain", "--table", "public.t", "--key", &key]);
    assert_eq!(code, 0, "{text}");
    text
}

fn assert_told(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_a_truncate_emptied_is_explained_by_it() {
    for into_clickhouse in [false, true] {
        let mut pairs: Pairs =
            vec![record(1, 10, "a", 10), truncate(20), record(2, 20, "b", 30), truncate(40), record(3, 30, "c", 50)];
        let line = Line::with_texts(into_clickhouse, &pairs, &["note"]).await;
        line.one_by_one();
        line.stage.run(&["--max-messages", "3"]);
        assert_told(&explain(&line, 1), &["shop:0:0 u", ": wins\n", "the truncate shop:0:3 emptied its table"]);
        // It is in the log, and was not applied.
        assert_told(
            &explain(&line, 2),
            &["the destination has a row", "the truncate shop:0:3 removes it, and was not applied"],
        );
        line.run();
        for gone in [1, 2] {
            let text = explain(&line, gone);
            assert_told(&text, &["the destination ", " nothing of it: the truncate shop:0:3 emptied its table"]);
            assert!(!text.contains("by hand"), "{text}");
        }
        assert_told(&explain(&line, 3), &["the destination has a row", ": as the log says"]);
        // What came behind it is there again.
        pairs.push(record(1, 11, "d", 60));
        line.capture(&pairs);
        line.run();
        assert_told(&explain(&line, 1), &["the destination has a row", ": as the log says"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_whose_records_are_dead_letters_is_explained_by_them() {
    for into_clickhouse in [false, true] {
        let torn = (Some(json!({"id": 1}).to_string()), Some("no json".to_owned()));
        let lost = (Some(json!({"id": 9}).to_string()), Some("no json".to_owned()));
        let pairs: Pairs = vec![
            record(1, 10, "old", 10),
            torn,
            record(1, 12, UNSENT, 30),
            record(2, 3_000_000_000, "big", 40),
            lost,
            record(3, 30, "c", 50),
        ];
        let line = Line::with_texts(into_clickhouse, &pairs, &["note"]).await;
        line.one_by_one();
        assert_eq!(line.run().dead_lettered, 4);
        let class = if into_clickhouse { "value" } else { "constraint" };
        assert_told(
            &explain(&line, 1),
            &[
                "dead letter shop:0:1 (not-json), open\n",
                "dead letter shop:0:2 (follows-a-dead-letter), open\n",
                "the row is held since shop:0:1",
                "the destination has a row",
                "older than the log: the record that wins was set aside (follows-a-dead-letter)",
                "settle dlq retry shop:0:1 shop:0:2",
            ],
        );
        let text = explain(&line, 2);
        assert_told(
            &text,
            &[&format!("nothing of it: the record that wins was set aside ({class})"), "retry shop:0:3\n"],
        );
        let whole = explain(&line, 3);
        assert!(!whole.contains("dead letter") && !whole.contains("held"), "{whole}");
        let (code, asked) = line.stage.said(&["explain", "shop:0:1"]);
        assert_eq!(code, 0, "{asked}");
        assert_told(&asked, &["a run would refuse it", "dead letter shop:0:1 (not-json), open"]);
        let (code, none) = line.stage.said(&["explain", "--table", "public.t", "--key", "{\"id\":9}"]);
        assert_eq!(code, 5, "{none}");
        assert_told(&none, &["no record of that row that can be read", "dead letter shop:0:4 (not-json), open"]);

        line.mend().await;
        assert_eq!(line.dlq(&["retry", "shop:0:3"]).0, 0);
        assert_told(&explain(&line, 2), &["dead letter shop:0:3", "retried", "a row", ": as the log says"]);
        assert_eq!(line.dlq(&["drop", "--yes", "shop:0:1", "shop:0:2"]).0, 0);
        assert_told(
            &explain(&line, 1),
            &["shop:0:2 (follows-a-dead-letter), dropped", "its dead letter dropped; a later record"],
        );
    }
}
