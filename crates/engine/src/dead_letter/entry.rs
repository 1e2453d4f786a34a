//! A dead letter as it lies in a topic or a file: the original key, value and headers, byte for
//! byte, and headers of ours that say why and from where.
//!
//! The log of dead letters is only ever added to. What was done about a letter is another record
//! of the same origin, without a value, that says so.
//!
//! Ours stand behind the record's own headers, and `x-error` is the first of them: a producer may
//! use any name, ours too, and none of its headers is taken for one of ours.

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
const GROUP: &str = "x-group";

/// Where a dead letter comes from: its identity among those of a group.
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
    /// Consumer group that could not apply it: whose letter it is.
    pub group: String,
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
pub(super) enum Item {
    /// A record was set aside.
    Entry(Box<Entry>),
    /// Something was done about a letter.
    Mark(Mark),
}

/// What was done about the letter of this group and origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) group: String,
    pub(super) origin: Origin,
    pub(super) resolution: Resolution,
}

/// A record of the log, in the words of any store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) key: Option<Bytes>,
    pub(super) value: Option<Bytes>,
    pub(super) headers: Vec<Header>,
}

/// Whether a reader has use for the letters' values, which may be many bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values {
    Kept,
    LeftOut,
}

impl Values {
    pub(super) fn of(self, stored: Stored) -> Stored {
        match self {
            Self::Kept => stored,
            Self::LeftOut => Stored { value: None, ..stored },
        }
    }
}

impl Stored {
    /// The letter, to be written.
    pub(super) fn of_letter(letter: &Letter, group: &str, now: SystemTime) -> Self {
        let DeadLetter { record, error, class, table, version, key: _ } = &letter.dead;
        let origin = Origin { topic_id: letter.topic_id, place: record.place() };
        let mut headers = record.headers.clone();
        headers.push(header(ERROR, error));
        headers.push(header(CLASS, class.name()));
        headers.push(header(GROUP, group));
        headers.extend(origin.headers());
        headers.extend(record.timestamp_ms.map(|ms| header(TIMESTAMP, &ms.to_string())));
        headers.extend(table.as_ref().map(|table| header(TABLE, &table.to_string())));
        headers.extend(version.map(|version| header(VERSION, &version.as_u128().to_string())));
        headers.push(header(FAILED_AT, &DateTime::<Utc>::from(now).to_rfc3339_opts(SecondsFormat::Millis, true)));
        Self { key: record.key.clone(), value: record.payload.clone(), headers }
    }

    /// What was done about a letter, to be written. Its key is the letter's.
    pub(super) fn of_mark(entry: &Entry, resolution: Resolution) -> Self {
        let mut headers = vec![header(GROUP, &entry.group)];
        headers.extend(entry.origin().headers());
        headers.push(header(RESOLVED, resolution.name()));
        Self { key: entry.record.key.clone(), value: None, headers }
    }

    /// The same without its value, which is too big for the store; the origin says where it is.
    pub(super) fn without_value(mut self) -> Self {
        let bytes = self.value.take().map_or(0, |value| value.len());
        self.headers.push(header(TRUNCATED, &bytes.to_string()));
        self
    }

    /// Reads it back, or says what is wrong with it.
    pub(super) fn read(self) -> Result<Item, String> {
        let mut own = self.headers;
        // What we wrote last begins with the last `x-error`. A mark has none.
        let behind_own = own.iter().rposition(|header| &*header.name == ERROR);
        let ours = Ours(own.split_off(behind_own.unwrap_or(0)));
        let group = ours.needed(GROUP)?.to_owned();
        let partition = Partition::new(ours.needed(TOPIC)?, ours.parsed(PARTITION)?.ok_or_else(|| missing(PARTITION))?);
        let offset: Offset = ours.parsed(OFFSET)?.ok_or_else(|| missing(OFFSET))?;
        let topic_id = TopicId(ours.parsed(TOPIC_ID)?.ok_or_else(|| missing(TOPIC_ID))?);
        if behind_own.is_none() {
            let resolution = match ours.needed(RESOLVED)? {
                "retried" => Resolution::Retried,
                "dropped" => Resolution::Dropped,
                other => return Err(format!("header {RESOLVED} is \"{other}\", which is not known")),
            };
            let origin = Origin { topic_id, place: Place { partition, offset } };
            return Ok(Item::Mark(Mark { group, origin, resolution }));
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
            group,
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

/// The headers that are ours.
struct Ours(Vec<Header>);

impl Ours {
    fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let found = self.0.iter().find(|header| &*header.name == name);
        let Some(value) = found.and_then(|header| header.value.as_deref()) else { return Ok(None) };
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

#[cfg(test)]
mod tests {
    use settle_core::dead_letter::ErrorClass;

    use super::*;

    /// A producer's own headers may have any name, ours too.
    #[test]
    fn headers_of_the_record_are_never_taken_for_ours() {
        let ours = [ERROR, VERSION, TABLE, TIMESTAMP, TRUNCATED, RESOLVED, GROUP, OFFSET, ERROR];
        let own: Vec<Header> = ours.iter().map(|name| header(name, "v2, the producer's")).collect();
        let record = Record {
            partition: Partition::new("shop", 0),
            offset: 4,
            timestamp_ms: None,
            key: None,
            payload: Some(Bytes::from_static(b"no json")),
            headers: own.clone(),
        };
        let dead = DeadLetter {
            record,
            error: "no JSON".into(),
            class: ErrorClass::NotJson,
            table: None,
            version: None,
            key: None,
        };
        let letter = Letter { topic_id: TopicId::of_first_line("shop", b"first"), dead };
        let stored = Stored::of_letter(&letter, "g", SystemTime::UNIX_EPOCH);
        for (stored, truncated) in [(stored.clone(), None), (stored.without_value(), Some(7))] {
            let Ok(Item::Entry(entry)) = stored.read() else { panic!("no letter") };
            assert_eq!(entry.record.headers, own, "byte for byte");
            assert_eq!((entry.error.as_str(), entry.class.as_str()), ("no JSON", "not-json"));
            assert_eq!((entry.version, entry.table, entry.record.timestamp_ms), (None, None, None));
            assert_eq!(entry.truncated, truncated);
        }
    }
}
