//! Values that the source did not send (TOAST), as the table holds them.
//!
//! The last version of a row is read, deleted or not, merged or not: what `FINAL` shows would not
//! tell a deleted row, whose version makes a record stale, from one that never was. Of older versions
//! nothing is taken, though they may still be there: a merge may have removed the one that counts.
//!
//! A row that came from another key is written before anything that is written under that key, so
//! that a batch that failed half-way finds the values again. What was written already is found under
//! the row's own key, and is not written twice.

use std::collections::{HashMap, HashSet};

use settle_core::batch::{Again, Kept, Row};
use settle_core::key::Key;
use settle_core::sink::{FailureKind, SinkError};
use settle_core::truncate::Cuts;
use settle_core::version::Version;

use super::apply::Encoder;
use super::column_type::Base;
use super::destination::Known;
use super::names::{identifier, identifiers, literal};
use super::row_binary::{Cell, byte, take, take_u128};
use super::rows::{Rows, Slot};
use super::server::CONSISTENTLY;
use crate::sinks::unsent;

/// Longest answer to a look-up of several rows. With less rows it is shorter.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Longest answer to a look-up of one row.
const MAX_ROW_BYTES: usize = 1 << 30;
/// Most bytes of keys in a look-up: the server reads 256 KiB of a query.
const MAX_KEY_BYTES: usize = 50_000;

/// Values for columns of rows: by the row's index and the place of the column in its record.
pub(crate) type Values = HashMap<(usize, usize), Cell>;

/// Rows that were looked up.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Those to be written.
    pub(crate) rows: Vec<usize>,
    pub(crate) values: Values,
    /// How many need not be: the table has them as new, or newer.
    pub(crate) stale: u64,
}

/// The last version of a row.
struct Last {
    version: Version,
    is_deleted: bool,
    /// The columns that were asked for.
    cells: Vec<Cell>,
}

/// The order in which rows with unsent values are written: those that came from another key first,
/// and of them each before the one that took the key it came from.
pub(crate) fn in_order(rows: &Rows<'_>, unsent: &[usize]) -> Vec<usize> {
    let from = |row: &usize| {
        let row = rows.read[*row].row;
        source(row).filter(|key| *key != row.key())
    };
    let movers: Vec<usize> = unsent.iter().copied().filter(|row| from(row).is_some()).collect();
    let takers: HashMap<&Key, usize> = movers.iter().map(|row| (rows.read[*row].row.key(), *row)).collect();
    let left: HashSet<&Key> = movers.iter().filter_map(from).collect();
    let (heads, others): (Vec<usize>, Vec<usize>) =
        movers.iter().partition(|row| !left.contains(rows.read[**row].row.key()));
    let mut seen = HashSet::new();
    let mut order = Vec::with_capacity(unsent.len());
    for start in heads.into_iter().chain(others).chain(unsent.iter().copied()) {
        let mut next = Some(start);
        while let Some(row) = next.filter(|row| seen.insert(*row)) {
            order.push(row);
            next = from(&row).and_then(|key| takers.get(key).copied());
        }
    }
    order
}

/// Where the row's values are, if anywhere.
fn source<'a>(row: Row<'a>) -> Option<&'a Key> {
    match row.kept() {
        Kept::Row { key, .. } => Some(key),
        Kept::OtherHalf { .. } | Kept::Nowhere => None,
    }
}

/// Looks up what these rows lack; none where fewer rows must be asked for at once. `lost` are those
/// that lack a column which the table had not, so that nothing can be stored.
pub(crate) async fn look_up(
    encoder: &Encoder<'_, '_>,
    known: &Known,
    rows: &[usize],
    lost: &HashSet<usize>,
    cuts: Cuts,
) -> Result<Option<Found>, SinkError> {
    let mut keys: HashMap<&Key, Option<Vec<u8>>> = HashMap::new();
    for &row in rows {
        let read = &encoder.rows.read[row];
        let again = read.row.again();
        let made_before = again.iter().map(|again| again.key);
        for key in [Some(read.row.key()), source(read.row)].into_iter().flatten().chain(made_before) {
            if !keys.contains_key(key) {
                keys.insert(key, encoder.key_bytes(known, key, read)?);
            }
        }
    }
    let mut columns: Vec<usize> = rows.iter().flat_map(|row| wanted(encoder.rows, *row)).map(|(_, at)| at).collect();
    columns.sort_unstable();
    columns.dedup();
    let Some(last) = read(encoder, known, &keys, &columns, rows.len() == 1).await? else { return Ok(None) };
    let last_of = |key: &Key| {
        keys.get(key)?.as_ref().and_then(|bytes| last.get(bytes)).filter(|last| !cuts.empties(last.version))
    };
    let mut found = Found::default();
    for &index in rows {
        let row = encoder.rows.read[index].row;
        if last_of(row.key()).is_some_and(|last| last.version >= row.version()) {
            found.stale += 1;
            continue;
        }
        let made_before =
            |again: &Again<'_>| last_of(again.key).filter(|last| !last.is_deleted && again.holds(last.version));
        let kept = row.again().iter().find_map(made_before).or_else(|| match row.kept() {
            Kept::Row { key, below } => last_of(key).filter(|last| !last.is_deleted && last.version < below),
            Kept::OtherHalf { .. } | Kept::Nowhere => None,
        });
        let Some(kept) = kept.filter(|_| !lost.contains(&index)) else {
            return Err(nothing_stored(encoder.rows, known, index));
        };
        for (position, column) in wanted(encoder.rows, index) {
            if let Some(cell) = columns.binary_search(&column).ok().and_then(|at| kept.cells.get(at)) {
                found.values.insert((index, position), cell.clone());
            }
        }
        found.rows.push(index);
    }
    Ok(Some(found))
}

/// The columns of a row that were not sent: place in the record, index in the table.
fn wanted<'r>(rows: &'r Rows<'_>, row: usize) -> impl Iterator<Item = (usize, usize)> + use<'r> {
    rows.unsent(row).filter_map(|(position, slot)| match slot {
        Slot::Column(at) => Some((position, at)),
        _ => None,
    })
}

fn nothing_stored(rows: &Rows<'_>, known: &Known, index: usize) -> SinkError {
    let read = &rows.read[index];
    let names: Vec<&str> = read
        .shape
        .map(|shape| rows.unsent(index).map(|(position, _)| &*rows.shapes[shape].names[position]).collect())
        .unwrap_or_default();
    let context = unsent::nothing_stored(read.row.change(), &identifiers(names), read.row.kept());
    SinkError::new(FailureKind::Contract, format!("preparing rows for {}", known.table.name), context)
}

/// The last version under each key, by the key's bytes.
async fn read(
    encoder: &Encoder<'_, '_>,
    known: &Known,
    keys: &HashMap<&Key, Option<Vec<u8>>>,
    columns: &[usize],
    is_one: bool,
) -> Result<Option<HashMap<Vec<u8>, Last>>, SinkError> {
    let table = &known.table;
    let mut asked: Vec<&Vec<u8>> = keys.values().flatten().collect();
    asked.sort_unstable();
    asked.dedup();
    if asked.iter().map(|key| key.len()).sum::<usize>() > MAX_KEY_BYTES && !is_one {
        return Ok(None);
    }
    let hex: String = asked.iter().flat_map(|key| key.iter()).map(|byte| format!("{byte:02x}")).collect();
    let meta = encoder.naming.meta();
    let key_columns: Vec<&str> = known.key.iter().map(|(_, at)| table.columns[*at].name.as_str()).collect();
    let structure: Vec<String> = known
        .key
        .iter()
        .enumerate()
        .map(|(n, (_, at))| format!("k{n} {}", key_type(&table.columns[*at].column_type.base)))
        .collect();
    let sent: Vec<String> = (0..key_columns.len()).map(|n| format!("k{n}")).collect();
    let (key, version) = (identifiers(key_columns.iter().copied()), identifier(&meta.version));
    let values = columns.iter().map(|at| format!(", {}", identifier(&table.columns[*at].name))).collect::<String>();
    let sql = format!(
        "SELECT {key}, {version}, {}{values} FROM {} WHERE ({key}) IN (SELECT {} FROM format(RowBinary, {}, unhex('{hex}'))) \
         ORDER BY {version} DESC LIMIT 1 BY {key}{} FORMAT RowBinary",
        identifier(&meta.is_deleted),
        table.name,
        sent.join(", "),
        literal(&structure.join(", ")),
        CONSISTENTLY,
    );
    let operation = format!("looking up stored values of {}", table.name);
    let limit = if is_one { MAX_ROW_BYTES } else { MAX_ANSWER_BYTES };
    let Some(answer) = encoder.server.client.fetch(&operation, &sql, limit).await? else {
        if is_one {
            let context = "the values of one row are more than 1 GiB; exclude the column, or set REPLICA IDENTITY FULL at the source";
            return Err(SinkError::new(FailureKind::Contract, operation, context));
        }
        return Ok(None);
    };
    let mut left: &[u8] = &answer;
    let mut last = HashMap::new();
    while !left.is_empty() {
        let (key, row) = last_version(known, columns, &mut left).ok_or_else(|| {
            let context =
                "the server's answer is not what its types say; is `url` in [sink] the HTTP interface of ClickHouse?";
            SinkError::new(FailureKind::Contract, operation.as_str(), context)
        })?;
        last.insert(key, row);
    }
    Ok(Some(last))
}

/// Takes one row of the answer.
fn last_version(known: &Known, columns: &[usize], left: &mut &[u8]) -> Option<(Vec<u8>, Last)> {
    let before = *left;
    for (_, at) in &known.key {
        take(&known.table.columns[*at].column_type, left)?;
    }
    let key = before[..before.len() - left.len()].to_vec();
    let version = Version::from(take_u128(left)?);
    let is_deleted = byte(left)? != 0;
    let cells = columns.iter().map(|at| take(&known.table.columns[*at].column_type, left)).collect::<Option<_>>()?;
    Some((key, Last { version, is_deleted, cells }))
}

/// A type of the same bytes as the key column's, without what a table alone may have.
fn key_type(base: &Base) -> String {
    match base {
        Base::Bool => "Bool".to_owned(),
        Base::Int { bits, signed } => format!("{}Int{bits}", if *signed { "" } else { "U" }),
        Base::Float32 => "Float32".to_owned(),
        Base::Float64 => "Float64".to_owned(),
        Base::Decimal { precision, scale } => format!("Decimal({precision}, {scale})"),
        Base::FixedString(length) => format!("FixedString({length})"),
        Base::Date => "Date".to_owned(),
        Base::Date32 => "Date32".to_owned(),
        Base::DateTime => "DateTime".to_owned(),
        Base::DateTime64 { digits } => format!("DateTime64({digits})"),
        Base::Time64 { digits } => format!("Time64({digits})"),
        Base::Uuid => "UUID".to_owned(),
        Base::Enum(labels) => labels.to_string(),
        Base::Ipv4 => "IPv4".to_owned(),
        Base::Ipv6 => "IPv6".to_owned(),
        // No key is validated with one of the last three.
        Base::String | Base::Array(_) | Base::Map(..) | Base::Unsupported => "String".to_owned(),
    }
}
