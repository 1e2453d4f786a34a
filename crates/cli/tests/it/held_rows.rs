//! Rows with a dead letter, and later records of them that leave columns out: what stands on the
//! dead letter follows it, and comes back behind it.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use settle_testkit::kafka::{self, Record};

use crate::child::{Running, until};
use crate::dead_letters::{Line, Pairs};
use crate::ends;

/// What PostgreSQL's connector sends for a value that did not change and was not read.
const UNSENT: &str = "__debezium_unavailable_value";

fn record(id: u64, n: i64, note: &str, lsn: u64) -> (Option<String>, Option<String>) {
    let value = json!({
        "op": "u", "before": null, "after": {"id": id, "n": n, "note": note},
        "source": {"connector": "postgresql", "name": "srv", "db": "shop", "schema": "public", "table": "t",
                   "ts_ms": 1_700_000_000_000_u64, "lsn": lsn, "sequence": format!("[\"{lsn}\",\"{lsn}\"]")},
    });
    (Some(json!({"id": id}).to_string()), Some(value.to_string()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_on_a_dead_letter_comes_back_behind_it() {
    for into_clickhouse in [false, true] {
        let mut pairs: Pairs = vec![
            record(1, 10, "old", 10),
            record(1, 3_000_000_000, "new", 20),
            // Its note is the dead letter's, not the one that the destination has.
            record(1, 12, UNSENT, 30),
            record(2, 20, "other", 40),
        ];
        let line = Line::with_texts(into_clickhouse, &pairs, &["note"]).await;
        line.one_by_one();
        assert_eq!(line.run().dead_lettered, 2);
        let old = json!([{"id": "1", "n": "10", "note": "old"}, {"id": "2", "n": "20", "note": "other"}]);
        assert_eq!(line.rows().await, old);
        let letters = line.letters();
        assert_eq!(letters[1]["class"], "follows-a-dead-letter", "{letters:?}");
        // What follows cannot come first, however the letters are chosen.
        let (code, said) = line.dlq(&["retry", "shop:0:2"]);
        assert_eq!(code, 5, "{said}");
        assert!(said.contains("stays: shop:0:2: it leaves out columns") && said.contains("shop:0:1"), "{said}");
        let (code, said) = line.dlq(&["retry"]);
        assert!(code == 5 && said.starts_with("retried 0 of 2"), "the table is not mended: {said}");
        assert_eq!(line.rows().await, old);
        line.mend().await;
        let (code, said) = line.dlq(&["retry"]);
        assert!(code == 0 && said.starts_with("retried 2 of 2"), "{said}");
        let new = json!([{"id": "1", "n": "12", "note": "new"}, {"id": "2", "n": "20", "note": "other"}]);
        assert_eq!(line.rows().await, new);
        // The row is not held any more.
        pairs.push(record(1, 13, UNSENT, 50));
        line.capture(&pairs);
        assert_eq!(line.run().dead_lettered, 0);
        let newer = json!([{"id": "1", "n": "13", "note": "new"}, {"id": "2", "n": "20", "note": "other"}]);
        assert_eq!(line.rows().await, newer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_hears_that_a_retry_beside_it_has_lifted_a_hold() {
    for into_clickhouse in [false, true] {
        let topic = kafka::unique("held");
        kafka::create_topic(&topic, 1, &[]).await;
        let source = ends::kafka(&topic, &[&topic]);
        let line = Line::new(into_clickhouse, &source, "path = \"dead.jsonl\"", &["note"]).await;
        line.one_by_one();
        let produce = async |pairs: Pairs| {
            let record = |(key, value): &(Option<String>, Option<String>)| {
                Record::new(&topic, 0, key.as_deref(), value.as_deref())
            };
            kafka::produce(pairs.iter().map(record).collect::<Vec<_>>()).await;
        };
        let run = Running::start(&line.stage, &[]);
        let until_letters = async |count: usize| {
            until("letters", async || line.letters(), |letters: &Vec<Value>| letters.len() == count).await;
        };
        produce(vec![record(1, 10, "old", 10), record(1, 3_000_000_000, "new", 20), record(1, 12, UNSENT, 30)]).await;
        until_letters(2).await;
        line.mend().await;
        // What follows is not in the destination yet, so the row stays held.
        let (code, said) = line.dlq(&["retry", &format!("{topic}:0:1")]);
        assert!(code == 0 && said.starts_with("retried 1 of 1"), "{said}");
        produce(vec![record(1, 13, UNSENT, 40)]).await;
        until_letters(2).await;
        let (code, said) = line.dlq(&["retry"]);
        assert!(code == 0 && said.starts_with("retried 2 of 2"), "{said}");
        produce(vec![record(1, 14, UNSENT, 50), record(2, 20, "other", 60)]).await;
        let is_read = |rows: &Value| rows.as_array().is_some_and(|rows| rows.len() == 2);
        let rows = until("the last row", async || line.rows().await, is_read).await;
        let wanted = json!([{"id": "1", "n": "14", "note": "new"}, {"id": "2", "n": "20", "note": "other"}]);
        assert_eq!((rows, line.letters()), (wanted, vec![]));
        run.signal(Signal::SIGTERM);
        let (status, report) = run.wait();
        assert_eq!((status.code(), report.dead_lettered), (Some(130), 3), "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_on_a_dropped_letter_is_not_applied_and_its_row_stays_held_until_it_is_whole() {
    for into_clickhouse in [false, true] {
        let mut pairs: Pairs =
            vec![record(1, 10, "old", 10), record(1, 3_000_000_000, "new", 20), record(1, 12, UNSENT, 30)];
        let line = Line::with_texts(into_clickhouse, &pairs, &["note"]).await;
        line.one_by_one();
        assert_eq!(line.run().dead_lettered, 2);
        let old = json!([{"id": "1", "n": "10", "note": "old"}]);
        assert_eq!(line.dlq(&["drop", "shop:0:1", "--yes"]).0, 0);
        // A row of 12 and "old" never was.
        let (code, said) = line.dlq(&["retry"]);
        assert!(code == 5 && said.contains("shop:0:1") && said.contains("was dropped"), "{said}");
        assert_eq!(line.rows().await, old);
        assert_eq!(line.dlq(&["drop", "--yes", "shop:0:2"]).0, 0);
        pairs.push(record(1, 13, UNSENT, 40));
        line.capture(&pairs);
        assert_eq!(line.run().dead_lettered, 1, "still nobody knows the note");
        // A whole row mends it, as a dead letter that is retried, too.
        line.dlq(&["drop", "--yes", "shop:0:3"]);
        pairs.extend([record(1, 4_000_000_000, "newest", 50), record(1, 15, UNSENT, 60)]);
        line.capture(&pairs);
        assert_eq!(line.run().dead_lettered, 2);
        line.mend().await;
        let (code, said) = line.dlq(&["retry"]);
        assert!(code == 0 && said.starts_with("retried 2 of 2"), "{said}");
        pairs.push(record(1, 16, UNSENT, 70));
        line.capture(&pairs);
        assert_eq!(line.run().dead_lettered, 0);
        assert_eq!(line.rows().await, json!([{"id": "1", "n": "16", "note": "newest"}]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_on_a_letter_that_is_not_in_the_queue_any_more_is_not_applied() {
    let pairs: Pairs = vec![record(1, 10, "old", 10), record(1, 3_000_000_000, "new", 20), record(1, 12, UNSENT, 30)];
    let line = Line::with_texts(false, &pairs, &["note"]).await;
    line.one_by_one();
    assert_eq!(line.run().dead_lettered, 2);
    line.mend().await;
    let queue = line.stage.path("dead.jsonl");
    let kept = std::fs::read_to_string(&queue).unwrap();
    let follower = kept.lines().nth(1).unwrap();
    std::fs::write(&queue, format!("{follower}\n")).unwrap();
    // A row of 12 and "old" never was.
    let (code, said) = line.dlq(&["retry"]);
    assert!(code == 5 && said.contains("shop:0:1") && said.contains("not in the queue any more"), "{said}");
    assert_eq!(line.rows().await, json!([{"id": "1", "n": "10", "note": "old"}]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_does_not_guess_what_the_run_refused() {
    for into_clickhouse in [false, true] {
        let (_, value) = record(2, 20, "no key", 20);
        let pairs = vec![record(1, 10, "a", 10), (None, value), record(3, 30, "b", 30)];
        let line = Line::with_texts(into_clickhouse, &pairs, &["note"]).await;
        assert_eq!(line.run().dead_lettered, 1);
        let rows = line.rows().await;
        let (code, said) = line.dlq(&["retry"]);
        assert!(code == 5 && said.contains("stays: shop:0:1: "), "{said}");
        assert_eq!((line.rows().await, line.letters().len()), (rows, 1));
    }
}

/// What is read from a queue of many letters may be cut short by its reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_may_be_read_halfway() {
    let pairs: Pairs = (0..600).map(|id| (Some(json!({ "id": id }).to_string()), Some("no json".to_owned()))).collect();
    let line = Line::with_texts(false, &pairs, &[]).await;
    assert_eq!(line.run().dead_lettered, 600);
    let (_, said) = line.dlq(&["ls"]);
    assert!(said.contains("… and 550 more (--limit)") && said.contains("600 dead letters: 600 not-json"), "{said}");
    assert_eq!(line.letters().len(), 600, "as JSON all of them");
    let (_, said) = line.dlq(&["ls", "--json", "--limit", "3"]);
    assert_eq!(said.lines().count(), 3);
    let mut child = line.stage.settle(&["dlq", "ls", "--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
