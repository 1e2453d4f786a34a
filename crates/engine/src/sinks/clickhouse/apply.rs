//! One table's rows of a batch into its target: placed, encoded, sent.

use std::collections::HashSet;

use bytes::Bytes;
use settle_core::batch::{Row, TableRows};
use settle_core::key::Key;
use settle_core::schema::{Origin, RowSchema};
use settle_core::sink::{FailureKind, SinkError};
use settle_core::truncate::Cuts;
use settle_core::value::{Kind, Value, ValueError};

use super::buffer::Misfit;
use super::column_type::{Base, ColumnType};
use super::ddl::modify_column;
use super::definition::type_of;
use super::destination::Known;
use super::encode::{ColumnWriter, WriteError, arrow_stream};
use super::failure::is_too_many_partitions;
use super::names::{identifier, identifiers};
use super::naming::Naming;
use super::row_binary::put;
use super::rows::{Block, Read, Rows, Slot};
use super::server::Server;
use super::stored::{self, Values};
use crate::config::{Evolution, Target};

/// Rows that are looked up at once, at most.
const MAX_LOOKED_UP: usize = 500;

/// What became of the rows of one table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) written: u64,
    /// The table has them as new, or newer.
    pub(crate) stale: u64,
    /// A truncate empties them.
    pub(crate) emptied: u64,
}

/// Writes the rows of one table, but for those that its truncates empty, and those of swept ghosts.
pub(crate) async fn table(
    server: &Server,
    target: &Target,
    known: &mut Known,
    table: &TableRows<'_>,
    cuts: Cuts,
    is_swept: &(dyn Fn(&Row<'_>) -> bool + Sync),
) -> Result<Written, SinkError> {
    let naming = Naming::new(table.table, target);
    let mut rows = Rows::read(table)?;
    let stale = rows.drop_those(is_swept);
    let mut outcome = Written { stale, emptied: rows.drop_emptied(cuts), ..Written::default() };
    let missing = rows.place(known, &naming, table, target.evolution)?;
    let lost = if target.evolution == Evolution::Add { rows.lost() } else { HashSet::new() };
    if !missing.is_empty() {
        if target.evolution == Evolution::Add
            && let Some((old, new)) = rows.looks_renamed(known, &naming)
        {
            tracing::warn!(
                table = %known.table.name,
                "records carry `{new}`, which is added, and no longer `{old}`: their rows take the default of `{old}`. If it \
                 was renamed, stop, and name it in `rename` of {}",
                naming.section()
            );
        }
        known.evolve(server, target, &naming, &missing).await?;
        let still = rows.place(known, &naming, table, target.evolution)?;
        if let Some((column, _)) = still.first() {
            let context = format!("column {} was added, but the table does not show it", identifier(column));
            return Err(SinkError::new(
                FailureKind::Contract,
                format!("preparing rows for {}", known.table.name),
                context,
            ));
        }
    }
    let encoder = Encoder::new(server, naming, &rows, table, target);
    let (whole, unsent) = rows.whole_and_not();
    let unsent = stored::in_order(&rows, &unsent);
    let mut left = unsent.as_slice();
    while !left.is_empty() {
        let size = known.max_looked_up.unwrap_or(MAX_LOOKED_UP).min(MAX_LOOKED_UP).min(left.len());
        let Some(found) = stored::look_up(&encoder, known, &left[..size], &lost, cuts).await? else {
            known.max_looked_up = Some(size.div_ceil(2));
            continue;
        };
        for block in rows.blocks_in_order(&found.rows) {
            outcome.written += insert(&encoder, known, block, &found.values).await?;
        }
        outcome.stale += found.stale;
        left = &left[size..];
        // Long values may be over: a look-up that is too long again costs one answer.
        known.max_looked_up = known.max_looked_up.map(|size| size + size.div_ceil(8));
    }
    for block in rows.blocks(&whole) {
        outcome.written += insert(&encoder, known, block, &Values::new()).await?;
    }
    Ok(outcome)
}

/// Sends one block, in as many pieces as the server's limit of partitions in a piece asks for.
///
/// The limit is the server's, and only the server can evaluate the partition expression. So the
/// rows are sorted by the columns that it reads, and a piece that is refused is halved. Nothing of
/// a refused piece was written. The size that was accepted is where the next block begins.
async fn insert(
    encoder: &Encoder<'_, '_>,
    known: &mut Known,
    mut block: Block,
    values: &Values,
) -> Result<u64, SinkError> {
    let mut left = std::mem::take(&mut block.rows);
    let mut size = left.len();
    if let Some(known_size) = known.max_block_rows {
        encoder.sort_by_partition(known, &mut left);
        size = size.min(known_size);
    }
    let mut start = 0;
    let mut was_refused = false;
    while start < left.len() {
        let end = left.len().min(start + size);
        match encoder.send(known, &block.columns, &left[start..end], values).await {
            Ok(()) => start = end,
            Err(error) if is_too_many_partitions(&error) && end - start > 1 => {
                if known.max_block_rows.is_none() {
                    // Nothing of this block was written yet, so all of it may take another order.
                    encoder.sort_by_partition(known, &mut left);
                }
                size = (end - start).div_ceil(2);
                known.max_block_rows = Some(size);
                was_refused = true;
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(size) = known.max_block_rows.as_mut().filter(|_| !was_refused) {
        // Rows that lie close together need no small pieces; the next refusal costs one request.
        *size = size.saturating_mul(2);
    }
    Ok(left.len() as u64)
}

/// Turns rows of one table into what the server reads.
pub(crate) struct Encoder<'a, 'r> {
    pub(crate) server: &'a Server,
    pub(crate) naming: Naming<'a>,
    pub(crate) rows: &'a Rows<'r>,
    schema: Option<&'a RowSchema>,
    conventions: &'a settle_core::schema::Conventions,
}

impl<'a, 'r> Encoder<'a, 'r> {
    /// For the rows of one table that are placed.
    pub(crate) fn new(
        server: &'a Server,
        naming: Naming<'a>,
        rows: &'a Rows<'r>,
        table: &TableRows<'a>,
        target: &'a Target,
    ) -> Self {
        let schema = table.schema().map(|schema| &**schema);
        Self { server, naming, rows, schema, conventions: &target.conventions }
    }

    /// Brings rows of one partition together. Texts of one length compare as numbers and dates do.
    fn sort_by_partition(&self, known: &Known, rows: &mut [usize]) {
        let columns: Vec<&str> = known
            .key
            .iter()
            .filter(|(_, index)| known.table.columns[*index].in_partition_key)
            .map(|(source, _)| source.as_str())
            .collect();
        rows.sort_by_cached_key(|&row| {
            let key = self.rows.read[row].row.key();
            columns
                .iter()
                .filter_map(|name| key.get(name))
                .map(|json| (json.len(), json.to_owned()))
                .collect::<Vec<_>>()
        });
    }

    async fn send(&self, known: &Known, columns: &[usize], rows: &[usize], values: &Values) -> Result<(), SinkError> {
        let (names, body) = self.encode(known, columns, rows, values)?;
        let table = &known.table.name;
        let statement =
            format!("INSERT INTO {table} ({}) FORMAT ArrowStream", identifiers(names.iter().map(String::as_str)));
        let sent = self.server.client.insert(&format!("inserting into {table}"), &statement, body).await;
        sent.map_err(|error| self.with_places(error, rows))
    }

    /// The server does not say which row of a block it refused: only these can be.
    fn with_places(&self, mut error: SinkError, rows: &[usize]) -> SinkError {
        let place = |row: &usize| self.rows.read[*row].row.change().place();
        if let FailureKind::Row | FailureKind::Constraint = error.kind
            && let (Some(first), Some(last)) = (rows.first(), rows.last())
        {
            error.place = (rows.len() == 1).then(|| place(first));
            error.context = match rows.len() {
                1 => format!("record {}: {}", place(first), error.context),
                many => format!(
                    "one of {many} rows, from record {} to {}: {}; a [dlq] finds it, [batch] max_rows = 1 tells which",
                    place(first),
                    place(last),
                    error.context
                ),
            };
        }
        error
    }

    /// The names of the block's columns, and its bytes.
    pub(crate) fn encode(
        &self,
        known: &Known,
        columns: &[usize],
        rows: &[usize],
        values: &Values,
    ) -> Result<(Vec<String>, Bytes), SinkError> {
        let meta = self.naming.meta();
        let key = known.key.iter().map(|(_, index)| *index);
        let added = [&meta.op, &meta.source_ts_ms, &meta.is_deleted, &meta.version];
        let added = added.into_iter().filter_map(|name| known.table.index_of(name));
        let indexes: Vec<usize> = key.chain(columns.iter().copied()).chain(added).collect();
        let mut writers = Vec::with_capacity(indexes.len());
        for &index in &indexes {
            writers.push(self.writer(known, index)?);
        }
        let keys = known.key.len();
        // Beside each shape's columns: which writer takes them.
        let places: Vec<Vec<Option<usize>>> = self
            .rows
            .shapes
            .iter()
            .map(|shape| {
                let place = |slot: &Slot| match slot {
                    Slot::Column(at) => columns.binary_search(at).ok().map(|found| keys + found),
                    _ => None,
                };
                shape.slots.iter().map(place).collect()
            })
            .collect();
        let origins = self.origins();
        let key_origins: Vec<Origin<'_>> = known.key.iter().map(|(name, _)| self.origin(name, 0)).collect();
        for &row in rows {
            let read = &self.rows.read[row];
            for (at, (_, json)) in read.row.key().fields().enumerate() {
                writers[at]
                    .append_json(json, key_origins[at])
                    .map_err(|error| self.refusal(known, read, indexes[at], key_origins[at], &error))?;
            }
            if let Some(shape) = read.shape {
                let carried = read.columns.iter().zip(&places[shape]).zip(&origins[shape]).enumerate();
                for (position, ((column, place), origin)) in carried {
                    let Some(at) = *place else { continue };
                    let stored = if column.is_unavailable() { values.get(&(row, position)) } else { None };
                    let appended = match stored {
                        Some(cell) => writers[at].append_cell(cell),
                        None => writers[at].append_json(column.json, *origin),
                    };
                    appended.map_err(|error| self.refusal(known, read, indexes[at], *origin, &error))?;
                }
            }
            self.append_added(known, read, &indexes, &mut writers)?;
        }
        let names: Vec<String> = indexes.iter().map(|&index| known.table.columns[index].name.clone()).collect();
        let body = arrow_stream(names.iter().cloned().zip(writers).collect()).map_err(|error| {
            SinkError::new(
                FailureKind::Bug,
                format!("encoding rows for {}", known.table.name),
                "Arrow refused the block",
            )
            .caused_by(error)
        })?;
        Ok((names, body))
    }

    fn writer(&self, known: &Known, index: usize) -> Result<ColumnWriter, SinkError> {
        let column = &known.table.columns[index];
        let mut writer = ColumnWriter::new(&column.column_type, self.server.calendar)
            .map_err(|error| self.unwritable(known, index, &error))?;
        if self.naming.holds_bytes(&column.name) {
            writer.read_bytes();
        }
        Ok(writer)
    }

    /// A key as the server has it; none where it is not a key of this table.
    pub(crate) fn key_bytes(&self, known: &Known, key: &Key, read: &Read<'_>) -> Result<Option<Vec<u8>>, SinkError> {
        let mut bytes = Vec::new();
        for (name, index) in &known.key {
            let Some(json) = key.get(name) else { return Ok(None) };
            let mut writer = self.writer(known, *index)?;
            let origin = self.origin(name, 0);
            let value = writer.value(json, origin).and_then(|value| Ok(writer.append(&value).map(|()| value)?));
            let put = value.and_then(|value| {
                put(&known.table.columns[*index].column_type.base, &value, &mut bytes).ok_or(Misfit::Kind.into())
            });
            put.map_err(|error| self.refusal(known, read, *index, origin, &error))?;
        }
        Ok(Some(bytes))
    }

    /// `_op`, `_source_ts_ms`, `_is_deleted`, `_version`: the last four writers.
    fn append_added(
        &self,
        known: &Known,
        read: &Read<'_>,
        indexes: &[usize],
        writers: &mut [ColumnWriter],
    ) -> Result<(), SinkError> {
        let change = read.row.change();
        let first = writers.len().saturating_sub(4);
        let time = |index: usize| match (&known.table.columns[index].column_type.base, change.source_ts_ms) {
            (_, None) => Value::Null,
            (Base::DateTime64 { .. }, Some(ms)) => Value::Timestamp(i128::from(ms) * 1_000_000),
            (_, Some(ms)) => Value::Int(i128::from(ms)),
        };
        for (at, writer) in writers.iter_mut().enumerate().skip(first) {
            let index = indexes[at];
            let value = match at - first {
                0 => Value::Text(change.op.letter().into()),
                1 => time(index),
                2 => Value::Int(i128::from(change.is_delete())),
                _ => Value::Int(i128::try_from(change.version.as_u128()).unwrap_or(i128::MAX)),
            };
            let conventions = Origin::Schemaless(self.conventions);
            writer.append(&value).map_err(|misfit| self.refusal(known, read, index, conventions, &misfit.into()))?;
        }
        Ok(())
    }

    fn origin(&self, name: &str, hint: usize) -> Origin<'_> {
        // A String holds text unless the schema says `bytes`, or the declared type does.
        let is_bytes = self.naming.target(name, true).is_some_and(|target| self.naming.holds_bytes(target));
        let kind = if is_bytes { Kind::Bytes } else { Kind::Text };
        Origin::of(self.schema.and_then(|schema| schema.field(name, hint)), self.conventions, &kind)
    }

    /// Beside each shape's columns: where their types are known from.
    fn origins(&self) -> Vec<Vec<Origin<'_>>> {
        let of = |names: &[Box<str>]| names.iter().enumerate().map(|(at, name)| self.origin(name, at)).collect();
        self.rows.shapes.iter().map(|shape| of(&shape.names)).collect()
    }

    fn unwritable(&self, known: &Known, index: usize, error: &WriteError) -> SinkError {
        let column = &known.table.columns[index];
        let context = format!(
            "column {} is {}: {error}; give it another type (String holds JSON text exactly), or exclude it in {}",
            identifier(&column.name),
            column.column_type,
            self.naming.section()
        );
        SinkError::new(FailureKind::Contract, format!("encoding rows for {}", known.table.name), context)
    }

    /// A value that does not go into its column: the row's fault, or the column's.
    fn refusal(
        &self,
        known: &Known,
        read: &Read<'_>,
        index: usize,
        origin: Origin<'_>,
        error: &WriteError,
    ) -> SinkError {
        let column = &known.table.columns[index];
        let operation = format!("encoding rows for {}", known.table.name);
        let context = format!(
            "record {}: column {} ({}): {error}",
            read.row.change().place(),
            identifier(&column.name),
            column.column_type
        );
        let (kind, context) = match error {
            WriteError::Arrow(_) | WriteError::Misfit(Misfit::Kind) => (FailureKind::Bug, context),
            WriteError::Unsupported => return self.unwritable(known, index, error),
            WriteError::Value(ValueError::Undeclared { .. } | ValueError::UnitUnknown { .. }) => {
                (FailureKind::Contract, context)
            }
            _ => match wider(origin, &column.column_type) {
                Some(text) if changes_type(error) => {
                    let fix = modify_column(&known.table.name, &column.name, &text);
                    (FailureKind::Contract, format!("{context}; the source's type is another now; run {fix}"))
                }
                _ => (FailureKind::Row, context),
            },
        };
        SinkError::new(kind, operation, context).at(read.row.change().place())
    }
}

/// Whether the error is one that another column type would not have.
fn changes_type(error: &WriteError) -> bool {
    match error {
        WriteError::Value(error) => matches!(
            error,
            ValueError::Range(_) | ValueError::Precision(_) | ValueError::NoMapping(..) | ValueError::NotFinite(..)
        ),
        WriteError::Misfit(misfit) => matches!(misfit, Misfit::Range(_) | Misfit::Length { .. } | Misfit::Label),
        WriteError::NoContainer(_) => true,
        WriteError::Unsupported | WriteError::Arrow(_) => false,
    }
}

/// The type that holds every value of the column's source type, if the column has another one.
fn wider(origin: Origin<'_>, column: &ColumnType) -> Option<String> {
    let Origin::Connect(source) = origin else { return None };
    let text = type_of(source, column.nullable)?;
    let unsigned = matches!(column.base, Base::Int { signed: false, .. });
    // An unsigned column under a signed source type is the user's knowledge of the source: a value
    // that does not fit is that row's.
    (ColumnType::parse(&text).base != column.base && !unsigned).then_some(text)
}
