//! Tombstones: the versions of deleted rows, and when they go.
//!
//! A tombstone keeps out the records of its row that are older than the delete. Each of them was in the
//! log before the tombstone was written, by the clock of the destination. So a tombstone is needed as
//! long as the log keeps what was written before it, and no longer; how long that is the user says
//! (`tombstone_retention`), and where the log is Kafka's, its topics are held against it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use settle_core::change::TableName;

use super::dialect::{Dialect, Take};
use super::filled;
use super::meta::{Line, READ, of_kind, put};
use super::session::{Cells, Outcome, Session, contract};
use crate::config::target::Target;

const KIND: &str = "tombstones";
/// Tombstones that one statement takes: a batch waits for no more than that.
const PIECE: usize = 5_000;
/// How long there is nothing to purge.
const PAUSE: Duration = Duration::from_secs(3_600);

/// A table of tombstones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Graves {
    /// The table whose deleted rows they are of.
    pub(crate) of: String,
    /// Its name.
    pub(crate) table: String,
    /// Its columns of the key.
    pub(crate) key: Vec<String>,
    /// Its column that says when a tombstone was written.
    pub(crate) written: String,
}

/// Notes that a table has tombstones: without them, late records bring deleted rows back.
pub(crate) async fn note(session: &mut impl Session, table: &str) -> Outcome<()> {
    let subject = session.dialect().canonical(table).into_owned();
    put(session, Line { kind: KIND, subject: &subject, ..Line::default() }, &[]).await
}

/// Refuses to make the tombstones of a table anew that had some.
pub(crate) async fn refuse_lost(session: &mut impl Session, table: &str) -> Outcome<()> {
    let dialect = session.dialect();
    let sql = of_kind(dialect, &["subject"]);
    for row in session.query(READ, &sql, &[KIND.into()]).await? {
        if Cells::of(READ, row).text()? == dialect.canonical(table) {
            let lost = dialect.tombstones(table);
            return Err(contract(
                format!("prepare table \"{table}\""),
                format!(
                    "its tombstones are not there any more (table \"{lost}\"): a late record could bring a deleted row \
                     back. Restore them with the table from a backup; or, if no record from before a delete can come, \
                     make them by hand (settle ddl prints how)"
                ),
            ));
        }
    }
    Ok(())
}

/// The source tables whose tombstones were purged, with the moment from before which those were, in
/// milliseconds since 1970 by the clock of the destination.
pub(crate) async fn purged(session: &mut impl Session, target: &Target) -> Outcome<Vec<(TableName, i64)>> {
    let sql = of_kind(session.dialect(), &["subject", "hi"]);
    let mut purged = Vec::new();
    for row in session.query(READ, &sql, &[KIND.into()]).await? {
        let mut cells = Cells::of(READ, row);
        let (table, until) = (cells.text()?, cells.int()?);
        if until > 0 {
            purged.push((table, until));
        }
    }
    if purged.is_empty() {
        return Ok(Vec::new());
    }
    let sources = filled::sources(session, target).await?;
    Ok(purged.into_iter().filter_map(|(table, until)| Some((sources.get(&table)?.clone(), until))).collect())
}

/// When tables are purged again.
#[derive(Debug, Default)]
pub(crate) struct Purges {
    due: HashMap<String, Instant>,
}

impl Purges {
    /// Those whose time has come.
    pub(crate) fn due(&self, all: impl Iterator<Item = Graves>) -> Vec<Graves> {
        let now = Instant::now();
        all.filter(|graves| self.due.get(&graves.table).is_none_or(|due| *due <= now)).collect()
    }

    /// What became of one. A batch that is durable stays so, whatever that was.
    pub(crate) fn done(&mut self, graves: Graves, purged: Outcome<Purged>) {
        let mut wait = PAUSE;
        match purged {
            Ok(Purged { count, all }) => {
                if count > 0 {
                    tracing::info!(table = graves.table, count, "tombstones are purged: the log has nothing older");
                }
                if !all {
                    wait = Duration::ZERO;
                }
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(table = graves.table, error, "tombstones are not purged; tried again in an hour");
            }
        }
        self.due.insert(graves.table, Instant::now() + wait);
    }
}

/// What a purge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purged {
    /// Tombstones that are gone.
    pub(crate) count: u64,
    /// False where there may be more to do at once.
    pub(crate) all: bool,
}

/// Purges tombstones that are older than `retention`, a piece of them. It waits for no lock of a batch
/// where the engine can pass by a locked row.
pub(crate) async fn purge(session: &mut impl Session, graves: &Graves, retention: Duration) -> Outcome<Purged> {
    let dialect = session.dialect();
    let operation = format!("purge tombstones from \"{}\"", graves.table);
    let clock = format!("SELECT {}", dialect.now_ms());
    let now = match session.query(&operation, &clock, &[]).await?.into_iter().next() {
        Some(row) => Cells::of(&operation, row).int()?,
        None => return Ok(Purged { count: 0, all: true }),
    };
    // One that does not say when it was written may have been written just now.
    let dated = session.execute(&operation, &date(dialect, graves), &[now.into()]).await?;
    let until = now.saturating_sub(i64::try_from(retention.as_millis()).unwrap_or(i64::MAX));
    if session.query(&operation, &any_older(dialect, graves), &[until.into()]).await?.is_empty() {
        return Ok(Purged { count: 0, all: dated < PIECE as u64 });
    }
    // Ahead of it: there may be no transaction around the two.
    let subject = dialect.canonical(&graves.of);
    let line = Line { kind: KIND, subject: &subject, hi: until, ..Line::default() };
    put(session, line, &[("hi", Take::Greatest)]).await?;
    let count = session.execute(&operation, &delete(dialect, graves), &[until.into()]).await?;
    Ok(Purged { count, all: count.max(dated) < PIECE as u64 })
}

/// Gives a piece of the tombstones without one a date.
fn date(dialect: Dialect, graves: &Graves) -> String {
    let (table, written) = (dialect.quoted(&graves.table), dialect.quoted(&graves.written));
    let set = format!("SET {written} = {}", dialect.place(1));
    match dialect {
        Dialect::Postgres => format!(
            "{} UPDATE {table} AS g {set} FROM piece p WHERE {}",
            piece(dialect, graves, &format!("{written} IS NULL")),
            same(dialect, graves)
        ),
        Dialect::Sqlite => {
            format!("UPDATE {table} {set} WHERE {}", among(dialect, graves, &format!("{written} IS NULL")))
        }
        Dialect::MySql => format!("UPDATE {table} {set} WHERE {written} IS NULL LIMIT {PIECE}"),
    }
}

/// Asks for a tombstone from before a moment.
fn any_older(dialect: Dialect, graves: &Graves) -> String {
    let (table, written) = (dialect.quoted(&graves.table), dialect.quoted(&graves.written));
    format!("SELECT {written} FROM {table} WHERE {written} < {} LIMIT 1", dialect.place(1))
}

/// Deletes a piece of the tombstones from before a moment.
fn delete(dialect: Dialect, graves: &Graves) -> String {
    let (table, written) = (dialect.quoted(&graves.table), dialect.quoted(&graves.written));
    let old = format!("{written} < {} ORDER BY {written}", dialect.place(1));
    match dialect {
        Dialect::Postgres => format!(
            "{} DELETE FROM {table} AS g USING piece p WHERE {}",
            piece(dialect, graves, &old),
            same(dialect, graves)
        ),
        Dialect::Sqlite => format!("DELETE FROM {table} WHERE {}", among(dialect, graves, &old)),
        Dialect::MySql => format!("DELETE FROM {table} WHERE {old} LIMIT {PIECE}"),
    }
}

fn keys(dialect: Dialect, graves: &Graves) -> String {
    dialect.list(graves.key.iter().map(String::as_str))
}

/// Rows that another transaction writes are passed by: neither waits for the other.
fn piece(dialect: Dialect, graves: &Graves, rows: &str) -> String {
    let (keys, table) = (keys(dialect, graves), dialect.quoted(&graves.table));
    format!("WITH piece AS (SELECT {keys} FROM {table} WHERE {rows} LIMIT {PIECE} FOR UPDATE SKIP LOCKED)")
}

fn same(dialect: Dialect, graves: &Graves) -> String {
    let same = graves.key.iter().map(|column| {
        let column = dialect.quoted(column);
        format!("g.{column} = p.{column}")
    });
    same.collect::<Vec<_>>().join(" AND ")
}

fn among(dialect: Dialect, graves: &Graves, rows: &str) -> String {
    let (keys, table) = (keys(dialect, graves), dialect.quoted(&graves.table));
    format!("({keys}) IN (SELECT {keys} FROM {table} WHERE {rows} LIMIT {PIECE})")
}

/// True if tombstones are found by when they were written, without all of them being read.
pub(crate) async fn is_indexed(session: &mut impl Session, graves: &Graves) -> Outcome<bool> {
    let dialect = session.dialect();
    let (sql, table) = match dialect {
        Dialect::Sqlite => (
            "SELECT 1 FROM pragma_index_list(?1) l JOIN pragma_index_info(l.name) i WHERE i.seqno = 0 \
             AND i.name = ?2 COLLATE NOCASE AND NOT l.partial",
            graves.table.clone(),
        ),
        Dialect::Postgres => (
            "SELECT 1::int8 FROM pg_catalog.pg_index x JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid \
             AND a.attnum = x.indkey[0] WHERE x.indrelid = pg_catalog.to_regclass($1::text) AND a.attname = $2::text \
             AND x.indpred IS NULL AND x.indisvalid",
            dialect.quoted(&graves.table),
        ),
        Dialect::MySql => (
            "SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ? \
             AND column_name = ? AND seq_in_index = 1",
            graves.table.clone(),
        ),
    };
    let operation = format!("look at the indexes of \"{}\"", graves.table);
    let values = [table.into(), graves.written.as_str().into()];
    Ok(!session.query(&operation, sql, &values).await?.is_empty())
}

/// What is being done when the index is made.
pub(crate) fn indexing(graves: &Graves) -> String {
    format!("index \"{}\" by when its rows were written", graves.table)
}

/// The SQL of the index by which old tombstones are found. `on` is the table as SQL.
pub(crate) fn create_index(dialect: Dialect, table: &str, on: &str, written: &str) -> String {
    let column = dialect.quoted(written);
    match dialect {
        // It finds a name that is free.
        Dialect::Postgres => format!("CREATE INDEX ON {on} ({column})"),
        // An index of one table must not have the name of one of another.
        Dialect::Sqlite => format!("CREATE INDEX {} ON {on} ({column})", dialect.quoted(&format!("{table}_by_age"))),
        // A CREATE INDEX would need a privilege that adds no columns.
        Dialect::MySql => format!("ALTER TABLE {on} ADD INDEX `by_age` ({column})"),
    }
}

#[cfg(test)]
mod tests {
    use settle_core::sink::{FailureKind, SinkError};

    use super::*;

    fn graves(table: &str) -> Graves {
        Graves {
            of: "of".to_owned(),
            table: table.to_owned(),
            key: vec!["a".into(), "b".into()],
            written: "w".to_owned(),
        }
    }

    #[test]
    fn a_table_is_purged_at_once_and_then_hourly_unless_more_is_left() {
        let mut purges = Purges::default();
        let due = |purges: &Purges| purges.due(["x", "y"].map(graves).into_iter()).len();
        assert_eq!(due(&purges), 2);
        purges.done(graves("x"), Ok(Purged { count: 1, all: true }));
        assert_eq!(due(&purges), 1);
        purges.done(graves("y"), Ok(Purged { count: 5_000, all: false }));
        assert_eq!(due(&purges), 1);
        purges.done(graves("y"), Err(SinkError::new(FailureKind::Overloaded, "purge", "a lock")));
        assert_eq!(due(&purges), 0);
    }

    #[test]
    fn a_statement_takes_a_piece_in_each_dialect() {
        let said = |dialect| delete(dialect, &graves("x"));
        assert_eq!(
            said(Dialect::Sqlite),
            "DELETE FROM \"x\" WHERE (\"a\", \"b\") IN (SELECT \"a\", \"b\" FROM \"x\" WHERE \"w\" < ?1 ORDER BY \"w\" \
             LIMIT 5000)"
        );
        assert_eq!(
            said(Dialect::Postgres),
            "WITH piece AS (SELECT \"a\", \"b\" FROM \"x\" WHERE \"w\" < $1 ORDER BY \"w\" LIMIT 5000 FOR UPDATE SKIP \
             LOCKED) DELETE FROM \"x\" AS g USING piece p WHERE g.\"a\" = p.\"a\" AND g.\"b\" = p.\"b\""
        );
        assert_eq!(said(Dialect::MySql), "DELETE FROM `x` WHERE `w` < ? ORDER BY `w` LIMIT 5000");
        assert_eq!(date(Dialect::MySql, &graves("x")), "UPDATE `x` SET `w` = ? WHERE `w` IS NULL LIMIT 5000");
    }
}
