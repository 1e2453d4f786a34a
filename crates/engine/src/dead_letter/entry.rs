//! A dead letter as it lies in a topic or a file: the original key, value and headers, byte for
//! byte, and headers of ours that say why and from where.
//!
//! The log of dead letters is only ever added to. What was done about a letter is another record
//! of the same origin, without a value, that says so.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use settle_core::dead_letter::DeadLetter;
use settle_core::position::{Offset, Partition, Place, TopicId};
use settle_core::record::{Header, Record};
use settle_core::version::Version;

use super::Letter;

const ERROR: &str = "x-error";
const CLASS: &str = "x-error-class";
const TOPIC: &str = "x-origin-topic";
const PARTITION: &str = "x-origin-partition";
const OFFSET: &str = "x-origin-offset";
const TIMESTAMP: &str = "x-origin-timestamp";
const TOPIC_ID: &str = "x-topic-id";
const TABLE: &str = "x-table";
const VERSION: &str = "x-version";
const FAILED_AT: &str = "x-failed-at";
const TRUNCATED: &str = "x-truncated";
const RESOLVED: &str = "x-resolved";
const OURS: [&str; 12] =
    [ERROR, CLASS, TOPIC, PARTITION, OFFSET, TIMESTAMP, TOPIC_ID, TABLE, VERSION, FAILED_AT, TRUNCATED, RESOLVED];

/// Where a dead letter comes from: its identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Topic incarnation.
    pub topic_id: TopicId,
    /// Place in it.
    pub place: Place,
}

/// What was done about a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It was applied, or the destination had as new or newer.
    Retried,
    /// Somebody decided that it is not needed.
    Dropped,
}

impl Resolution {
    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retried => "retried",
            Self::Dropped => "dropped",
        }
    }
}

/// A dead letter, read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Topic incarnation of the record.
    pub topic_id: TopicId,
    /// The record as it was read; without its value where that was too big.
    pub record: Record,
    /// Why, in full.
    pub error: String,
    /// What was wrong, by name. A name of another version of Settle is kept.
    pub class: String,
    /// Its source table, where it is known.
    pub table: Option<String>,
    /// Its version, where it is known.
    pub version: Option<Version>,
    /// When it was set aside.
    pub failed_at: DateTime<Utc>,
    /// Bytes of the value that were too many for the store, and are not here.
    pub truncated: Option<u64>,
}

impl Entry {
    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        Origin { topic_id: self.topic_id, place: self.record.place() }
    }
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A record was set aside.
    Entry(Box<Entry>),
    /// Something was done about it.
    Mark(Origin, Resolution),
}

/// A record of the log, in the words of any store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) key: Option<Bytes>,
    pub(super) value: Option<Bytes>,
    pub(super) headers: Vec<Header>,
}

impl Stored {
    /// The letter, to be written.
    pub(super) fn of_letter(letter: &Letter, now: SystemTime) -> Self {
        let DeadLetter { record, error, class, table, version, key: _ } = &letter.dead;
        let origin = Origin { topic_id: letter.topic_id, place: record.place() };
        let mut headers = record.headers.clone();
        headers.push(header(ERROR, error));
        headers.push(header(CLASS, class.name()));
        headers.extend(origin.headers());
        headers.extend(record.timestamp_ms.map(|ms| header(TIMESTAMP, &ms.to_string())));
        headers.extend(table.as_ref().map(|table| header(TABLE, &table.to_string())));
        headers.extend(version.map(|version| header(VERSION, &version.as_u128().to_string())));
        headers.push(header(FAILED_AT, &DateTime::<Utc>::from(now).to_rfc3339_opts(SecondsFormat::Millis, true)));
        Self { key: record.key.clone(), value: record.payload.clone(), headers }
    }

    /// What was done about a letter, to be written. It lies where the letter lies: its key is the same.
    pub(super) fn of_mark(origin: &Origin, key: Option<Bytes>, resolution: Resolution) -> Self {
        let mut headers = origin.headers();
        headers.push(header(RESOLVED, resolution.name()));
        Self { key, value: None, headers }
    }

    /// The same without its value, which is too big for the store; the origin says where it is.
    pub(super) fn without_value(mut self) -> Self {
        let bytes = self.value.take().map_or(0, |value| value.len());
        self.headers.push(header(TRUNCATED, &bytes.to_string()));
        self
    }

    /// Reads it back, or says what is wrong with it.
    pub(super) fn read(self) -> Result<Item, String> {
        let (ours, own): (Vec<Header>, Vec<Header>) =
            self.headers.into_iter().partition(|header| OURS.contains(&&*header.name));
        let ours = Ours(ours);
        let partition = Partition::new(ours.needed(TOPIC)?, ours.parsed(PARTITION)?.ok_or_else(|| missing(PARTITION))?);
        let offset: Offset = ours.parsed(OFFSET)?.ok_or_else(|| missing(OFFSET))?;
        let topic_id = TopicId(ours.parsed(TOPIC_ID)?.ok_or_else(|| missing(TOPIC_ID))?);
        match ours.text(RESOLVED)? {
            None => {}
            Some("retried") => return Ok(Item::Mark(of(topic_id, partition, offset), Resolution::Retried)),
            Some("dropped") => return Ok(Item::Mark(of(topic_id, partition, offset), Resolution::Dropped)),
            Some(other) => return Err(format!("header {RESOLVED} is \"{other}\", which is not known")),
        }
        let record = Record {
            partition,
            offset,
            timestamp_ms: ours.parsed(TIMESTAMP)?,
            key: self.key,
            payload: self.value,
            headers: own,
        };
        Ok(Item::Entry(Box::new(Entry {
            topic_id,
            record,
            error: ours.needed(ERROR)?.to_owned(),
            class: ours.needed(CLASS)?.to_owned(),
            table: ours.text(TABLE)?.map(str::to_owned),
            version: ours.parsed::<u128>(VERSION)?.map(Version::from),
            failed_at: ours.parsed(FAILED_AT)?.ok_or_else(|| missing(FAILED_AT))?,
            truncated: ours.parsed(TRUNCATED)?,
        })))
    }
}

fn of(topic_id: TopicId, partition: Partition, offset: Offset) -> Origin {
    Origin { topic_id, place: Place { partition, offset } }
}

impl Origin {
    fn headers(&self) -> Vec<Header> {
        let Place { partition, offset } = &self.place;
        vec![
            header(TOPIC, &partition.topic),
            header(PARTITION, &partition.number.to_string()),
            header(OFFSET, &offset.to_string()),
            header(TOPIC_ID, &self.topic_id.to_string()),
        ]
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

/// The headers that are ours. A record that came through a dead letter queue before has headers of
/// the same names: what we wrote stands behind them.
struct Ours(Vec<Header>);

impl Ours {
    fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let last = self.0.iter().rev().find(|header| &*header.name == name);
        let Some(value) = last.and_then(|header| header.value.as_deref()) else { return Ok(None) };
        std::str::from_utf8(value).map(Some).map_err(|_| format!("header {name} is not UTF-8"))
    }

    fn needed(&self, name: &str) -> Result<&str, String> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let parse = |text: &str| text.parse().map_err(|_| format!("header {name} holds what settle did not write"));
        self.text(name)?.map(parse).transpose()
    }
}

fn missing(name: &str) -> String {
    format!("it has no header {name}, so it is no dead letter of settle")
}

fn header(name: &str, value: &str) -> Header {
    Header { name: name.into(), value: Some(Bytes::copy_from_slice(value.as_bytes())) }
}
