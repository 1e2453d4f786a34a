//! The columns that each key's last event carries: those of which the log says how they end.

use std::collections::{BTreeMap, HashMap};

use settle_core::record::Record;

use super::engine::Engine;
use super::spelling::plain;
use super::topic::Topic;
use crate::database::Shown;
use crate::log::batch;

pub struct Carried {
    by_key: HashMap<Vec<String>, Vec<String>>,
    /// Where all rows carry the same: keys that JSON spells otherwise than the database are not looked up.
    by_all: Option<Vec<String>>,
}

impl Carried {
    pub fn by<E: Engine>(records: &[Record]) -> Self {
        let batch = batch(records);
        let rows = batch.tables().next().unwrap().rows().filter(|row| !row.is_delete());
        let by_key: HashMap<Vec<String>, Vec<String>> = rows
            .map(|row| {
                let key = row.key().fields().map(|(_, json)| E::comparable(&plain(json)));
                (key.collect(), row.columns().iter().map(|column| column.name.to_string()).collect())
            })
            .collect();
        let first = by_key.values().next().unwrap().clone();
        let by_all = by_key.values().all(|names| *names == first).then_some(first);
        Self { by_key, by_all }
    }

    fn of(&self, key: &[String]) -> &[String] {
        self.by_all.as_ref().unwrap_or_else(|| &self.by_key[key])
    }

    /// The rows without what their last event does not carry: a column that was dropped at the
    /// source keeps its values, if the table got it at all.
    pub fn only<E: Engine>(&self, topic: &Topic, mut rows: Vec<Shown>) -> Vec<Shown> {
        for row in &mut rows {
            let names = self.of(&topic.id::<E>(row)).to_vec();
            row.retain(|name, _| names.contains(name));
        }
        rows
    }

    /// Compares the database with the source table.
    pub fn compare<E: Engine>(&self, topic: &Topic, expected: &[Shown], rows: &[Shown], context: &str) {
        let expected: BTreeMap<_, _> = expected.iter().map(|row| (topic.id::<E>(row), row)).collect();
        let actual: BTreeMap<_, _> = rows.iter().map(|row| (topic.id::<E>(row), row)).collect();
        let mut keys: Vec<_> = actual.keys().cloned().collect();
        keys.retain(|key| !topic.left.contains(&key[0].as_str()));
        assert_eq!(keys, expected.keys().cloned().collect::<Vec<_>>(), "{context}: keys");
        for (key, wanted) in &expected {
            for (name, wanted) in *wanted {
                if self.of(key).contains(name) && !topic.lost.contains(&(&key[0], name)) {
                    let wanted = wanted.as_deref().map(E::comparable);
                    let found = actual[key].get(name).and_then(Option::as_deref).map(E::comparable);
                    assert!(
                        E::same(wanted.as_deref(), found.as_deref()),
                        "{context}: {key:?} {name}: {wanted:?} {found:?}"
                    );
                }
            }
        }
    }
}
