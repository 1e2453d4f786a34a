//! What the database holds, read over a connection that cannot write.
//!
//! A look is one read transaction, so it sees whole batches. Rows are digested here and not in SQL:
//! SQLite has no function for it, and a value's own type (it has one for each value, not for each
//! column) counts.

use std::fmt::Write as _;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};
use settle_core::schema::Origin;
use settle_core::sink::{BoxFuture, PlacedPartition, Places, SinkError};
use settle_core::version::Version;
use uuid::Uuid;

use super::bind::{Bound, bound};
use super::config::SqliteConfig;
use super::failure::{During, Outcome, contract};
use super::name::{list, quoted, tombstones};
use super::session::Attached;
use super::sink::blocking;
use super::table::{self, Column, Description};
use crate::config::target::{Deletes, MetaNames, Target};
use crate::contents::{Contents, EachRow, Fact, Found, Look, SeenRow, Summary, TargetTable, Wanted};
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::session::at_once;
use crate::sinks::sql::versioned::{self, Versioned, lacks, reading};
use crate::sinks::sql::{meta, places};

const META: &str = "settle_meta";

/// A SQLite database that is looked at.
#[derive(Debug)]
pub struct SqliteContents {
    config: SqliteConfig,
    target: Target,
}

impl SqliteContents {
    /// The file of `config`. Opens nothing yet.
    pub fn new(config: SqliteConfig, target: Target) -> Self {
        Self { config, target }
    }

    /// Runs `look` in one read transaction; none where there is no file yet.
    fn looking<T>(&self, look: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<Option<T>> {
        let path = &self.config.path;
        let operation = || format!("look into {}", path.display());
        if !path.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).during(operation)?;
        let patience = std::time::Duration::from_millis(self.config.busy_timeout_ms);
        connection.busy_timeout(patience).during(operation)?;
        let transaction = connection.transaction().during(operation)?;
        look(&transaction).map(Some)
    }

    fn rows_now(
        &self,
        wanted: &TargetTable,
        columns: Option<&[String]>,
        each: &mut EachRow<'_>,
    ) -> Outcome<Option<Look>> {
        let look = self.looking(|connection| {
            let Some(table) = Table::describe(connection, &wanted.name, &self.target.meta)? else {
                return Ok(None);
            };
            let columns = match columns {
                Some(columns) => columns.to_vec(),
                None => table.versioned.others(&table.table, &wanted.key),
            };
            let mut physical = 0;
            table.each(connection, &wanted.key, &columns, &mut |row| {
                physical += 1;
                each(row)
            })?;
            table.each_tombstone(connection, &wanted.key, each)?;
            Ok(Some(Look { physical, columns }))
        })?;
        Ok(look.flatten())
    }

    fn find_now(&self, wanted: Wanted<'_>) -> Outcome<Option<Found>> {
        let plan = Plan::of(&self.target, wanted.table, Deletes::Hard);
        let found = self.looking(|connection| {
            let Some(table) = Table::describe(connection, &plan.table, &self.target.meta)? else { return Ok(None) };
            let mut key = Vec::new();
            for (at, (field, json)) in wanted.key.fields().enumerate() {
                let name = plan.column(field, true).unwrap_or(field);
                let column = table.column(name)?;
                let known = wanted.schema.and_then(|schema| schema.field(field, at));
                let storage = table::describe(connection, &plan.table, |column| plan.declared_type(column))?
                    .and_then(|described| described.column(name).map(|column| column.storage.clone()))
                    .unwrap_or_else(|| column.storage.clone());
                let origin = Origin::of(known, &self.target.conventions, &storage.kind);
                let value = bound(json, origin, &storage)
                    .map_err(|misfit| contract(table.operation(), format!("key column \"{name}\": {misfit}")))?;
                key.push((column.name.clone(), value));
            }
            table.find(connection, &key, wanted.with_values)
        })?;
        Ok(found.flatten())
    }
}

/// A table that holds versions.
struct Table {
    table: Description,
    versioned: Versioned,
    has_tombstones: bool,
}

impl Table {
    /// The table called `name`; none where there is none. One without versions is refused.
    fn describe(connection: &Connection, name: &str, names: &MetaNames) -> Outcome<Option<Self>> {
        let Some(table) = table::describe(connection, name, |_| None)? else { return Ok(None) };
        let has_tombstones = table::describe(connection, &tombstones(name), |_| None)?.is_some();
        Ok(Some(Self { versioned: Versioned::of(Dialect::Sqlite, &table, names)?, table, has_tombstones }))
    }

    fn operation(&self) -> String {
        reading(&self.table)
    }

    fn column(&self, name: &str) -> Outcome<&Column> {
        self.table.column(name).ok_or_else(|| lacks(&self.table, name))
    }

    /// Every row that lies in the table.
    fn each(&self, connection: &Connection, key: &[String], columns: &[String], each: &mut EachRow<'_>) -> Outcome<()> {
        // A column that went away since reads as NULL: its values are gone.
        let read = columns.iter().map(|name| match self.table.column(name) {
            Some(column) => quoted(&column.name),
            None => "NULL".to_owned(),
        });
        let selected: Vec<String> = [self.versioned.halves(), self.versioned.flag()]
            .into_iter()
            .chain(key.iter().map(|name| quoted(name)))
            .chain(read)
            .collect();
        let sql = format!("SELECT {} FROM {}", selected.join(", "), quoted(&self.table.name));
        self.select(
            connection,
            &sql,
            |row| {
                let is_deleted: bool = row.get(2)?;
                let content = if is_deleted { 0 } else { digest(row, 3 + key.len(), columns)? };
                Ok(SeenRow { key: key_json(row, 3, key)?, version: version(row)?, is_deleted, content })
            },
            each,
        )
    }

    /// The versions that hard deletes left.
    fn each_tombstone(&self, connection: &Connection, key: &[String], each: &mut EachRow<'_>) -> Outcome<()> {
        if !self.has_tombstones {
            return Ok(());
        }
        let keys = list(key.iter().map(String::as_str));
        let graves = quoted(&tombstones(&self.table.name));
        let sql = format!("SELECT {}, {keys} FROM {graves}", self.versioned.halves());
        self.select(
            connection,
            &sql,
            |row| Ok(SeenRow { key: key_json(row, 2, key)?, version: version(row)?, is_deleted: true, content: 0 }),
            each,
        )
    }

    fn select(
        &self,
        connection: &Connection,
        sql: &str,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<SeenRow>,
        each: &mut EachRow<'_>,
    ) -> Outcome<()> {
        let mut select = connection.prepare(sql).during(|| self.operation())?;
        let mut rows = select.query([]).during(|| self.operation())?;
        while let Some(row) = rows.next().during(|| self.operation())? {
            each(read(row).during(|| self.operation())?)?;
        }
        Ok(())
    }

    fn summary(&self, connection: &Connection) -> Outcome<Summary> {
        let name = quoted(&self.table.name);
        let read = || -> rusqlite::Result<Summary> {
            let deleted = format!("count(*) FILTER (WHERE {} <> 0)", self.versioned.flag());
            let counts = format!("SELECT count(*), {deleted} FROM {name}");
            let (physical, deleted): (i64, i64) =
                connection.query_row(&counts, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let (physical, deleted) = (physical.cast_unsigned(), deleted.cast_unsigned());
            let top = self.versioned.greatest(&name, &[self.versioned.time()]);
            let mut greatest: Option<(Version, Option<i64>)> =
                connection.query_row(&top, [], |row| Ok((version(row)?, row.get(2)?))).optional()?;
            if self.has_tombstones {
                let graves = quoted(&tombstones(&self.table.name));
                let top = self.versioned.greatest(&graves, &[]);
                let deleted = connection.query_row(&top, [], version).optional()?;
                greatest = greatest.max(deleted.map(|version| (version, None)));
            }
            let source_ts_ms = greatest.and_then(|(_, time)| time);
            Ok(Summary {
                physical,
                current: physical - deleted,
                greatest: greatest.map(|(version, _)| version),
                source_ts_ms,
            })
        };
        read().during(|| self.operation())
    }

    fn find(&self, connection: &Connection, key: &[(String, Bound<'_>)], with_values: bool) -> Outcome<Option<Found>> {
        let names: Vec<String> = key.iter().map(|(name, _)| name.clone()).collect();
        let is_key: Vec<String> =
            names.iter().enumerate().map(|(at, name)| format!("{} = ?{}", quoted(name), at + 1)).collect();
        let values: Vec<&dyn rusqlite::ToSql> = key.iter().map(|(_, value)| value as &dyn rusqlite::ToSql).collect();
        let columns = if with_values { self.versioned.others(&self.table, &names) } else { Vec::new() };
        let selected: Vec<String> = [self.versioned.halves(), self.versioned.flag()]
            .into_iter()
            .chain(columns.iter().map(|name| quoted(name)))
            .collect();
        let row =
            format!("SELECT {} FROM {} WHERE {}", selected.join(", "), quoted(&self.table.name), is_key.join(" AND "));
        let found = connection.query_row(&row, values.as_slice(), |row| {
            let is_deleted: bool = row.get(2)?;
            let columns = columns
                .iter()
                .enumerate()
                .filter(|_| !is_deleted)
                .map(|(at, name)| Ok((name.clone(), text(row.get_ref(3 + at)?))));
            Ok(Found { version: version(row)?, is_deleted, columns: columns.collect::<rusqlite::Result<_>>()? })
        });
        let found = found.optional().during(|| self.operation())?;
        if found.is_some() || !self.has_tombstones {
            return Ok(found);
        }
        let graves = quoted(&tombstones(&self.table.name));
        let sql = format!("SELECT {} FROM {graves} WHERE {}", self.versioned.halves(), is_key.join(" AND "));
        let deleted = connection.query_row(&sql, values.as_slice(), version).optional().during(|| self.operation())?;
        Ok(deleted.map(|version| Found { version, is_deleted: true, columns: Vec::new() }))
    }
}

fn version(row: &Row<'_>) -> rusqlite::Result<Version> {
    let (hi, lo): (i64, i64) = (row.get(0)?, row.get(1)?);
    Ok(Version::from_halves(hi.cast_unsigned(), lo.cast_unsigned()))
}

fn key_json(row: &Row<'_>, from: usize, key: &[String]) -> rusqlite::Result<String> {
    let field = |(at, name)| {
        let value = match row.get_ref(from + at)? {
            ValueRef::Null => "null".to_owned(),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => number.to_string(),
            other => serde_json::Value::String(text(other).unwrap_or_default()).to_string(),
        };
        Ok((name, value))
    };
    let fields = key.iter().enumerate().map(field).collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(versioned::key_json(fields.into_iter()))
}

fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => {
            let hex = bytes.iter().fold(String::from("0x"), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            Some(hex)
        }
    }
}

/// The digest of a row's columns. A NULL adds nothing: a column that was added later and holds none
/// changes no row.
fn digest(row: &Row<'_>, from: usize, columns: &[String]) -> rusqlite::Result<u128> {
    let mut bytes = Vec::new();
    for (at, name) in columns.iter().enumerate() {
        let (tag, value): (u8, std::borrow::Cow<'_, [u8]>) = match row.get_ref(from + at)? {
            ValueRef::Null => continue,
            ValueRef::Integer(number) => (1, number.to_le_bytes().to_vec().into()),
            ValueRef::Real(number) => (2, number.to_bits().to_le_bytes().to_vec().into()),
            ValueRef::Text(text) => (3, text.into()),
            ValueRef::Blob(blob) => (4, blob.into()),
        };
        // Lengths in front: two values never run together into a third.
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.push(tag);
        bytes.extend((value.len() as u64).to_le_bytes());
        bytes.extend(value.as_ref());
    }
    Ok(Uuid::new_v5(&Uuid::NAMESPACE_OID, &bytes).as_u128())
}

fn claimed_tables(connection: &Connection, names: &MetaNames) -> Outcome<Vec<TargetTable>> {
    let mut tables = Vec::new();
    for name in at_once(meta::claimed(&mut Attached(connection)))? {
        let Some(table) = Table::describe(connection, &name, names)? else { continue };
        let mut key: Vec<&Column> = table.table.columns.iter().filter(|column| column.primary_key > 0).collect();
        key.sort_by_key(|column| column.primary_key);
        let key = key.into_iter().map(|column| column.name.clone()).collect();
        tables.push(TargetTable { name: table.table.name.clone(), key });
    }
    Ok(tables)
}

fn has_meta(connection: &Connection) -> Outcome<bool> {
    Ok(table::describe(connection, META, |_| None)?.is_some())
}

impl Contents for SqliteContents {
    fn tables(&mut self) -> BoxFuture<'_, Result<Vec<TargetTable>, SinkError>> {
        let look = || {
            self.looking(|connection| match has_meta(connection)? {
                true => claimed_tables(connection, &self.target.meta),
                false => Ok(Vec::new()),
            })
        };
        let found = blocking(look).map(Option::unwrap_or_default);
        Box::pin(async move { found })
    }

    fn summary<'a>(&'a mut self, table: &'a TargetTable) -> BoxFuture<'a, Result<Option<Summary>, SinkError>> {
        Box::pin(async move {
            blocking(|| {
                let summary = self.looking(|connection| {
                    let described = Table::describe(connection, &table.name, &self.target.meta)?;
                    described.map(|table| table.summary(connection)).transpose()
                })?;
                Ok(summary.flatten())
            })
        })
    }

    fn rows<'a>(
        &'a mut self,
        table: &'a TargetTable,
        columns: Option<&'a [String]>,
        each: &'a mut EachRow<'a>,
    ) -> BoxFuture<'a, Result<Option<Look>, SinkError>> {
        Box::pin(async move { blocking(|| self.rows_now(table, columns, each)) })
    }

    fn places<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        Box::pin(async move {
            blocking(|| {
                let places = self.looking(|connection| match has_meta(connection)? {
                    true => at_once(places::look(&mut Attached(connection), &self.config.group, parts)),
                    false => Ok(Places::default()),
                })?;
                Ok(places.unwrap_or_default())
            })
        })
    }

    fn facts(&mut self) -> BoxFuture<'_, Result<Vec<Fact>, SinkError>> {
        let found = blocking(|| {
            self.looking(|connection| match has_meta(connection)? {
                true => at_once(meta::facts(&mut Attached(connection))),
                false => Ok(Vec::new()),
            })
        });
        Box::pin(async move { found.map(Option::unwrap_or_default) })
    }

    fn find<'a>(&'a mut self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Option<Found>, SinkError>> {
        Box::pin(async move { blocking(|| self.find_now(wanted)) })
    }
}
