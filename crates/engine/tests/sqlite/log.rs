//! A log as Debezium writes it, made by hand, and the line that turns it into batches.

use std::collections::HashMap;

use serde_json::{Value, json};
use settle_core::batch::Batch;
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::{Offset, Partition};
use settle_core::record::{Header, Record};
use settle_core::version::Floor;

/// The marker of a value that was not sent.
pub const UNSENT: &str = "__debezium_unavailable_value";

/// A topic of one PostgreSQL table, `public.<table>`, whose key is `id` unless told otherwise.
pub struct Log {
    pub table: String,
    pub topic: String,
    pub server: String,
    /// Fields of the key.
    pub key: Vec<String>,
    next: HashMap<i32, Offset>,
    pub records: Vec<Record>,
}

impl Log {
    pub fn of(table: &str) -> Self {
        Self {
            table: table.to_owned(),
            topic: format!("s.public.{table}"),
            server: "s".to_owned(),
            key: vec!["id".to_owned()],
            next: HashMap::new(),
            records: Vec::new(),
        }
    }

    /// A log of partition 0, from (op, lsn, row). A delete's row is its key.
    pub fn from(table: &str, events: &[(&str, u64, Value)]) -> Self {
        let mut log = Self::of(table);
        for (op, lsn, row) in events {
            log.add(0, op, *lsn, row, &[]);
        }
        log
    }

    /// Two rows that come and go, and one that stays.
    pub fn of_deletes() -> Self {
        Self::from(
            "t",
            &[
                ("c", 10, json!({"id": 1, "v": "a"})),
                ("d", 20, json!({"id": 1})),
                ("c", 30, json!({"id": 2, "v": "b"})),
                ("d", 40, json!({"id": 2})),
                ("c", 50, json!({"id": 3, "v": "c"})),
                ("u", 60, json!({"id": 3, "v": "d"})),
            ],
        )
    }

    /// Adds a row event whose transaction is its own.
    pub fn add(&mut self, partition: i32, op: &str, lsn: u64, row: &Value, headers: &[(&str, Value)]) {
        let key: Vec<(String, Value)> = self.key.iter().map(|name| (name.clone(), row[name].clone())).collect();
        let key = Value::Object(key.into_iter().collect());
        let after = if op == "d" { &Value::Null } else { row };
        let payload =
            json!({"before": null, "after": after, "op": op, "source": self.source(&[Some(lsn), Some(lsn)], lsn)});
        self.push(partition, Some(key.to_string()), payload.to_string(), headers);
    }

    /// Adds a row of a full snapshot, which sets a floor.
    pub fn snapshot(&mut self, partition: i32, lsn: u64, row: &Value) {
        let payload = json!({"before": null, "after": row, "op": "r", "source": self.source(&[None, Some(lsn)], lsn)});
        self.push(partition, Some(json!({"id": row["id"]}).to_string()), payload.to_string(), &[]);
    }

    /// Adds a truncate.
    pub fn truncate(&mut self, partition: i32, lsn: u64) {
        self.truncate_after(partition, lsn, lsn);
    }

    /// Adds a truncate whose connector has seen this commit before it.
    pub fn truncate_after(&mut self, partition: i32, last_commit: u64, lsn: u64) {
        let sequence = [Some(last_commit), Some(lsn)];
        let payload = json!({"before": null, "after": null, "op": "t", "source": self.source(&sequence, lsn)});
        self.push(partition, None, payload.to_string(), &[]);
    }

    /// Adds an event with a Connect schema of these fields.
    pub fn add_with_schema(&mut self, op: &str, lsn: u64, row: &Value, fields: &Value) {
        let row_schema = |field: &str| json!({"type": "struct", "optional": true, "field": field, "fields": fields});
        let schema = json!({"type": "struct", "fields": [row_schema("before"), row_schema("after")]});
        let after = if op == "d" { &Value::Null } else { row };
        let payload =
            json!({"before": null, "after": after, "op": op, "source": self.source(&[Some(lsn), Some(lsn)], lsn)});
        let value = json!({"schema": schema, "payload": payload});
        self.push(0, Some(json!({"id": row["id"]}).to_string()), value.to_string(), &[]);
    }

    fn source(&self, sequence: &[Option<u64>], lsn: u64) -> Value {
        let sequence: Vec<Option<String>> = sequence.iter().map(|part| part.map(|n| n.to_string())).collect();
        json!({
            "connector": "postgresql", "name": self.server, "db": "shop", "schema": "public", "table": self.table,
            "ts_ms": 1_796_056_737_085_i64, "lsn": lsn, "sequence": serde_json::to_string(&sequence).unwrap()
        })
    }

    fn push(&mut self, partition: i32, key: Option<String>, payload: String, headers: &[(&str, Value)]) {
        let offset = self.next.entry(partition).or_default();
        let headers = headers
            .iter()
            .map(|(name, value)| Header { name: (*name).into(), value: Some(value.to_string().into_bytes().into()) })
            .collect();
        self.records.push(Record {
            partition: Partition::new(self.topic.as_str(), partition),
            offset: *offset,
            timestamp_ms: None,
            key: key.map(|key| key.into_bytes().into()),
            payload: Some(payload.into_bytes().into()),
            headers,
        });
        *offset += 1;
    }
}

/// The records as batches of at most `size` records, as a run that starts at the first of them
/// would cut them; `floors` is what the destination knew of each partition.
pub fn batches(records: &[Record], size: usize, floors: &[(Partition, Floor)]) -> Vec<Batch> {
    let mut lanes: HashMap<Partition, Lane> = HashMap::new();
    let mut fold = Fold::new(Limits { max_rows: size, max_bytes: usize::MAX, max_age_ms: u64::MAX });
    let mut batches = Vec::new();
    for record in records {
        let partition = record.partition.clone();
        let offset = record.offset;
        let lane = lanes.entry(partition.clone()).or_insert_with(|| {
            let known: Vec<Floor> =
                floors.iter().filter(|(place, _)| *place == partition).map(|(_, floor)| floor.clone()).collect();
            Lane::new(partition.clone(), offset, &known, LoneTombstones::Skip)
        });
        let fed = lane.feed(record.clone()).unwrap();
        if fold.must_cut_before(&fed.event) {
            batches.push(fold.cut());
        }
        fold.push(&partition, offset, fed.event, fed.floor, 0).unwrap();
        if fold.is_full() {
            batches.push(fold.cut());
        }
    }
    if !fold.is_empty() {
        batches.push(fold.cut());
    }
    batches
}

/// All the records in one batch.
pub fn batch(records: &[Record]) -> Batch {
    batches(records, usize::MAX, &[]).pop().unwrap()
}

/// Every way to cut `records` into batches.
pub fn every_cut(records: &[Record]) -> Vec<Vec<Batch>> {
    let borders = records.len() - 1;
    (0..1_u32 << borders)
        .map(|cuts| {
            let mut parts = vec![Vec::new()];
            for (i, record) in records.iter().enumerate() {
                parts.last_mut().unwrap().push(record.clone());
                if i < borders && cuts >> i & 1 == 1 {
                    parts.push(Vec::new());
                }
            }
            // One lane over all parts would do the same: without snapshot rows no floor is carried.
            parts.iter().map(|part| batch(part)).collect()
        })
        .collect()
}
