//! SQLite: a file of its own for each destination.

use std::path::PathBuf;
use std::sync::Mutex;

use rusqlite::Connection;
use rusqlite::types::Value;
use settle_core::sink::{BoxFuture, Guarantee, Sink};
use settle_engine::sinks::sqlite::{Sqlite, SqliteConfig};
use settle_testkit::suite::{Contents, Destination, Fault, Form, Kind, Need, Rules, Shown, Stand, Table};
use tempfile::TempDir;

use super::contents::contents;
use super::forms::{Words, made};

const WORDS: Words = Words {
    quoted,
    typed: column_type,
    added: "\"_op\" TEXT, \"_source_ts_ms\" INTEGER, \"_version_hi\" INTEGER NOT NULL DEFAULT 0, \
            \"_version_lo\" INTEGER NOT NULL DEFAULT 0, \"_is_deleted\" INTEGER NOT NULL DEFAULT 0",
    options: "",
};

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
            Need::Atomic | Need::HardDeletes | Need::UniqueIndexes | Need::AnyCharacter => None,
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

    /// Every row of a table; none where it does not exist.
    fn rows(&self, table: &str) -> Vec<Shown> {
        let connection = self.connect();
        let exists = "SELECT count(*) FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE";
        if connection.query_row(exists, [table], |row| row.get::<_, i64>(0)).unwrap() == 0 {
            return Vec::new();
        }
        let mut select = connection.prepare(&format!("SELECT * FROM {}", quoted(table))).unwrap();
        let names: Vec<String> = select.column_names().map(str::to_owned).collect();
        let row = |row: &rusqlite::Row<'_>| {
            names.iter().enumerate().map(|(at, name)| Ok((name.clone(), text(row.get(at)?)))).collect()
        };
        select.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::Text(text) => Some(text),
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
        Box::pin(async {
            let tombstones = self.rows(&format!("{}__tombstones", table.name));
            contents(table, self.rows(&table.name), &tombstones, "1")
        })
    }

    fn texts<'a>(&'a self, table: &'a Table, column: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async { self.rows(&table.name).into_iter().filter_map(|mut row| row.remove(column)?).collect() })
    }

    fn make<'a>(&'a self, table: &'a Table, form: Form<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.connect().execute_batch(&made(&WORDS, table, form).join("; ")).unwrap() })
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
