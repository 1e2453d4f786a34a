//! A destination that refuses rows.

use std::collections::BTreeMap;

use settle_core::batch::{Batch, Kept, Row};
use settle_core::holds::{Hold, HoldState};
use settle_core::position::{Offset, Partition};
use settle_core::sink::{Durable, FailureKind, Outcome, SinkError};
use settle_core::version::Version;

/// No column of the destination holds it.
pub(super) const BAD: &str = "\"bad\"";
/// Stands where a strict destination had stopped: it never had the value.
pub(super) const HOLE: &str = "hole";

pub(super) type Columns = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) version: Version,
    pub(super) is_deleted: bool,
    pub(super) columns: Columns,
}

/// Keeps deleted rows, marked, and refuses rows with a value that it cannot hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Destination {
    pub(super) rows: BTreeMap<String, Stored>,
    pub(super) holds: BTreeMap<(Partition, String), Hold>,
    pub(super) offsets: BTreeMap<Partition, Offset>,
    pub(super) names_records: bool,
    pub(super) calls: usize,
}

impl Destination {
    #[expect(clippy::disallowed_methods, reason = "stands for a sink")]
    pub(super) fn apply(&mut self, batch: &Batch) -> Result<Durable, SinkError> {
        self.calls += 1;
        let before = self.rows.clone();
        let mut outcome = Outcome::default();
        for row in batch.tables().flat_map(|table| table.rows().collect::<Vec<_>>()) {
            let columns = columns(&before, row);
            if columns.values().any(|json| json == BAD) {
                self.rows = before;
                let error = SinkError::new(FailureKind::Row, "write", "out of range");
                return Err(if self.names_records { error.at(row.change().place()) } else { error });
            }
            let key = row.key().to_string();
            if self.rows.get(&key).is_some_and(|stored| stored.version >= row.version()) {
                outcome.stale += 1;
                continue;
            }
            outcome.applied += 1;
            let columns = if row.is_delete() {
                // The other half of a key change may look for them. What the batch says of the row
                // may be of another life than what is stored.
                let said: Columns =
                    row.left_out().into_iter().map(|c| (c.name.to_string(), c.json.to_owned())).collect();
                let stored = self.rows.get(&key).filter(|stored| !stored.is_deleted && said.is_empty());
                stored.map_or(said, |stored| stored.columns.clone())
            } else {
                columns
            };
            self.rows.insert(key, Stored { version: row.version(), is_deleted: row.is_delete(), columns });
        }
        for note in batch.holds() {
            let at = (note.partition.clone(), note.key.to_string());
            match note.now {
                HoldState::Held(held) => {
                    let hold = Hold { partition: note.partition.clone(), key: note.key.clone(), held };
                    self.holds.insert(at, hold);
                }
                HoldState::Lifted(by) => {
                    if self.holds.get(&at).is_some_and(|hold| hold.held.last < by) {
                        self.holds.remove(&at);
                    }
                }
            }
        }
        for span in batch.spans() {
            let next = self.offsets.entry(span.partition.clone()).or_default();
            *next = span.end.max(*next);
        }
        Ok(Durable::mint(batch, outcome))
    }
}

/// The row as it would be written.
pub(super) fn columns(stored: &BTreeMap<String, Stored>, row: Row<'_>) -> Columns {
    let kept = |name: &str| {
        let known = match row.kept() {
            Kept::Row { key, below } => stored.get(&key.to_string()).filter(|s| s.version < below && !s.is_deleted),
            Kept::OtherHalf { key, version } => {
                stored.get(&key.to_string()).filter(|s| s.is_deleted && s.version.lo() == version.lo())
            }
            Kept::Nowhere => None,
        };
        known.and_then(|s| s.columns.get(name)).cloned().unwrap_or_else(|| HOLE.to_owned())
    };
    let columns = row.columns();
    let value = |c: &settle_core::columns::Column<'_>| {
        (c.name.to_string(), if c.is_unavailable() { kept(&c.name) } else { c.json.to_owned() })
    };
    columns.iter().map(value).collect()
}
