//! Where the rows of a batch wait for the statement that writes them: a temporary table beside each
//! target, filled by binary COPY. It is the session's own, keeps nothing behind a transaction, and is
//! made again when the target changes.

use std::collections::HashMap;
use std::fmt::Write as _;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use settle_core::sink::SinkError;
use tokio_postgres::{CopyInSink, Statement};

use super::failure::{self, Outcome};
use super::prepared::Prepared;
use super::table::Column;
use super::transaction::Transaction;

/// The stages of a session, by target table.
#[derive(Debug, Default)]
pub(super) struct Stages {
    made: u64,
    of: HashMap<String, Stage>,
    /// The COPYs into them, each known to the server by its text.
    copies: HashMap<String, Statement>,
}

/// Column sets are few in practice; bounded whatever a topic brings.
const MAX_COPIES: usize = 256;

#[derive(Debug)]
struct Stage {
    name: String,
    /// Of the target as it was when the stage was made.
    fingerprint: String,
}

/// The stage of this table, as SQL.
pub(super) async fn stage(session: &mut Transaction, prepared: &Prepared) -> Outcome<String> {
    let table = &prepared.table;
    let known = session.stages.of.get(&table.name);
    if let Some(stage) = known.filter(|stage| stage.fingerprint == table.fingerprint) {
        return Ok(stage.name.clone());
    }
    let mut sql = String::new();
    if let Some(old) = known {
        let _ = write!(sql, "DROP TABLE {}; ", old.name);
    }
    session.stages.made += 1;
    let name = format!("pg_temp.settle_stage_{}", session.stages.made);
    let keys = prepared.key_columns().enumerate().map(|(at, column)| (key_name(at), column));
    let others = staged(prepared).map(|column| (column_name(column), column));
    let columns: Vec<String> = keys.chain(others).map(|(name, column)| format!("{name} {}", waiting(column))).collect();
    // Writing to a string cannot fail.
    let _ = write!(
        sql,
        "CREATE TEMPORARY TABLE {name} (n int4, g int4, mask bytea, op text, ts int8, hi int8, lo int8, {}) \
         ON COMMIT DELETE ROWS",
        columns.join(", ")
    );
    session.connection().run(&format!("make room for rows of \"{}\"", table.name), &sql).await?;
    let made = Stage { name: name.clone(), fingerprint: table.fingerprint.clone() };
    session.stages.of.insert(table.name.clone(), made);
    Ok(name)
}

/// Columns beside the key that rows may carry.
fn staged(prepared: &Prepared) -> impl Iterator<Item = &Column> {
    let is_key = |at: usize| prepared.key.iter().any(|key| key.at == at);
    let columns = prepared.table.columns.iter().enumerate();
    columns
        .filter(move |(at, column)| !is_key(*at) && !column.generated && column.wire.is_ok())
        .map(|(_, column)| column)
}

/// The name of a key column in a stage.
pub(super) fn key_name(at: usize) -> String {
    format!("k{at}")
}

/// The name of another column in a stage.
pub(super) fn column_name(column: &Column) -> String {
    format!("c{}", column.number)
}

/// A column's type in a stage. Its collation is the target's, so that both compare.
fn waiting(column: &Column) -> String {
    match column.wire.as_ref().ok().and_then(|wire| wire.waits_as()) {
        Some(text) => text.to_owned(),
        None => {
            let collation = column.collation.as_ref().map_or(String::new(), |(name, _)| format!(" COLLATE {name}"));
            format!("{}{collation}", column.base)
        }
    }
}

/// A staged value as SQL, of the target column's type.
pub(super) fn value(of: &str, name: &str, column: &Column) -> String {
    match column.wire.as_ref().ok().and_then(|wire| wire.waits_as()) {
        Some(_) => format!("{of}.{name}::{}", column.base),
        None => format!("{of}.{name}"),
    }
}

/// Rows on their way to a stage: those of one group carry the same columns and are written by one
/// statement.
#[derive(Debug, Default)]
pub(super) struct Group {
    bytes: Vec<u8>,
    rows: Vec<Staged>,
}

#[derive(Debug)]
struct Staged {
    /// Where its fields are in the bytes.
    fields: std::ops::Range<usize>,
    /// What rows are sorted by: two transactions take the same rows in the same order.
    key: Vec<u8>,
    /// Its place in the batch's rows of the table.
    row: usize,
}

impl Group {
    /// Adds a row: `fields` writes what stands behind its number and its group.
    pub(super) fn add<T>(
        &mut self,
        row: usize,
        key: Vec<u8>,
        fields: impl FnOnce(&mut Vec<u8>) -> Outcome<T>,
    ) -> Outcome<T> {
        let start = self.bytes.len();
        let done = fields(&mut self.bytes)?;
        self.rows.push(Staged { fields: start..self.bytes.len(), key, row });
        Ok(done)
    }

    /// How many rows it has.
    pub(super) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// True without rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Sorts the rows; from then on their numbers stand.
    pub(super) fn sort(&mut self) {
        self.rows.sort_by(|a, b| a.key.cmp(&b.key));
    }

    /// The batch's row that has this number in the stage.
    pub(super) fn row(&self, number: i32) -> Option<usize> {
        usize::try_from(number).ok().and_then(|at| self.rows.get(at)).map(|staged| staged.row)
    }
}

/// Bytes sent at once.
const CHUNK: usize = 256 << 10;

/// Copies groups, each with its number, that carry the same `columns` behind `n` and `g`. An error of a row is
/// told with the group and the row's place in it, and the column's name in the stage.
pub(super) async fn copy(
    session: &mut Transaction,
    operation: &str,
    stage: &str,
    columns: &[String],
    groups: &[(i32, &Group)],
) -> Result<(), CopyError> {
    let sql = format!("COPY {stage} (n, g, {}) FROM STDIN (FORMAT binary)", columns.join(", "));
    let known = session.stages.copies.get(&sql).cloned();
    let connection = session.connection();
    let copy = match known {
        Some(copy) => copy,
        None => {
            let made = connection.within(operation, connection.client.prepare(&sql)).await;
            made.map_err(|error| CopyError { error, row: None, column: None })?
        }
    };
    if session.stages.copies.len() >= MAX_COPIES {
        session.stages.copies.clear();
    }
    session.stages.copies.insert(sql, copy.clone());
    let connection = session.connection();
    let fields = i16::try_from(columns.len() + 2).unwrap_or(i16::MAX);
    let sending = async {
        let sink: CopyInSink<Bytes> = connection.client.copy_in(&copy).await?;
        tokio::pin!(sink);
        let mut out = BytesMut::with_capacity(CHUNK + (16 << 10));
        out.put_slice(b"PGCOPY\n\xff\r\n\0");
        out.put_i64(0);
        for (number, group) in groups {
            for (at, staged) in group.rows.iter().enumerate() {
                out.put_i16(fields);
                out.put_i32(4);
                out.put_i32(i32::try_from(at).unwrap_or(i32::MAX));
                out.put_i32(4);
                out.put_i32(*number);
                out.put_slice(&group.bytes[staged.fields.clone()]);
                if out.len() >= CHUNK {
                    sink.send(out.split().freeze()).await?;
                }
            }
        }
        out.put_i16(-1);
        sink.send(out.freeze()).await?;
        sink.finish().await
    };
    match tokio::time::timeout(connection.patience(), sending).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            let place = failure::of_copy(&error).and_then(|(line, column)| Some((line.checked_sub(1)?, column)));
            let row = place.as_ref().and_then(|(line, _)| {
                let mut before = 0;
                groups.iter().find_map(|(_, group)| {
                    let at = line.checked_sub(before)?;
                    before += group.rows.len();
                    group.rows.get(at).map(|staged| staged.row)
                })
            });
            let column = place.and_then(|(_, column)| column);
            Err(CopyError { error: failure::of(error, operation.to_owned()), row, column })
        }
        Err(_) => Err(CopyError { error: connection.no_answer(operation), row: None, column: None }),
    }
}

/// A copy that the server refused.
#[derive(Debug)]
pub(super) struct CopyError {
    pub(super) error: SinkError,
    /// The row at fault, by its place in the batch's rows of the table.
    pub(super) row: Option<usize>,
    /// The column at fault, by its name in the stage.
    pub(super) column: Option<String>,
}
