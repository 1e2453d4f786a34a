//! The rows of one table in one batch: sorted out, staged, written, and counted.
//!
//! A row goes one of four ways. A whole one is upserted. One that keeps stored values updates the row
//! that has them, and no other. One whose values are stored nowhere is not written: it is stale, or the
//! run stops. A delete removes its row, or marks it.

use std::sync::Arc;

use crate::sinks::sql::sweeps::Emptied;
use bytes::BufMut;
use settle_core::batch::{Kept, Row, TableRows};
use settle_core::change::Change;
use settle_core::columns::Column as Carried;
use settle_core::key::Key;
use settle_core::schema::{Conventions, Origin};
use settle_core::sink::{self, FailureKind, SinkError};
use settle_core::version::Version;

use super::encode;
use super::failure::{Outcome, contract};
use super::layout::{Fit, Layout};
use super::moved::{self, Moved};
use super::prepared::Prepared;
use super::stage::{self, CopyError, Group, column_name, key_name};
use super::statements::Statements;
use super::table::Column;
use super::transaction::Transaction;
use super::validate;
use crate::config::target::Deletes;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::unsent;

/// The group of deletes in a stage; those of rows are counted from 1.
const DELETES: i32 = 0;
/// The group of deletes whose keys were taken again in the batch.
const ENDED: i32 = -1;

/// Writes the rows of one table.
pub(super) struct Writer<'a> {
    pub(super) session: &'a mut Transaction,
    pub(super) prepared: &'a mut Prepared,
    pub(super) conventions: &'a Conventions,
    pub(super) emptied: Emptied<'a>,
}

/// Rows that carry the same columns.
struct Set {
    layout: Arc<Layout>,
    whole: Group,
    /// Rows that keep some stored values; beside them which columns any of them keeps.
    masked: Group,
    kept: Vec<bool>,
    /// Rows of which no value is stored.
    lost: Group,
}

/// The key of a row: as fields, and as what rows are sorted by.
#[derive(Clone)]
pub(super) struct EncodedKey {
    pub(super) fields: Vec<u8>,
    pub(super) order: Vec<u8>,
}

impl Writer<'_> {
    pub(super) async fn write(&mut self, table: TableRows<'_>, outcome: &mut sink::Outcome) -> Outcome<()> {
        let rows: Vec<Row<'_>> = table.rows().collect();
        for row in &rows {
            self.prepared.check_row(*row)?;
        }
        // Looked up before anything is written: the delete of the old key is in the same batch.
        let moved = if table.has_key_changes() { moved::find(self, &rows).await? } else { Moved::default() };
        let (mut deletes, mut ended) = (Group::default(), Group::default());
        let mut sets: Vec<Set> = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if self.emptied.takes(*row)? {
                outcome.stale += 1;
            } else if row.is_delete() {
                let key = self.key(row.key(), row.change())?;
                deletes.add(index, key.order, |out| {
                    out.put_slice(&key.fields);
                    put_meta(out, row.change(), row.version());
                    Ok(())
                })?;
            } else {
                if let (Deletes::Hard, Some(deleted)) = (self.prepared.plan.deletes, row.follows_delete()) {
                    let key = self.key(row.key(), row.change())?;
                    ended.add(index, key.order, |out| {
                        out.put_slice(&key.fields);
                        put_meta(out, row.change(), deleted);
                        Ok(())
                    })?;
                }
                self.sort_out(index, *row, &moved, &mut sets).await?;
            }
        }
        let stage = stage::stage(self.session, self.prepared).await?;
        // Deletes first: what they free of another unique index may be taken by the rows that follow.
        self.delete(&stage, &rows, [deletes, ended], outcome).await?;
        for (at, set) in (0_i32..).zip(sets) {
            self.put(&stage, &rows, 3 * at, set, outcome).await?;
        }
        Ok(())
    }

    /// Puts a row to those that carry the same columns.
    async fn sort_out(&mut self, index: usize, row: Row<'_>, moved: &Moved, sets: &mut Vec<Set>) -> Outcome<()> {
        let change = row.change();
        let carried = row.columns();
        let columns: Vec<Carried<'_>> = carried.iter().cloned().chain(row.left_out()).collect();
        let is_moved = |at: usize| moved.values.contains_key(&(index, at));
        let keeps: Vec<bool> =
            columns.iter().enumerate().map(|(at, column)| column.is_unavailable() && !is_moved(at)).collect();
        let (layout, loses) = self.layout(row, &columns, &keeps).await?;
        let key = self.key(&change.key, change)?;
        let at = match sets.iter().position(|set| Arc::ptr_eq(&set.layout, &layout)) {
            Some(at) => at,
            None => {
                let kept = vec![false; layout.bound.len()];
                let (whole, masked, lost) = (Group::default(), Group::default(), Group::default());
                sets.push(Set { layout: layout.clone(), whole, masked, kept, lost });
                sets.len() - 1
            }
        };
        let Set { whole, masked, kept, lost, .. } = &mut sets[at];
        let mask: Vec<bool> = layout.bound.iter().map(|&(at, _)| keeps[at]).collect();
        let keeps_any = mask.contains(&true);
        // An update finds the row of this key; what came from another key is not there, unless it comes again.
        let own = || moved.there.contains(&index) || matches!(row.kept(), Kept::Row { key, .. } if *key == change.key);
        let group = match () {
            () if !keeps_any && !loses => whole,
            () if loses || !own() => {
                return lost.add(index, key.order, |out| {
                    out.put_i32(-1);
                    out.put_slice(&key.fields);
                    layout.bound.iter().for_each(|_| out.put_i32(-1));
                    put_meta(out, change, change.version);
                    Ok(())
                });
            }
            () => {
                kept.iter_mut().zip(&mask).for_each(|(kept, keeps)| *kept |= keeps);
                masked
            }
        };
        group.add(index, key.order, |out| {
            if keeps_any {
                put_mask(out, &mask)
            } else {
                out.put_i32(-1)
            }
            out.put_slice(&key.fields);
            for (&(at, target), keeps) in layout.bound.iter().zip(&mask) {
                match moved.values.get(&(index, at)) {
                    Some(field) => out.put_slice(field),
                    None if *keeps => out.put_i32(-1),
                    None => self.value(out, &columns[at].name, columns[at].json, at, target, change)?,
                }
            }
            put_meta(out, change, change.version);
            Ok(())
        })
    }

    /// The layout of these columns, and whether a column that was not sent is one that the table lacks. The
    /// table may get a column for it.
    async fn layout(&mut self, row: Row<'_>, columns: &[Carried<'_>], keeps: &[bool]) -> Outcome<(Arc<Layout>, bool)> {
        loop {
            let layout = match self.prepared.known_layout(|layout| layout.is_of(columns)) {
                Some(known) => known,
                None => {
                    let made = Layout::of(self.prepared, columns)?;
                    self.prepared.remember(made)
                }
            };
            match layout.fit(columns, keeps, self.prepared.evolution()) {
                Fit::Fits { loses } => return Ok((layout, loses)),
                Fit::Needs(at) => {
                    let Carried { name, json } = &columns[at];
                    let schema = row.change().schema.as_ref();
                    let source_type = schema.and_then(|schema| schema.field(name, at)).map(|field| &field.source_type);
                    let name = self.prepared.plan.column(name, false).unwrap_or_default().to_owned();
                    self.prepared.grow(self.session, (&name, json), source_type, row).await?;
                }
            }
        }
    }

    /// Removes rows, or marks them, and leaves their versions.
    async fn delete(
        &mut self,
        stage: &str,
        rows: &[Row<'_>],
        [mut group, mut ended]: [Group; 2],
        outcome: &mut sink::Outcome,
    ) -> Outcome<()> {
        if group.is_empty() && ended.is_empty() {
            return Ok(());
        }
        group.sort();
        ended.sort();
        let columns: Vec<String> = self.key_names().into_iter().chain(META.map(str::to_owned)).collect();
        self.copy(stage, &columns, &[(DELETES, &group), (ENDED, &ended)], rows).await?;
        let statements = Statements::new(self.prepared, stage);
        let graves = self.prepared.graves.as_ref();
        let (run, operation) = (self.session.connection(), self.prepared.operation());
        if !ended.is_empty() {
            run.run(&operation, &statements.delete(ENDED)).await?;
        }
        if group.is_empty() {
            return Ok(());
        }
        let deleted = match (self.prepared.plan.deletes, &self.prepared.is_deleted, graves) {
            (Deletes::Soft, Some(flag), graves) => {
                let marked = run.count(&operation, &statements.mark_deleted(DELETES, flag)).await?;
                if let Some(graves) = graves {
                    run.run(&operation, &statements.unbury(&[DELETES], graves)).await?;
                }
                marked
            }
            (_, _, Some(graves)) => {
                // Sent one behind the other: the second does not wait for the answer to the first.
                let (delete, bury) = (statements.delete(DELETES), statements.bury(DELETES, graves));
                in_order(run.run(&operation, &delete), run.count(&operation, &bury)).await?.1
            }
            (_, _, None) => {
                return Err(SinkError::new(
                    FailureKind::Bug,
                    operation,
                    "deletes have nowhere to leave their versions",
                ));
            }
        };
        outcome.applied += deleted;
        outcome.stale += group.len().saturating_sub(deleted);
        Ok(())
    }

    /// Writes the rows of one set. Its groups have the numbers behind `before`.
    async fn put(
        &mut self,
        stage: &str,
        rows: &[Row<'_>],
        before: i32,
        set: Set,
        outcome: &mut sink::Outcome,
    ) -> Outcome<()> {
        let Set { layout, mut whole, mut masked, kept, mut lost } = set;
        whole.sort();
        masked.sort();
        lost.sort();
        let columns: Vec<String> = std::iter::once("mask".to_owned())
            .chain(self.key_names())
            .chain(layout.bound.iter().map(|&(_, at)| column_name(&self.prepared.table.columns[at])))
            .chain(META.map(str::to_owned))
            .collect();
        let [of_whole, of_masked, of_lost] = [before + 1, before + 2, before + 3];
        let groups = [(of_whole, &whole), (of_masked, &masked), (of_lost, &lost)];
        self.copy(stage, &columns, &groups, rows).await?;
        let targets: Vec<&Column> = layout.bound.iter().map(|&(_, at)| &self.prepared.table.columns[at]).collect();
        let statements = Statements::new(self.prepared, stage);
        let (run, operation) = (self.session.connection(), self.prepared.operation());
        let unbury = self.prepared.graves.as_ref().map(|graves| statements.unbury(&[of_whole, of_masked], graves));
        let mut written = 0;
        if !whole.is_empty() {
            let upsert = statements.upsert(of_whole, &targets);
            written += match &unbury {
                // Sent one behind the other, where nothing stands between them.
                Some(unbury) if masked.is_empty() && lost.is_empty() => {
                    in_order(run.count(&operation, &upsert), run.run(&operation, unbury)).await?.0
                }
                _ => run.count(&operation, &upsert).await?,
            };
        }
        if !masked.is_empty() || !lost.is_empty() {
            let updated = match masked.is_empty() {
                true => 0,
                false => run.count(&operation, &statements.update(of_masked, &targets, &kept)).await?,
            };
            written += updated;
            if updated < masked.len() || !lost.is_empty() {
                let found = run.rows(&operation, &statements.unwritten([of_masked, of_lost]), &[]).await?;
                if let Some(found) = found.first() {
                    let group = if found.get::<_, i32>(0) == of_masked { &masked } else { &lost };
                    let row = group.row(found.get(1)).and_then(|at| rows.get(at));
                    return Err(row.map_or_else(
                        || SinkError::new(FailureKind::Bug, operation.as_str(), "a staged row is none of the batch"),
                        |row| self.nothing_stored(*row, &layout),
                    ));
                }
            }
        }
        if let (Some(unbury), false) = (unbury, masked.is_empty() && lost.is_empty()) {
            run.run(&operation, &unbury).await?;
        }
        outcome.applied += written;
        outcome.stale += (whole.len() + masked.len() + lost.len()).saturating_sub(written);
        Ok(())
    }

    /// Copies groups into the stage; an error of a row names its record and column.
    pub(super) async fn copy(
        &mut self,
        stage: &str,
        columns: &[String],
        groups: &[(i32, &Group)],
        rows: &[Row<'_>],
    ) -> Outcome<()> {
        let operation = self.prepared.operation();
        let copied = stage::copy(self.session, &operation, stage, columns, groups).await;
        copied.map_err(|CopyError { mut error, row, column }| {
            let row = row.and_then(|at| rows.get(at));
            if let (Some(row), FailureKind::Row | FailureKind::Constraint) = (row, error.kind) {
                let place = row.change().place();
                let column = column.and_then(|name| self.target_of(&name)).map(|name| format!(", column \"{name}\""));
                error.context = format!("record {place}{}: {}", column.unwrap_or_default(), error.context);
                return error.at(place);
            }
            error
        })
    }

    /// The target column that has this name in a stage.
    fn target_of(&self, staged: &str) -> Option<&str> {
        let number = |prefix| staged.strip_prefix(prefix).and_then(|number: &str| number.parse::<usize>().ok());
        let key = number('k').and_then(|at| self.prepared.key_columns().nth(at));
        let other = || {
            let number = number('c')?;
            self.prepared.table.columns.iter().find(|column| usize::try_from(column.number) == Ok(number))
        };
        key.or_else(other).map(|column| column.name.as_str())
    }

    pub(super) fn key_names(&self) -> Vec<String> {
        (0..self.prepared.key.len()).map(key_name).collect()
    }

    /// The key's values, in the order of the table's key.
    pub(super) fn key(&self, key: &Key, change: &Change) -> Outcome<EncodedKey> {
        let (mut fields, mut order) = (Vec::new(), Vec::new());
        for (at, column) in self.prepared.key.iter().enumerate() {
            let json = key.get(&column.source).ok_or_else(|| {
                let context = format!("record {}: the key lacks the field \"{}\"", change.place(), column.source);
                contract(self.prepared.operation(), context)
            })?;
            self.tells_apart(&column.source, json, column.at, change)?;
            let start = fields.len();
            self.value(&mut fields, &column.source, json, at, column.at, change)?;
            order.extend_from_slice(&fields[start + 4..]);
        }
        Ok(EncodedKey { fields, order })
    }

    /// A text in a key of numbers is refused with its record, wherever in a batch that comes.
    fn tells_apart(&self, source: &str, json: &str, target: usize, change: &Change) -> Outcome<()> {
        let target = &self.prepared.table.columns[target];
        let has_schema = change.schema.as_ref().is_some_and(|schema| schema.field(source, 0).is_some());
        let wire = target.wire.as_ref().ok().filter(|_| !has_schema && json.starts_with('"'));
        let Some(fix) = wire.and_then(|wire| validate::merges_text(wire, self.conventions)) else { return Ok(()) };
        let context = format!(
            "record {}, column \"{}\": it is {}, and \"{source}\" of the records is text; {fix}",
            change.place(),
            target.name,
            target.declared
        );
        Err(SinkError::new(FailureKind::Row, self.prepared.operation(), context).at(change.place()))
    }

    fn value(
        &self,
        out: &mut Vec<u8>,
        source: &str,
        json: &str,
        hint: usize,
        target: usize,
        change: &Change,
    ) -> Outcome<()> {
        let target = &self.prepared.table.columns[target];
        let field = change.schema.as_ref().and_then(|schema| schema.field(source, hint));
        // Refused before where it has none.
        let Ok(wire) = &target.wire else {
            return Err(SinkError::new(
                FailureKind::Bug,
                self.prepared.operation(),
                "a column of a type that was refused",
            ));
        };
        encode::put(out, json, Origin::of(field, self.conventions, &wire.kind()), wire).map_err(|misfit| {
            let kind = if misfit.is_contract() { FailureKind::Contract } else { FailureKind::Row };
            let context = format!("record {}, column \"{}\": {misfit}", change.place(), target.name);
            SinkError::new(kind, self.prepared.operation(), context).at(change.place())
        })
    }

    fn nothing_stored(&self, row: Row<'_>, layout: &Layout) -> SinkError {
        let carried = row.columns();
        let missing: Vec<&str> =
            carried.iter().filter(|column| column.is_unavailable()).map(|column| &*column.name).collect();
        debug_assert!(layout.bound.len() <= carried.len() + row.left_out().len());
        let columns = Dialect::Postgres.list(missing);
        contract(self.prepared.operation(), unsent::nothing_stored(row.change(), &columns, row.kept()))
    }
}

/// Names in a stage of what every write sets.
const META: [&str; 4] = ["op", "ts", "hi", "lo"];

fn put_meta(out: &mut Vec<u8>, change: &Change, version: Version) {
    let op = change.op.letter().as_bytes();
    out.put_i32(i32::try_from(op.len()).unwrap_or(0));
    out.put_slice(op);
    match change.source_ts_ms {
        Some(time) => {
            out.put_i32(8);
            out.put_i64(time);
        }
        None => out.put_i32(-1),
    }
    for half in [version.hi_signed(), version.lo_signed()] {
        out.put_i32(8);
        out.put_i64(half);
    }
}

/// A bit a column, as `get_bit` counts them: from the least of each byte.
fn put_mask(out: &mut Vec<u8>, mask: &[bool]) {
    out.put_i32(i32::try_from(mask.len().div_ceil(8)).unwrap_or(0));
    for eight in mask.chunks(8) {
        out.put_u8(eight.iter().enumerate().fold(0, |byte, (at, keeps)| byte | u8::from(*keeps) << at));
    }
}

/// Sends one statement behind the other without waiting between them. Where the first fails the second
/// fails of it: the first says why.
async fn in_order<A, B>(
    first: impl Future<Output = Outcome<A>>,
    second: impl Future<Output = Outcome<B>>,
) -> Outcome<(A, B)> {
    let (first, second) = tokio::join!(biased; first, second);
    Ok((first?, second?))
}
