//! Values that records did not carry and that the table has under another key.

use std::collections::{HashMap, HashSet};

use mysql_async::Value as Bound;
use settle_core::batch::{Kept, Row};
use settle_core::key::Key;

use super::failure::Outcome;
use super::rows::{Laid, Writer};
use crate::sinks::sql::dialect::Dialect;

const SQL: Dialect = Dialect::MySql;

/// Where rows that came from another key have their values.
#[derive(Default)]
pub(super) struct Moved {
    /// Taken from another key, by the row's place and the column's.
    pub(super) values: HashMap<(usize, usize), Bound>,
    /// Rows that the table has under their key: what moved them comes again.
    pub(super) there: HashSet<usize>,
}

impl Moved {
    /// Beside each column of a row whether the stored value is kept.
    pub(super) fn keeps(&self, laid: &Laid<'_>) -> Vec<bool> {
        let keeps = |(at, column): (usize, &settle_core::columns::Column<'_>)| {
            column.is_unavailable() && !self.values.contains_key(&(laid.index, at))
        };
        laid.columns.iter().enumerate().map(keeps).collect()
    }
}

impl Writer<'_> {
    pub(super) async fn moved(&mut self, rows: &[Laid<'_>]) -> Outcome<Moved> {
        let mut moved = Moved::default();
        for laid in rows {
            let missing: Vec<(usize, String)> = laid
                .columns
                .iter()
                .enumerate()
                .filter(|(_, column)| column.is_unavailable())
                .filter_map(|(at, column)| {
                    let target = self.prepared.plan.column(&column.name, false)?;
                    Some((at, self.prepared.table.column(target)?.name.clone()))
                })
                .collect();
            if missing.is_empty() {
                continue;
            }
            let Some(key) = self.holder(laid.row).await? else { continue };
            if *key == laid.row.change().key {
                moved.there.insert(laid.index);
                continue;
            }
            let key = self.key(key, laid.row.change())?;
            let names = missing.iter().map(|(_, name)| name.as_str());
            let sql = format!("SELECT {} {}", SQL.list(names), self.prepared.statements.from_one);
            let operation = format!("look up a row of \"{}\"", self.prepared.table.name);
            let found = self.connection.rows(&operation, &sql, key).await?;
            for ((at, _), value) in missing.iter().zip(found.into_iter().next().unwrap_or_default()) {
                moved.values.insert((laid.index, *at), value);
            }
        }
        Ok(moved)
    }

    /// The key under which the table, as it is before the batch, has what the row does not carry; none where
    /// that is not certain, or the row's own by what it stands on.
    async fn holder<'k>(&mut self, row: Row<'k>) -> Outcome<Option<&'k Key>> {
        for again in row.again() {
            let key = self.key(again.key, row.change())?;
            if self.stored(&key).await?.is_some_and(|stored| !stored.is_deleted && again.holds(stored.version)) {
                return Ok(Some(again.key));
            }
        }
        match row.kept() {
            Kept::Row { key, below } if *key != row.change().key => {
                let bound = self.key(key, row.change())?;
                let stored = self.stored(&bound).await?;
                Ok(stored.filter(|stored| !stored.is_deleted && stored.version < below).map(|_| key))
            }
            // A row marked deleted still has columns, but not those of changes that its delete overtook in
            // a batch, and nothing of a row that was never seen.
            Kept::Row { .. } | Kept::OtherHalf { .. } | Kept::Nowhere => Ok(None),
        }
    }
}
