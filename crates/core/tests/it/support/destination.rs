//! A destination in memory that keeps the rules of a guarded table in the plainest way: greater
//! wins, equal and less are no-ops, deletes leave their version behind, a truncate is a floor, an
//! unsent value keeps the stored one.

use std::collections::BTreeMap;

use settle_core::batch::{Batch, Row};
use settle_core::position::Partition;
use settle_core::sink::{Durable, Outcome};
use settle_core::truncate::{Cut, Cuts};
use settle_core::version::{Floor, Version};

/// The columns of a row, as JSON text.
pub type Columns = BTreeMap<String, String>;

/// Stands where a value was not sent and none was stored. A sink that is strict stops there.
pub const HOLE: &str = "hole";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    rows: BTreeMap<(String, String), Stored>,
    emptied: BTreeMap<String, Cuts>,
    floors: Vec<(Partition, Floor)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    version: Version,
    /// None for a tombstone.
    columns: Option<Columns>,
}

impl Destination {
    /// Writes a batch, floors first.
    #[expect(clippy::disallowed_methods, reason = "stands for a sink")]
    pub fn apply(&mut self, batch: &Batch) -> Durable {
        let mut outcome = Outcome::default();
        for floor in batch.floors() {
            if !self.floors.contains(floor) {
                self.floors.push(floor.clone());
            }
        }
        for truncate in batch.truncates() {
            self.empty(&truncate.table.to_string(), truncate.cut());
        }
        for table in batch.tables() {
            let name = table.table.to_string();
            for row in table.rows() {
                if self.write(&name, &row) {
                    outcome.applied += 1;
                } else {
                    outcome.stale += 1;
                }
            }
        }
        Durable::mint(batch, outcome)
    }

    fn empty(&mut self, table: &str, cut: Cut) {
        self.emptied.entry(table.to_owned()).or_default().add(cut);
        self.rows.retain(|(name, _), stored| name != table || !cut.empties(stored.version));
    }

    /// True if the row became current.
    fn write(&mut self, table: &str, row: &Row<'_>) -> bool {
        let id = (table.to_owned(), canonical(&row.key().to_string()));
        let stored = self.rows.get(&id);
        let emptied = self.emptied.get(table).is_some_and(|cuts| cuts.empties(row.version()));
        if emptied || stored.is_some_and(|stored| stored.version >= row.version()) {
            return false;
        }
        let kept = |name: &str| {
            let columns = stored.and_then(|stored| stored.columns.as_ref());
            columns.and_then(|columns| columns.get(name)).cloned().unwrap_or_else(|| HOLE.to_owned())
        };
        let columns = (!row.is_delete()).then(|| {
            let columns = row.columns();
            let value = |c: &settle_core::columns::Column<'_>| {
                let json = if c.is_unavailable() { kept(&c.name) } else { c.json.to_owned() };
                (c.name.to_string(), json)
            };
            columns.iter().map(value).collect()
        });
        self.rows.insert(id, Stored { version: row.version(), columns });
        true
    }

    /// True if this is what `plain` is. Where that has a hole, a strict sink had stopped: a change
    /// without its values, sent again behind a full snapshot, of a row that is deleted further on.
    /// A batch may still hold the values then.
    pub fn agrees_with(&self, plain: &Self) -> bool {
        let columns_agree = |(name, json): (&String, &String), plain: &Columns| {
            plain.get(name).is_some_and(|plain| plain == HOLE || plain == json)
        };
        let rows_agree = |(left, right): (&Stored, &Stored)| {
            left.version == right.version
                && match (&left.columns, &right.columns) {
                    (Some(left), Some(right)) => {
                        left.len() == right.len() && left.iter().all(|column| columns_agree(column, right))
                    }
                    (left, right) => left.is_none() && right.is_none(),
                }
        };
        (&self.emptied, &self.floors) == (&plain.emptied, &plain.floors)
            && self.rows.keys().eq(plain.rows.keys())
            && self.rows.values().zip(plain.rows.values()).all(rows_agree)
    }

    /// The row of a key, if the table has one.
    pub fn row(&self, table: &str, key: &str) -> Option<&Columns> {
        self.rows.get(&(table.to_owned(), canonical(key))).and_then(|stored| stored.columns.as_ref())
    }

    /// The rows of a table by key.
    pub fn rows(&self, table: &str) -> BTreeMap<&str, &Columns> {
        let of_table = self.rows.iter().filter(|((name, _), _)| name == table);
        of_table.filter_map(|((_, key), stored)| Some((key.as_str(), stored.columns.as_ref()?))).collect()
    }

    /// The floors recorded for a partition.
    pub fn floors_of(&self, partition: &Partition) -> Vec<Floor> {
        self.floors.iter().filter(|(place, _)| place == partition).map(|(_, floor)| floor.clone()).collect()
    }
}

/// One text for one key.
pub fn canonical(key: &str) -> String {
    serde_json::from_str::<serde_json::Value>(key).unwrap().to_string()
}
