//! What the log says: of a key, for the message of a failed comparison; of snapshots, as a proof that they
//! were taken while others wrote.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use settle_testkit::kafka::{Isolation, Record, read_topic};

/// The records of a topic.
pub struct Log {
    topic: String,
    records: Vec<Record>,
}

impl Log {
    pub async fn read(topic: &str) -> Self {
        Self { topic: topic.to_owned(), records: read_topic(topic, Isolation::ReadCommitted).await }
    }

    /// Changes that were streamed.
    pub fn streamed(&self) -> usize {
        let is_change = |record: &&Record| matches!(payload(record)["op"].as_str(), Some("c" | "u" | "d"));
        self.records.iter().filter(is_change).count()
    }

    /// How many rows with a negative key were inserted, as it was streamed.
    pub fn marks(&self, key: &str) -> usize {
        let mark = |record: &Record| {
            let envelope = payload(record);
            let key = envelope["after"][key].as_i64().filter(|key| *key < 0)?;
            (envelope["op"] == "c").then_some(key)
        };
        self.records.iter().filter_map(mark).collect::<HashSet<_>>().len()
    }

    /// Rows that an incremental snapshot read.
    pub fn incremental(&self) -> usize {
        self.records.iter().filter(|record| snapshot(&payload(record)).as_deref() == Some("incremental")).count()
    }

    /// Rows that a blocking snapshot read: those of a full one behind a streamed change in their partition.
    /// Of them, and of the changes streamed behind the first of them in its partition.
    pub fn blocking(&self) -> (usize, usize) {
        let mut state = std::collections::HashMap::<i32, (bool, bool)>::new();
        let (mut read, mut behind) = (0, 0);
        for record in &self.records {
            let envelope = payload(record);
            let (streamed, again) = state.entry(record.partition).or_default();
            match (envelope["op"].as_str(), snapshot(&envelope).as_deref()) {
                (Some("r"), Some("incremental")) | (None, _) => {}
                (Some("r"), _) if *streamed => {
                    *again = true;
                    read += 1;
                }
                (Some("r"), _) => {}
                _ => {
                    *streamed = true;
                    behind += usize::from(*again);
                }
            }
        }
        (read, behind)
    }

    /// The records of one key, a line each: place, position at the source, and what it carries of these
    /// columns; of all where none is named.
    pub fn of_key(&self, key: &[(&str, &str)], columns: &[String]) -> String {
        let mut text = String::new();
        for record in self.records.iter().filter(|record| has_key(record, key)) {
            let mut envelope = payload(record);
            if let Some(row) = envelope["after"].as_object_mut().filter(|_| !columns.is_empty()) {
                row.retain(|column, _| columns.contains(column));
            }
            let source = &envelope["source"];
            let position: Vec<String> = ["snapshot", "ts_ms", "sequence", "lsn", "txId", "file", "pos", "row"]
                .iter()
                .filter(|name| !source[**name].is_null())
                .map(|name| format!("{name}={}", source[*name]))
                .collect();
            let _ = writeln!(
                text,
                "    {}:{} op={} {} after={:.600}",
                record.partition,
                record.offset.unwrap_or(-1),
                envelope["op"],
                position.join(" "),
                envelope["after"].to_string()
            );
        }
        text
    }

    /// Writes the log as `kcat -J` prints it, so that the failure can be looked at again.
    pub fn keep(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chain");
        let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let line = |record: &Record| {
            let headers: Vec<Option<String>> =
                record.headers.iter().flat_map(|(name, value)| [Some(name.clone()), text(value)]).collect();
            json!({"topic": record.topic, "partition": record.partition, "offset": record.offset, "tstype": "create",
                "ts": record.timestamp_ms, "broker": 1, "headers": headers, "key": text(&record.key),
                "payload": text(&record.payload)})
            .to_string()
                + "\n"
        };
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{}.jsonl", self.topic));
        std::fs::write(&path, self.records.iter().map(line).collect::<String>()).unwrap();
        path
    }
}

/// The value without the schema around it; null for a tombstone.
fn payload(record: &Record) -> Value {
    record.payload.as_ref().map_or(Value::Null, |bytes| unwrapped(bytes))
}

fn unwrapped(bytes: &[u8]) -> Value {
    let mut value: Value = serde_json::from_slice(bytes).unwrap();
    match value.get_mut("payload") {
        Some(payload) => payload.take(),
        None => value,
    }
}

/// The mark of a snapshot; none for what was streamed.
fn snapshot(envelope: &Value) -> Option<String> {
    envelope["source"]["snapshot"].as_str().map(str::to_owned).filter(|mark| mark != "false")
}

fn has_key(record: &Record, key: &[(&str, &str)]) -> bool {
    let Some(found) = record.key.as_ref().map(|bytes| unwrapped(bytes)) else { return false };
    key.iter().all(|(name, value)| found[*name].to_string().trim_matches('"') == *value)
}
