//! What the database holds.
//!
//! A look is one read-only transaction upon one snapshot, so it sees whole batches. Rows are digested
//! here and not in SQL: the two servers share no function for it that keeps all types apart.

use mysql_async::Value;
use settle_core::schema::Origin;
use settle_core::sink::{BoxFuture, PlacedPartition, Places, SinkError};
use settle_core::version::Version;

use super::bind::bound;
use super::config::MySqlConfig;
use super::connection::Connection;
use super::failure::{Outcome, contract};
use super::prepared::plan_of;
use super::shown::{digest, key_json, text};
use super::stored::version;
use super::table::{Column, Description, describe};
use crate::config::target::{MetaNames, Target};
use crate::contents::{Contents, EachRow, Fact, Found, Look, SeenRow, Summary, TargetTable, Wanted};
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::versioned::{Versioned, lacks, reading};
use crate::sinks::sql::{meta, places};

const SQL: Dialect = Dialect::MySql;

/// A database that is looked at.
#[derive(Debug)]
pub struct MySqlContents {
    config: MySqlConfig,
    target: Target,
}

impl MySqlContents {
    /// The database of `config`. Opens nothing yet.
    pub fn new(config: MySqlConfig, target: Target) -> Self {
        Self { config, target }
    }

    /// A connection in a transaction that sees what was committed before it, and writes nothing.
    async fn look(&self) -> Outcome<Connection> {
        let operation = format!("look into {}", self.config.address);
        let mut connection = Connection::open(&self.config).await?;
        for statement in [
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        ] {
            connection.execute_text(&operation, statement).await?;
        }
        Ok(connection)
    }

    async fn tables_now(&self) -> Outcome<Vec<TargetTable>> {
        let mut connection = self.look().await?;
        let mut tables = Vec::new();
        if has_meta(&mut connection).await? {
            for name in meta::claimed(&mut connection).await? {
                let Some(table) = Table::describe(&mut connection, &name, &self.target.meta).await? else {
                    continue;
                };
                tables.push(TargetTable { key: table.key(), name: table.table.name });
            }
        }
        connection.close().await;
        Ok(tables)
    }

    async fn summary_now(&self, wanted: &TargetTable) -> Outcome<Option<Summary>> {
        let mut connection = self.look().await?;
        let summary = match Table::describe(&mut connection, &wanted.name, &self.target.meta).await? {
            Some(table) => Some(table.summary(&mut connection).await?),
            None => None,
        };
        connection.close().await;
        Ok(summary)
    }

    async fn rows_now(
        &self,
        wanted: &TargetTable,
        columns: Option<&[String]>,
        each: &mut EachRow<'_>,
    ) -> Outcome<Option<Look>> {
        let mut connection = self.look().await?;
        let Some(table) = Table::describe(&mut connection, &wanted.name, &self.target.meta).await? else {
            return Ok(None);
        };
        let columns = columns.map_or_else(|| table.versioned.others(&table.table, &wanted.key), <[String]>::to_vec);
        let mut physical = 0;
        let mut counted = |row| {
            physical += 1;
            each(row)
        };
        table.each(&mut connection, &wanted.key, &columns, &mut counted).await?;
        table.each_tombstone(&mut connection, &wanted.key, each).await?;
        connection.close().await;
        Ok(Some(Look { physical, columns }))
    }

    async fn places_now(&self, parts: &[PlacedPartition]) -> Outcome<Places> {
        let mut connection = self.look().await?;
        let places = match has_meta(&mut connection).await? {
            true => places::look(&mut connection, &self.config.group, parts).await?,
            false => Places::default(),
        };
        connection.close().await;
        Ok(places)
    }

    async fn facts_now(&self) -> Outcome<Vec<Fact>> {
        let mut connection = self.look().await?;
        let facts = match has_meta(&mut connection).await? {
            true => meta::facts(&mut connection).await?,
            false => Vec::new(),
        };
        connection.close().await;
        Ok(facts)
    }

    async fn find_now(&self, wanted: Wanted<'_>) -> Outcome<Option<Found>> {
        let mut connection = self.look().await?;
        let plan = plan_of(&connection.server, &self.target, wanted.table);
        let Some(table) = Table::describe(&mut connection, &plan.table, &self.target.meta).await? else {
            return Ok(None);
        };
        let mut key = Vec::new();
        for (at, (field, json)) in wanted.key.fields().enumerate() {
            let name = plan.column(field, true).unwrap_or(field);
            let column = table.column(name)?;
            let known = wanted.schema.and_then(|schema| schema.field(field, at));
            let origin = Origin::of(known, &self.target.conventions, &column.storage.kind);
            let value = bound(json, origin, &column.storage)
                .map_err(|misfit| contract(table.operation(), format!("key column \"{name}\": {misfit}")))?;
            key.push((column.name.clone(), value));
        }
        let found = table.find(&mut connection, &key, wanted.with_values).await?;
        connection.close().await;
        Ok(found)
    }
}

async fn has_meta(connection: &mut Connection) -> Outcome<bool> {
    Ok(describe(connection, "settle_meta").await?.is_some())
}

/// A table that holds versions.
struct Table {
    table: Description,
    versioned: Versioned,
    has_tombstones: bool,
}

impl Table {
    /// The table called `name`; none where there is none. One without versions is refused.
    async fn describe(connection: &mut Connection, name: &str, names: &MetaNames) -> Outcome<Option<Self>> {
        let Some(table) = describe(connection, name).await? else { return Ok(None) };
        let has_tombstones = describe(connection, &SQL.tombstones(&table.name)).await?.is_some();
        Ok(Some(Self { versioned: Versioned::of(SQL, &table, names)?, table, has_tombstones }))
    }

    fn operation(&self) -> String {
        reading(&self.table)
    }

    fn column(&self, name: &str) -> Outcome<&Column> {
        self.table.column(name).ok_or_else(|| lacks(&self.table, name))
    }

    /// The columns of the primary key; of a unique index where there is none.
    fn key(&self) -> Vec<String> {
        let whole = |name: &str| {
            let primary = |unique: &&super::table::Unique| (unique.name == "PRIMARY") == (name == "PRIMARY");
            self.table.uniques.iter().filter(primary).find_map(|unique| unique.columns.clone())
        };
        whole("PRIMARY").or_else(|| whole("")).unwrap_or_default()
    }

    /// What is selected of a row before anything else.
    fn head(&self) -> [String; 2] {
        [self.versioned.halves(), self.versioned.flag()]
    }

    /// Every row that lies in the table.
    async fn each(
        &self,
        connection: &mut Connection,
        key: &[String],
        columns: &[String],
        each: &mut EachRow<'_>,
    ) -> Outcome<()> {
        // A column that went away since reads as NULL: its values are gone.
        let read = columns.iter().map(|name| match self.table.column(name) {
            Some(column) => SQL.quoted(&column.name),
            None => "NULL".to_owned(),
        });
        let selected: Vec<String> =
            self.head().into_iter().chain(key.iter().map(|name| SQL.quoted(name))).chain(read).collect();
        let sql = format!("SELECT {} FROM {}", selected.join(", "), SQL.quoted(&self.table.name));
        let operation = self.operation();
        connection
            .each_row(&operation, &sql, &mut |row| {
                let is_deleted = is_set(row.get(2));
                let (keys, values) = (&row[3..3 + key.len()], &row[3 + key.len()..]);
                let content = if is_deleted { 0 } else { digest(columns, values) };
                each(SeenRow { key: key_json(key, keys), version: version(&operation, &row)?, is_deleted, content })
            })
            .await
    }

    /// The versions that hard deletes left.
    async fn each_tombstone(&self, connection: &mut Connection, key: &[String], each: &mut EachRow<'_>) -> Outcome<()> {
        if !self.has_tombstones {
            return Ok(());
        }
        let keys = SQL.list(key.iter().map(String::as_str));
        let graves = SQL.quoted(&SQL.tombstones(&self.table.name));
        let sql = format!("SELECT {}, {keys} FROM {graves}", self.versioned.halves());
        let operation = self.operation();
        connection
            .each_row(&operation, &sql, &mut |row| {
                let key = key_json(key, &row[2..]);
                each(SeenRow { key, version: version(&operation, &row)?, is_deleted: true, content: 0 })
            })
            .await
    }

    async fn summary(&self, connection: &mut Connection) -> Outcome<Summary> {
        let (operation, name) = (self.operation(), SQL.quoted(&self.table.name));
        let counts = format!("SELECT COUNT(*), COUNT(IF({} <> 0, 1, NULL)) FROM {name}", self.versioned.flag());
        let mut counted = connection.rows(&operation, &counts, Vec::new()).await?.into_iter().flatten();
        let mut number = || match counted.next() {
            Some(Value::Int(number)) => Ok(number.cast_unsigned()),
            Some(Value::UInt(number)) => Ok(number),
            _ => Err(contract(operation.as_str(), "a count is no number")),
        };
        let (physical, deleted) = (number()?, number()?);
        let newest = self.versioned.greatest(&name, &[self.versioned.time()]);
        let mut greatest = self.newest(connection, &newest).await?;
        if self.has_tombstones {
            let graves = SQL.quoted(&SQL.tombstones(&self.table.name));
            greatest = greatest.max(self.newest(connection, &self.versioned.greatest(&graves, &[])).await?);
        }
        let (greatest, source_ts_ms) = greatest.map_or((None, None), |(version, time)| (Some(version), time));
        Ok(Summary { physical, current: physical - deleted, greatest, source_ts_ms })
    }

    async fn newest(&self, connection: &mut Connection, sql: &str) -> Outcome<Option<(Version, Option<i64>)>> {
        let operation = self.operation();
        let rows = connection.rows(&operation, sql, Vec::new()).await?;
        let row = |row: Vec<Value>| {
            let time = match row.get(2) {
                Some(Value::Int(time)) => Some(*time),
                _ => None,
            };
            Ok((version(&operation, &row)?, time))
        };
        rows.into_iter().next().map(row).transpose()
    }

    async fn find(
        &self,
        connection: &mut Connection,
        key: &[(String, Value)],
        with_values: bool,
    ) -> Outcome<Option<Found>> {
        let operation = self.operation();
        let names: Vec<String> = key.iter().map(|(name, _)| name.clone()).collect();
        let is_key: Vec<String> = names.iter().map(|name| format!("{} = ?", SQL.quoted(name))).collect();
        let is_key = is_key.join(" AND ");
        let values = || key.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        let columns = if with_values { self.versioned.others(&self.table, &names) } else { Vec::new() };
        let selected: Vec<String> =
            self.head().into_iter().chain(columns.iter().map(|name| SQL.quoted(name))).collect();
        let sql = format!("SELECT {} FROM {} WHERE {is_key}", selected.join(", "), SQL.quoted(&self.table.name));
        if let Some(row) = connection.rows(&operation, &sql, values()).await?.into_iter().next() {
            let is_deleted = is_set(row.get(2));
            let version = version(&operation, &row)?;
            let shown = columns.into_iter().zip(&row[3..]).filter(|_| !is_deleted);
            return Ok(Some(Found {
                version,
                is_deleted,
                columns: shown.map(|(name, value)| (name, text(value))).collect(),
            }));
        }
        if !self.has_tombstones {
            return Ok(None);
        }
        let graves = SQL.quoted(&SQL.tombstones(&self.table.name));
        let sql = format!("SELECT {} FROM {graves} WHERE {is_key}", self.versioned.halves());
        let row = connection.rows(&operation, &sql, values()).await?.into_iter().next();
        let found =
            |row: Vec<Value>| Ok(Found { version: version(&operation, &row)?, is_deleted: true, columns: Vec::new() });
        row.map(found).transpose()
    }
}

fn is_set(flag: Option<&Value>) -> bool {
    matches!(flag, Some(Value::Int(flag)) if *flag != 0)
}

impl Contents for MySqlContents {
    fn tables(&mut self) -> BoxFuture<'_, Result<Vec<TargetTable>, SinkError>> {
        Box::pin(self.tables_now())
    }

    fn summary<'a>(&'a mut self, table: &'a TargetTable) -> BoxFuture<'a, Result<Option<Summary>, SinkError>> {
        Box::pin(self.summary_now(table))
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
        Box::pin(self.places_now(parts))
    }

    fn facts(&mut self) -> BoxFuture<'_, Result<Vec<Fact>, SinkError>> {
        Box::pin(self.facts_now())
    }

    fn find<'a>(&'a mut self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Option<Found>, SinkError>> {
        Box::pin(self.find_now(wanted))
    }
}
