//! A record that was set aside: with its bytes, why, and what is known of it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::change::{Change, TableName};
use crate::debezium::envelope::Envelope;
use crate::key::Key;
use crate::record::Record;
use crate::version::Version;

/// What was wrong, as a name that stays: filters, headers and reports hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorClass {
    /// The value is no JSON: other bytes, cut off, a byte order mark in front, or empty.
    NotJson,
    /// JSON, but no change event.
    UnknownShape,
    /// A change event with an operation that is not known.
    UnknownOp,
    /// An insert or update without its row.
    NoRow,
    /// No message key where other records of the topic have one.
    NoKey,
    /// A message key that is no identity: not an object, or a field of it null or not sent.
    BadKey,
    /// No usable position in the source's log.
    NoPosition,
    /// An unreadable Connect schema.
    Schema,
    /// A value that its column cannot hold.
    Value,
    /// A constraint of the target table.
    Constraint,
    /// Sound in itself, but it leaves out columns whose last values are in a dead letter before it.
    FollowsADeadLetter,
}

impl ErrorClass {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::NotJson,
        Self::UnknownShape,
        Self::UnknownOp,
        Self::NoRow,
        Self::NoKey,
        Self::BadKey,
        Self::NoPosition,
        Self::Schema,
        Self::Value,
        Self::Constraint,
        Self::FollowsADeadLetter,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotJson => "not-json",
            Self::UnknownShape => "unknown-shape",
            Self::UnknownOp => "unknown-op",
            Self::NoRow => "no-row",
            Self::NoKey => "no-key",
            Self::BadKey => "bad-key",
            Self::NoPosition => "no-position",
            Self::Schema => "schema",
            Self::Value => "value",
            Self::Constraint => "constraint",
            Self::FollowsADeadLetter => "follows-a-dead-letter",
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no error class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown error class \"{0}\"; known are {known}", known = ErrorClass::ALL.map(ErrorClass::name).join(", "))]
pub struct UnknownClass(String);

impl FromStr for ErrorClass {
    type Err = UnknownClass;

    fn from_str(name: &str) -> Result<Self, UnknownClass> {
        Self::ALL.into_iter().find(|class| class.name() == name).ok_or_else(|| UnknownClass(name.to_owned()))
    }
}

/// A record set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The record as it was read: bytes, headers, place.
    pub record: Record,
    /// Why, in full. It holds no row value.
    pub error: String,
    /// What was wrong.
    pub class: ErrorClass,
    /// Its source table, where the record says it.
    pub table: Option<Arc<TableName>>,
    /// Its version, where it was understood so far: a later retry keeps it.
    pub version: Option<Version>,
    /// Its row's key, where that could be read: later records of the row may stand on this one.
    pub key: Option<Key>,
}

impl DeadLetter {
    /// A change that the destination refused, or that stands on one.
    pub(crate) fn of_change(change: Change, class: ErrorClass, error: String) -> Self {
        let Change { record, table, key, version, .. } = change;
        Self { record, error, class, table: Some(table), version: Some(version), key: Some(key) }
    }
}

/// The table that a record names, whatever else is wrong with it.
pub(crate) fn table_said(payload: &[u8]) -> Option<TableName> {
    let envelope: Envelope<'_> = serde_json::from_slice(payload).ok()?;
    match (envelope.source, envelope.payload) {
        (Some(source), _) => source.table_name(),
        (None, Some(wrapped)) => serde_json::from_str::<Envelope<'_>>(wrapped.get()).ok()?.source?.table_name(),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_back_by_its_name_and_names_are_unique() {
        for class in ErrorClass::ALL {
            assert_eq!(class.name().parse(), Ok(class));
        }
        let said = "not-jsn".parse::<ErrorClass>().unwrap_err().to_string();
        assert!(said.starts_with("unknown error class \"not-jsn\"; known are not-json, unknown-shape"), "{said}");
    }
}
