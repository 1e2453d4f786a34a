//! The plan of one writer: an endless row of transactions, a function of its seed and of which of
//! them were committed. It touches no database.
//!
//! Invariant: a transaction changes rows of its writer's own range of keys, which nobody else
//! touches, or updates (never deletes for good) the shared ones, which everybody does.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::database::Engine;
use crate::simulate::goods::Goods;
use crate::simulate::kind::Menu;
use crate::simulate::statement::Statement;
use crate::simulate::stock::{Effect, Stock};
use crate::simulate::{Hazards, Kind, Table};

/// Keys that a writer has for itself.
const RANGE: i64 = 10_000_000;
/// More writers would leave the range of 32 bits.
pub(crate) const MAX_WRITERS: usize = 200;
/// Shared keys of a table: 1 to this, there from the start.
pub(crate) const SHARED: i64 = 20;

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Rollback,
    /// Stays open, on a session of its own, until [`Work::CloseLong`].
    StayOpen,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) kind: Kind,
    pub(crate) statements: Vec<Statement>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) end: End,
}

/// What a writer does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Run(Transaction),
    /// Commits the transaction that stayed open.
    CloseLong,
}

/// An open transaction.
struct Long {
    effects: Vec<Effect>,
    /// Transactions until it is committed.
    left: u32,
}

/// The planner.
pub(crate) struct Planner {
    pub(super) engine: Engine,
    pub(super) goods: Goods,
    pub(super) stock: Stock,
    menu: Menu,
    /// The next unused key: one row of numbers for all tables.
    next_key: i64,
    long: Option<Long>,
}

/// The first key of a writer's range, and the first behind it.
pub(crate) fn range(writer: usize) -> (i64, i64) {
    // There are at most MAX_WRITERS.
    let first = i64::try_from(writer).unwrap_or(0).saturating_add(1).saturating_mul(RANGE);
    (first, first.saturating_add(RANGE))
}

impl Planner {
    /// A planner of its own random stream.
    pub(crate) fn new(seed: u64, writer: usize, engine: Engine, hazards: &Hazards) -> Self {
        let stream = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(writer as u64);
        Self {
            engine,
            goods: Goods::new(Xoshiro256PlusPlus::seed_from_u64(stream)),
            stock: Stock::default(),
            menu: Menu::new(hazards, engine),
            next_key: range(writer).0,
            long: None,
        }
    }

    /// Takes over a row that an earlier run left in the writer's range.
    pub(crate) fn adopt(&mut self, effect: Effect) {
        let (Effect::Born(_, key) | Effect::Gone(_, key) | Effect::ItemBorn(key, ..) | Effect::ItemGone(key, _)) =
            effect
        else {
            return;
        };
        self.next_key = self.next_key.max(key + 1);
        self.stock.apply(&[effect]);
    }

    /// What to do next.
    pub(crate) fn next(&mut self) -> Work {
        if let Some(long) = &mut self.long {
            if long.left == 0 {
                return Work::CloseLong;
            }
            long.left -= 1;
        }
        let kind = self.menu.at(self.goods.random.random_range(0..self.menu.total()));
        Work::Run(self.of_kind(kind).unwrap_or_else(|| self.new_customer()))
    }

    /// The transaction is committed.
    pub(crate) fn committed(&mut self, transaction: &Transaction) {
        self.stock.apply(&transaction.effects);
    }

    /// The transaction stays open.
    pub(crate) fn stays_open(&mut self, transaction: &Transaction) {
        let left = self.goods.random.random_range(3..20);
        self.long = Some(Long { effects: transaction.effects.clone(), left });
    }

    /// The transaction that stayed open is committed (else it was lost).
    pub(crate) fn closed(&mut self, committed: bool) {
        if let Some(long) = self.long.take()
            && committed
        {
            self.stock.apply(&long.effects);
        }
        self.stock.release();
    }

    /// True while a transaction stays open.
    pub(crate) fn has_long(&self) -> bool {
        self.long.is_some()
    }

    /// A truncate of anybody emptied the items.
    pub(crate) fn items_emptied(&mut self) {
        self.stock.apply(&[Effect::ItemsEmptied]);
    }

    /// A key that was never used.
    pub(super) fn fresh(&mut self) -> i64 {
        self.next_key += 1;
        self.next_key - 1
    }

    pub(super) fn shared(&mut self) -> i64 {
        self.goods.number(1, SHARED)
    }

    /// A shared key in `percent` of a hundred cases, else one of its own.
    pub(super) fn some(&mut self, table: Table, percent: u32) -> Option<i64> {
        match self.goods.chance(percent) {
            true => Some(self.shared()),
            false => self.stock.pick(table, &mut self.goods.random),
        }
    }
}

/// The shared rows that everything starts with: the same for every writer and server.
pub(crate) fn seed_rows(seed: u64, table: Table, engine: Engine) -> Vec<Vec<crate::simulate::cell::Cell>> {
    let stream = seed.wrapping_add(table as u64 + 1).wrapping_mul(0xD134_2543_DE82_EF95);
    let mut goods = Goods::new(Xoshiro256PlusPlus::seed_from_u64(stream));
    let keys = 1..=SHARED;
    match table {
        Table::Customers => keys.map(|key| goods.customer(key)).collect(),
        Table::Orders => keys.map(|key| goods.order(key, key)).collect(),
        Table::OrderItems => {
            keys.flat_map(|key| [1, 2].map(|line| (key, line))).map(|(key, line)| goods.item(key, line, line)).collect()
        }
        Table::Documents => keys.map(|key| goods.document(key)).collect(),
        Table::Products => keys.map(|key| goods.product(key, engine)).collect(),
        Table::Visits => keys.map(|key| goods.visit(key)).collect(),
        Table::Signal => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The first `many` transactions, each taken as done.
    fn transactions(seed: u64, writer: usize, engine: Engine, hazards: &Hazards, many: usize) -> Vec<Transaction> {
        let mut planner = Planner::new(seed, writer, engine, hazards);
        let mut all = Vec::new();
        while all.len() < many {
            match planner.next() {
                Work::CloseLong => planner.closed(true),
                Work::Run(transaction) => {
                    match transaction.end {
                        End::Commit => planner.committed(&transaction),
                        End::Rollback => {}
                        End::StayOpen => planner.stays_open(&transaction),
                    }
                    all.push(transaction);
                }
            }
        }
        all
    }

    fn text(transactions: &[Transaction], engine: Engine) -> String {
        transactions.iter().flat_map(|t| t.statements.iter().map(|s| s.sql(engine) + ";\n")).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_transactions_and_another_seed_or_writer_others() {
        let of =
            |seed, writer| text(&transactions(seed, writer, Engine::MySql, &Hazards::default(), 400), Engine::MySql);
        assert_eq!(of(7, 0), of(7, 0));
        assert_ne!(of(7, 0), of(8, 0));
        assert_ne!(of(7, 0), of(7, 1));
    }

    #[test]
    fn every_kind_that_is_on_comes_up() {
        for engine in [Engine::Postgres, Engine::MySql] {
            let hazards = Hazards::parse("all").unwrap();
            let menu = Menu::new(&hazards, engine);
            let wanted: std::collections::BTreeSet<Kind> = (0..menu.total()).map(|number| menu.at(number)).collect();
            let mut found = BTreeMap::<Kind, u32>::new();
            for transaction in transactions(3, 0, engine, &hazards, 3_000) {
                *found.entry(transaction.kind).or_default() += 1;
            }
            assert_eq!(found.keys().copied().collect::<std::collections::BTreeSet<_>>(), wanted, "{engine:?}");
        }
    }

    #[test]
    fn an_open_transaction_keeps_its_rows_from_the_others() {
        let hazards = Hazards::none().with(crate::simulate::Hazard::LongOpen);
        let mut planner = Planner::new(5, 0, Engine::Postgres, &hazards);
        let mut held: Vec<Statement> = Vec::new();
        let mut longest = 0;
        for _ in 0..2_000 {
            match planner.next() {
                Work::CloseLong => {
                    planner.closed(true);
                    held.clear();
                }
                Work::Run(transaction) if transaction.end == End::StayOpen => {
                    assert!(held.is_empty(), "one at a time");
                    planner.stays_open(&transaction);
                    held = transaction.statements;
                    longest = longest.max(held.len());
                }
                Work::Run(transaction) => {
                    let keys = |all: &[Statement]| all.iter().flat_map(keys_of).collect::<Vec<_>>();
                    let held = keys(&held);
                    assert!(keys(&transaction.statements).iter().all(|key| !held.contains(key)), "{transaction:?}");
                    planner.committed(&transaction);
                }
            }
        }
        assert!(longest > 1);
    }

    fn keys_of(statement: &Statement) -> Vec<(Table, String)> {
        let first = |row: &Vec<crate::simulate::cell::Cell>| row[0].literal(Engine::Postgres);
        match statement {
            Statement::Insert(table, rows) | Statement::Replace(table, rows) => {
                rows.iter().map(|row| (*table, first(row))).collect()
            }
            Statement::Update(table, _, rows) | Statement::Delete(table, rows) => {
                rows.values.iter().map(|row| (*table, first(row))).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_transaction_that_was_not_committed_leaves_no_trace_in_the_plan() {
        let mut planner = Planner::new(1, 0, Engine::Postgres, &Hazards::none());
        for _ in 0..200 {
            let Work::Run(transaction) = planner.next() else { panic!("nothing stays open") };
            assert_eq!(transaction.end, End::Commit);
        }
        assert!(Table::all(true).into_iter().all(|table| planner.stock.count(table) == 0));
    }
}
