//! The rows of one table, in the transaction of their batch.
//!
//! Where a key reads back as it was bound, rows are written many at once: what the tombstones say of
//! them is asked first, then deletes go, then upserts by the columns that they carry. Elsewhere, and
//! where values were not sent, one row is written after the other, in the order of the log.

use std::sync::Arc;

use crate::sinks::sql::sweeps::Emptied;
use mysql_async::Value as Bound;
use settle_core::batch::{Kept, Row};
use settle_core::change::Change;
use settle_core::columns::Column as Carried;
use settle_core::key::Key;
use settle_core::schema::{Conventions, Origin};
use settle_core::sink::{self, FailureKind, SinkError};
use settle_core::version::Version;

use super::bind::bound;
use super::connection::{Connection, Done, Refused};
use super::failure::{Outcome, TOO_LARGE, contract};
use super::ident::ident;
use super::moved::Moved;
use super::pieces::size;
use super::prepared::Prepared;
use super::shape::{Mark, Shape};
use crate::config::target::Deletes;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::keyed::KeyColumn;
use crate::sinks::unsent;

const SQL: Dialect = Dialect::MySql;

/// What the server's limit has room for beside the values.
pub(super) const HEADROOM: usize = 64 << 10;

/// A row of the batch, with what was found out about it before the transaction.
pub(super) struct Laid<'b> {
    pub(super) row: Row<'b>,
    /// Its place among the rows of its table.
    pub(super) index: usize,
    pub(super) columns: Vec<Carried<'b>>,
}

/// A row that is to be written.
pub(super) struct Item<'l, 'b> {
    laid: &'l Laid<'b>,
    pub(super) key: Vec<Bound>,
    pub(super) ident: Vec<u8>,
    /// The version of its tombstone.
    pub(super) grave: Option<Version>,
}

impl<'b> Item<'_, 'b> {
    pub(super) fn change(&self) -> &'b Change {
        self.laid.row.change()
    }

    fn version(&self) -> Version {
        self.laid.row.version()
    }
}

/// Writes the rows of one table.
pub(super) struct Writer<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) prepared: &'a mut Prepared,
    pub(super) conventions: &'a Conventions,
    pub(super) emptied: Emptied<'a>,
}

impl Writer<'_> {
    pub(super) async fn write(
        &mut self,
        rows: &[Laid<'_>],
        has_key_changes: bool,
        outcome: &mut sink::Outcome,
    ) -> Outcome<()> {
        // Looked up before anything is written: the delete of the old key is in the same batch.
        let moved = if has_key_changes { self.moved(rows).await? } else { Moved::default() };
        let mut items = Vec::with_capacity(rows.len());
        for laid in rows {
            if self.emptied.takes(laid.row)? {
                outcome.stale += 1;
                continue;
            }
            let key = self.key(laid.row.key(), laid.row.change())?;
            items.push(Item { ident: ident(&key), key, laid, grave: None });
        }
        let written = items.len() as u64;
        let applied = match self.prepared.many {
            true => self.many(items, &moved).await?,
            false => {
                items.sort_by_key(Item::version);
                let mut applied = 0;
                for mut item in items {
                    item.grave = self.grave(&item.key).await?;
                    applied += u64::from(self.one(&item, &moved).await?);
                }
                applied
            }
        };
        outcome.applied += applied;
        outcome.stale += written - applied;
        Ok(())
    }

    /// Writes rows many at once; says how many were applied.
    async fn many(&mut self, mut items: Vec<Item<'_, '_>>, moved: &Moved) -> Outcome<u64> {
        // Of two keys that the table takes for one, the last change counts.
        items.sort_by(|a, b| a.ident.cmp(&b.ident).then(b.version().cmp(&a.version())));
        items.dedup_by(|later, first| later.ident == first.ident);
        if self.prepared.has_tombstones {
            let graves = self.graves(&items).await?;
            for item in &mut items {
                item.grave = graves.get(&item.ident).copied();
            }
            items.retain(|item| item.grave.is_none_or(|grave| grave < item.version()));
        }
        let (deletes, upserts): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.laid.row.is_delete());
        let mut applied = match self.prepared.plan.deletes {
            Deletes::Soft => self.mark(&deletes).await?,
            Deletes::Hard => self.delete(&deletes).await?,
        };
        self.end_rows(&upserts).await?;
        let mut shapes: Vec<(Arc<Shape>, Vec<Item<'_, '_>>)> = Vec::new();
        for item in upserts {
            let shape = self.shape(item.laid, moved)?;
            if shape.fields.keeps_any || shape.fields.loses {
                applied += u64::from(self.upsert_one(&item, &shape, moved).await?);
                continue;
            }
            match shapes.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &shape)) {
                Some((_, items)) => items.push(item),
                None => shapes.push((shape, vec![item])),
            }
        }
        for (shape, items) in &shapes {
            applied += self.upsert(shape, items, moved).await?;
        }
        Ok(applied)
    }

    async fn upsert(&mut self, shape: &Shape, items: &[Item<'_, '_>], moved: &Moved) -> Outcome<u64> {
        let applied = self
            .chunks(&shape.upsert, items, |writer, item, values| {
                values.extend(item.key.iter().cloned());
                writer.own(shape, item, moved, values)?;
                values.extend(halves(item.version()));
                Ok(())
            })
            .await?;
        // Older than the row that is there now, whether it is this one or one as new.
        self.drop_graves(items).await?;
        Ok(applied)
    }

    /// Marks rows deleted, also such as were never seen.
    async fn mark(&mut self, items: &[Item<'_, '_>]) -> Outcome<u64> {
        let Some(mark) = self.prepared.statements.mark.clone() else { return self.delete(items).await };
        let marked = self
            .chunks(&mark.upsert, items, |_, item, values| {
                values.extend(item.key.iter().cloned());
                values.extend(tail(item.change()));
                Ok(())
            })
            .await?;
        self.drop_graves(items).await?;
        Ok(marked)
    }

    /// Removes rows, and leaves their versions.
    async fn delete(&mut self, items: &[Item<'_, '_>]) -> Outcome<u64> {
        if items.is_empty() {
            return Ok(0);
        }
        let stored = self.stored_of(items).await?;
        let older = |item: &&Item<'_, '_>| stored.get(&item.ident).is_none_or(|stored| stored.version < item.version());
        let (dead, there): (Vec<&Item<'_, '_>>, Vec<&Item<'_, '_>>) = {
            let dead: Vec<&Item<'_, '_>> = items.iter().filter(older).collect();
            let there = dead.iter().copied().filter(|item| stored.contains_key(&item.ident)).collect();
            (dead, there)
        };
        for (what, items) in [(Buried::Grave, dead.as_slice()), (Buried::Row, there.as_slice())] {
            self.bury(what, items.iter().map(|item| (*item, item.version())).collect()).await?;
        }
        Ok(dead.len() as u64)
    }

    /// Removes what is left of rows that were deleted in this batch, and whose keys these rows took again.
    async fn end_rows(&mut self, items: &[Item<'_, '_>]) -> Outcome<()> {
        if self.prepared.plan.deletes == Deletes::Soft {
            return Ok(());
        }
        let ended = items.iter().filter_map(|item| Some((item, item.laid.row.follows_delete()?))).collect();
        self.bury(Buried::Row, ended).await
    }

    async fn bury(&mut self, what: Buried, items: Vec<(&Item<'_, '_>, Version)>) -> Outcome<()> {
        let prepared = &*self.prepared;
        let statement = match what {
            Buried::Grave => &prepared.statements.put_tombstones,
            Buried::Row => &prepared.statements.delete_rows,
        };
        for items in items.chunks(statement.most()) {
            let values: Vec<Bound> =
                items.iter().flat_map(|(item, version)| item.key.iter().cloned().chain(halves(*version))).collect();
            let ran = self.connection.run(&prepared.operation(), &statement.of(items.len()), values).await;
            ran.map_err(|refused| at_fault(refused, items.iter().map(|(item, _)| item.change())))?;
        }
        Ok(())
    }

    /// Writes one row; true if it was applied.
    async fn one(&mut self, item: &Item<'_, '_>, moved: &Moved) -> Outcome<bool> {
        if item.grave.is_some_and(|grave| grave >= item.version()) {
            return Ok(false);
        }
        let items = std::slice::from_ref(item);
        if item.laid.row.is_delete() {
            return match (self.prepared.plan.deletes, self.prepared.statements.mark.clone()) {
                (Deletes::Soft, Some(mark)) => self.mark_one(item, &mark).await,
                (Deletes::Soft | Deletes::Hard, _) => Ok(self.delete(items).await? > 0),
            };
        }
        self.end_rows(items).await?;
        let shape = self.shape(item.laid, moved)?;
        self.upsert_one(item, &shape, moved).await
    }

    /// Updates the row that is there, or inserts it. Not by an upsert: it would change the row that holds a
    /// value of another unique index.
    async fn upsert_one(&mut self, item: &Item<'_, '_>, shape: &Shape, moved: &Moved) -> Outcome<bool> {
        let change = item.change();
        let lacks = shape.fields.keeps_any || shape.fields.loses;
        // An update finds the row of this key; what came from another key is not there, unless it comes again.
        let own = moved.there.contains(&item.laid.index)
            || matches!(item.laid.row.kept(), Kept::Row { key, .. } if *key == change.key);
        let mut values = Vec::new();
        self.own(shape, item, moved, &mut values)?;
        let written = if !lacks || !shape.fields.loses && own {
            let mut update = values.clone();
            update.extend(halves(item.version()));
            update.extend(item.key.iter().cloned());
            update.extend(halves(item.version()));
            self.run_one(&shape.update, update, change).await?.affected > 0
        } else {
            false
        };
        let written = match written {
            true => true,
            false => match self.stored(&item.key).await? {
                Some(stored) if stored.version >= item.version() => false,
                // Marked deleted, or gone: what it does not carry is nowhere.
                _ if lacks => return Err(self.nothing_stored(item, moved)),
                // As new as it could be told, and still not updated: it has no place to go.
                Some(_) => return Err(contract(self.prepared.operation(), "an older row was not updated")),
                None => {
                    let mut insert = item.key.clone();
                    insert.extend(values);
                    insert.extend(halves(item.version()));
                    self.run_one(&shape.insert, insert, change).await?;
                    true
                }
            },
        };
        if written {
            self.drop_graves(std::slice::from_ref(item)).await?;
        }
        Ok(written)
    }

    async fn mark_one(&mut self, item: &Item<'_, '_>, mark: &Mark) -> Outcome<bool> {
        let (change, tail) = (item.change(), tail(item.change()));
        let mut update = tail.to_vec();
        update.extend(item.key.iter().cloned());
        update.extend(halves(item.version()));
        let mut marked = self.run_one(&mark.update, update, change).await?.affected > 0;
        if !marked && self.stored(&item.key).await?.is_none() {
            let insert = item.key.iter().cloned().chain(tail).collect();
            self.run_one(&mark.insert, insert, change).await?;
            marked = true;
        }
        if marked {
            self.drop_graves(std::slice::from_ref(item)).await?;
        }
        Ok(marked)
    }

    async fn run_one(&mut self, sql: &str, values: Vec<Bound>, change: &Change) -> Outcome<Done> {
        let room = self.connection.server.max_packet.saturating_sub(HEADROOM);
        if values.iter().map(size).sum::<usize>() > room {
            let context = format!("record {}: {TOO_LARGE}", change.place());
            return Err(SinkError::new(FailureKind::Row, self.prepared.operation(), context).at(change.place()));
        }
        let ran = self.connection.run(&self.prepared.operation(), sql, values).await;
        ran.map_err(|refused| at_fault(refused, std::iter::once(change)))
    }

    /// What a row carries of its own, and what every write sets before the version.
    fn own(&self, shape: &Shape, item: &Item<'_, '_>, moved: &Moved, values: &mut Vec<Bound>) -> Outcome<()> {
        let change = item.change();
        for &(at, target) in &shape.fields.bound {
            let value = match moved.values.get(&(item.laid.index, at)) {
                Some(value) => value.clone(),
                None => {
                    let Carried { name, json } = &item.laid.columns[at];
                    self.value(name, json, at, target, change)?
                }
            };
            values.push(value);
        }
        values.extend(head(change));
        Ok(())
    }

    fn shape(&mut self, laid: &Laid<'_>, moved: &Moved) -> Outcome<Arc<Shape>> {
        let keeps = moved.keeps(laid);
        match self.prepared.shape(&laid.columns, &keeps)? {
            Ok(shape) => Ok(shape),
            Err(_) => Err(SinkError::new(
                FailureKind::Conflict,
                self.prepared.operation(),
                "the table was changed meanwhile: it lacks a column that it had",
            )),
        }
    }

    /// The key's values, in the order of the table's key.
    pub(super) fn key(&self, key: &Key, change: &Change) -> Outcome<Vec<Bound>> {
        let value = |(at, column): (usize, &KeyColumn)| {
            let json = key.get(&column.source).ok_or_else(|| {
                let context = format!("record {}: the key lacks the field \"{}\"", change.place(), column.source);
                contract(self.prepared.operation(), context)
            })?;
            self.value(&column.source, json, at, column.at, change)
        };
        self.prepared.key.iter().enumerate().map(value).collect()
    }

    fn value(&self, source: &str, json: &str, hint: usize, target: usize, change: &Change) -> Outcome<Bound> {
        let target = &self.prepared.table.columns[target];
        let field = change.schema.as_ref().and_then(|schema| schema.field(source, hint));
        bound(json, Origin::of(field, self.conventions, &target.storage.kind), &target.storage).map_err(|misfit| {
            let kind = if misfit.is_contract() { FailureKind::Contract } else { FailureKind::Row };
            let context = format!("record {}, column \"{}\": {misfit}", change.place(), target.name);
            SinkError::new(kind, self.prepared.operation(), context).at(change.place())
        })
    }

    fn nothing_stored(&self, item: &Item<'_, '_>, moved: &Moved) -> SinkError {
        let keeps = moved.keeps(item.laid);
        let missing =
            item.laid.columns.iter().zip(&keeps).filter(|(_, keeps)| **keeps).map(|(column, _)| &*column.name);
        let context = unsent::nothing_stored(item.change(), &SQL.list(missing), item.laid.row.kept());
        contract(self.prepared.operation(), context)
    }
}

/// What a delete leaves, and what it removes.
#[derive(Clone, Copy)]
enum Buried {
    Grave,
    Row,
}

fn halves(version: Version) -> [Bound; 2] {
    [Bound::Int(version.hi_signed()), Bound::Int(version.lo_signed())]
}

/// `_op` and `_source_ts_ms`.
fn head(change: &Change) -> [Bound; 2] {
    [change.op.letter().into(), change.source_ts_ms.map_or(Bound::NULL, Bound::Int)]
}

/// What every write sets after the record's own columns.
fn tail(change: &Change) -> [Bound; 4] {
    let ([op, time], [hi, lo]) = (head(change), halves(change.version));
    [op, time, hi, lo]
}

/// A row that the server refused is found by its record, where that is known.
pub(super) fn at_fault<'c>(refused: Refused, changes: impl ExactSizeIterator<Item = &'c Change>) -> SinkError {
    let Refused { mut error, row } = refused;
    if let FailureKind::Row | FailureKind::Constraint = error.kind {
        let only = (changes.len() == 1).then_some(1);
        let change = row.or(only).and_then(|row| { changes }.nth(row - 1));
        if let Some(change) = change {
            error.context = format!("record {}: {}", change.place(), error.context);
            error.place = Some(change.place());
        }
    }
    error
}
