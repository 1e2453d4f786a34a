//! `settle_meta`: what the destination records of the log's places, beside its rows.
//!
//! | kind | subject | at | hi, lo | detail |
//! |---|---|---|---|---|
//! | `scheme` | | | | name of the version scheme |
//! | `floor` | topic id, partition, source, database | offset | commit position, 0 | |
//! | `truncate` | target table | what orders it: 0 commits, 1 records | version of the last truncate | |
//! | `table` | target table | | | the source table and lineage that fill it |
//! | `epoch` | topic, topic id, partition | offset | the epoch, 0 | |
//! | `group` | group, topic, topic id, partition | | | |
//! | `filled` | target table, topic id, partition, source table | | least offset of a row, 0 | |
//! | `held` | topic id, partition, key | | offsets of dead letters | |
//! | `tombstones` | target table that has a table of them | | the moment (ms) from before which they were purged, 0 | |
//! | `swept` | topic id, topic, source table | upper half of the version | version of the snapshot | partitions, and how far they were read |
//! | `sweep-gap`, `sweep-last` | topic id, topic, source table | upper half of the version | version of the snapshot | |
//!
//! A subject holds what the source chose, a key for one, and so has any length; a key of MySQL has
//! at most 3,072 bytes, a row of a PostgreSQL index 2,704. There the subject's SHA-256 stands in the
//! primary key: of one length, and no two subjects share it. SQLite keys are of any length, and its
//! files have the subject itself in theirs since before.

use std::sync::Arc;

use settle_core::change::Lineage;
use settle_core::position::{Partition, TopicId};
use settle_core::sink::PlacedPartition;
use settle_core::version::{Floor, SCHEME, Version};

use super::dialect::{Dialect, Take, digest};
use super::session::{Cells, Outcome, Session, SqlValue, contract};
use crate::contents::Fact;

pub(super) const READ: &str = "read settle_meta";
pub(super) const WRITE: &str = "write settle_meta";
pub(crate) const TABLE: &str = "settle_meta";

/// The SQL that makes the table. `table` is its name as SQL.
pub(crate) fn create(dialect: Dialect, table: &str) -> String {
    let rest = match dialect {
        Dialect::Sqlite => {
            "(
  kind TEXT NOT NULL,
  subject TEXT NOT NULL DEFAULT '',
  at INTEGER NOT NULL DEFAULT 0,
  hi INTEGER NOT NULL DEFAULT 0,
  lo INTEGER NOT NULL DEFAULT 0,
  detail TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (kind, subject, at)
) STRICT, WITHOUT ROWID"
        }
        Dialect::Postgres => {
            "(
  \"kind\" TEXT COLLATE \"C\" NOT NULL,
  \"subject_sha256\" TEXT COLLATE \"C\" NOT NULL,
  \"at\" BIGINT NOT NULL,
  \"subject\" TEXT COLLATE \"C\" NOT NULL,
  \"hi\" BIGINT NOT NULL,
  \"lo\" BIGINT NOT NULL,
  \"detail\" TEXT COLLATE \"C\" NOT NULL,
  PRIMARY KEY (\"kind\", \"subject_sha256\", \"at\")
)"
        }
        Dialect::MySql => {
            "(
  `kind` VARCHAR(32) NOT NULL,
  `subject_sha256` CHAR(64) NOT NULL,
  `at` BIGINT NOT NULL,
  `subject` LONGTEXT NOT NULL,
  `hi` BIGINT NOT NULL,
  `lo` BIGINT NOT NULL,
  `detail` LONGTEXT NOT NULL,
  PRIMARY KEY (`kind`, `subject_sha256`, `at`)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        }
    };
    format!("CREATE TABLE IF NOT EXISTS {table} {rest}")
}

/// A line of the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Line<'a> {
    pub(super) kind: &'a str,
    pub(super) subject: &'a str,
    pub(super) at: i64,
    pub(super) hi: i64,
    pub(super) lo: i64,
    pub(super) detail: &'a str,
}

/// Records a line; where one of its kind, subject and place is there, `there` says what it gets:
/// it stays as it is where that is empty.
pub(super) async fn put(session: &mut impl Session, line: Line<'_>, there: &[(&str, Take)]) -> Outcome<()> {
    let dialect = session.dialect();
    let mut columns = vec!["kind", subject_key(dialect), "at", "hi", "lo", "detail"];
    let mut values: Vec<SqlValue> = vec![
        line.kind.into(),
        subject_value(dialect, line.subject),
        line.at.into(),
        line.hi.into(),
        line.lo.into(),
        line.detail.into(),
    ];
    if dialect != Dialect::Sqlite {
        columns.push("subject");
        values.push(line.subject.into());
    }
    let sql = dialect.insert(TABLE, &columns, 1, &["kind", subject_key(dialect), "at"], there);
    session.execute(WRITE, &sql, &values).await.map(drop)
}

/// The column by which a subject is found.
pub(super) fn subject_key(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "subject",
        Dialect::Postgres | Dialect::MySql => "subject_sha256",
    }
}

/// What a subject has in that column.
pub(super) fn subject_value(dialect: Dialect, subject: &str) -> SqlValue {
    match dialect {
        Dialect::Sqlite => subject.into(),
        Dialect::Postgres | Dialect::MySql => digest(subject).into(),
    }
}

/// The SELECT of a list of columns of all lines of a kind, in order of subject and place. The kind is
/// its value.
pub(super) fn of_kind(dialect: Dialect, columns: &[&str]) -> String {
    format!(
        "SELECT {} FROM {} WHERE {} = {} ORDER BY {}",
        dialect.list(columns.iter().copied()),
        dialect.quoted(TABLE),
        dialect.quoted("kind"),
        dialect.place(1),
        dialect.list(["subject", "at"])
    )
}

/// What finds the lines of a kind and a subject: values `first` and the one behind it.
pub(super) fn is_subject(dialect: Dialect, first: usize) -> String {
    format!(
        "{} = {} AND {} = {}",
        dialect.quoted("kind"),
        dialect.place(first),
        dialect.quoted(subject_key(dialect)),
        dialect.place(first + 1)
    )
}

/// `FROM settle_meta`, as SQL.
pub(super) fn table(dialect: Dialect) -> String {
    dialect.quoted(TABLE)
}

/// Records the version scheme, or refuses another.
pub(crate) async fn open(session: &mut impl Session) -> Outcome<()> {
    put(session, Line { kind: "scheme", detail: SCHEME, ..Line::default() }, &[]).await?;
    let sql = of_kind(session.dialect(), &["detail"]);
    for row in session.query(READ, &sql, &["scheme".into()]).await? {
        let scheme = Cells::of(READ, row).text()?;
        if scheme != SCHEME {
            return Err(contract(
                READ,
                format!(
                    "the versions in this database are of scheme \"{scheme}\", this program's are of \"{SCHEME}\" and do \
                     not compare with them; use the program that wrote it, or a new database{}",
                    if session.dialect() == Dialect::Sqlite { " file" } else { "" }
                ),
            ));
        }
    }
    Ok(())
}

/// The tables that were claimed.
pub(crate) async fn claimed(session: &mut impl Session) -> Outcome<Vec<String>> {
    let sql = of_kind(session.dialect(), &["subject"]);
    let rows = session.query(READ, &sql, &["table".into()]).await?;
    rows.into_iter().map(|row| Cells::of(READ, row).text()).collect()
}

/// All that is recorded.
pub(crate) async fn facts(session: &mut impl Session) -> Outcome<Vec<Fact>> {
    let dialect = session.dialect();
    let sql = format!(
        "SELECT {} FROM {} ORDER BY {}",
        dialect.list(["kind", "subject", "at", "hi", "lo", "detail"]),
        table(dialect),
        dialect.list(["kind", "subject", "at"])
    );
    let fact = |row| {
        let mut cells = Cells::of(READ, row);
        let (kind, subject, offset) = (cells.text()?, cells.text()?, cells.int()?);
        let value = Version::from_halves(cells.int()?.cast_unsigned(), cells.int()?.cast_unsigned()).as_u128();
        Ok(Fact { kind, subject, offset, value, detail: cells.text()? })
    };
    session.query(READ, &sql, &[]).await?.into_iter().map(fact).collect()
}

/// True if a version scheme is recorded: it is the first thing that is.
pub(super) async fn has_scheme(session: &mut impl Session) -> Outcome<bool> {
    let sql = of_kind(session.dialect(), &["detail"]);
    Ok(!session.query(READ, &sql, &["scheme".into()]).await?.is_empty())
}

/// Records a floor with the rows that raised it.
pub(super) async fn record_floor(
    session: &mut impl Session,
    topic_id: TopicId,
    partition: &Partition,
    floor: &Floor,
) -> Outcome<()> {
    let Lineage { source, database } = &*floor.lineage;
    let subject = serde_json::json!([topic_id.0.to_string(), partition.number, source, database]).to_string();
    let hi = i64::try_from(floor.commit)
        .map_err(|_| contract(WRITE, "a floor above 2^63: the position does not fit the version"))?;
    let line = Line { kind: "floor", subject: &subject, at: floor.offset, hi, ..Line::default() };
    put(session, line, &[("hi", Take::Greatest)]).await
}

/// The floors recorded for these partitions.
pub(crate) async fn floors(
    session: &mut impl Session,
    parts: &[PlacedPartition],
) -> Outcome<Vec<(PlacedPartition, Floor)>> {
    let sql = of_kind(session.dialect(), &["subject", "at", "hi"]);
    let mut floors = Vec::new();
    for row in session.query(READ, &sql, &["floor".into()]).await? {
        let mut cells = Cells::of(READ, row);
        let (subject, offset, commit) = (cells.text()?, cells.int()?, cells.int()?);
        let unreadable =
            || contract(READ, format!("a floor at offset {offset} is not of the form this program writes"));
        let (topic_id, number, lineage) = floor_of(&subject).ok_or_else(unreadable)?;
        let commit = u64::try_from(commit).map_err(|_| unreadable())?;
        for place in parts.iter().filter(|p| p.topic_id == topic_id && p.partition.number == number) {
            floors.push((place.clone(), Floor { lineage: lineage.clone(), offset, commit }));
        }
    }
    Ok(floors)
}

fn floor_of(subject: &str) -> Option<(TopicId, i32, Arc<Lineage>)> {
    let (id, partition, source, database): (String, i32, Box<str>, Box<str>) = serde_json::from_str(subject).ok()?;
    Some((TopicId(uuid::Uuid::parse_str(&id).ok()?), partition, Arc::new(Lineage { source, database })))
}
