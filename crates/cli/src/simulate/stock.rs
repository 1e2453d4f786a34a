//! What a writer knows of its own rows: which keys are alive, and which it may touch.
//!
//! Invariant: only what has been committed is in here, so that a transaction that was rolled back,
//! or skipped, leaves no trace. Every pick depends on the order of events alone: no hash map is
//! ever walked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::simulate::Table;

/// Living keys with a pick and a removal in constant time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Living {
    keys: Vec<i64>,
    places: HashMap<i64, usize>,
}

impl Living {
    pub(crate) fn add(&mut self, key: i64) {
        if !self.places.contains_key(&key) {
            self.places.insert(key, self.keys.len());
            self.keys.push(key);
        }
    }

    fn remove(&mut self, key: i64) {
        if let Some(place) = self.places.remove(&key) {
            self.keys.swap_remove(place);
            if let Some(moved) = self.keys.get(place) {
                self.places.insert(*moved, place);
            }
        }
    }

    fn pick(&self, random: &mut Xoshiro256PlusPlus) -> Option<i64> {
        (!self.keys.is_empty()).then(|| self.keys[random.random_range(0..self.keys.len())])
    }
}

/// What a committed transaction did to the rows of its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Born(Table, i64),
    Gone(Table, i64),
    /// An item of an order: line and number of its SKU.
    ItemBorn(i64, i64, i64),
    ItemGone(i64, i64),
    ItemsEmptied,
}

/// A writer's rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stock {
    living: BTreeMap<Table, Living>,
    /// Per order: line and SKU number.
    items: HashMap<i64, BTreeMap<i64, i64>>,
    /// Keys that a transaction which is still open has touched.
    held: BTreeSet<(Table, i64)>,
}

/// Tries before a pick gives up on meeting a key that is not held.
const TRIES: usize = 8;

impl Stock {
    /// A living key that no open transaction holds.
    pub(crate) fn pick(&self, table: Table, random: &mut Xoshiro256PlusPlus) -> Option<i64> {
        let living = self.living.get(&table)?;
        (0..TRIES).find_map(|_| living.pick(random).filter(|key| !self.held.contains(&(table, *key))))
    }

    /// Up to `many` different keys.
    pub(crate) fn pick_many(&self, table: Table, many: usize, random: &mut Xoshiro256PlusPlus) -> Vec<i64> {
        let mut keys = Vec::new();
        for _ in 0..many {
            if let Some(key) = self.pick(table, random).filter(|key| !keys.contains(key)) {
                keys.push(key);
            }
        }
        keys
    }

    /// Lines of an order with the numbers of their SKUs.
    pub(crate) fn items(&self, order: i64) -> Vec<(i64, i64)> {
        self.items.get(&order).map(|items| items.iter().map(|(line, sku)| (*line, *sku)).collect()).unwrap_or_default()
    }

    /// Keeps the keys away from picks until [`Stock::release`].
    pub(crate) fn hold(&mut self, keys: impl IntoIterator<Item = (Table, i64)>) {
        self.held.extend(keys);
    }

    pub(crate) fn release(&mut self) {
        self.held.clear();
    }

    pub(crate) fn apply(&mut self, effects: &[Effect]) {
        for effect in effects {
            match *effect {
                Effect::Born(table, key) => self.living.entry(table).or_default().add(key),
                Effect::Gone(table, key) => {
                    self.living.entry(table).or_default().remove(key);
                    if table == Table::Orders {
                        self.items.remove(&key);
                    }
                }
                Effect::ItemBorn(order, line, sku) => {
                    self.items.entry(order).or_default().insert(line, sku);
                }
                Effect::ItemGone(order, line) => {
                    self.items.entry(order).or_default().remove(&line);
                }
                Effect::ItemsEmptied => self.items.clear(),
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self, table: Table) -> usize {
        self.living.get(&table).map_or(0, |living| living.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn held_and_dead_keys_are_not_picked() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut stock = Stock::default();
        stock.apply(&[1, 2, 3].map(|key| Effect::Born(Table::Customers, key)));
        stock.apply(&[Effect::Gone(Table::Customers, 1)]);
        stock.hold([(Table::Customers, 2), (Table::Orders, 3)]);
        for _ in 0..50 {
            assert!(matches!(stock.pick(Table::Customers, &mut random), Some(3) | None));
        }
        stock.release();
        let picked: BTreeSet<_> = (0..50).filter_map(|_| stock.pick(Table::Customers, &mut random)).collect();
        assert_eq!(picked, BTreeSet::from([2, 3]));
    }
}
