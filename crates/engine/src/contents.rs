//! The border to what a destination holds: looked at, never changed.
//!
//! A sink says what became of a batch; whether the destination *holds* what it should can only be
//! seen by reading it. A row is reduced to its key, its version and a digest of its columns, so that
//! two looks at a table compare without either being kept in memory.

use settle_core::change::TableName;
use settle_core::key::Key;
use settle_core::schema::RowSchema;
use settle_core::sink::{BoxFuture, PlacedPartition, Places, SinkError};
use settle_core::version::Version;

use crate::config::Target;
use crate::sinks::plan::Plan;

/// A target table, with its key under the target's own names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetTable {
    /// Its name in the destination.
    pub name: String,
    /// Key columns, in the order of the key.
    pub key: Vec<String>,
}

impl TargetTable {
    /// Where rows of `source` with these key fields are written.
    pub fn of<'k>(target: &Target, source: &TableName, key: impl IntoIterator<Item = &'k str>) -> Self {
        // How deletes leave the table changes none of its names.
        let plan = Plan::of(target, source, crate::config::Deletes::Soft);
        let key = key.into_iter().map(|field| plan.column(field, true).unwrap_or(field).to_owned()).collect();
        Self { name: plan.table, key }
    }
}

/// A row as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRow {
    /// Its key as a JSON object, in the destination's own spelling.
    pub key: String,
    /// Its version, or that of its delete.
    pub version: Version,
    /// True where a delete left no more than its version.
    pub is_deleted: bool,
    /// Digest of the user's columns: equal for equal values, in any order of rows. 0 for a deleted row.
    pub content: u128,
}

/// What a look at a table found beside its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Rows as they lie there: superseded versions and delete markers count too.
    pub physical: u64,
    /// The user's columns that the digests are of.
    pub columns: Vec<String>,
}

/// Takes the rows of a look, one by one.
pub type EachRow<'a> = dyn FnMut(SeenRow) -> Result<(), SinkError> + Send + 'a;

/// A table in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rows as they lie there.
    pub physical: u64,
    /// Rows that a reader should see.
    pub current: u64,
    /// The greatest version, deletes included.
    pub greatest: Option<Version>,
    /// `source.ts_ms` of the row that has it; none where it was a hard delete.
    pub source_ts_ms: Option<i64>,
}

/// What the destination has for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its version.
    pub version: Version,
    /// True for a delete.
    pub is_deleted: bool,
    /// The user's columns as text; none for NULL. Empty unless asked for, and for a deleted row.
    pub columns: Vec<(String, Option<String>)>,
}

/// A line of `settle_meta`, whatever its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Kind, as `floor`, `truncate`, `epoch`.
    pub kind: String,
    /// What it is about: a topic's partition, a table.
    pub subject: String,
    /// Offset in the log, where it belongs to one.
    pub offset: i64,
    /// Its number: a version, a commit position, an epoch.
    pub value: u128,
    /// Its text.
    pub detail: String,
}

/// A destination that can be looked at.
pub trait Contents: Send {
    /// The tables that hold rows with versions of Settle.
    fn tables(&mut self) -> BoxFuture<'_, Result<Vec<TargetTable>, SinkError>>;

    /// A table in numbers; none where it does not exist.
    fn summary<'a>(&'a mut self, table: &'a TargetTable) -> BoxFuture<'a, Result<Option<Summary>, SinkError>>;

    /// Reads every key of a table, each once: its current row, or the version that a delete left.
    /// `columns` are those of an earlier look, so that the digests compare; all where none. None
    /// where the table does not exist.
    fn rows<'a>(
        &'a mut self,
        table: &'a TargetTable,
        columns: Option<&'a [String]>,
        each: &'a mut EachRow<'a>,
    ) -> BoxFuture<'a, Result<Option<Look>, SinkError>>;

    /// What is recorded of these partitions.
    fn places<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>>;

    /// Everything in `settle_meta`.
    fn facts(&mut self) -> BoxFuture<'_, Result<Vec<Fact>, SinkError>>;

    /// What is there for one key of a source table, spelled as in the log. Columns only `with_values`.
    fn find<'a>(&'a mut self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Option<Found>, SinkError>>;
}

/// A row that is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Source table.
    pub table: &'a TableName,
    /// Key as the log has it.
    pub key: &'a Key,
    /// The Connect schema of its records, where they carry one.
    pub schema: Option<&'a RowSchema>,
    /// Whether its columns are read too.
    pub with_values: bool,
}
