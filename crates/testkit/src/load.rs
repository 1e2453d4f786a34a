//! A log of any length, as Debezium would write it for one table of orders: for benchmarks, and for tests that need many records.
//!
//! Deterministic by its seed. Half of the events are inserts, two fifths updates, the rest deletes with their tombstones; every
//! key stays in its partition.

use std::fmt::Write as _;

use crate::kafka::Record;

/// What the log should be like.
#[derive(Debug, Clone)]
pub struct Load {
    /// Name of the topic in its records.
    pub topic: String,
    /// Partitions.
    pub partitions: u64,
    /// Records, tombstones among them.
    pub records: u64,
    /// Wrap every record in its Connect schema, as the JSON converter does by default.
    pub schemas: bool,
}

/// The records of a load, in order of the source.
pub struct Records {
    load: Load,
    made: u64,
    lsn: u64,
    next_id: u64,
    random: u64,
    tombstone: Option<u64>,
    note: String,
}

/// A column: name, Connect type.
const COLUMNS: [(&str, &str); 8] = [
    ("id", r#""type":"int64","optional":false"#),
    ("customer_id", r#""type":"int64","optional":true"#),
    ("status", r#""type":"string","optional":true"#),
    ("amount", r#""type":"string","optional":true"#),
    ("quantity", r#""type":"int32","optional":true"#),
    ("express", r#""type":"boolean","optional":true"#),
    ("ordered_at", r#""type":"int64","optional":true,"name":"io.debezium.time.MicroTimestamp","version":1"#),
    ("note", r#""type":"string","optional":true"#),
];

const STATUS: [&str; 4] = ["new", "paid", "shipped", "returned"];

impl Load {
    /// Its records.
    pub fn records(&self) -> Records {
        Records {
            load: self.clone(),
            made: 0,
            lsn: 1 << 24,
            next_id: 1,
            random: 0x5EED,
            tombstone: None,
            note: "left at the door, ring twice; ".repeat(8),
        }
    }
}

impl Records {
    fn random(&mut self) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn record(&self, id: u64, payload: Option<String>) -> Record {
        let partition = i32::try_from(id % self.load.partitions).expect("a few partitions");
        let key = if self.load.schemas {
            format!(
                r#"{{"schema":{{"type":"struct","fields":[{{"field":"id",{}}}],"optional":false,"name":"{}.Key"}},"payload":{{"id":{id}}}}}"#,
                COLUMNS[0].1, self.load.topic
            )
        } else {
            format!(r#"{{"id":{id}}}"#)
        };
        Record::new(&self.load.topic, partition, Some(&key), payload.as_deref())
    }

    fn envelope(&mut self, op: &str, id: u64) -> String {
        self.lsn += 96;
        let (lsn, before, ts) = (self.lsn, self.lsn - 48, 1_700_000_000_000 + self.made);
        let after = if op == "d" {
            "null".to_owned()
        } else {
            let random = self.random();
            let status = STATUS[usize::try_from(random % 4).expect("below 4")];
            format!(
                r#"{{"id":{id},"customer_id":{},"status":"{status}","amount":"{}.{:02}","quantity":{},"express":{},"ordered_at":{},"note":"{}"}}"#,
                random % 100_000,
                random % 1_000,
                random % 100,
                1 + random % 9,
                random.is_multiple_of(5),
                ts * 1_000,
                &self.note[..usize::try_from(random % 200).expect("below 200")],
            )
        };
        let envelope = format!(
            r#"{{"before":null,"after":{after},"source":{{"version":"3.6.1.Final","connector":"postgresql","name":"shop","ts_ms":{ts},"snapshot":"false","db":"shop","sequence":"[\"{before}\",\"{lsn}\"]","schema":"public","table":"orders","txId":{id},"lsn":{lsn},"xmin":null}},"transaction":null,"op":"{op}","ts_ms":{ts}}}"#
        );
        if self.load.schemas { self.wrapped(&envelope) } else { envelope }
    }

    fn wrapped(&self, envelope: &str) -> String {
        let mut fields = String::new();
        for (name, kind) in COLUMNS {
            let comma = if fields.is_empty() { "" } else { "," };
            write!(fields, r#"{comma}{{{kind},"field":"{name}"}}"#).expect("memory");
        }
        let row = |side: &str| {
            let name = &self.load.topic;
            format!(r#"{{"type":"struct","fields":[{fields}],"optional":true,"name":"{name}.Value","field":"{side}"}}"#)
        };
        format!(
            r#"{{"schema":{{"type":"struct","fields":[{},{}],"optional":false,"name":"{}.Envelope"}},"payload":{envelope}}}"#,
            row("before"),
            row("after"),
            self.load.topic
        )
    }
}

impl Iterator for Records {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.made == self.load.records {
            return None;
        }
        self.made += 1;
        if let Some(id) = self.tombstone.take() {
            return Some(self.record(id, None));
        }
        let choice = self.random() % 100;
        // Rows of the last half million ids are changed: a table in use, larger than any batch.
        let recent = self.next_id.min(500_000);
        if choice < 52 || recent < 10 {
            let id = self.next_id;
            self.next_id += 1;
            let value = self.envelope("c", id);
            return Some(self.record(id, Some(value)));
        }
        let id = self.next_id - 1 - self.random() % (recent - 1);
        let op = if choice < 94 { "u" } else { "d" };
        self.tombstone = (op == "d").then_some(id);
        let value = self.envelope(op, id);
        Some(self.record(id, Some(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> Load {
        Load { topic: "shop.public.orders".to_owned(), partitions: 3, records: 500, schemas: true }
    }

    #[test]
    fn a_load_is_the_same_each_time_and_has_as_many_records_as_were_asked_for() {
        let (once, again): (Vec<_>, Vec<_>) = (load().records().collect(), load().records().collect());
        assert_eq!(once.len(), 500);
        assert_eq!(once, again);
        assert!(once.iter().any(|record| record.payload.is_none()), "it deletes");
    }

    #[test]
    fn every_value_is_json() {
        for schemas in [true, false] {
            for record in (Load { schemas, ..load() }).records() {
                for text in [&record.key, &record.payload].into_iter().flatten() {
                    serde_json::from_slice::<serde_json::Value>(text).expect("JSON");
                }
            }
        }
    }
}
