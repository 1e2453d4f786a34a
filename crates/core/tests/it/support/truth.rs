//! What a topic says when it is read in order, with no versions at all: per key the last change
//! that is news. A change that a restarted connector sends again is none. Only truncates, which
//! stand on one partition and concern all, need the source's position.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use settle_core::record::Record;

use super::capture::At;
use super::destination::{Columns, canonical};

const UNSENT: &str = "\"__debezium_unavailable_value\"";

/// A record, read on its own.
#[derive(Clone)]
pub struct Told {
    pub at: At,
    pub key: String,
    pub op: String,
    pub after: Option<Columns>,
    /// Operation and position, which a change that is sent again has, too.
    pub identity: String,
    pub ts_ms: u64,
    /// `lsn`, or file number and position: what a naive reader would order by.
    pub bare_position: (u64, u64),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    op: Option<String>,
    #[serde(borrow, default)]
    after: Option<BTreeMap<String, &'a RawValue>>,
    #[serde(default)]
    source: BTreeMap<String, serde_json::Value>,
}

impl Told {
    /// None where the record concerns no row.
    pub fn of(record: &Record) -> Option<Self> {
        let payload = record.payload.as_deref()?;
        let envelope: Envelope<'_> = serde_json::from_slice(payload).unwrap();
        let op = envelope.op?;
        let number = |name: &str| envelope.source.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let position = ["lsn", "sequence", "file", "pos", "row"].map(|name| envelope.source.get(name));
        let bare_position = match envelope.source.get("file").and_then(|file| file.as_str()) {
            Some(file) => (file.rsplit('.').next().unwrap().parse().unwrap(), number("pos")),
            None => (0, number("lsn")),
        };
        let text = |columns: BTreeMap<String, &RawValue>| {
            columns.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect()
        };
        Some(Self {
            at: (record.partition.number, record.offset),
            key: record.key.as_deref().map(|key| canonical(std::str::from_utf8(key).unwrap())).unwrap_or_default(),
            identity: format!("{op} {position:?}"),
            after: envelope.after.map(text).filter(|_| op != "d"),
            op,
            ts_ms: number("ts_ms"),
            bare_position,
        })
    }

    /// The row after this change, where `before` is what was stored.
    pub fn over(&self, before: Option<&Columns>) -> Option<Columns> {
        let mut after = self.after.clone()?;
        for (name, value) in after.iter_mut().filter(|(_, value)| *value == UNSENT) {
            *value = before.and_then(|before| before.get(name)).expect("an unsent value has one before it").clone();
        }
        Some(after)
    }
}

/// The state of one table, read in order.
#[derive(Default)]
pub struct Truth {
    rows: BTreeMap<String, (Option<Columns>, (u64, u64))>,
    seen: HashSet<(String, String)>,
    emptied: (u64, u64),
}

impl Truth {
    /// Takes the next record of its partition, with its position.
    pub fn take(&mut self, told: &Told, position: (u64, u64)) {
        if told.op == "t" {
            self.emptied = self.emptied.max(position);
        } else if self.seen.insert((told.key.clone(), told.identity.clone())) {
            let before = self.rows.get(&told.key).and_then(|(row, _)| row.clone());
            self.rows.insert(told.key.clone(), (told.over(before.as_ref()), position));
        }
    }

    /// The row of a key.
    pub fn row(&self, key: &str) -> Option<&Columns> {
        let (row, position) = self.rows.get(key)?;
        row.as_ref().filter(|_| *position >= self.emptied)
    }

    /// All rows by key.
    pub fn rows(&self) -> BTreeMap<&str, &Columns> {
        self.rows.keys().filter_map(|key| Some((key.as_str(), self.row(key)?))).collect()
    }
}
