//! Writes a generated log into a topic, which it makes, or prints it as a capture: `settle-load TOPIC RECORDS [--schemas] [--capture]`.
//! With `--drop` it removes the topic and the database of that name.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a tool of the workspace: printing is its output")]

use std::env;
use std::io::{BufWriter, Write};

use settle_testkit::load::Load;
use settle_testkit::{clickhouse, kafka};

const PARTITIONS: i32 = 3;
const CHUNK: usize = 20_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut words = env::args().skip(1).filter(|word| !word.starts_with("--"));
    let has = |flag: &str| env::args().any(|word| word == flag);
    let topic = words.next().expect("usage: settle-load TOPIC RECORDS [--schemas] [--capture]");
    if has("--drop") {
        clickhouse::Client::new().query(&format!("DROP DATABASE IF EXISTS `{topic}`")).await;
        return kafka::delete_topic(&topic).await;
    }
    let records = words.next().and_then(|text| text.parse().ok()).expect("the number of records");
    let load =
        Load { topic: topic.clone(), partitions: PARTITIONS.unsigned_abs().into(), records, schemas: has("--schemas") };
    let mut records = load.records();
    if has("--capture") {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let mut next = [0_i64; PARTITIONS.unsigned_abs() as usize];
        for record in records {
            let offset = &mut next[usize::try_from(record.partition).expect("a partition")];
            let text =
                |bytes: &Option<Vec<u8>>| bytes.as_deref().map(String::from_utf8_lossy).map(Into::<String>::into);
            let line = serde_json::json!({
                "topic": record.topic, "partition": record.partition, "offset": *offset, "ts": 1_700_000_000_000_i64,
                "headers": [], "key": text(&record.key), "payload": text(&record.payload),
            });
            writeln!(out, "{line}").expect("standard output");
            *offset += 1;
        }
        out.flush().expect("standard output");
        return;
    }
    kafka::create_topic(&topic, PARTITIONS, &[]).await;
    loop {
        let chunk: Vec<_> = records.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        kafka::produce(chunk).await;
    }
}
