//! What the database holds, read as a reader of FINAL sees it.
//!
//! The server digests the rows: `sipHash128` of their columns in RowBinary, which keeps NULL, the
//! type and the length of every value apart (a hash of the values themselves is NULL where one is).
//! Delete markers are asked for on their own, since FINAL hides them.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;
use settle_core::schema::Origin;
use settle_core::sink::{BoxFuture, FailureKind, PlacedPartition, Places, SinkError};
use settle_core::value::{self, Value};
use settle_core::version::Version;

use super::column_type::{Base, ColumnType};
use super::config::ClickHouseConfig;
use super::holds::HoldFacts;
use super::meta::{self, Meta};
use super::names::{identifier, identifiers, literal};
use super::naming::Naming;
use super::server::{CONSISTENTLY, Server};
use super::table::{Table, describe};
use super::{standings, truncates};
use crate::config::{MetaNames, Target};
use crate::contents::{Contents, EachRow, Fact, Found, Look, SeenRow, Summary, TargetTable, Wanted};
use crate::epochs::{latest_last, placed};

/// A ClickHouse database that is looked at.
pub struct ClickHouseContents {
    pub(super) server: Server,
    target: Target,
    group: String,
}

#[derive(Deserialize)]
struct NameRow {
    name: String,
}

#[derive(Deserialize)]
struct SummaryRow {
    physical: String,
    current: String,
    greatest: String,
    source_ts_ms: String,
}

#[derive(Deserialize)]
struct FactRow {
    kind: String,
    subject: String,
    at: String,
    amount: String,
}

impl ClickHouseContents {
    /// The database of `config`. Sends nothing yet.
    pub fn new(config: ClickHouseConfig, target: Target) -> Result<Self, SinkError> {
        let group = config.group.clone();
        Ok(Self { server: Server::new(config)?, target, group })
    }

    fn names(&self) -> &MetaNames {
        &self.target.meta
    }

    /// The table, if it is there and holds versions.
    async fn versioned(&self, name: &str) -> Result<Option<Table>, SinkError> {
        let name = self.server.name(name);
        let Some(table) = describe(&self.server.client, &name).await? else { return Ok(None) };
        if self.is_versioned(&table) {
            return Ok(Some(table));
        }
        let context = "the table holds no versions of settle; `settle check` says what it must have";
        Err(SinkError::new(FailureKind::Contract, format!("reading {name}"), context))
    }

    fn is_versioned(&self, table: &Table) -> bool {
        let MetaNames { version, is_deleted, source_ts_ms, .. } = self.names();
        let has = |name: &str| table.column(name).is_some();
        table.engine.is_replacing() && has(version) && has(is_deleted) && has(source_ts_ms)
    }

    /// What a row of FINAL must be to be seen, as the view says it: not deleted, and not emptied by a
    /// truncate whose DELETE is still to be done.
    async fn is_current(&self, table: &Table) -> Result<String, SinkError> {
        let MetaNames { version, is_deleted, .. } = self.names();
        let lives = format!("{} = 0", identifier(is_deleted));
        if !self.has_meta().await? {
            return Ok(lives);
        }
        let kept = truncates::kept(&self.server.name(meta::TABLE), &table.name.table, version);
        Ok(format!("{lives} AND {kept}"))
    }

    pub(super) async fn versioned_tables(&self) -> Result<Vec<Table>, SinkError> {
        let sql = format!(
            "SELECT name FROM system.tables WHERE database = {} AND engine LIKE '%ReplacingMergeTree' ORDER BY name",
            literal(&self.server.database)
        );
        let found: Vec<NameRow> = self.server.client.rows("listing the tables", &sql).await?;
        let mut tables = Vec::new();
        for row in found.into_iter().filter(|row| row.name != meta::TABLE) {
            let table = describe(&self.server.client, &self.server.name(&row.name)).await?;
            tables.extend(table.filter(|table| self.is_versioned(table)));
        }
        Ok(tables)
    }

    async fn has_meta(&self) -> Result<bool, SinkError> {
        Ok(describe(&self.server.client, &self.server.name(meta::TABLE)).await?.is_some())
    }

    async fn look(
        &self,
        wanted: &TargetTable,
        columns: Option<&[String]>,
        each: &mut EachRow<'_>,
    ) -> Result<Option<Look>, SinkError> {
        let Some(table) = self.versioned(&wanted.name).await? else { return Ok(None) };
        let columns = columns.map_or_else(|| own_columns(&table, wanted, self.names()), <[String]>::to_vec);
        let (version, is_deleted) = (identifier(&self.names().version), identifier(&self.names().is_deleted));
        let keys = identifiers(wanted.key.iter().map(String::as_str));
        let digest = match columns.as_slice() {
            [] => "'0'".to_owned(),
            columns => {
                let read = identifiers(columns.iter().map(String::as_str));
                format!("hex(sipHash128(formatRow('RowBinary', {read})))")
            }
        };
        let name = &table.name;
        let operation = format!("reading the rows of {name}");
        let is_current = self.is_current(&table).await?;
        let current =
            format!("SELECT {keys}, toString({version}), {digest} FROM {name} FINAL WHERE {is_current}{CONSISTENTLY}");
        let mut take = |line: &str, is_deleted: bool| each(seen_row(&operation, &wanted.key, line, is_deleted)?);
        self.server.client.each_line(&operation, &current, &mut |line| take(line, false)).await?;
        let deleted = format!(
            "SELECT {keys}, toString(max({version})), '0' FROM {name} \
             WHERE ({keys}) IN (SELECT {keys} FROM {name} WHERE {is_deleted} = 1) \
             GROUP BY {keys} HAVING argMax({is_deleted}, {version}) = 1{CONSISTENTLY}"
        );
        self.server.client.each_line(&operation, &deleted, &mut |line| take(line, true)).await?;
        let mut physical = 0;
        let count = format!("SELECT toString(count()) FROM {name}");
        self.server
            .client
            .each_line(&operation, &count, &mut |line| {
                let counted: [String; 1] = serde_json::from_str(line).map_err(|_| unreadable(&operation))?;
                physical = counted[0].parse().map_err(|_| unreadable(&operation))?;
                Ok(())
            })
            .await?;
        Ok(Some(Look { physical, columns }))
    }

    async fn summarize(&self, wanted: &TargetTable) -> Result<Option<Summary>, SinkError> {
        let Some(table) = self.versioned(&wanted.name).await? else { return Ok(None) };
        let MetaNames { version, source_ts_ms, .. } = self.names();
        let (version, time) = (identifier(version), identifier(source_ts_ms));
        let is_current = self.is_current(&table).await?;
        let name = &table.name;
        let operation = format!("counting the rows of {name}");
        let sql = format!(
            "SELECT toString(count()) AS physical, toString(max({version})) AS greatest, \
             ifNull(toString(argMax(tuple({time}), {version}).1), '') AS source_ts_ms, \
             (SELECT toString(count()) FROM {name} FINAL WHERE {is_current}) AS current FROM {name}{CONSISTENTLY}"
        );
        let rows: Vec<SummaryRow> = self.server.client.rows(&operation, &sql).await?;
        let row = rows.into_iter().next().ok_or_else(|| unreadable(&operation))?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| unreadable(&operation));
        let physical = number(&row.physical)?;
        let greatest = row.greatest.parse::<u128>().map_err(|_| unreadable(&operation))?;
        Ok(Some(Summary {
            physical,
            current: number(&row.current)?,
            greatest: (physical > 0).then(|| Version::from(greatest)),
            source_ts_ms: row.source_ts_ms.parse().ok(),
        }))
    }

    async fn read_places(&self, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
        if !self.has_meta().await? {
            return Ok(Places::default());
        }
        let (mut meta, client) = (Meta::new(&self.server.database), &self.server.client);
        let floors = meta.read_floors(client, parts).await?;
        let all_epochs = standings::epochs(&meta, client).await?;
        let epochs = placed(&all_epochs, parts);
        let written = latest_last(&all_epochs, standings::of_group(&meta, client, &self.group, parts).await?.written);
        let holds = HoldFacts::new(&self.server.database).open(client, parts).await?;
        let truncates = truncates::read(&self.server, &meta).await?.into_cuts();
        Ok(Places { floors, epochs, written, holds, truncates, ..Places::default() })
    }

    async fn read_facts(&self) -> Result<Vec<Fact>, SinkError> {
        if !self.has_meta().await? {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT `kind`, concat('[\"', toString(`topic_id`), '\",', toString(`partition`), '] ', `subject`) AS subject, \
             toString(`offset`) AS at, toString(`value`) AS amount FROM {} FINAL \
             ORDER BY `kind`, `topic_id`, `partition`, `settle_meta`.`subject`, `offset`",
            self.server.name(meta::TABLE)
        );
        let operation = "reading settle_meta";
        let rows: Vec<FactRow> = self.server.client.rows(operation, &sql).await?;
        let fact = |row: FactRow| {
            let number = || unreadable(operation);
            Ok(Fact {
                kind: row.kind,
                subject: row.subject,
                offset: row.at.parse().map_err(|_| number())?,
                value: row.amount.parse().map_err(|_| number())?,
                detail: String::new(),
            })
        };
        rows.into_iter().map(fact).collect()
    }

    async fn find_row(&self, wanted: Wanted<'_>) -> Result<Option<Found>, SinkError> {
        let naming = Naming::new(wanted.table, &self.target);
        let Some(table) = self.versioned(naming.table()).await? else { return Ok(None) };
        let name = &table.name;
        let operation = format!("looking up a row of {name}");
        let mut is_key = Vec::new();
        let mut key = Vec::new();
        for (at, (field, json)) in wanted.key.fields().enumerate() {
            let column = naming.key_target(field);
            let known = table.column(column).ok_or_else(|| {
                let context = format!("the table has no column {}", identifier(column));
                SinkError::new(FailureKind::Contract, &operation, context)
            })?;
            let field = wanted.schema.and_then(|schema| schema.field(field, at));
            let literal = known.column_type.kind().and_then(|kind| {
                let origin = Origin::of(field, &self.target.conventions, &kind);
                sql_literal(&value::decode(json, origin, &kind).ok()?, &known.column_type)
            });
            let literal = literal.ok_or_else(|| {
                let context = format!("a key of type {} cannot be looked up", known.column_type);
                SinkError::new(FailureKind::Contract, &operation, context)
            })?;
            is_key.push(format!("{} = {literal}", identifier(column)));
            key.push(column.to_owned());
        }
        let version = identifier(&self.names().version);
        let is_current = self.is_current(&table).await?;
        let columns = match wanted.with_values {
            true => own_columns(&table, &TargetTable { name: naming.table().to_owned(), key }, self.names()),
            false => Vec::new(),
        };
        let read: String = columns.iter().map(|column| format!(", toString({})", identifier(column))).collect();
        // Of one version the last row written is the one that FINAL shows.
        let is_key = is_key.join(" AND ");
        let current = format!(
            "SELECT toString({version}), '0'{read} FROM {name} FINAL WHERE {is_key} AND {is_current}{CONSISTENTLY}"
        );
        // What is there of a key that has no current row was deleted, or emptied by a truncate.
        let deleted = format!(
            "SELECT toString({version}), '1' FROM {name} WHERE {is_key} ORDER BY {version} DESC LIMIT 1{CONSISTENTLY}"
        );
        for sql in [current, deleted] {
            let mut found = None;
            let mut take = |line: &str| {
                let cells: Vec<Option<String>> = serde_json::from_str(line).map_err(|_| unreadable(&operation))?;
                found = Some(found_row(&columns, cells).ok_or_else(|| unreadable(&operation))?);
                Ok(())
            };
            self.server.client.each_line(&operation, &sql, &mut take).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Columns that records are written to, beside the key and what Settle adds, in order of name.
fn own_columns(table: &Table, wanted: &TargetTable, names: &MetaNames) -> Vec<String> {
    let MetaNames { op, source_ts_ms, is_deleted, version, .. } = names;
    let is_ours = |name: &String| [op, source_ts_ms, is_deleted, version].contains(&name) || wanted.key.contains(name);
    let written = table.columns.iter().filter(|column| column.is_written).map(|column| column.name.clone());
    let mut own: Vec<String> = written.filter(|name| !is_ours(name)).collect();
    own.sort();
    own
}

/// One line of a look: the key's columns, the version, the digest.
fn seen_row(operation: &str, key: &[String], line: &str, is_deleted: bool) -> Result<SeenRow, SinkError> {
    let cells: Vec<&RawValue> = serde_json::from_str(line).map_err(|_| unreadable(operation))?;
    let read = || {
        let (key_cells, rest) = cells.split_at_checked(key.len())?;
        let [version, content] = rest else { return None };
        let mut json = String::from("{");
        for (at, (name, cell)) in key.iter().zip(key_cells).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(json, "{comma}{}:{}", serde_json::Value::String(name.clone()), cell.get());
        }
        json.push('}');
        let version: String = serde_json::from_str(version.get()).ok()?;
        let content: String = serde_json::from_str(content.get()).ok()?;
        let content = u128::from_str_radix(&content, 16).ok()?;
        Some(SeenRow { key: json, version: Version::from(version.parse::<u128>().ok()?), is_deleted, content })
    };
    read().ok_or_else(|| unreadable(operation))
}

fn found_row(columns: &[String], cells: Vec<Option<String>>) -> Option<Found> {
    let mut cells = cells.into_iter();
    let version: u128 = cells.next()??.parse().ok()?;
    let is_deleted = cells.next()?? == "1";
    let columns = if is_deleted { Vec::new() } else { columns.iter().cloned().zip(cells).collect() };
    Some(Found { version: Version::from(version), is_deleted, columns })
}

/// A value as SQL that compares with a column of this type.
fn sql_literal(value: &Value<'_>, column: &ColumnType) -> Option<String> {
    let cast = |text: &str| format!("CAST({}, {})", literal(text), literal(&column.to_string()));
    Some(match value {
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => cast(&number.to_string()),
        Value::Decimal(decimal) => cast(&decimal.to_string()),
        Value::Text(text) => match &column.base {
            Base::String | Base::FixedString(_) => literal(text),
            _ => cast(text),
        },
        Value::Uuid(uuid) => cast(&uuid.to_string()),
        Value::Date(days) => format!("CAST(toDate32('1970-01-01') + {days}, {})", literal(&column.to_string())),
        _ => return None,
    })
}

fn unreadable(operation: &str) -> SinkError {
    SinkError::new(FailureKind::Contract, operation, "the server's answer is not of the form that was asked for")
}

impl Contents for ClickHouseContents {
    fn tables(&mut self) -> BoxFuture<'_, Result<Vec<TargetTable>, SinkError>> {
        Box::pin(async {
            let tables = self.versioned_tables().await?;
            let of = |table: Table| {
                let key = table.sorting_columns().ok()?;
                Some(TargetTable { name: table.name.table.clone(), key })
            };
            Ok(tables.into_iter().filter_map(of).collect())
        })
    }

    fn summary<'a>(&'a mut self, table: &'a TargetTable) -> BoxFuture<'a, Result<Option<Summary>, SinkError>> {
        Box::pin(self.summarize(table))
    }

    fn rows<'a>(
        &'a mut self,
        table: &'a TargetTable,
        columns: Option<&'a [String]>,
        each: &'a mut EachRow<'a>,
    ) -> BoxFuture<'a, Result<Option<Look>, SinkError>> {
        Box::pin(self.look(table, columns, each))
    }

    fn places<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        Box::pin(self.read_places(parts))
    }

    fn facts(&mut self) -> BoxFuture<'_, Result<Vec<Fact>, SinkError>> {
        Box::pin(self.read_facts())
    }

    fn find<'a>(&'a mut self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Option<Found>, SinkError>> {
        Box::pin(self.find_row(wanted))
    }
}
