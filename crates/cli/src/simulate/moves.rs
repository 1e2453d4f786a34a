//! What a transaction of each kind consists of.

use rand::RngExt;

use crate::database::Engine;
use crate::simulate::cell::Cell;
use crate::simulate::goods::STATUSES;
use crate::simulate::plan::{End, Planner, Transaction};
use crate::simulate::statement::{Change, Rows, Statement};
use crate::simulate::stock::Effect;
use crate::simulate::{Kind, Table};

/// The customer that everybody updates.
const HOT: i64 = 1;
/// Key changes of items move lines by this, so that no line is met twice.
const LINES_APART: i64 = 100;

fn commit(kind: Kind, statements: Vec<Statement>, effects: Vec<Effect>) -> Transaction {
    Transaction { kind, statements, effects, end: End::Commit }
}

impl Planner {
    /// A transaction of this kind; none where there is no row for it yet.
    pub(super) fn of_kind(&mut self, kind: Kind) -> Option<Transaction> {
        match kind {
            Kind::NewCustomer => Some(self.new_customer()),
            Kind::NewOrder => {
                let (statements, effects, _) = self.new_order();
                Some(commit(kind, statements, effects))
            }
            Kind::UpdateOrder => {
                let order = self.some(Table::Orders, 25)?;
                Some(commit(kind, vec![self.move_order(order)], vec![]))
            }
            Kind::UpdateCustomer => {
                let customer = self.some(Table::Customers, 25)?;
                Some(commit(kind, vec![self.move_customer(customer)], vec![]))
            }
            Kind::DeleteOrder => self.delete_order(),
            Kind::DeleteCustomer => {
                let key = self.stock.pick(Table::Customers, &mut self.goods.random)?;
                let delete = Statement::Delete(Table::Customers, Rows::one(Table::Customers, [key]));
                Some(commit(kind, vec![delete], vec![Effect::Gone(Table::Customers, key)]))
            }
            Kind::Document => self.document(),
            Kind::Product => self.product(),
            Kind::Visit => Some(self.visit()),
            Kind::InsertUpdate => Some(self.insert_update()),
            Kind::Reinsert => self.reinsert(),
            Kind::KeyChange => self.key_change(),
            Kind::MultiRow => Some(self.multi_row()),
            Kind::Savepoint => Some(self.savepoint()),
            Kind::Rollback => Some(self.rollback()),
            Kind::LongOpen => self.long_open(),
            Kind::HotKey => Some(self.hot_key()),
            Kind::Toast => self.toast(),
            Kind::SetTimestamp => self.set_timestamp(),
            Kind::Replace => self.replace(),
            Kind::Truncate => {
                Some(commit(kind, vec![Statement::Truncate(Table::OrderItems)], vec![Effect::ItemsEmptied]))
            }
        }
    }

    pub(super) fn new_customer(&mut self) -> Transaction {
        let key = self.fresh();
        let insert = Statement::Insert(Table::Customers, vec![self.goods.customer(key)]);
        commit(Kind::NewCustomer, vec![insert], vec![Effect::Born(Table::Customers, key)])
    }

    fn new_order(&mut self) -> (Vec<Statement>, Vec<Effect>, i64) {
        let customer = self.some(Table::Customers, 20).unwrap_or(HOT);
        let key = self.fresh();
        let lines = self.goods.number(1, 4);
        let items = (1..=lines).map(|line| self.goods.item(key, line, line)).collect();
        let statements = vec![
            Statement::Insert(Table::Orders, vec![self.goods.order(key, customer)]),
            Statement::Insert(Table::OrderItems, items),
        ];
        let mut effects = vec![Effect::Born(Table::Orders, key)];
        effects.extend((1..=lines).map(|line| Effect::ItemBorn(key, line, line)));
        (statements, effects, key)
    }

    fn move_order(&mut self, key: i64) -> Statement {
        let changes = vec![
            ("status", Change::To(self.goods.one_of(&STATUSES))),
            ("amount", Change::To(self.goods.money())),
            ("updated_at", Change::To(self.goods.now())),
        ];
        Statement::Update(Table::Orders, changes, Rows::one(Table::Orders, [key]))
    }

    fn move_customer(&mut self, key: i64) -> Statement {
        let email = if self.goods.chance(20) { Cell::Null } else { Cell::text(format!("new{key}@example.com")) };
        let changes = vec![
            ("city", Change::To(self.goods.city())),
            ("email", Change::To(email)),
            ("updated_at", Change::To(self.goods.now())),
        ];
        Statement::Update(Table::Customers, changes, Rows::one(Table::Customers, [key]))
    }

    fn delete_order(&mut self) -> Option<Transaction> {
        let key = self.stock.pick(Table::Orders, &mut self.goods.random)?;
        let lines: Vec<[i64; 2]> = self.stock.items(key).into_iter().map(|(line, _)| [key, line]).collect();
        let mut statements = Vec::new();
        if !lines.is_empty() {
            statements.push(Statement::Delete(Table::OrderItems, Rows::many(Table::OrderItems, lines)));
        }
        statements.push(Statement::Delete(Table::Orders, Rows::one(Table::Orders, [key])));
        Some(commit(Kind::DeleteOrder, statements, vec![Effect::Gone(Table::Orders, key)]))
    }

    fn document(&mut self) -> Option<Transaction> {
        let table = Table::Documents;
        let key = self.stock.pick(table, &mut self.goods.random);
        let (statement, effects) = match (key, self.goods.number(0, 9)) {
            (None, _) | (_, 0..4) => {
                let key = self.fresh();
                (Statement::Insert(table, vec![self.goods.document(key)]), vec![Effect::Born(table, key)])
            }
            (Some(key), 4..8) => {
                let changes = vec![
                    ("body", Change::To(if self.goods.chance(10) { Cell::Null } else { self.goods.body() })),
                    ("revision", Change::Plus(Cell::Int(1))),
                ];
                (Statement::Update(table, changes, Rows::one(table, [key])), vec![])
            }
            (Some(key), _) => (Statement::Delete(table, Rows::one(table, [key])), vec![Effect::Gone(table, key)]),
        };
        Some(commit(Kind::Document, vec![statement], effects))
    }

    fn product(&mut self) -> Option<Transaction> {
        let table = Table::Products;
        let key = self.stock.pick(table, &mut self.goods.random);
        let (statement, effects) = match (key, self.goods.number(0, 9)) {
            (None, _) | (_, 0..3) => {
                let key = self.fresh();
                (Statement::Insert(table, vec![self.goods.product(key, self.engine)]), vec![Effect::Born(table, key)])
            }
            (Some(key), 3..9) => {
                let row = self.goods.product(key, self.engine);
                let kept = self.goods.random.random_range(1..row.len());
                let changes = table.columns().zip(row).skip(kept).map(|(column, cell)| (column, Change::To(cell)));
                (Statement::Update(table, changes.collect(), Rows::one(table, [key])), vec![])
            }
            (Some(key), _) => (Statement::Delete(table, Rows::one(table, [key])), vec![Effect::Gone(table, key)]),
        };
        Some(commit(Kind::Product, vec![statement], effects))
    }

    fn visit(&mut self) -> Transaction {
        let customer = self.some(Table::Customers, 20).unwrap_or(HOT);
        let rows = Rows { columns: &["customer_id"], values: vec![vec![Cell::Int(customer)]] };
        let statement = match self.goods.number(0, 9) {
            0..7 => Statement::Insert(Table::Visits, vec![self.goods.visit(customer)]),
            7..9 => Statement::Update(Table::Visits, vec![("page", Change::To(Cell::text("/")))], rows),
            _ => Statement::Delete(Table::Visits, rows),
        };
        commit(Kind::Visit, vec![statement], vec![])
    }

    fn insert_update(&mut self) -> Transaction {
        let table = Table::Customers;
        let key = self.fresh();
        let mut statements = vec![Statement::Insert(table, vec![self.goods.customer(key)])];
        for _ in 0..self.goods.number(1, 3) {
            statements.push(self.move_customer(key));
        }
        let mut effects = vec![Effect::Born(table, key)];
        if self.goods.chance(25) {
            statements.push(Statement::Delete(table, Rows::one(table, [key])));
            effects.push(Effect::Gone(table, key));
        }
        commit(Kind::InsertUpdate, statements, effects)
    }

    fn reinsert(&mut self) -> Option<Transaction> {
        if self.goods.chance(40) {
            let order = self.stock.pick(Table::Orders, &mut self.goods.random)?;
            let (line, sku) = self.stock.items(order).first().copied()?;
            let rows = Rows::one(Table::OrderItems, [order, line]);
            let statements = vec![
                Statement::Delete(Table::OrderItems, rows),
                Statement::Insert(Table::OrderItems, vec![self.goods.item(order, line, sku)]),
            ];
            return Some(commit(Kind::Reinsert, statements, vec![]));
        }
        let key = self.some(Table::Customers, 20)?;
        let statements = vec![
            Statement::Delete(Table::Customers, Rows::one(Table::Customers, [key])),
            Statement::Insert(Table::Customers, vec![self.goods.customer(key)]),
        ];
        Some(commit(Kind::Reinsert, statements, vec![]))
    }

    fn key_change(&mut self) -> Option<Transaction> {
        if self.goods.chance(40) {
            let order = self.stock.pick(Table::Orders, &mut self.goods.random)?;
            let (line, sku) = self.stock.items(order).last().copied()?;
            let to = line + LINES_APART;
            let changes = vec![("line", Change::To(Cell::Int(to))), ("quantity", Change::Plus(Cell::Int(1)))];
            let update = Statement::Update(Table::OrderItems, changes, Rows::one(Table::OrderItems, [order, line]));
            let effects = vec![Effect::ItemGone(order, line), Effect::ItemBorn(order, to, sku)];
            return Some(commit(Kind::KeyChange, vec![update], effects));
        }
        let table = Table::Customers;
        let from = self.stock.pick(table, &mut self.goods.random)?;
        let to = self.fresh();
        let change = |from: i64, to: i64| {
            let changes = vec![("customer_id", Change::To(Cell::Int(to)))];
            Statement::Update(table, changes, Rows::one(table, [from]))
        };
        let mut statements = vec![change(from, to)];
        if self.goods.chance(20) {
            statements.push(self.move_customer(to));
            statements.push(change(to, from));
            return Some(commit(Kind::KeyChange, statements, vec![]));
        }
        let effects = vec![Effect::Gone(table, from), Effect::Born(table, to)];
        Some(commit(Kind::KeyChange, statements, effects))
    }

    /// Many rows in one statement; with shared ones in any order, which is how deadlocks come about.
    fn multi_row(&mut self) -> Transaction {
        let mut statements = Vec::new();
        let mut effects = Vec::new();
        for _ in 0..2 {
            let mut keys = self.stock.pick_many(Table::Orders, 10, &mut self.goods.random);
            keys.extend([self.shared(), self.shared()]);
            let changes = vec![
                ("status", Change::To(self.goods.one_of(&STATUSES))),
                ("updated_at", Change::To(self.goods.now())),
            ];
            let rows = Rows::many(Table::Orders, keys.into_iter().map(|key| [key]));
            statements.push(Statement::Update(Table::Orders, changes, rows));
        }
        let keys: Vec<i64> = (0..self.goods.number(2, 8)).map(|_| self.fresh()).collect();
        let rows = keys.iter().map(|key| self.goods.customer(*key)).collect();
        statements.push(Statement::Insert(Table::Customers, rows));
        effects.extend(keys.into_iter().map(|key| Effect::Born(Table::Customers, key)));
        let gone = self.stock.pick_many(Table::Customers, 4, &mut self.goods.random);
        if !gone.is_empty() {
            let rows = Rows::many(Table::Customers, gone.iter().map(|key| [*key]));
            statements.push(Statement::Delete(Table::Customers, rows));
            effects.extend(gone.into_iter().map(|key| Effect::Gone(Table::Customers, key)));
        }
        commit(Kind::MultiRow, statements, effects)
    }

    fn savepoint(&mut self) -> Transaction {
        let (mut statements, effects, key) = self.new_order();
        statements.push(Statement::Savepoint);
        statements.push(self.move_order(key));
        statements.push(Statement::Delete(Table::OrderItems, Rows::one(Table::OrderItems, [key, 1])));
        statements.push(Statement::BackToSavepoint);
        if self.goods.chance(70) {
            statements.push(self.move_order(key));
        }
        commit(Kind::Savepoint, statements, effects)
    }

    fn rollback(&mut self) -> Transaction {
        let (mut statements, ..) = self.new_order();
        if let Some(customer) = self.some(Table::Customers, 20) {
            statements.push(self.move_customer(customer));
        }
        if let Some(gone) = self.delete_order() {
            statements.extend(gone.statements);
        }
        Transaction { kind: Kind::Rollback, statements, effects: vec![], end: End::Rollback }
    }

    /// Only rows of its own, by whole keys of tables without a second index: nothing that others,
    /// or the same writer's next transactions, would have to wait for.
    fn long_open(&mut self) -> Option<Transaction> {
        if self.has_long() {
            return None;
        }
        let customer = self.stock.pick(Table::Customers, &mut self.goods.random)?;
        let order = self.stock.pick(Table::Orders, &mut self.goods.random)?;
        self.stock.hold([(Table::Customers, customer), (Table::Orders, order)]);
        let key = self.fresh();
        let statements = vec![
            self.move_customer(customer),
            self.move_order(order),
            Statement::Insert(Table::Orders, vec![self.goods.order(key, customer)]),
        ];
        let effects = vec![Effect::Born(Table::Orders, key)];
        Some(Transaction { kind: Kind::LongOpen, statements, effects, end: End::StayOpen })
    }

    fn hot_key(&mut self) -> Transaction {
        let step = self.goods.number(1, 500);
        let changes =
            vec![("credit", Change::Plus(Cell::decimal(step, 2))), ("updated_at", Change::To(self.goods.now()))];
        let update = Statement::Update(Table::Customers, changes, Rows::one(Table::Customers, [HOT]));
        commit(Kind::HotKey, vec![update], vec![])
    }

    fn toast(&mut self) -> Option<Transaction> {
        let key = self.some(Table::Documents, 50)?;
        let changes = vec![("title", Change::To(self.goods.name())), ("revision", Change::Plus(Cell::Int(1)))];
        let update = Statement::Update(Table::Documents, changes, Rows::one(Table::Documents, [key]));
        Some(commit(Kind::Toast, vec![update], vec![]))
    }

    fn set_timestamp(&mut self) -> Option<Transaction> {
        let order = self.some(Table::Orders, 40)?;
        let back = self.goods.number(1_500_000_000, 1_700_000_000);
        let statements = vec![
            Statement::Clock(u64::try_from(back).ok()),
            self.move_order(order),
            self.move_order(order),
            Statement::Clock(None),
        ];
        Some(commit(Kind::SetTimestamp, statements, vec![]))
    }

    /// Takes the place of an item: another line with the same SKU, or the same line.
    fn replace(&mut self) -> Option<Transaction> {
        let order = self.stock.pick(Table::Orders, &mut self.goods.random)?;
        let (line, sku) = self.stock.items(order).last().copied()?;
        let to = if self.goods.chance(70) { line + LINES_APART } else { line };
        let replace = Statement::Replace(Table::OrderItems, vec![self.goods.item(order, to, sku)]);
        let effects = vec![Effect::ItemGone(order, line), Effect::ItemBorn(order, to, sku)];
        Some(commit(Kind::Replace, vec![replace], effects))
    }
}

/// True where a transaction of this kind cannot run inside `BEGIN` and `COMMIT`.
pub(crate) fn stands_alone(transaction: &Transaction, engine: Engine) -> bool {
    engine == Engine::MySql && transaction.statements.iter().any(|s| matches!(s, Statement::Truncate(_)))
}
