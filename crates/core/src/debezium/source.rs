//! The `source` block: which table, and where in the source's own log.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::change::TableName;

/// The position of an event in its source's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// PostgreSQL. `source.sequence` is `"[<commit LSN before this transaction>, <record LSN>]"`.
    Postgres {
        /// `sequence[0]`: LSN of the last commit before this transaction, if one was seen.
        last_commit: Option<u64>,
        /// `source.lsn`; null on rows of an incremental snapshot.
        lsn: Option<u64>,
        /// `sequence[1]`.
        sequence_lsn: u64,
    },
    /// MySQL and MariaDB.
    Binlog {
        /// Numeric suffix of the binlog file's name.
        file: u64,
        /// Byte position of the event in the file.
        pos: u64,
        /// Row inside the event.
        row: u64,
    },
}

/// The checked `source` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceBlock {
    /// `source.name`; empty where the record has none, so that the database alone tells the lineage.
    pub name: String,
    /// `source.db`.
    pub database: String,
    /// PostgreSQL schema, MySQL/MariaDB database.
    pub namespace: String,
    /// Table; none in schema-change events.
    pub table: String,
    /// Milliseconds since 1970 at the source.
    pub ts_ms: Option<i64>,
    /// Position in the source's log.
    pub position: Position,
    /// True for a row of a full snapshot: PostgreSQL with `sequence[0]` null.
    pub full_snapshot_form: bool,
    /// Which snapshot read the row, as the connector says it.
    pub snapshot: Snapshot,
    /// True where `source.server_id` is 0: a task of MySQL's or MariaDB's connector that has read
    /// nothing of the binlog yet. No server that lets it be read has that id.
    pub no_server: bool,
}

/// `source.snapshot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Snapshot {
    /// None: `false`, or nothing said.
    #[default]
    No,
    /// A full snapshot: initial, repeated, or blocking.
    Full,
    /// The last row of its table in a full snapshot.
    FullLast,
    /// A chunk of an incremental one.
    Incremental,
}

impl Snapshot {
    fn of(raw: Option<&RawValue>) -> Self {
        match raw.map_or("null", RawValue::get) {
            "\"incremental\"" => Self::Incremental,
            "\"last\"" | "\"last_in_data_collection\"" => Self::FullLast,
            "null" | "false" | "\"false\"" => Self::No,
            // `true`, `first`, `first_in_data_collection`
            _ => Self::Full,
        }
    }
}

/// Why a `source` block gives no position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// No `source` at all.
    #[error("the envelope has no `source` block, so the change has no position")]
    Missing,
    /// A connector for which no version scheme exists.
    #[error(
        "no version scheme for connector \"{0}\": PostgreSQL, MySQL and MariaDB are read; \
         set `version.fallback = \"kafka-offset\"` to order by the log instead"
    )]
    Connector(String),
    /// A field that the scheme needs is missing or of another form.
    #[error("`source.{field}` is {problem}, so the change has no position")]
    Field {
        /// Field name.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// As it stands in the record.
#[derive(Deserialize)]
pub(crate) struct RawSource<'a> {
    #[serde(borrow)]
    connector: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    db: Option<Cow<'a, str>>,
    #[serde(borrow)]
    schema: Option<Cow<'a, str>>,
    #[serde(borrow)]
    table: Option<Cow<'a, str>>,
    ts_ms: Option<i64>,
    lsn: Option<u64>,
    #[serde(borrow)]
    sequence: Option<Cow<'a, str>>,
    #[serde(borrow)]
    file: Option<Cow<'a, str>>,
    pos: Option<u64>,
    row: Option<u64>,
    #[serde(borrow)]
    snapshot: Option<&'a RawValue>,
    #[serde(borrow)]
    server_id: Option<&'a RawValue>,
}

impl RawSource<'_> {
    /// The table that it names, whatever else is wrong with it.
    pub(crate) fn table_name(&self) -> Option<TableName> {
        let namespace = if self.connector.as_deref() == Some("postgresql") { &self.schema } else { &self.db };
        Some(TableName { namespace: namespace.as_deref()?.into(), name: self.table.as_deref()?.into() })
    }
}

impl SourceBlock {
    /// Checks the block of one row event.
    pub(crate) fn check(raw: &RawSource<'_>) -> Result<Self, SourceError> {
        let connector = raw.connector.as_deref().ok_or_else(|| missing("connector"))?;
        let database = raw.db.as_deref().ok_or_else(|| missing("db"))?;
        let table = raw.table.as_deref().filter(|t| !t.is_empty()).ok_or_else(|| missing("table"))?;
        let (position, namespace) = match connector {
            "postgresql" => {
                let namespace = raw.schema.as_deref().ok_or_else(|| missing("schema"))?;
                (postgres_position(raw)?, namespace)
            }
            "mysql" | "mariadb" => (binlog_position(raw)?, database),
            other => return Err(SourceError::Connector(other.to_owned())),
        };
        let full_snapshot_form = matches!(position, Position::Postgres { last_commit: None, .. });
        Ok(Self {
            name: raw.name.as_deref().unwrap_or_default().to_owned(),
            database: database.to_owned(),
            namespace: namespace.to_owned(),
            table: table.to_owned(),
            ts_ms: raw.ts_ms,
            position,
            full_snapshot_form,
            snapshot: Snapshot::of(raw.snapshot),
            no_server: raw.server_id.is_some_and(|id| id.get() == "0"),
        })
    }
}

fn missing(field: &'static str) -> SourceError {
    SourceError::Field { field, problem: "missing".to_owned() }
}

fn postgres_position(raw: &RawSource<'_>) -> Result<Position, SourceError> {
    let Some(text) = raw.sequence.as_deref() else {
        // Connectors before 1.5 send none. A row's changes follow each other by lsn, and no commit
        // before it is known: as with `[null, "<lsn>"]`.
        let lsn = raw.lsn.ok_or_else(|| missing("sequence"))?;
        return Ok(Position::Postgres { last_commit: None, lsn: Some(lsn), sequence_lsn: lsn });
    };
    let malformed = || SourceError::Field {
        field: "sequence",
        problem: "not of the form [\"<commit lsn>\" or null, \"<record lsn>\"]".to_owned(),
    };
    let (last_commit, own): (Option<Cow<'_, str>>, Option<Cow<'_, str>>) =
        serde_json::from_str(text).map_err(|_| malformed())?;
    let number = |text: Cow<'_, str>| text.parse::<u64>().map_err(|_| malformed());
    let last_commit = last_commit.map(number).transpose()?;
    let sequence_lsn = own.map(number).transpose()?.or(raw.lsn).ok_or_else(malformed)?;
    Ok(Position::Postgres { last_commit, lsn: raw.lsn, sequence_lsn })
}

fn binlog_position(raw: &RawSource<'_>) -> Result<Position, SourceError> {
    let name = raw.file.as_deref().ok_or_else(|| missing("file"))?;
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let file = name[digits..]
        .parse()
        .map_err(|_| SourceError::Field { field: "file", problem: "a name without a numeric suffix".to_owned() })?;
    Ok(Position::Binlog { file, pos: raw.pos.ok_or_else(|| missing("pos"))?, row: raw.row.unwrap_or(0) })
}
