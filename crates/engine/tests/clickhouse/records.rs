//! Made-up records as Debezium writes them, and batches of them.

use std::collections::BTreeMap;

use settle_core::batch::Batch;
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::position::Partition;
use settle_core::record::{Header, Record};

/// One change of a row of a PostgreSQL table.
#[derive(Clone, Debug)]
pub struct Event {
    op: &'static str,
    key: String,
    after: String,
    lsn: u64,
    partition: i32,
    table: &'static str,
    database: &'static str,
    schema: Option<String>,
    full_snapshot: bool,
    last_commit: Option<u64>,
    headers: Vec<(&'static str, String)>,
}

/// The marker of a value that was not sent.
pub const UNSENT: &str = "__debezium_unavailable_value";

/// A truncate at this position.
pub fn truncate(lsn: u64) -> Event {
    event("t", lsn, "", "")
}

/// An event at this position.
pub fn event(op: &'static str, lsn: u64, key: &str, after: &str) -> Event {
    Event {
        op,
        key: key.to_owned(),
        after: after.to_owned(),
        lsn,
        partition: 0,
        table: "t",
        database: "shop",
        schema: None,
        full_snapshot: false,
        last_commit: None,
        headers: Vec::new(),
    }
}

impl Event {
    pub fn of_table(mut self, table: &'static str) -> Self {
        self.table = table;
        self
    }

    pub fn of_database(mut self, database: &'static str) -> Self {
        self.database = database;
        self
    }

    /// With the Connect schema of the row: `[(name, schema of the field as JSON)]`.
    pub fn with_schema(mut self, fields: &[(&str, &str)]) -> Self {
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, schema)| {
                let rest = schema.trim_start().strip_prefix('{').expect("an object");
                format!("{{\"field\":{},{rest}", serde_json::to_string(name).unwrap())
            })
            .collect();
        self.schema = Some(format!(
            r#"{{"type":"struct","fields":[{{"type":"struct","fields":[{}],"optional":true,"field":"after"}}],"optional":false}}"#,
            fields.join(",")
        ));
        self
    }

    /// On this partition; on 0 unless told otherwise.
    pub fn on(mut self, partition: i32) -> Self {
        self.partition = partition;
        self
    }

    /// The connector saw this commit before it, and not its own position's.
    pub fn after_commit(mut self, lsn: u64) -> Self {
        self.last_commit = Some(lsn);
        self
    }

    /// The row had this key before.
    pub fn moved_from(mut self, key: &str) -> Self {
        self.headers.push(("__debezium.oldkey", key.to_owned()));
        self
    }

    /// A row of a full snapshot, which raises a floor.
    pub fn of_full_snapshot(mut self) -> Self {
        self.full_snapshot = true;
        self
    }

    fn payload(&self) -> String {
        let Self { op, after, lsn, table, database, .. } = self;
        let after = if after.is_empty() { "null" } else { after };
        let sequence = if self.full_snapshot {
            "null".to_owned()
        } else {
            format!("\\\"{}\\\"", self.last_commit.unwrap_or(*lsn))
        };
        let sequence = format!("[{sequence},\\\"{lsn}\\\"]");
        let envelope = format!(
            r#"{{"op":"{op}","before":null,"after":{after},"source":{{"connector":"postgresql","name":"srv","db":"{database}","schema":"public","table":"{table}","ts_ms":1700000000123,"lsn":{lsn},"sequence":"{sequence}"}}}}"#
        );
        match &self.schema {
            Some(schema) => format!(r#"{{"schema":{schema},"payload":{envelope}}}"#),
            None => envelope,
        }
    }
}

/// Partitions in log order, as a run feeds them.
#[derive(Default)]
pub struct Log {
    lanes: BTreeMap<i32, Lane>,
}

impl Log {
    /// The next events of the log as one batch.
    pub fn batch(&mut self, events: &[Event]) -> Batch {
        let mut fold = Fold::new(Limits::default());
        for event in events {
            let partition = partition(event.partition);
            let lane = self
                .lanes
                .entry(event.partition)
                .or_insert_with(|| Lane::new(partition.clone(), 0, &[], LoneTombstones::Refuse));
            let record = Record {
                partition: partition.clone(),
                offset: lane.next(),
                timestamp_ms: None,
                key: (event.op != "t").then(|| event.key.clone().into_bytes().into()),
                payload: Some(event.payload().into_bytes().into()),
                headers: event
                    .headers
                    .iter()
                    .map(|(name, json)| Header { name: (*name).into(), value: Some(json.clone().into_bytes().into()) })
                    .collect(),
            };
            let offset = record.offset;
            let fed = lane.feed(record).expect("a record that is understood");
            fold.push(&partition, offset, fed.event, fed.floor, 0).expect("an event that folds");
        }
        fold.cut()
    }
}

/// One batch from the beginning of a log.
pub fn batch(events: &[Event]) -> Batch {
    Log::default().batch(events)
}

/// A partition of the topic that all records are in.
pub fn partition(number: i32) -> Partition {
    Partition::new("srv.public.t", number)
}
