//! SQLite: a file of its own for each destination.

use std::path::PathBuf;
use std::sync::Mutex;

use rusqlite::Connection;
use rusqlite::types::Value;
use settle_core::sink::{BoxFuture, Guarantee, Sink};
use settle_core::version::Version;
use settle_engine::sinks::sqlite::{Sqlite, SqliteConfig};
use settle_testkit::suite::{
    Column, Contents, Destination, Fault, Form, Kind, Live, Need, PRECIOUS, RowKey, Rules, Shown, Stand, Table,
};
use tempfile::TempDir;

/// Settle's columns, as it makes them.
const ADDED: &str = "\"_op\" TEXT, \"_source_ts_ms\" INTEGER, \"_version_hi\" INTEGER NOT NULL DEFAULT 0, \
                     \"_version_lo\" INTEGER NOT NULL DEFAULT 0, \"_is_deleted\" INTEGER NOT NULL DEFAULT 0";

struct File;

pub fn stand() -> Box<dyn Stand> {
    Box::new(File)
}

impl Stand for File {
    fn guarantee(&self) -> Guarantee {
        Guarantee::Atomic
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            Need::Atomic | Need::HardDeletes | Need::UniqueIndexes => None,
            Need::Versioned => Some("it fences, so that versions are not all that keeps a zombie out"),
            Need::Wire => Some("COMMIT returns in this process: there is no reply on its way that could be lost"),
            Need::NameLimit => Some("a name may be as long as a statement"),
        }
    }

    fn longest_name(&self) -> usize {
        300
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn Destination>> {
        Box::pin(async {
            let folder = tempfile::tempdir().unwrap();
            Box::new(Database { folder, lock: Mutex::default() }) as Box<dyn Destination>
        })
    }
}

struct Database {
    folder: TempDir,
    /// Somebody else who writes.
    lock: Mutex<Option<Connection>>,
}

impl Database {
    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    fn copy(&self) -> PathBuf {
        self.folder.path().join("copy.db")
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
        connection
    }

    /// Every row of a table with its columns' names; none where it does not exist.
    fn rows(&self, table: &str) -> Option<(Vec<String>, Vec<Vec<Value>>)> {
        let connection = self.connect();
        let exists = "SELECT count(*) FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE";
        if connection.query_row(exists, [table], |row| row.get::<_, i64>(0)).unwrap() == 0 {
            return None;
        }
        let mut select = connection.prepare(&format!("SELECT * FROM {}", quoted(table))).unwrap();
        let names: Vec<String> = select.column_names().map(str::to_owned).collect();
        let row = |row: &rusqlite::Row<'_>| (0..names.len()).map(|at| row.get(at)).collect();
        let rows = select.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap();
        Some((names, rows))
    }

    fn contents_now(&self, table: &Table) -> Contents {
        let mut contents = Contents::default();
        if let Some((names, rows)) = self.rows(&format!("{}__tombstones", table.name)) {
            for row in rows {
                contents.deleted.insert(key(table, &names, &row), version(&names, &row));
            }
        }
        let Some((names, rows)) = self.rows(&table.name) else { return contents };
        for row in rows {
            let (key, version) = (key(table, &names, &row), version(&names, &row));
            if matches!(value(&names, &row, "_is_deleted"), Some(Value::Integer(1))) {
                let known = contents.deleted.entry(key).or_insert(version);
                *known = version.max(*known);
                continue;
            }
            let shown: Shown = names
                .iter()
                .zip(&row)
                .filter(|(name, _)| !name.starts_with('_'))
                .map(|(name, v)| (name.clone(), text(v)))
                .collect();
            contents.live.insert(key, Live { version, columns: shown });
        }
        contents.deleted.retain(|key, _| !contents.live.contains_key(key));
        contents
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn value<'r>(names: &[String], row: &'r [Value], name: &str) -> Option<&'r Value> {
    names.iter().position(|known| known == name).map(|at| &row[at])
}

fn key(table: &Table, names: &[String], row: &[Value]) -> RowKey {
    table.key().map(|column| value(names, row, &column.name).and_then(text).unwrap()).collect()
}

fn version(names: &[String], row: &[Value]) -> Version {
    let half = |name| match value(names, row, name) {
        Some(Value::Integer(half)) => half.cast_unsigned(),
        other => panic!("{name} is {other:?}"),
    };
    Version::from_halves(half("_version_hi"), half("_version_lo"))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::Text(text) => Some(text.clone()),
        other => panic!("a value that the suite does not write: {other:?}"),
    }
}

fn column_type(kind: Kind, _: bool) -> &'static str {
    match kind {
        Kind::Int => "INTEGER",
        Kind::Text => "TEXT",
    }
}

impl Destination for Database {
    fn sink(&self, rules: &Rules) -> Box<dyn Sink> {
        let config = SqliteConfig { busy_timeout_ms: 300, group: rules.group.clone(), ..SqliteConfig::at(self.path()) };
        Box::new(Sqlite::new(config, super::rules::target(rules, column_type)).unwrap())
    }

    fn contents<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Contents> {
        Box::pin(async { self.contents_now(table) })
    }

    fn texts<'a>(&'a self, table: &'a Table, column: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async {
            let (names, rows) = self.rows(&table.name).unwrap();
            rows.iter().filter_map(|row| value(&names, row, column).and_then(text)).collect()
        })
    }

    fn make<'a>(&'a self, table: &'a Table, form: Form<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.connect().execute_batch(&made(table, form)).unwrap() })
    }

    fn purge_deletes<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, ()> {
        let purge = format!("DELETE FROM {}", quoted(&format!("{}__tombstones", table.name)));
        Box::pin(async move { self.connect().execute_batch(&purge).unwrap() })
    }

    fn fail(&self, fault: Fault) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            assert_eq!(fault, Fault::Refuse, "there is no wire");
            let other = self.connect();
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            *self.lock.lock().unwrap() = Some(other);
        })
    }

    fn heal(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { *self.lock.lock().unwrap() = None })
    }

    fn back_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.connect().execute("VACUUM INTO ?1", [self.copy().to_str().unwrap()]).unwrap();
        })
    }

    fn restore(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for suffix in ["", "-wal", "-shm"] {
                let path = self.folder.path().join(format!("shop.db{suffix}"));
                if path.exists() {
                    std::fs::remove_file(path).unwrap();
                }
            }
            std::fs::copy(self.copy(), self.path()).unwrap();
        })
    }
}

fn made(table: &Table, form: Form<'_>) -> String {
    let name = quoted(&table.name);
    let typed = |column: &Column, kind| format!("{} {}", quoted(&column.name), column_type(kind, column.is_key));
    let columns = |left_out: &str| -> Vec<String> {
        table.columns.iter().filter(|column| column.name != left_out).map(|column| typed(column, column.kind)).collect()
    };
    let key = table.key().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ");
    let fill: Vec<String> = table
        .columns
        .iter()
        .map(|column| match column.kind {
            Kind::Int => format!("7 AS {}", quoted(&column.name)),
            Kind::Text => format!("'{PRECIOUS}' AS {}", quoted(&column.name)),
        })
        .collect();
    let (all, fill) = (columns("").join(", "), fill.join(", "));
    match form {
        Form::NeverNegative(checked) => {
            let checked = quoted(checked);
            format!(
                "CREATE TABLE {name} ({all}, {ADDED}, PRIMARY KEY ({key}), CHECK ({checked} IS NULL OR {checked} >= 0))"
            )
        }
        Form::WithoutVersions => {
            format!("CREATE TABLE {name} ({all}, PRIMARY KEY ({key})); INSERT INTO {name} SELECT {fill}")
        }
        Form::KeyedBy(other) => format!("CREATE TABLE {name} ({all}, {ADDED}, PRIMARY KEY ({}))", quoted(other)),
        Form::UniqueToo(unique) => {
            format!("CREATE TABLE {name} ({all}, {ADDED}, PRIMARY KEY ({key}), UNIQUE ({}))", quoted(unique))
        }
        Form::Without(column) => {
            format!("CREATE TABLE {name} ({}, {ADDED}, PRIMARY KEY ({key}))", columns(column).join(", "))
        }
        Form::Holding(other, kind) => {
            let column = |column: &Column| typed(column, if column.name == other { kind } else { column.kind });
            let columns: Vec<String> = table.columns.iter().map(column).collect();
            format!("CREATE TABLE {name} ({}, {ADDED}, PRIMARY KEY ({key}))", columns.join(", "))
        }
        Form::View => format!("CREATE VIEW {name} AS SELECT {fill}"),
    }
}
