//! Where a case is run: a folder with a pipeline in it, a log that grows, a destination that is read.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde_json::{Value, json};
use settle::compare::plain;
use settle_testkit::clickhouse::Client;
use settle_testkit::{mariadb, postgres};
use tokio::runtime::Runtime;

use super::case::{Case, Entry};
use super::server::Server;
use crate::ends::{self, CAPTURE};
use crate::stage::{Report, Stage, report};

/// A destination of this part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    Sqlite,
    ClickHouse,
    Postgres,
    MySql,
}

impl Sink {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::ClickHouse => "clickhouse",
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
        }
    }

    /// True where a batch is one transaction, and a table has its current rows and no others.
    pub fn is_atomic(self) -> bool {
        self != Self::ClickHouse
    }

    /// A name as SQL.
    pub fn quoted(self, name: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("\"{}\"", name.replace('"', "\"\"")),
            Self::MySql => format!("`{}`", name.replace('`', "``")),
            Self::ClickHouse => format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`")),
        }
    }

    /// A name as messages show it.
    pub fn shown(self, name: &str) -> String {
        if self.is_atomic() { format!("\"{name}\"") } else { format!("`{name}`") }
    }

    /// The column type that holds a type of the source.
    pub fn column_type(self, source: &str, is_key: bool) -> String {
        let arguments = source.find('(').map_or("", |at| &source[at..]);
        let base = source.split(['(', ' ']).next().unwrap_or_default();
        let text = match (self, base) {
            (Self::Sqlite, "int" | "bigint") => "INTEGER".to_owned(),
            (Self::Sqlite, "double") => "REAL".to_owned(),
            (Self::Sqlite, "numeric") => format!("DECIMAL{arguments}"),
            (Self::Sqlite, "timestamp" | "timestamptz" | "datetime") => "TIMESTAMP(6)".to_owned(),
            (Self::Sqlite, _) => "TEXT".to_owned(),
            (Self::ClickHouse, "int") => "Int32".to_owned(),
            (Self::ClickHouse, "bigint") => "Int64".to_owned(),
            (Self::ClickHouse, "double") => "Float64".to_owned(),
            (Self::ClickHouse, "numeric") if arguments.contains(',') => format!("Decimal{arguments}"),
            (Self::ClickHouse, "numeric") => format!("Decimal{}", arguments.replace(')', ", 0)")),
            (Self::ClickHouse, "timestamp" | "timestamptz" | "datetime") => "DateTime64(6, 'UTC')".to_owned(),
            (Self::ClickHouse, _) => "String".to_owned(),
            (Self::Postgres, "int") => "integer".to_owned(),
            (Self::Postgres, "double") => "double precision".to_owned(),
            (Self::Postgres, "datetime") => "timestamp".to_owned(),
            (Self::Postgres, "numeric") => format!("numeric{arguments}"),
            (Self::Postgres, "bigint" | "json" | "timestamp" | "timestamptz") => base.to_owned(),
            (Self::Postgres, _) => "text".to_owned(),
            (Self::MySql, "int" | "bigint" | "double") => base.to_uppercase(),
            (Self::MySql, "numeric") => format!("DECIMAL{arguments}"),
            (Self::MySql, "timestamp" | "timestamptz" | "datetime") => "DATETIME(6)".to_owned(),
            (Self::MySql, _) if is_key => "VARCHAR(100)".to_owned(),
            (Self::MySql, _) => "LONGTEXT".to_owned(),
        };
        if self == Self::ClickHouse && !is_key { format!("Nullable({text})") } else { text }
    }
}

/// What the configuration says beside source and destination.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Lines of `[source]`.
    pub source: String,
    /// Lines of `[sink]`.
    pub sink: String,
    /// Lines of `[batch]`.
    pub batch: String,
    /// Whether records that cannot be applied are set aside, in `dead.jsonl`.
    pub dlq: bool,
    /// Lines of `[tables."…"]`, by source table.
    pub tables: BTreeMap<String, String>,
    /// Declared columns, by source table.
    pub columns: BTreeMap<String, Vec<(String, String)>>,
}

/// A run that ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    /// What it said on standard error beside its logs, without what differs from run to run.
    pub said: String,
    pub logs: String,
    pub report: Report,
}

/// A row, its values as text, NULL as none.
pub type Row = BTreeMap<String, Option<String>>;

pub struct Stand {
    pub sink: Sink,
    pub stage: Stage,
    pub settings: Settings,
    pub runtime: Runtime,
    database: Option<Client>,
    server: Option<Server>,
    log: Vec<Entry>,
    /// True where each topic begins with a record of nothing, so that the log stays the same log
    /// when records are taken out, the first and the last included.
    anchored: bool,
    /// Every topic that ever had a record.
    topics: BTreeSet<String>,
    /// The destination behind something else than its own address.
    through: Option<String>,
}

impl Stand {
    pub fn new(sink: Sink) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let database = (sink == Sink::ClickHouse).then(|| runtime.block_on(Client::with_fresh_database("cases")));
        let server = match sink {
            Sink::Postgres => Some(Server::Postgres(Box::new(runtime.block_on(postgres::Database::create("cases"))))),
            Sink::MySql => Some(Server::MySql(runtime.block_on(mariadb::Database::create("cases")))),
            Sink::Sqlite | Sink::ClickHouse => None,
        };
        let (settings, log) = (Settings::default(), Vec::new());
        Self {
            sink,
            stage: Stage::new(),
            settings,
            runtime,
            database,
            server,
            log,
            anchored: false,
            topics: BTreeSet::new(),
            through: None,
        }
    }

    /// A stand for this case: all but SQLite get its columns declared where the records have no schema.
    pub fn of(case: &Case, sink: Sink) -> Self {
        let mut stand = Self::new(sink);
        if sink != Sink::Sqlite && case.wire == "debezium-json" {
            stand.declare(case);
        }
        stand
    }

    /// Declares the columns of the case's table, and of others as their records show them.
    pub fn declare(&mut self, case: &Case) {
        let sink = self.sink;
        let columns = case.table.columns.iter();
        let typed = columns.map(|(name, kind)| (name.clone(), sink.column_type(kind, case.table.key.contains(name))));
        self.settings.columns.insert(case.table.name.clone(), typed.collect());
        for entry in case.entries() {
            let (Some(table), Some(envelope)) = (entry.table(), entry.envelope()) else { continue };
            let Some(after) = envelope["after"].as_object() else { continue };
            let key: Value =
                entry.key.as_deref().map_or(Value::Null, |key| serde_json::from_slice(key).unwrap_or_default());
            let columns = self.settings.columns.entry(table.clone()).or_default();
            for (name, value) in after.iter().filter(|_| table != case.table.name) {
                let kind = if value.is_number() { "bigint" } else { "text" };
                if !columns.iter().any(|(known, _)| known == name) {
                    columns.push((name.clone(), sink.column_type(kind, key.get(name).is_some())));
                }
            }
        }
    }

    /// Declares one column anew.
    pub fn retype(&mut self, table: &str, column: &str, kind: &str) {
        let columns = self.settings.columns.entry(table.to_owned()).or_default();
        columns.retain(|(name, _)| name != column);
        columns.push((column.to_owned(), kind.to_owned()));
    }

    /// Writes the configuration that reads the capture.
    pub fn configure(&self) {
        self.configure_from(CAPTURE, "settle.toml");
    }

    /// Writes a configuration that reads from `source`.
    pub fn configure_from(&self, source: &str, file: &str) {
        let sink = match (&self.server, &self.database, &self.through) {
            (Some(server), _, through) => server.sink(&self.stage, through.as_deref()),
            (None, Some(database), Some(url)) => ends::clickhouse_at(url, &self.stage, database),
            (None, database, _) => ends::sink(&self.stage, database.as_ref()),
        };
        let Settings { source: more, sink: sink_more, batch, dlq, tables, columns } = &self.settings;
        let mut text = format!("{source}{more}\n{sink}{sink_more}\n[batch]\n{batch}\n");
        if *dlq {
            text.push_str("[dlq]\npath = \"dead.jsonl\"\n");
        }
        for (table, lines) in tables {
            text.push_str(&format!("[tables.{}]\n{lines}\n", Value::from(table.as_str())));
        }
        for (table, columns) in columns {
            text.push_str(&format!("[tables.{}.columns]\n", Value::from(table.as_str())));
            for (name, kind) in columns {
                text.push_str(&format!("{} = {}\n", Value::from(name.as_str()), Value::from(kind.as_str())));
            }
        }
        self.stage.write(file, &text);
    }

    /// The destination is reached through this address from now on (a URL for ClickHouse, `host:port` for
    /// another server); through its own where none.
    pub fn reach_through(&mut self, address: Option<&str>) {
        self.through = address.map(str::to_owned);
        self.configure();
    }

    /// Records may be taken out from now on.
    pub fn anchor(&mut self) {
        self.anchored = true;
    }

    /// Puts the records at the end of the capture.
    pub fn feed(&mut self, entries: impl IntoIterator<Item = Entry>) {
        let entries: Vec<Entry> = entries.into_iter().collect();
        self.topics.extend(entries.iter().map(|entry| entry.topic.clone()));
        self.log.extend(entries);
        self.write_log();
    }

    /// Takes a record out of the capture.
    pub fn take_out(&mut self, topic: &str, partition: i32, offset: i64) -> Option<Entry> {
        let is = |entry: &Entry| entry.topic == topic && entry.partition == partition && entry.offset == offset;
        let at = self.log.iter().position(is)?;
        let taken = self.log.remove(at);
        self.write_log();
        Some(taken)
    }

    fn write_log(&self) {
        let anchor = |topic: &str| json!({"topic": topic, "partition": 99, "offset": 0, "key": null, "payload": null});
        let anchors = self.topics.iter().filter(|_| self.anchored).map(|topic| anchor(topic).to_string());
        let lines: Vec<String> = anchors.chain(self.log.iter().map(Entry::line)).collect();
        self.stage.write("capture.jsonl", &lines.join("\n"));
    }

    /// `settle run`.
    pub fn run(&self, args: &[&str]) -> Ran {
        let mut all = vec!["run", "--log-format", "json", "--report", "json"];
        all.extend(args);
        let output = self.stage.settle(&all).output().unwrap();
        let code = output.status.code().unwrap_or(-1);
        let (said, logs) = self.told(&String::from_utf8_lossy(&output.stderr));
        let report = if output.stdout.is_empty() { Report::default() } else { report(&output) };
        Ran { code, said, logs, report }
    }

    /// Another command: exit code and everything that it said.
    pub fn command(&self, args: &[&str]) -> (i32, String) {
        let output = self.stage.settle(args).output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&all).into_owned())
    }

    fn told(&self, stderr: &str) -> (String, String) {
        let (logs, said): (Vec<&str>, Vec<&str>) = stderr.lines().partition(|line| line.starts_with('{'));
        let mut said = said.join("\n");
        let own = self.database.as_ref().map(Client::database).or(self.server.as_ref().map(Server::name));
        if let Some(name) = own {
            said = said.replace(name, "shop");
        }
        let folder = self.stage.path("").display().to_string();
        (said.replace(&folder, "").trim_start_matches("settle: ").to_owned(), logs.join("\n"))
    }

    /// Runs to the end of the capture, which must succeed.
    pub fn run_to_end(&self) -> Result<Report, String> {
        let ran = self.run(&["--until-end"]);
        if ran.code == 0 { Ok(ran.report) } else { Err(format!("exit {}: {}", ran.code, ran.said)) }
    }

    /// Where the group stands in a partition of the capture.
    pub fn committed(&self, topic: &str, partition: i32) -> Option<i64> {
        let text = std::fs::read_to_string(self.stage.path("capture.jsonl.g.offsets")).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut lines = lines.filter(|line| line["topic"] == topic && line["partition"] == partition);
        lines.next().and_then(|line| line["offset"].as_i64())
    }

    /// Moves the group back, as a tool would.
    pub fn rewind(&self, topic: &str, partition: i32, offset: i64) {
        let path = self.stage.path("capture.jsonl.g.offsets");
        let text = std::fs::read_to_string(&path).unwrap();
        let moved = text.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if line["topic"] == topic && line["partition"] == partition {
                line["offset"] = offset.into();
            }
            line.to_string()
        });
        let moved: Vec<String> = moved.collect();
        std::fs::write(path, moved.join("\n")).unwrap();
    }

    /// The database file of SQLite.
    pub fn sqlite(&self) -> Connection {
        Connection::open(self.stage.path("shop.db")).unwrap()
    }

    /// The database of PostgreSQL or MySQL.
    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("the destination is a server with transactions")
    }

    /// Runs a statement against the destination.
    pub fn sql(&self, sql: &str) -> Result<(), String> {
        if let Some(server) = &self.server {
            return self.runtime.block_on(server.execute(sql));
        }
        match &self.database {
            None => self.sqlite().execute_batch(sql).map_err(|e| format!("{e} in {sql}")),
            Some(client) => self.runtime.block_on(client.try_query(sql)).map(drop).map_err(|e| format!("{e} in {sql}")),
        }
    }

    /// True if the destination has a table of this name.
    pub fn has_table(&self, name: &str) -> bool {
        if let Some(server) = &self.server {
            return self.runtime.block_on(server.has_table(name));
        }
        match &self.database {
            None => self.sqlite().prepare(&format!("SELECT 1 FROM {}", Sink::Sqlite.quoted(name))).is_ok(),
            Some(_) => {
                self.rows(&format!("EXISTS TABLE {}", self.sink.quoted(name)))[0]["result"].as_deref() == Some("1")
            }
        }
    }

    /// The current rows of a table, as its readers see them; none where it is not there.
    pub fn table(&self, name: &str) -> Vec<Row> {
        self.select("*", name)
    }

    /// The current rows of a table, seen through `columns`.
    pub fn select(&self, columns: &str, name: &str) -> Vec<Row> {
        let view = if self.sink.is_atomic() { name.to_owned() } else { format!("{name}_current") };
        if !self.has_table(&view) {
            return Vec::new();
        }
        self.rows(&format!("SELECT {columns} FROM {}", self.sink.quoted(&view)))
    }

    /// The rows of a query.
    pub fn rows(&self, sql: &str) -> Vec<Row> {
        if let Some(server) = &self.server {
            return self.runtime.block_on(server.rows(sql));
        }
        match &self.database {
            None => settle::compare::sqlite_rows(&self.sqlite(), sql).unwrap(),
            Some(client) => {
                let settings = if sql.starts_with("SELECT") {
                    " SETTINGS output_format_json_quote_decimals = 1, output_format_decimal_trailing_zeros = 1, \
                     output_format_json_quote_denormals = 1"
                } else {
                    ""
                };
                let rows = self.runtime.block_on(client.json(&format!("{sql}{settings}")));
                let row = |row: Value| match row {
                    Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, cell(&value))).collect(),
                    _ => Row::new(),
                };
                rows.into_iter().map(row).collect()
            }
        }
    }
}

/// A JSON value as text.
pub fn cell(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Holds the rows that a case expects against those that are there; `whole` if there must be no others.
pub fn same_rows(expected: &Value, found: &[Row], key: &[String], whole: bool) -> Result<(), String> {
    let expected = expected.as_array().ok_or("the case names no rows")?;
    for want in expected {
        let is = |row: &&Row| key.iter().all(|column| same(row.get(column), &want[column]));
        let rows: Vec<&Row> = found.iter().filter(is).collect();
        let [row] = rows.as_slice() else {
            return Err(format!("{} rows where the case expects {want}; there are {found:?}", rows.len()));
        };
        for (column, value) in want.as_object().into_iter().flatten() {
            if !same(row.get(column), value) {
                return Err(format!("column {column} is {:?} where the case expects {want}", row.get(column)));
            }
        }
    }
    if whole && found.len() != expected.len() {
        return Err(format!("{} rows where the case expects {}: {found:?}", found.len(), expected.len()));
    }
    Ok(())
}

fn same(found: Option<&Option<String>>, expected: &Value) -> bool {
    let Some(found) = found else { return false };
    if expected.is_object() || expected.is_array() {
        return found.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()).as_ref() == Some(expected);
    }
    found.as_deref().map(plain) == cell(expected).as_deref().map(plain)
}
