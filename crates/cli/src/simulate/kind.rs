//! Kinds of transactions, and how often each comes up.

use serde::Serialize;

use crate::database::Engine;
use crate::simulate::{Hazard, Hazards};

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Inserts a customer.
    NewCustomer,
    /// Inserts an order with its items.
    NewOrder,
    /// Moves an order on.
    UpdateOrder,
    /// Changes a customer.
    UpdateCustomer,
    /// Deletes an order with its items.
    DeleteOrder,
    /// Deletes a customer.
    DeleteCustomer,
    /// Inserts, rewrites or deletes a document.
    Document,
    /// Inserts, changes or deletes a product.
    Product,
    /// Inserts, changes or deletes a visit.
    Visit,
    /// See [`Hazard::InsertUpdate`].
    InsertUpdate,
    /// See [`Hazard::Reinsert`].
    Reinsert,
    /// See [`Hazard::KeyChange`].
    KeyChange,
    /// See [`Hazard::MultiRow`].
    MultiRow,
    /// See [`Hazard::Savepoint`].
    Savepoint,
    /// See [`Hazard::Rollback`].
    Rollback,
    /// See [`Hazard::LongOpen`].
    LongOpen,
    /// See [`Hazard::HotKey`].
    HotKey,
    /// See [`Hazard::Toast`].
    Toast,
    /// See [`Hazard::SetTimestamp`].
    SetTimestamp,
    /// See [`Hazard::Replace`].
    Replace,
    /// See [`Hazard::Truncate`].
    Truncate,
}

impl Kind {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NewCustomer => "new-customer",
            Self::NewOrder => "new-order",
            Self::UpdateOrder => "update-order",
            Self::UpdateCustomer => "update-customer",
            Self::DeleteOrder => "delete-order",
            Self::DeleteCustomer => "delete-customer",
            Self::Document => "document",
            Self::Product => "product",
            Self::Visit => "visit",
            Self::InsertUpdate => "insert-update",
            Self::Reinsert => "reinsert",
            Self::KeyChange => "key-change",
            Self::MultiRow => "multi-row",
            Self::Savepoint => "savepoint",
            Self::Rollback => "rollback",
            Self::LongOpen => "long-open",
            Self::HotKey => "hot-key",
            Self::Toast => "toast",
            Self::SetTimestamp => "set-timestamp",
            Self::Replace => "replace",
            Self::Truncate => "truncate",
        }
    }
}

/// Every kind with its share, in thousandths where all are on, and the hazard that switches it on.
const MENU: [(Kind, u32, Option<Hazard>); 21] = [
    (Kind::NewCustomer, 60, None),
    (Kind::NewOrder, 140, None),
    (Kind::UpdateOrder, 160, None),
    (Kind::UpdateCustomer, 80, None),
    (Kind::DeleteOrder, 70, None),
    (Kind::DeleteCustomer, 20, None),
    (Kind::Document, 30, None),
    (Kind::Product, 60, None),
    (Kind::Visit, 40, Some(Hazard::Keyless)),
    (Kind::InsertUpdate, 40, Some(Hazard::InsertUpdate)),
    (Kind::Reinsert, 40, Some(Hazard::Reinsert)),
    (Kind::KeyChange, 40, Some(Hazard::KeyChange)),
    (Kind::MultiRow, 30, Some(Hazard::MultiRow)),
    (Kind::Savepoint, 30, Some(Hazard::Savepoint)),
    (Kind::Rollback, 30, Some(Hazard::Rollback)),
    (Kind::LongOpen, 15, Some(Hazard::LongOpen)),
    (Kind::HotKey, 40, Some(Hazard::HotKey)),
    (Kind::Toast, 50, Some(Hazard::Toast)),
    (Kind::SetTimestamp, 20, Some(Hazard::SetTimestamp)),
    (Kind::Replace, 30, Some(Hazard::Replace)),
    (Kind::Truncate, 2, Some(Hazard::Truncate)),
];

/// The kinds that are on, with their shares.
pub(crate) struct Menu {
    kinds: Vec<(Kind, u32)>,
    total: u32,
}

impl Menu {
    pub(crate) fn new(hazards: &Hazards, engine: Engine) -> Self {
        let on = |hazard: Option<Hazard>| hazard.is_none_or(|hazard| hazards.has(hazard, engine));
        let kinds: Vec<(Kind, u32)> =
            MENU.iter().filter(|entry| on(entry.2)).map(|(kind, share, _)| (*kind, *share)).collect();
        let total = kinds.iter().map(|(_, share)| share).sum();
        Self { kinds, total }
    }

    /// Numbers that [`Menu::at`] takes: from 0 to below this.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// The kind whose share holds `number`.
    pub(crate) fn at(&self, mut number: u32) -> Kind {
        for (kind, share) in &self.kinds {
            match number.checked_sub(*share) {
                Some(rest) => number = rest,
                None => return *kind,
            }
        }
        Kind::NewCustomer
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_menu_holds_every_kind_that_is_on() {
        let all = Menu::new(&Hazards::parse("all").unwrap(), Engine::MySql);
        let kinds: BTreeSet<Kind> = (0..all.total()).map(|number| all.at(number)).collect();
        assert_eq!(kinds.len(), MENU.len());
        let none = Menu::new(&Hazards::none(), Engine::Postgres);
        assert!((0..none.total()).all(|number| none.at(number) <= Kind::Product));
    }
}
