//! What the schema holds, read in transactions that cannot write.
//!
//! A look is one transaction with one snapshot, so it sees whole batches. Rows are digested here and
//! not by the server: its text for a value is the same for the same value, whatever wrote it.

use std::pin::pin;

use bytes::BytesMut;
use futures_util::StreamExt;
use settle_core::schema::Origin;
use settle_core::sink::{BoxFuture, PlacedPartition, Places, SinkError};
use settle_core::version::Version;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, Kind as TypeKind, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use super::column::Wire;
use super::config::PostgresConfig;
use super::connection::Connection;
use super::ddl::within;
use super::encode;
use super::failure::{During, Outcome, contract};
use super::own;
use super::table::{Column, Description, describe};
use super::transaction::Transaction;
use crate::config::target::{Deletes, MetaNames, Target};
use crate::contents::{Contents, EachRow, Fact, Found, Look, SeenRow, Summary, TargetTable, Wanted};
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::versioned::{self, Versioned, lacks, reading};
use crate::sinks::sql::{meta, places};

const SQL: Dialect = Dialect::Postgres;

/// A PostgreSQL schema that is looked at.
#[derive(Debug)]
pub struct PostgresContents {
    config: PostgresConfig,
    target: Target,
}

impl PostgresContents {
    /// The schema of `config`. Connects to nothing yet.
    pub fn new(config: PostgresConfig, target: Target) -> Self {
        Self { config, target }
    }

    /// A transaction to look in.
    async fn looking(&self) -> Outcome<Transaction> {
        let connection = Connection::open(&self.config).await?;
        Transaction::begin_reading(connection, &format!("look into {}", self.config.address)).await
    }

    /// The same; none where nothing was written there yet.
    async fn looking_at_meta(&self) -> Outcome<Option<Transaction>> {
        let session = self.looking().await?;
        let present = own::present(session.connection(), &self.config.schema).await?;
        Ok((present.len() == own::TABLES.len()).then_some(session))
    }

    async fn describe(&self, session: &Transaction, name: &str) -> Outcome<Option<Table>> {
        Table::describe(session.connection(), &self.config.schema, name, &self.target.meta).await
    }

    async fn claimed_tables(&self) -> Outcome<Vec<TargetTable>> {
        let Some(mut session) = self.looking_at_meta().await? else { return Ok(Vec::new()) };
        let mut tables = Vec::new();
        for name in meta::claimed(&mut session).await? {
            let Some(table) = self.describe(&session, &name).await? else { continue };
            tables.push(TargetTable { key: table.key(), name: table.table.name });
        }
        Ok(tables)
    }

    async fn rows_now(
        &self,
        wanted: &TargetTable,
        columns: Option<&[String]>,
        each: &mut EachRow<'_>,
    ) -> Outcome<Option<Look>> {
        let session = self.looking().await?;
        let Some(table) = self.describe(&session, &wanted.name).await? else { return Ok(None) };
        let columns = columns.map_or_else(|| table.versioned.others(&table.table, &wanted.key), <[String]>::to_vec);
        let mut physical = 0;
        table
            .each(session.connection(), &wanted.key, &columns, &mut |row| {
                physical += 1;
                each(row)
            })
            .await?;
        table.each_tombstone(session.connection(), &wanted.key, each).await?;
        Ok(Some(Look { physical, columns }))
    }

    async fn find_now(&self, wanted: Wanted<'_>) -> Outcome<Option<Found>> {
        let plan = Plan::of(&self.target, wanted.table, Deletes::Hard);
        let session = self.looking().await?;
        let Some(table) = self.describe(&session, &plan.table).await? else { return Ok(None) };
        let mut key = Vec::new();
        for (at, (field, json)) in wanted.key.fields().enumerate() {
            let name = plan.column(field, true).unwrap_or(field);
            let column = table.column(name)?;
            let known = wanted.schema.and_then(|schema| schema.field(field, at));
            let misfit = |why: String| {
                contract(table.operation(), format!("key column \"{name}\" of {}: {why}", column.declared))
            };
            let wire = column.wire.as_ref().map_err(|why| misfit((*why).to_owned()))?;
            let origin = Origin::of(known, &self.target.conventions, &wire.kind());
            let mut field = Vec::new();
            encode::put(&mut field, json, origin, wire).map_err(|why| misfit(why.to_string()))?;
            key.push((column, Encoded(field[4..].to_vec())));
        }
        table.find(session.connection(), &key, wanted.with_values).await
    }
}

/// A table that holds versions.
struct Table {
    schema: String,
    table: Description,
    versioned: Versioned,
    graves: Option<Description>,
}

impl Table {
    /// The table called `name`; none where there is none. One without versions is refused.
    async fn describe(connection: &Connection, schema: &str, name: &str, names: &MetaNames) -> Outcome<Option<Self>> {
        let Some(table) = describe(connection, schema, name).await? else { return Ok(None) };
        let graves = describe(connection, schema, &SQL.tombstones(name)).await?;
        Ok(Some(Self { schema: schema.to_owned(), versioned: Versioned::of(SQL, &table, names)?, graves, table }))
    }

    fn operation(&self) -> String {
        reading(&self.table)
    }

    fn column(&self, name: &str) -> Outcome<&Column> {
        self.table.column(name).ok_or_else(|| lacks(&self.table, name))
    }

    /// The columns of the primary key, or of the unique index that serves as one.
    fn key(&self) -> Vec<String> {
        let uniques = || self.table.uniques.iter().filter(|unique| unique.is_usable);
        let key = uniques().find(|unique| unique.is_primary).or_else(|| uniques().next());
        key.and_then(|unique| unique.columns.clone()).unwrap_or_default()
    }

    fn name(&self) -> String {
        within(&self.schema, &self.table.name)
    }

    fn graves(&self) -> Option<String> {
        self.graves.as_ref().map(|graves| within(&self.schema, &graves.name))
    }

    /// Every row that lies in the table.
    async fn each(
        &self,
        connection: &Connection,
        key: &[String],
        columns: &[String],
        each: &mut EachRow<'_>,
    ) -> Outcome<()> {
        // A column that went away since reads as NULL: its values are gone.
        let read = columns.iter().map(|name| match self.table.column(name) {
            Some(_) => as_text(name),
            None => "NULL::text".to_owned(),
        });
        let read: Vec<String> = key.iter().map(|name| as_text(name)).chain(read).collect();
        let sql = format!(
            "SELECT {}, {}, {} FROM {}",
            self.versioned.halves(),
            self.versioned.flag(),
            read.join(", "),
            self.name()
        );
        let numbers = self.numbers(key);
        self.select(connection, &sql, each, |row| {
            let is_deleted: bool = row.get(2);
            let content = if is_deleted { 0 } else { digest(row, 3 + key.len(), columns) };
            SeenRow { key: key_json(row, 3, key, &numbers), version: version(row), is_deleted, content }
        })
        .await
    }

    /// The versions that hard deletes left.
    async fn each_tombstone(&self, connection: &Connection, key: &[String], each: &mut EachRow<'_>) -> Outcome<()> {
        let Some(graves) = self.graves() else { return Ok(()) };
        let read: Vec<String> = key.iter().map(|name| as_text(name)).collect();
        let sql = format!("SELECT {}, {} FROM {graves}", self.versioned.halves(), read.join(", "));
        let numbers = self.numbers(key);
        self.select(connection, &sql, each, |row| SeenRow {
            key: key_json(row, 2, key, &numbers),
            version: version(row),
            is_deleted: true,
            content: 0,
        })
        .await
    }

    /// Which of these columns JSON has numbers for.
    fn numbers(&self, key: &[String]) -> Vec<bool> {
        let is_number = |name: &String| {
            self.table.column(name).is_some_and(|column| {
                matches!(column.wire, Ok(Wire::Int2 | Wire::Int4 | Wire::Int8 | Wire::Numeric(_)))
            })
        };
        key.iter().map(is_number).collect()
    }

    async fn select(
        &self,
        connection: &Connection,
        sql: &str,
        each: &mut EachRow<'_>,
        read: impl Fn(&Row) -> SeenRow + Send,
    ) -> Outcome<()> {
        let operation = self.operation();
        let nothing: [(&(dyn ToSql + Sync), Type); 0] = [];
        let rows = connection.within(&operation, connection.client.query_typed_raw(sql, nothing)).await?;
        let mut rows = pin!(rows);
        while let Some(row) = rows.next().await {
            each(read(&row.during(|| operation.clone())?))?;
        }
        Ok(())
    }

    async fn summary(&self, connection: &Connection) -> Outcome<Summary> {
        let operation = self.operation();
        let counts = format!("SELECT count(*), count(*) FILTER (WHERE {}) FROM {}", self.versioned.flag(), self.name());
        let counts = connection.rows(&operation, &counts, &[]).await?;
        let (physical, deleted) = counts.first().map_or((0, 0), |row| (row.get::<_, i64>(0), row.get::<_, i64>(1)));
        let top = self.versioned.greatest(&self.name(), &[self.versioned.time()]);
        let rows = connection.rows(&operation, &top, &[]).await?;
        let mut greatest: Option<(Version, Option<i64>)> = rows.first().map(|row| (version(row), row.get(2)));
        if let Some(graves) = self.graves() {
            let rows = connection.rows(&operation, &self.versioned.greatest(&graves, &[]), &[]).await?;
            greatest = greatest.max(rows.first().map(|row| (version(row), None)));
        }
        Ok(Summary {
            physical: physical.unsigned_abs(),
            current: (physical - deleted).unsigned_abs(),
            greatest: greatest.map(|(version, _)| version),
            source_ts_ms: greatest.and_then(|(_, time)| time),
        })
    }

    async fn find(
        &self,
        connection: &Connection,
        key: &[(&Column, Encoded)],
        with_values: bool,
    ) -> Outcome<Option<Found>> {
        let operation = self.operation();
        let is_key: Vec<String> = key
            .iter()
            .enumerate()
            .map(|(at, (column, _))| {
                let waits = column.wire.as_ref().ok().and_then(|wire| wire.waits_as());
                let cast = waits.map_or(String::new(), |_| format!("::{}", column.base));
                format!("{} = ${}{cast}", SQL.quoted(&column.name), at + 1)
            })
            .collect();
        let is_key = is_key.join(" AND ");
        let values: Vec<(&(dyn ToSql + Sync), Type)> =
            key.iter().map(|(column, value)| (value as &(dyn ToSql + Sync), type_of(column))).collect();
        let names: Vec<String> = key.iter().map(|(column, _)| column.name.clone()).collect();
        let columns = if with_values { self.versioned.others(&self.table, &names) } else { Vec::new() };
        let read: Vec<String> = columns.iter().map(|name| format!(", {}", as_text(name))).collect();
        let sql = format!(
            "SELECT {}, {}{} FROM {} WHERE {is_key}",
            self.versioned.halves(),
            self.versioned.flag(),
            read.concat(),
            self.name()
        );
        if let Some(row) = connection.rows(&operation, &sql, &values).await?.first() {
            let is_deleted: bool = row.get(2);
            let columns = columns.into_iter().enumerate().filter(|_| !is_deleted);
            let columns = columns.map(|(at, name)| (name, row.get(3 + at))).collect();
            return Ok(Some(Found { version: version(row), is_deleted, columns }));
        }
        let Some(graves) = self.graves() else { return Ok(None) };
        let sql = format!("SELECT {} FROM {graves} WHERE {is_key}", self.versioned.halves());
        let deleted = connection.rows(&operation, &sql, &values).await?;
        Ok(deleted.first().map(|row| Found { version: version(row), is_deleted: true, columns: Vec::new() }))
    }
}

fn as_text(name: &str) -> String {
    format!("{}::text", SQL.quoted(name))
}

fn version(row: &Row) -> Version {
    Version::from_halves(row.get::<_, i64>(0).cast_unsigned(), row.get::<_, i64>(1).cast_unsigned())
}

fn key_json(row: &Row, from: usize, key: &[String], numbers: &[bool]) -> String {
    let field = |(at, (name, is_number)): (usize, (_, &bool))| {
        let value: Option<&str> = row.get(from + at);
        let value = match (value, is_number) {
            (None, _) => "null".to_owned(),
            (Some(number), true) => number.to_owned(),
            (Some(text), false) => serde_json::Value::from(text).to_string(),
        };
        (name, value)
    };
    versioned::key_json(key.iter().zip(numbers).enumerate().map(field))
}

/// The digest of a row's columns. A NULL adds nothing: a column that was added later and holds none
/// changes no row.
fn digest(row: &Row, from: usize, columns: &[String]) -> u128 {
    let mut bytes = Vec::new();
    for (at, name) in columns.iter().enumerate() {
        let Some(value) = row.get::<_, Option<&str>>(from + at) else { continue };
        // Lengths in front: two values never run together into a third.
        for part in [name.as_str(), value] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
        }
    }
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &bytes).as_u128()
}

/// A value in the binary form of its column's type.
#[derive(Debug)]
struct Encoded(Vec<u8>);

impl ToSql for Encoded {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn type_of(column: &Column) -> Type {
    match column.wire.as_ref().ok().and_then(|wire| wire.waits_as()) {
        Some(_) => Type::TEXT,
        None => Type::from_oid(column.base_oid).unwrap_or_else(|| {
            Type::new(column.base_name.clone(), column.base_oid, TypeKind::Simple, "pg_catalog".to_owned())
        }),
    }
}

impl Contents for PostgresContents {
    fn tables(&mut self) -> BoxFuture<'_, Result<Vec<TargetTable>, SinkError>> {
        Box::pin(self.claimed_tables())
    }

    fn summary<'a>(&'a mut self, table: &'a TargetTable) -> BoxFuture<'a, Result<Option<Summary>, SinkError>> {
        Box::pin(async move {
            let session = self.looking().await?;
            match self.describe(&session, &table.name).await? {
                Some(table) => table.summary(session.connection()).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn rows<'a>(
        &'a mut self,
        table: &'a TargetTable,
        columns: Option<&'a [String]>,
        each: &'a mut EachRow<'a>,
    ) -> BoxFuture<'a, Result<Option<Look>, SinkError>> {
        Box::pin(self.rows_now(table, columns, each))
    }

    fn places<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        Box::pin(async move {
            match self.looking_at_meta().await? {
                Some(mut session) => places::look(&mut session, &self.config.group, parts).await,
                None => Ok(Places::default()),
            }
        })
    }

    fn facts(&mut self) -> BoxFuture<'_, Result<Vec<Fact>, SinkError>> {
        Box::pin(async move {
            match self.looking_at_meta().await? {
                Some(mut session) => meta::facts(&mut session).await,
                None => Ok(Vec::new()),
            }
        })
    }

    fn find<'a>(&'a mut self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Option<Found>, SinkError>> {
        Box::pin(self.find_now(wanted))
    }
}
