//! One batch: its floors, its truncates, its rows, in the caller's transaction.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, Statement};
use settle_core::batch::{Batch, Kept, Row, TableRows};
use settle_core::change::{Change, TableName, Truncate};
use settle_core::columns::Column as Carried;
use settle_core::key::Key;
use settle_core::schema::{Conventions, Origin};
use settle_core::sink::{self, FailureKind, SinkError};
use settle_core::truncate::Cuts;
use settle_core::version::Version;

use super::bind::{Bound, bound};
use super::failure::{During, Outcome, contract};
use super::name::{self, list};
use super::prepared::{Prepared, prepare};
use super::session::Attached;
use super::shape::{self, Shape};
use super::table;
use super::validate::merges;
use crate::config::target::{Deletes, Target};
use crate::finding::Severity;
use crate::owner::Owner;
use crate::sinks::plan::Plan;
use crate::sinks::sql::positions::Fence;
use crate::sinks::sql::session::at_once;
use crate::sinks::sql::tombstones::Purges;
use crate::sinks::sql::{claims, sweeps};
use crate::sinks::unsent;

/// What the sink remembers between batches.
#[derive(Debug)]
pub(super) struct State {
    pub(super) target: Target,
    /// Whose positions are moved, and what it has opened.
    pub(super) fence: Fence,
    /// Tables that were made or validated. Forgotten when anything changes the database's schema.
    pub(super) tables: HashMap<Arc<TableName>, Prepared>,
    /// Tables that were written and committed: made anew they would lack those rows.
    pub(super) written: HashSet<Arc<TableName>>,
    /// When their tombstones are purged.
    pub(super) purges: Purges,
}

/// Writes the batch. The caller commits, or rolls back and forgets the tables.
pub(super) fn apply(connection: &Connection, state: &mut State, batch: &Batch) -> Outcome<sink::Outcome> {
    beside_the_rows(connection, state, batch).map_err(SinkError::beside_the_rows)?;
    write_rows(connection, state, batch)
}

/// The fence, floors, positions, holds and truncates.
fn beside_the_rows(connection: &Connection, state: &State, batch: &Batch) -> Outcome<()> {
    at_once(state.fence.pass(&mut Attached(connection), batch))?;
    for event in batch.truncates() {
        truncate(connection, &state.target, event)?;
    }
    Ok(())
}

fn write_rows(connection: &Connection, state: &mut State, batch: &Batch) -> Outcome<sink::Outcome> {
    let mut outcome = sink::Outcome::default();
    for rows in batch.tables() {
        if !state.tables.contains_key(rows.table) {
            let mut findings = Vec::new();
            let prepared = prepare(connection, &state.target, rows, state.written.contains(rows.table), &mut findings);
            let prepared = prepared.map_err(SinkError::beside_the_rows)?;
            for finding in findings {
                match finding.severity {
                    Severity::Note => tracing::info!("{finding}"),
                    Severity::Warning | Severity::Error => tracing::warn!("{finding}"),
                }
            }
            state.tables.insert(rows.table.clone(), prepared);
        }
        if let Some(prepared) = state.tables.get_mut(rows.table) {
            let Prepared { filled, plan, .. } = prepared;
            at_once(filled.note(&mut Attached(connection), &state.fence, &plan.table, rows))?;
            let mut writer = Writer::new(connection, prepared, &state.target.conventions)?;
            let swept = at_once(sweeps::done(&mut Attached(connection), rows.table))?;
            let is_swept = |row: Row<'_>| {
                let Change { record, version, .. } = row.change();
                let topic_id = state.fence.topic_id(&record.partition)?;
                Ok(swept.covers(topic_id, record.partition.number, record.offset, *version))
            };
            writer.write(rows, &is_swept, &mut outcome)?;
        }
    }
    Ok(outcome)
}

/// Records the truncate, and removes what it empties. The table need not be there yet.
fn truncate(connection: &Connection, target: &Target, event: &Truncate) -> Outcome<()> {
    let plan = Plan::of(target, &event.table, Deletes::Hard);
    let owner = Owner { table: event.table.clone(), lineage: event.lineage.clone() };
    let mut session = Attached(connection);
    at_once(claims::claim(&mut session, &plan.table, &owner))?;
    let cut = event.cut();
    if !at_once(claims::record_truncate(&mut session, &plan.table, cut))? {
        return Ok(());
    }
    let (mask, place) = (cut.order.mask(), cut.place());
    let halves = [mask.hi_signed(), mask.lo_signed(), place.hi_signed(), place.lo_signed()];
    let (hi, lo) = (plan.version_hi(), plan.version_lo());
    for table in [plan.table.clone(), name::tombstones(&plan.table)] {
        let Some(known) = table::describe(connection, &table, |_| None)? else { continue };
        let operation = || format!("truncate \"{table}\"");
        if known.column(&hi).is_none() || known.column(&lo).is_none() {
            let why = "the table lacks the columns in which Settle keeps the version of each row; `settle check` says how to add them";
            return Err(contract(operation(), why));
        }
        connection.execute(&shape::truncate(&known.name, &hi, &lo), halves).during(operation)?;
    }
    Ok(())
}

/// Where rows that came from another key have their values.
#[derive(Default)]
struct Moved {
    /// Taken from another key, by the row's place and the column's.
    values: HashMap<(usize, usize), Bound<'static>>,
    /// Rows that the table has under their key: what moved them comes again.
    there: HashSet<usize>,
}

/// Writes the rows of one table.
struct Writer<'a> {
    connection: &'a Connection,
    prepared: &'a mut Prepared,
    conventions: &'a Conventions,
    truncates: Cuts,
}

impl<'a> Writer<'a> {
    fn new(connection: &'a Connection, prepared: &'a mut Prepared, conventions: &'a Conventions) -> Outcome<Self> {
        let known = at_once(claims::truncates(&mut Attached(connection), &[&prepared.table.name]))?;
        let truncates = known.into_values().next().unwrap_or_default();
        Ok(Self { connection, prepared, conventions, truncates })
    }

    fn write(
        &mut self,
        rows: TableRows<'_>,
        is_swept: &dyn Fn(Row<'_>) -> Outcome<bool>,
        outcome: &mut sink::Outcome,
    ) -> Outcome<()> {
        for row in rows.rows() {
            self.prepared.check_row(row)?;
        }
        // Looked up before anything is written: the delete of the old key is in the same batch.
        let moved = if rows.has_key_changes() { self.moved(rows)? } else { Moved::default() };
        for (index, row) in rows.rows().enumerate() {
            let applied = if self.truncates.empties(row.version()) || is_swept(row)? {
                false
            } else if row.is_delete() {
                self.delete(row)?
            } else {
                self.upsert(index, row, &moved)?
            };
            if applied {
                outcome.applied += 1;
            } else {
                outcome.stale += 1;
            }
        }
        Ok(())
    }

    /// Writes a row unless the table, or a tombstone, is as new.
    fn upsert(&mut self, index: usize, row: Row<'_>, moved: &Moved) -> Outcome<bool> {
        let change = row.change();
        let key = self.key(&change.key, change)?;
        let tombstone = self.tombstone(&key)?;
        if tombstone.is_some_and(|deleted| deleted >= row.version()) {
            return Ok(false);
        }
        if let (Deletes::Hard, Some(deleted)) = (self.prepared.plan.deletes, row.follows_delete()) {
            self.run_for(change, &self.prepared.statements.delete_row, &key, &halves(deleted))?;
        }
        let (columns, left_out) = (row.columns(), row.left_out());
        let columns: Vec<&Carried<'_>> = columns.iter().chain(&left_out).collect();
        let keeps: Vec<bool> = columns
            .iter()
            .enumerate()
            .map(|(at, column)| column.is_unavailable() && !moved.values.contains_key(&(index, at)))
            .collect();
        let shape = self.shape(row, &columns, &keeps)?;
        let lacks = shape.fields.keeps_any || shape.fields.loses;
        // An update finds the row of this key; what came from another key is not there, unless it comes again.
        let own = || moved.there.contains(&index) || matches!(row.kept(), Kept::Row { key, .. } if *key == change.key);
        let writes = !lacks || !shape.fields.loses && own();
        if writes && self.execute(index, row, &shape, &key, &columns, moved)? {
            if tombstone.is_some() {
                self.run(&self.prepared.statements.drop_tombstone, &key, &[])?;
            }
            return Ok(true);
        }
        if !lacks || self.stored(&key)?.is_some_and(|stored| stored.version >= row.version()) {
            return Ok(false);
        }
        let missing: Vec<&str> =
            columns.iter().zip(&keeps).filter(|(_, keeps)| **keeps).map(|(column, _)| &*column.name).collect();
        Err(self.nothing_stored(change, &missing, row.kept()))
    }

    fn execute(
        &self,
        index: usize,
        row: Row<'_>,
        shape: &Shape,
        key: &[Bound<'_>],
        columns: &[&Carried<'_>],
        moved: &Moved,
    ) -> Outcome<bool> {
        let change = row.change();
        let mut statement = self.statement(&shape.sql)?;
        let mut place = bind_all(&mut statement, 1, key).during(|| self.prepared.operation())?;
        for &(at, target) in &shape.fields.bound {
            let value;
            let value = match moved.values.get(&(index, at)) {
                Some(moved) => moved,
                None => {
                    value = self.value(&columns[at].name, columns[at].json, at, target, change)?;
                    &value
                }
            };
            statement.raw_bind_parameter(place, value).during(|| self.prepared.operation())?;
            place += 1;
        }
        bind_all(&mut statement, place, &tail(change)).during(|| self.prepared.operation())?;
        Ok(statement.raw_execute().map_err(|error| self.refused(error, change))? > 0)
    }

    /// Removes a row, or marks it, and leaves its version.
    fn delete(&mut self, row: Row<'_>) -> Outcome<bool> {
        let change = row.change();
        let key = self.key(&change.key, change)?;
        let tombstone = self.tombstone(&key)?;
        if tombstone.is_some_and(|deleted| deleted >= row.version()) {
            return Ok(false);
        }
        let version = halves(row.version());
        let statements = &self.prepared.statements;
        if let (Deletes::Soft, Some(mark)) = (self.prepared.plan.deletes, &statements.mark_deleted) {
            let marked = self.run_for(change, mark, &key, &tail(change))?;
            if marked && tombstone.is_some() {
                self.run(&statements.drop_tombstone, &key, &[])?;
            }
            return Ok(marked);
        }
        // A row that is still there afterwards is as new as the delete.
        if !self.run_for(change, &statements.delete_row, &key, &version)? && self.stored(&key)?.is_some() {
            return Ok(false);
        }
        self.run_for(change, &statements.put_tombstone, &key, &version)
    }

    /// Values that records did not carry and that the table has under another key.
    fn moved(&self, rows: TableRows<'_>) -> Outcome<Moved> {
        let mut moved = Moved::default();
        for (index, row) in rows.rows().enumerate() {
            let columns = row.columns();
            let missing: Vec<(usize, &str)> = columns
                .iter()
                .enumerate()
                .filter(|(_, column)| column.is_unavailable())
                .filter_map(|(at, column)| {
                    let target = self.prepared.plan.column(&column.name, false)?;
                    Some((at, self.prepared.table.column(target)?.name.as_str()))
                })
                .collect();
            if missing.is_empty() {
                continue;
            }
            let Some(key) = self.holder(row)? else { continue };
            if *key == row.change().key {
                moved.there.insert(index);
                continue;
            }
            let key = self.key(key, row.change())?;
            for ((at, _), value) in missing.iter().zip(self.values(&key, missing.iter().map(|m| m.1))?) {
                moved.values.insert((index, *at), value);
            }
        }
        Ok(moved)
    }

    /// The key under which the table, as it is before the batch, has what the row does not carry; none where
    /// that is not certain, or the row's own by what it stands on.
    fn holder<'k>(&self, row: Row<'k>) -> Outcome<Option<&'k Key>> {
        let stored = |key: &Key| self.stored(&self.key(key, row.change())?);
        for again in row.again() {
            if stored(again.key)?.is_some_and(|stored| !stored.is_deleted && again.holds(stored.version)) {
                return Ok(Some(again.key));
            }
        }
        Ok(match row.kept() {
            Kept::Row { key, below } if *key != row.change().key => {
                stored(key)?.filter(|stored| !stored.is_deleted && stored.version < below).map(|_| key)
            }
            // A row marked deleted still has columns, but not those of changes that its delete overtook in
            // a batch, and nothing of a row that was never seen.
            Kept::Row { .. } | Kept::OtherHalf { .. } | Kept::Nowhere => None,
        })
    }

    fn values<'n>(&self, key: &[Bound<'_>], names: impl Iterator<Item = &'n str>) -> Outcome<Vec<Bound<'static>>> {
        let find = &self.prepared.statements.find_row;
        let from = find.find(" FROM ").map_or("", |at| &find[at..]);
        let sql = format!("SELECT {}{from}", list(names));
        let operation = || format!("look up a row of \"{}\"", self.prepared.table.name);
        let mut select = self.connection.prepare(&sql).during(operation)?;
        let count = select.column_count();
        bind_all(&mut select, 1, key).during(operation)?;
        let mut rows = select.raw_query();
        let Some(row) = rows.next().during(operation)? else { return Ok(Vec::new()) };
        let value = |at| row.get::<_, rusqlite::types::Value>(at).map(Bound::from);
        (0..count).map(value).collect::<rusqlite::Result<_>>().during(operation)
    }

    /// The key's values, in the order of the table's key.
    fn key<'k>(&self, key: &'k Key, change: &Change) -> Outcome<Vec<Bound<'k>>> {
        self.prepared
            .key
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let json = key.get(&column.source).ok_or_else(|| {
                    let context = format!("record {}: the key lacks the field \"{}\"", change.place(), column.source);
                    contract(self.prepared.operation(), context)
                })?;
                let target = &self.prepared.table.columns[column.at];
                let field = change.schema.as_ref().and_then(|schema| schema.field(&column.source, at));
                if merges(target, json, field.map(|field| &field.source_type)) {
                    // The first row of a table tells whether its keys are text; a later one is alone with it.
                    let context = format!(
                        "record {}: key column \"{}\" is text, which the table would turn into a number; make the \
                         column TEXT",
                        change.place(),
                        target.name
                    );
                    let error = SinkError::new(FailureKind::Row, self.prepared.operation(), context);
                    return Err(error.at(change.place()));
                }
                self.value(&column.source, json, at, column.at, change)
            })
            .collect()
    }

    fn value<'c>(
        &self,
        source: &str,
        json: &'c str,
        hint: usize,
        target: usize,
        change: &Change,
    ) -> Outcome<Bound<'c>> {
        let target = &self.prepared.table.columns[target];
        let field = change.schema.as_ref().and_then(|schema| schema.field(source, hint));
        bound(json, Origin::of(field, self.conventions, &target.storage.kind), &target.storage).map_err(|misfit| {
            let kind = if misfit.is_contract() { FailureKind::Contract } else { FailureKind::Row };
            let context = format!("record {}, column \"{}\": {misfit}", change.place(), target.name);
            SinkError::new(kind, self.prepared.operation(), context).at(change.place())
        })
    }

    /// The shape of these columns; the table may get a column for it.
    fn shape(&mut self, row: Row<'_>, columns: &[&Carried<'_>], keeps: &[bool]) -> Outcome<Arc<Shape>> {
        if let Some(at) = self.prepared.shapes.iter().position(|shape| shape.fields.fits(columns, keeps)) {
            self.prepared.shapes.swap(0, at);
            return Ok(self.prepared.shapes[0].clone());
        }
        let evolution = self.prepared.evolution();
        loop {
            match Shape::of(self.prepared, columns, keeps, evolution)? {
                Ok(shape) => {
                    let shape = Arc::new(shape);
                    // Few in practice; bounded whatever a topic brings.
                    self.prepared.shapes.truncate(MAX_SHAPES - 1);
                    self.prepared.shapes.insert(0, shape.clone());
                    return Ok(shape);
                }
                Err(at) => {
                    let Carried { name, json } = columns[at];
                    let schema = row.change().schema.as_ref();
                    let source_type = schema.and_then(|schema| schema.field(name, at)).map(|field| &field.source_type);
                    let name = self.prepared.plan.column(name, false).unwrap_or_default().to_owned();
                    self.prepared.grow(self.connection, (&name, json), source_type, evolution, row)?;
                }
            }
        }
    }

    fn stored(&self, key: &[Bound<'_>]) -> Outcome<Option<Stored>> {
        self.find(&self.prepared.statements.find_row, key, |row| {
            Ok(Stored { version: version(row)?, is_deleted: row.get(2)? })
        })
    }

    fn tombstone(&self, key: &[Bound<'_>]) -> Outcome<Option<Version>> {
        if !self.prepared.has_tombstones {
            return Ok(None);
        }
        self.find(&self.prepared.statements.find_tombstone, key, version)
    }

    fn find<T>(
        &self,
        sql: &str,
        key: &[Bound<'_>],
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Outcome<Option<T>> {
        let operation = || format!("look up a row of \"{}\"", self.prepared.table.name);
        let mut select = self.statement(sql)?;
        bind_all(&mut select, 1, key).during(operation)?;
        let mut rows = select.raw_query();
        rows.next().and_then(|row| row.map(read).transpose()).during(operation)
    }

    fn run(&self, sql: &str, key: &[Bound<'_>], rest: &[Bound<'_>]) -> Outcome<bool> {
        let operation = || self.prepared.operation();
        let mut statement = self.statement(sql)?;
        let place = bind_all(&mut statement, 1, key).during(operation)?;
        bind_all(&mut statement, place, rest).during(operation)?;
        Ok(statement.raw_execute().during(operation)? > 0)
    }

    fn run_for(&self, change: &Change, sql: &str, key: &[Bound<'_>], rest: &[Bound<'_>]) -> Outcome<bool> {
        self.run(sql, key, rest).map_err(|error| with_place(error, change))
    }

    fn statement(&self, sql: &str) -> Outcome<CachedStatement<'_>> {
        self.connection.prepare_cached(sql).during(|| self.prepared.operation())
    }

    fn refused(&self, error: rusqlite::Error, change: &Change) -> SinkError {
        with_place(super::failure::of(error, self.prepared.operation()), change)
    }

    fn nothing_stored(&self, change: &Change, missing: &[&str], kept: Kept<'_>) -> SinkError {
        contract(self.prepared.operation(), unsent::nothing_stored(change, &list(missing.iter().copied()), kept))
    }
}

/// Column sets that are remembered for a table.
const MAX_SHAPES: usize = 64;

/// What a row that is there says of itself.
#[derive(Clone, Copy)]
struct Stored {
    version: Version,
    is_deleted: bool,
}

fn version(row: &rusqlite::Row<'_>) -> rusqlite::Result<Version> {
    let (hi, lo): (i64, i64) = (row.get(0)?, row.get(1)?);
    Ok(Version::from_halves(hi.cast_unsigned(), lo.cast_unsigned()))
}

fn halves(version: Version) -> [Bound<'static>; 2] {
    [Bound::Int(version.hi_signed()), Bound::Int(version.lo_signed())]
}

/// What every write sets after the record's own columns.
fn tail(change: &Change) -> [Bound<'static>; 4] {
    let [hi, lo] = halves(change.version);
    [Bound::Text(change.op.letter().into()), change.source_ts_ms.map_or(Bound::Null, Bound::Int), hi, lo]
}

/// Binds values from `place` on, and says which place is next.
fn bind_all(statement: &mut Statement<'_>, place: usize, values: &[Bound<'_>]) -> rusqlite::Result<usize> {
    for (at, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(place + at, value)?;
    }
    Ok(place + values.len())
}

/// A row that SQLite refused is found by its record.
fn with_place(mut error: SinkError, change: &Change) -> SinkError {
    if let FailureKind::Row | FailureKind::Constraint = error.kind {
        error.context = format!("record {}: {}", change.place(), error.context);
        error.place = Some(change.place());
    }
    error
}
