//! What the records of one topic say beside their rows: who wrote them, how, and what is not there.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use settle_core::change::{Change, Control, Event, Lineage, Op, TableName};
use settle_core::position::Partition;

/// What was seen in one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Records sampled, refused ones included.
    pub records: u64,
    /// Connector and its version.
    pub connectors: BTreeSet<(String, String)>,
    /// Where positions come from.
    pub lineages: BTreeSet<Lineage>,
    /// Rows read by a snapshot, incremental ones included.
    pub snapshot: u64,
    /// Rows read by an incremental snapshot.
    pub incremental: u64,
    /// Changes that were streamed.
    pub streamed: u64,
    /// Of them, deletes.
    pub deletes: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Truncates.
    pub truncates: u64,
    /// Heartbeats.
    pub heartbeats: u64,
    /// BEGIN and END of the transaction topic.
    pub transactions: u64,
    /// Schema changes.
    pub schema_changes: u64,
    /// Rows of the signal table.
    pub signals: u64,
    /// Columns whose value was not sent (TOAST), with their table.
    pub unavailable: BTreeSet<(Arc<TableName>, String)>,
    /// Partitions of which the first sampled row was streamed, not read by a snapshot.
    pub began_streaming: BTreeSet<i32>,
    known: BTreeSet<i32>,
}

impl Seen {
    /// Takes in what one record turned out to be; `payload` is its value as it was read.
    pub fn take(&mut self, partition: &Partition, event: &Event, payload: Option<&[u8]>) {
        match event {
            Event::Change(change) => self.change(partition, change, payload),
            Event::Truncate(truncate) => {
                self.truncates += 1;
                self.lineages.insert((*truncate.lineage).clone());
                self.source(payload);
            }
            Event::Control(Control::Tombstone) => self.tombstones += 1,
            Event::Control(Control::Heartbeat) => self.heartbeats += 1,
            Event::Control(Control::Transaction) => self.transactions += 1,
            Event::Control(Control::SchemaChange) => self.schema_changes += 1,
            Event::Control(Control::Signal) => self.signals += 1,
            Event::Control(Control::Message | Control::Empty) => {}
        }
    }

    /// True if nothing in the topic concerned a row.
    pub fn is_control_only(&self) -> bool {
        self.snapshot + self.streamed + self.truncates == 0
    }

    fn change(&mut self, partition: &Partition, change: &Change, payload: Option<&[u8]>) {
        self.lineages.insert((*change.lineage).clone());
        let snapshot = self.source(payload);
        let read = change.op == Op::Read;
        if self.known.insert(partition.number) && !read {
            self.began_streaming.insert(partition.number);
        }
        if read {
            self.snapshot += 1;
            self.incremental += u64::from(snapshot.as_deref() == Some("incremental"));
        } else {
            self.streamed += 1;
            self.deletes += u64::from(change.is_delete());
        }
        for column in change.columns().iter().filter(|column| column.is_unavailable()) {
            self.unavailable.insert((change.table.clone(), column.name.to_string()));
        }
    }

    /// Notes the connector; says what `source.snapshot` holds.
    fn source(&mut self, payload: Option<&[u8]>) -> Option<String> {
        let envelope: Envelope = serde_json::from_slice(payload?).ok()?;
        let source = envelope.source.or_else(|| envelope.payload?.source)?;
        if let Some(connector) = source.connector {
            self.connectors.insert((connector, source.version.unwrap_or_default()));
        }
        match source.snapshot {
            Some(Snapshot::Word(word)) => Some(word),
            _ => None,
        }
    }
}

/// The envelope, or the Connect wrapper around it.
#[derive(Deserialize)]
struct Envelope {
    source: Option<Source>,
    payload: Option<Box<Envelope>>,
}

#[derive(Deserialize)]
struct Source {
    connector: Option<String>,
    version: Option<String>,
    snapshot: Option<Snapshot>,
}

/// Old connectors wrote true and false.
#[derive(Deserialize)]
#[serde(untagged)]
enum Snapshot {
    Word(String),
    Other(IgnoredAny),
}
