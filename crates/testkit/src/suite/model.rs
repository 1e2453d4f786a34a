//! What a destination should hold, kept in the plainest way: change by change, without batches. Greater versions
//! win, equal ones and lesser ones are no-ops, deletes leave their version, a truncate removes what stood before it.
//!
//! Where a change did not send a value, the model knows the whole row of the source: a sink must have kept it.

use std::collections::BTreeMap;

use settle_core::sink::Outcome;
use settle_core::truncate::Cuts;
use settle_core::version::Version;

use super::source::{Meaning, Source, Written};
use super::table::{Contents, Live, Row, RowKey};

/// Every table of a source, as far as its records were delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    tables: BTreeMap<usize, Held>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    rows: BTreeMap<RowKey, (Version, Option<Row>)>,
    cuts: Cuts,
}

impl Model {
    /// Takes one batch, and says what a sink that can tell should say of its rows.
    pub(super) fn take<'a>(&mut self, batch: impl Iterator<Item = &'a Written>) -> Outcome {
        let mut survivors: BTreeMap<(usize, &RowKey), (Version, &Option<Row>)> = BTreeMap::new();
        for written in batch {
            match &written.meaning {
                Meaning::Row { table, key, version, row } => {
                    let known = survivors.entry((*table, key)).or_insert((*version, row));
                    if known.0 < *version {
                        *known = (*version, row);
                    }
                }
                Meaning::Truncate { table, cut } => {
                    let held = self.tables.entry(*table).or_default();
                    held.cuts.add(*cut);
                    held.rows.retain(|_, (version, _)| !cut.empties(*version));
                }
                Meaning::Nothing => {}
            }
        }
        let mut outcome = Outcome::default();
        for ((table, key), (version, row)) in survivors {
            let held = self.tables.entry(table).or_default();
            let is_new = held.rows.get(key).is_none_or(|(known, _)| *known < version);
            if is_new && !held.cuts.empties(version) {
                held.rows.insert(key.clone(), (version, row.clone()));
                outcome.applied += 1;
            } else {
                outcome.stale += 1;
            }
        }
        outcome
    }

    /// What the source's table should be in the destination.
    pub(super) fn contents(&self, source: &Source, table: usize) -> Contents {
        let mut contents = Contents::default();
        for (key, (version, row)) in self.tables.get(&table).into_iter().flat_map(|held| &held.rows) {
            match row {
                Some(row) => {
                    let columns = source.table(table).shown(row);
                    contents.live.insert(key.clone(), Live { version: *version, columns });
                }
                None => {
                    contents.deleted.insert(key.clone(), *version);
                }
            }
        }
        contents
    }

    /// Leaves out what a truncate removed: whether a delete's version outlives that is the sink's matter.
    pub(super) fn without_emptied(&self, table: usize, mut seen: Contents) -> Contents {
        let cuts = self.tables.get(&table).map(|held| held.cuts).unwrap_or_default();
        seen.deleted.retain(|_, version| !cuts.empties(*version));
        seen
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::source::{Engine, Sent};
    use super::super::table::Table;
    use super::*;

    #[test]
    fn a_model_that_took_the_whole_log_is_the_source() {
        for engine in [Engine::Postgres, Engine::MariaDb] {
            let mut source = Source::new(engine, [Table::of("t")]);
            source.insert(0, json!({"id": 1, "n": 1, "body": "a"}));
            source.insert(0, json!({"id": 2, "n": 1, "body": "b"}));
            source.truncate(0, 1);
            source.insert(0, json!({"id": 1, "n": 2, "body": "c"}));
            source.transaction(|source| {
                source.insert(0, json!({"id": 3, "n": 3, "body": "d"}));
                source.rename(0, json!({"id": 1}), json!({"id": 4}), Sent::Whole);
                source.delete(0, json!({"id": 3}));
            });
            source.snapshot(0);
            source.read_again(0);
            source.update(0, json!({"id": 4, "n": 9}), Sent::Whole);
            source.send_again(3..6);
            for size in [1, 3, 100] {
                let mut model = Model::default();
                for batch in source.log().chunks(size) {
                    model.take(batch.iter());
                }
                let rows: Vec<_> =
                    source.rows(0).iter().map(|(key, row)| (key.clone(), source.table(0).shown(row))).collect();
                let live = model.contents(&source, 0).live;
                assert_eq!(live.into_iter().map(|(key, live)| (key, live.columns)).collect::<Vec<_>>(), rows);
            }
        }
    }
}
