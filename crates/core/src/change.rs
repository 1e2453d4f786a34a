//! What a record says: a row changed, a table was emptied, or nothing that concerns a row.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::columns::{Column, Columns};
use crate::key::Key;
use crate::position::Place;
use crate::record::Record;
use crate::schema::RowSchema;
use crate::truncate::{Cut, LogOrder};
use crate::version::Version;

/// A table of the source: PostgreSQL schema or MySQL database, and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// PostgreSQL schema, MySQL/MariaDB database.
    pub namespace: Box<str>,
    /// Table name as the source has it, unquoted.
    pub name: Box<str>,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}

/// The origin of positions: they compare only within one lineage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lineage {
    /// `source.name`: the connector's topic prefix.
    pub source: Box<str>,
    /// `source.db`.
    pub database: Box<str>,
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.source, self.database)
    }
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `c`
    Create,
    /// `u`
    Update,
    /// `d`
    Delete,
    /// `r`: read by a snapshot.
    Read,
}

impl Op {
    /// Debezium's letter.
    pub fn letter(self) -> &'static str {
        match self {
            Op::Create => "c",
            Op::Update => "u",
            Op::Delete => "d",
            Op::Read => "r",
        }
    }
}

/// One change of one row, versioned. Holds its record, so that the original bytes are at hand
/// until the change is durable.
#[derive(Clone, Debug)]
pub struct Change {
    /// The record that carried it.
    pub record: Record,
    /// Source table.
    pub table: Arc<TableName>,
    /// Where its position comes from.
    pub lineage: Arc<Lineage>,
    /// Primary key, from the message key.
    pub key: Key,
    /// What happened.
    pub op: Op,
    /// Its version: greater wins, equal is a no-op, less is stale.
    pub version: Version,
    /// True where two records of one key may share a version and still differ (`op=r`, except
    /// PostgreSQL rows of a full snapshot).
    pub may_tie: bool,
    /// `source.ts_ms`: milliseconds since 1970 at the source; shown, never compared.
    pub source_ts_ms: Option<i64>,
    /// The Connect schema of the row, where the record carried one.
    pub schema: Option<Arc<RowSchema>>,
    /// Byte range of the row's JSON object in the record's payload; empty for a delete.
    pub after: Range<usize>,
    /// `__debezium.oldkey`: set on the second half of a key change.
    pub old_key: Option<Key>,
}

impl Change {
    /// The record's place.
    pub fn place(&self) -> Place {
        self.record.place()
    }

    /// True for a delete.
    pub fn is_delete(&self) -> bool {
        self.op == Op::Delete
    }

    /// True if it says every column of its row: nothing was left unsent. A delete says that none is.
    pub fn is_whole(&self) -> bool {
        self.is_delete() || !self.columns().iter().any(Column::is_unavailable)
    }

    /// The row as JSON text; empty for a delete.
    pub fn after_json(&self) -> &str {
        let payload = self.record.payload.as_deref().unwrap_or_default();
        std::str::from_utf8(payload.get(self.after.clone()).unwrap_or_default()).unwrap_or_default()
    }

    /// The columns that the record carries, in its order.
    pub fn columns(&self) -> Columns<'_> {
        Columns::of(self.after_json())
    }
}

/// A table was emptied at the source: a floor below which its rows are gone.
#[derive(Clone, Debug)]
pub struct Truncate {
    /// The record that carried it.
    pub record: Record,
    /// Source table.
    pub table: Arc<TableName>,
    /// Where its position comes from.
    pub lineage: Arc<Lineage>,
    /// Its own version.
    pub version: Version,
    /// What tells the rows before it from those behind it.
    pub order: LogOrder,
}

impl Truncate {
    /// Where it cuts the log.
    pub fn cut(&self) -> Cut {
        Cut { version: self.version, order: self.order }
    }
}

/// Records that concern no row. They are counted, and their offsets are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// A Kafka tombstone after an envelope delete.
    Tombstone,
    /// Debezium heartbeat.
    Heartbeat,
    /// Transaction topic: BEGIN or END.
    Transaction,
    /// Schema-change topic.
    SchemaChange,
    /// A row of the signal table.
    Signal,
    /// `op=m`: a logical decoding message.
    Message,
    /// Neither key nor value.
    Empty,
}

/// What one record turned out to be.
#[derive(Clone, Debug)]
pub enum Event {
    /// A row changed.
    Change(Box<Change>),
    /// A table was emptied.
    Truncate(Box<Truncate>),
    /// Nothing that concerns a row.
    Control(Control),
}
