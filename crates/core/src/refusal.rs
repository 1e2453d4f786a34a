//! Why a record is not a change: what is wrong, where, and how to fix it.

use crate::dead_letter::{DeadLetter, ErrorClass, table_said};
use crate::debezium::connect::SchemaError;
use crate::debezium::source::SourceError;
use crate::key::{Key, KeyError};
use crate::new_log::NewLog;
use crate::position::Place;
use crate::record::Record;
use crate::version::VersionError;

/// What to do about a record that cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This record alone is at fault: dead-letter it and go on.
    Poison,
    /// The topic breaks what the pipeline stands on: stop before more is applied.
    Contract,
}

/// Why one record was refused. Messages hold no row values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The value is not JSON.
    #[error(
        "the value is not JSON ({0}); if the topic is written as Avro, Protobuf or text, use the matching converter or remove the record"
    )]
    NotJson(String),
    /// Zero bytes, which is neither JSON nor a tombstone.
    #[error("the value is empty (zero bytes), which is neither JSON nor a tombstone")]
    EmptyValue,
    /// JSON of no known shape.
    #[error("the value is no Debezium envelope: no `op` and `source` at its first level (found {0})")]
    UnknownShape(String),
    /// An operation letter that is not known.
    #[error("unknown op \"{0}\"; known are c, u, d, r, t, m")]
    UnknownOp(String),
    /// No row in the event.
    #[error("op \"{0}\" without a row in `after`")]
    NoRow(&'static str),
    /// A tombstone that follows no envelope delete.
    #[error(
        "a tombstone alone: it carries no position, so it cannot delete by itself; set `version.fallback = \"kafka-offset\"` if deletes come as tombstones only"
    )]
    LoneTombstone,
    /// No usable identity.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// No usable position.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// A position that cannot be packed.
    #[error("{0}")]
    Version(#[from] VersionError),
    /// Unreadable Connect schema.
    #[error("{0}")]
    Schema(#[from] SchemaError),
    /// The capture or topic goes back.
    #[error("offset {found} after {last}: the log is not in offset order; sort the capture by partition and offset")]
    OffsetWentBack {
        /// Offset before.
        last: i64,
        /// Offset found.
        found: i64,
    },
    /// Two records of a key with one version and different content.
    #[error(
        "two records of one key have the same position but differ ({other} is the other); see GUARANTEES.md, \"positions that repeat\": on MariaDB 11.4+ set binlog_legacy_event_pos=1, on MySQL set binlog_transaction_compression=OFF"
    )]
    EqualVersionOtherContent {
        /// The record that came first.
        other: Place,
    },
    /// The source's log began anew.
    #[error("{0}")]
    NewLog(Box<NewLog>),
    /// A binlog position that belongs to several events.
    #[error(
        "binlog file {file} position {pos} row {row} belongs to another event as well, so which change is the newer \
         cannot be told; on MariaDB 11.4+ set binlog_legacy_event_pos=1, on MySQL set binlog_transaction_compression=OFF, \
         and take a new snapshot (GUARANTEES.md, \"positions that repeat\")"
    )]
    PositionRepeats {
        /// Number of the binlog file.
        file: u64,
        /// Position in the file.
        pos: u64,
        /// Row of the event.
        row: u64,
    },
}

impl Reason {
    /// How the failure policy treats it.
    pub fn class(&self) -> Class {
        match self {
            Self::NotJson(_)
            | Self::EmptyValue
            | Self::UnknownShape(_)
            | Self::UnknownOp(_)
            | Self::NoRow(_)
            | Self::Key(KeyError::NotAnObject(_) | KeyError::Null(_) | KeyError::Unavailable(_))
            | Self::Source(SourceError::Missing | SourceError::Field { .. })
            | Self::Version(_)
            | Self::Schema(_) => Class::Poison,
            Self::LoneTombstone
            | Self::Key(KeyError::Missing | KeyError::NoFields)
            | Self::Source(SourceError::Connector(_))
            | Self::OffsetWentBack { .. }
            | Self::EqualVersionOtherContent { .. }
            | Self::NewLog(_)
            | Self::PositionRepeats { .. } => Class::Contract,
        }
    }
}

impl Reason {
    /// What a dead letter of this reason is called; none where the reason is never one record's
    /// fault. A missing key is the topic's, unless other records of it have one.
    pub fn error_class(&self) -> Option<ErrorClass> {
        Some(match self {
            Self::NotJson(_) | Self::EmptyValue => ErrorClass::NotJson,
            Self::UnknownShape(_) => ErrorClass::UnknownShape,
            Self::UnknownOp(_) => ErrorClass::UnknownOp,
            Self::NoRow(_) => ErrorClass::NoRow,
            Self::Key(KeyError::Missing | KeyError::NoFields) => ErrorClass::NoKey,
            Self::Key(KeyError::NotAnObject(_) | KeyError::Null(_) | KeyError::Unavailable(_)) => ErrorClass::BadKey,
            Self::Source(SourceError::Missing | SourceError::Field { .. }) | Self::Version(_) => ErrorClass::NoPosition,
            Self::Schema(_) => ErrorClass::Schema,
            Self::LoneTombstone
            | Self::Source(SourceError::Connector(_))
            | Self::OffsetWentBack { .. }
            | Self::EqualVersionOtherContent { .. }
            | Self::NewLog(_)
            | Self::PositionRepeats { .. } => return None,
        })
    }
}

/// A record that was refused, whole.
#[derive(Debug)]
pub struct Refused {
    /// Which, and why.
    pub refusal: Refusal,
    /// The record as it was read.
    pub record: Record,
    /// Its row's key, where that could be read.
    pub key: Option<Key>,
}

impl Refused {
    /// The record as a dead letter; given back where it must stop the run. `keyed`: other records
    /// of its topic have keys.
    pub fn into_dead_letter(self: Box<Self>, keyed: bool) -> Result<DeadLetter, Box<Self>> {
        let class = match (self.refusal.reason.class(), self.refusal.reason.error_class()) {
            (Class::Poison, Some(class)) => class,
            (_, Some(ErrorClass::NoKey)) if keyed => ErrorClass::NoKey,
            _ => return Err(self),
        };
        let Self { refusal, record, key } = *self;
        let table = record.payload.as_deref().and_then(table_said).map(std::sync::Arc::new);
        Ok(DeadLetter { record, error: refusal.to_string(), class, table, version: None, key })
    }
}

/// A record that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {place}: {reason}")]
pub struct Refusal {
    /// Which record.
    pub place: Place,
    /// Why.
    pub reason: Reason,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::Partition;

    #[test]
    fn what_one_record_does_wrong_is_poison_and_what_the_topic_breaks_is_contract() {
        let text = String::new;
        let place = Place { partition: Partition::new("t", 0), offset: 4 };
        for poison in [
            Reason::NotJson(text()),
            Reason::EmptyValue,
            Reason::UnknownShape(text()),
            Reason::UnknownOp(text()),
            Reason::NoRow("c"),
            Reason::Key(KeyError::NotAnObject(text())),
            Reason::Key(KeyError::Null(text())),
            Reason::Key(KeyError::Unavailable(text())),
            Reason::Source(SourceError::Missing),
            Reason::Source(SourceError::Field { field: "lsn", problem: text() }),
            Reason::Version(VersionError::DoesNotFit { commit: 0, record: 0 }),
            Reason::Schema(SchemaError(text())),
        ] {
            assert_eq!(poison.class(), Class::Poison, "{poison:?}");
            assert!(poison.error_class().is_some(), "{poison:?}");
        }
        for contract in [
            Reason::LoneTombstone,
            Reason::Key(KeyError::Missing),
            Reason::Key(KeyError::NoFields),
            Reason::Source(SourceError::Connector(text())),
            Reason::OffsetWentBack { last: 5, found: 4 },
            Reason::EqualVersionOtherContent { other: place },
            Reason::PositionRepeats { file: 1, pos: 4, row: 0 },
        ] {
            assert_eq!(contract.class(), Class::Contract, "{contract:?}");
        }
    }
}
