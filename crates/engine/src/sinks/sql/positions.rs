//! `settle_positions`: up to where each consumer group's records are in the database, moved in the
//! transaction that writes them, and the fence.
//!
//! Of each partition there is a row per group, with the group's generation and its next offset (0
//! where nothing of it is applied), and a row without a group: the lock row, at which the
//! transactions of all groups and instances wait for each other. Without it a row that one
//! transaction deletes could come back by another, which looked for its tombstone too early. SQLite
//! has one writer, and needs no lock rows.
//!
//! Who opens a partition counts its generation up. From then on the batches of whoever opened it
//! before are refused: a process that slept through the loss of its partitions writes nothing.

use std::collections::{BTreeMap, HashMap};

use settle_core::batch::Batch;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::{FailureKind, PlacedPartition, SinkError};

use super::dialect::{Dialect, Lock, Take};
use super::session::{Cells, Outcome, Session, SqlValue, contract};
use super::{holds, meta};

pub(crate) const TABLE: &str = "settle_positions";
const READ: &str = "read settle_positions";
const WRITE: &str = "write settle_positions";
const APPLY: &str = "apply a batch";

/// Rows that one statement names.
const AT_ONCE: usize = 500;
/// Characters of a group's name: four bytes each, with the rest of the key, fit an index of every engine.
const LONGEST_GROUP: usize = 255;

/// The SQL that makes the table. `table` is its name as SQL.
pub(crate) fn create(dialect: Dialect, table: &str) -> String {
    let rest = match dialect {
        Dialect::Sqlite => {
            "(
  consumer_group TEXT NOT NULL,
  topic_id TEXT NOT NULL,
  partition INTEGER NOT NULL,
  topic TEXT NOT NULL,
  next_offset INTEGER NOT NULL,
  generation INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (consumer_group, topic_id, partition)
) STRICT, WITHOUT ROWID"
        }
        Dialect::Postgres => {
            "(
  \"consumer_group\" TEXT COLLATE \"C\" NOT NULL,
  \"topic_id\" TEXT COLLATE \"C\" NOT NULL,
  \"partition\" BIGINT NOT NULL,
  \"topic\" TEXT COLLATE \"C\" NOT NULL,
  \"generation\" BIGINT NOT NULL,
  \"next_offset\" BIGINT NOT NULL,
  PRIMARY KEY (\"consumer_group\", \"topic_id\", \"partition\")
)"
        }
        Dialect::MySql => {
            "(
  `consumer_group` VARCHAR(255) NOT NULL,
  `topic_id` CHAR(36) NOT NULL,
  `partition` BIGINT NOT NULL,
  `topic` TEXT NOT NULL,
  `generation` BIGINT NOT NULL,
  `next_offset` BIGINT NOT NULL,
  PRIMARY KEY (`consumer_group`, `topic_id`, `partition`)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        }
    };
    format!("CREATE TABLE IF NOT EXISTS {table} {rest}")
}

/// A generation that was raised, in a transaction that may not be committed yet.
#[derive(Clone, Debug)]
pub(crate) struct Raised {
    part: PlacedPartition,
    generation: i64,
}

/// The next offsets of the group in these partitions; none where nothing of it is applied.
pub(crate) async fn read(
    session: &mut impl Session,
    group: &str,
    parts: &[PlacedPartition],
) -> Outcome<Vec<(PlacedPartition, Offset)>> {
    let mut applied = Vec::new();
    for parts in parts.chunks(AT_ONCE) {
        let places: Vec<(TopicId, i32)> = parts.iter().map(place).collect();
        let found = rows(session, &[group], &places, None).await?;
        for part in parts {
            let row = found.iter().find(|row| row.place == place(part) && row.next > 0);
            applied.extend(row.map(|row| (part.clone(), row.next)));
        }
    }
    Ok(applied)
}

/// True if records of any group are applied.
pub(super) async fn any_applied(session: &mut impl Session) -> Outcome<bool> {
    let dialect = session.dialect();
    let next = dialect.quoted("next_offset");
    let sql = format!("SELECT {next} FROM {} WHERE {next} > 0 LIMIT 1", dialect.quoted(TABLE));
    Ok(!session.query(READ, &sql, &[]).await?.is_empty())
}

/// Removes what a group left: for one that was made for one pass.
pub(crate) async fn forget(session: &mut impl Session, group: &str) -> Outcome<()> {
    let dialect = session.dialect();
    let sql = format!(
        "DELETE FROM {} WHERE {} = {}",
        dialect.quoted(TABLE),
        dialect.quoted("consumer_group"),
        dialect.place(1)
    );
    session.execute(WRITE, &sql, &[group.into()]).await.map(drop)
}

fn place(part: &PlacedPartition) -> (TopicId, i32) {
    (part.topic_id, part.partition.number)
}

/// The partitions that this instance has opened, each with the generation that it got.
#[derive(Debug)]
pub(crate) struct Fence {
    group: String,
    held: HashMap<Partition, (TopicId, i64)>,
}

impl Fence {
    /// Of a group that has opened nothing yet.
    pub(crate) fn new(group: impl Into<String>) -> Self {
        Self { group: group.into(), held: HashMap::new() }
    }

    /// Whose positions are moved.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Counts the group's generation of these partitions up. To be [held](Self::hold) once the
    /// transaction is committed.
    pub(crate) async fn raise(&self, session: &mut impl Session, parts: &[PlacedPartition]) -> Outcome<Vec<Raised>> {
        let dialect = session.dialect();
        self.refuse_group(dialect)?;
        let sorted: BTreeMap<(TopicId, i32), &PlacedPartition> = parts.iter().map(|part| (place(part), part)).collect();
        let sorted: Vec<&PlacedPartition> = sorted.into_values().collect();
        let mut raised = Vec::with_capacity(sorted.len());
        for parts in sorted.chunks(AT_ONCE) {
            let places: Vec<(TopicId, i32)> = parts.iter().map(|part| place(part)).collect();
            if dialect.has_row_locks() {
                insert(session, parts.iter().map(|part| ("", *part, 0)), &[]).await?;
                rows(session, &[""], &places, Some(Lock::Owned)).await?;
            }
            insert(session, parts.iter().map(|part| (self.group.as_str(), *part, 0)), &[]).await?;
            let mut values = vec![SqlValue::from(self.group.as_str())];
            let is_place = is_place(dialect, &places, &mut values);
            let generation = dialect.quoted("generation");
            let raise = format!(
                "UPDATE {} SET {generation} = {generation} + 1 WHERE {} = {} AND ({is_place})",
                dialect.quoted(TABLE),
                dialect.quoted("consumer_group"),
                dialect.place(1)
            );
            session.execute(WRITE, &raise, &values).await?;
            let found = rows(session, &[&self.group], &places, None).await?;
            for part in parts {
                let row = found.iter().find(|row| row.place == place(part)).ok_or_else(|| {
                    contract(READ, format!("the row of {} is gone as soon as it was made", part.partition))
                })?;
                raised.push(Raised { part: (*part).clone(), generation: row.generation });
            }
        }
        Ok(raised)
    }

    /// Remembers what was raised, now that it is committed.
    pub(crate) fn hold(&mut self, raised: Vec<Raised>) {
        self.held.extend(
            raised.into_iter().map(|Raised { part, generation }| (part.partition, (part.topic_id, generation))),
        );
    }

    /// What a batch does beside its rows and truncates, ahead of them: it waits at the lock rows of its
    /// partitions, is refused where another instance has taken one, and records floors, offsets and
    /// holds.
    pub(crate) async fn pass(&self, session: &mut impl Session, batch: &Batch) -> Outcome<()> {
        self.check(session, batch).await?;
        for (partition, floor) in batch.floors() {
            meta::record_floor(session, self.opened(partition)?.0, partition, floor).await?;
        }
        self.advance(session, batch).await?;
        for note in batch.holds() {
            holds::note(session, self.opened(&note.partition)?.0, note).await?;
        }
        Ok(())
    }

    async fn check(&self, session: &mut impl Session, batch: &Batch) -> Outcome<()> {
        let mut places: BTreeMap<(TopicId, i32), (&Partition, i64)> = BTreeMap::new();
        let mut add = |partition| -> Outcome<()> {
            let (topic_id, generation) = self.opened(partition)?;
            places.insert((topic_id, partition.number), (partition, generation));
            Ok(())
        };
        // What is applied beside the run that reads its partitions proves nothing, and may not be
        // fenced; it waits at the lock rows all the same.
        let proves = !batch.is_empty();
        if proves {
            batch.spans().iter().try_for_each(|span| add(&span.partition))?;
        } else {
            let rows = batch.tables().flat_map(|rows| rows.rows());
            rows.map(|row| &row.change().record.partition).try_for_each(&mut add)?;
            batch.truncates().iter().try_for_each(|truncate| add(&truncate.record.partition))?;
        }
        let sorted: Vec<(TopicId, i32)> = places.keys().copied().collect();
        let groups: &[&str] = match (session.dialect().has_row_locks(), proves) {
            (true, true) => &["", &self.group],
            (true, false) => &[""],
            (false, true) => &[&self.group],
            (false, false) => return Ok(()),
        };
        let mut fenced = Vec::new();
        for sorted in sorted.chunks(AT_ONCE) {
            let found = rows(session, groups, sorted, Some(Lock::Owned)).await?;
            let ours = |place: &(TopicId, i32)| found.iter().find(|row| row.place == *place && row.group == self.group);
            let taken = sorted.iter().filter(|place| {
                proves && ours(place).map(|row| row.generation) != places.get(place).map(|(_, generation)| *generation)
            });
            fenced.extend(taken.filter_map(|place| places.get(place)).map(|(partition, _)| (*partition).clone()));
        }
        if fenced.is_empty() { Ok(()) } else { Err(SinkError::fenced(APPLY, fenced)) }
    }

    /// Moves the group's positions forward; they never go back.
    async fn advance(&self, session: &mut impl Session, batch: &Batch) -> Outcome<()> {
        let mut ends: BTreeMap<(TopicId, i32), (PlacedPartition, Offset)> = BTreeMap::new();
        for span in batch.spans() {
            let (topic_id, _) = self.opened(&span.partition)?;
            let part = PlacedPartition { topic_id, partition: span.partition.clone() };
            let known = ends.entry((topic_id, span.partition.number)).or_insert((part, span.end));
            known.1 = known.1.max(span.end);
        }
        let ends: Vec<(PlacedPartition, Offset)> = ends.into_values().collect();
        for ends in ends.chunks(AT_ONCE) {
            let rows = ends.iter().map(|(part, end)| (self.group.as_str(), part, *end));
            insert(session, rows, &[("next_offset", Take::Greatest), ("topic", Take::New)]).await?;
        }
        Ok(())
    }

    /// The topic's incarnation of a partition that this instance has opened.
    pub(crate) fn topic_id(&self, partition: &Partition) -> Outcome<TopicId> {
        self.opened(partition).map(|(topic_id, _)| topic_id)
    }

    fn opened(&self, partition: &Partition) -> Outcome<(TopicId, i64)> {
        self.held
            .get(partition)
            .copied()
            .ok_or_else(|| SinkError::new(FailureKind::Bug, APPLY, format!("partition {partition} was never opened")))
    }

    /// A name that the column could not tell from another.
    fn refuse_group(&self, dialect: Dialect) -> Outcome<()> {
        let why = if dialect == Dialect::Sqlite {
            return Ok(());
        } else if self.group.is_empty() {
            "an empty name stands for all groups"
        } else if self.group.chars().count() > LONGEST_GROUP {
            "it is longer than 255 characters"
        } else if self.group.ends_with(' ') || self.group.contains('\0') {
            "it ends with a space, or holds a NUL character"
        } else {
            return Ok(());
        };
        Err(contract(WRITE, format!("the group has a name that cannot be kept: {why}; change [source] group")))
    }
}

/// A row of the table.
struct Row {
    group: String,
    place: (TopicId, i32),
    generation: i64,
    next: Offset,
}

/// The rows of these groups and places, in order of group and place.
async fn rows(
    session: &mut impl Session,
    groups: &[&str],
    places: &[(TopicId, i32)],
    lock: Option<Lock>,
) -> Outcome<Vec<Row>> {
    let dialect = session.dialect();
    let mut values: Vec<SqlValue> = groups.iter().map(|group| SqlValue::from(*group)).collect();
    let is_place = is_place(dialect, places, &mut values);
    let key = dialect.list(["consumer_group", "topic_id", "partition"]);
    let sql = format!(
        "SELECT {key}, {} FROM {}{} WHERE {} IN ({}) AND ({is_place}) ORDER BY {key}{}",
        dialect.list(["generation", "next_offset"]),
        dialect.quoted(TABLE),
        dialect.by_key(),
        dialect.quoted("consumer_group"),
        dialect.places(1, groups.len()),
        lock.map_or("", |lock| dialect.lock(lock))
    );
    let mut found = Vec::new();
    for row in session.query(READ, &sql, &values).await? {
        let mut cells = Cells::of(READ, row);
        let (group, topic_id, number) = (cells.text()?, cells.text()?, cells.int()?);
        let unreadable = || contract(READ, "a row is not of the form this program writes");
        let topic_id = TopicId(uuid::Uuid::parse_str(&topic_id).map_err(|_| unreadable())?);
        let number = i32::try_from(number).map_err(|_| unreadable())?;
        found.push(Row { group, place: (topic_id, number), generation: cells.int()?, next: cells.int()? });
    }
    Ok(found)
}

/// What finds these places, behind the values that are there already.
fn is_place(dialect: Dialect, places: &[(TopicId, i32)], values: &mut Vec<SqlValue>) -> String {
    let mut parts = Vec::with_capacity(places.len());
    for (topic_id, number) in places {
        let n = values.len();
        let [topic, partition] = ["topic_id", "partition"].map(|name| dialect.quoted(name));
        parts.push(format!("{topic} = {} AND {partition} = {}", dialect.place(n + 1), dialect.place(n + 2)));
        values.push(topic_id.to_string().into());
        values.push(i64::from(*number).into());
    }
    parts.join(" OR ")
}

/// Writes rows of a group, place and next offset.
async fn insert<'r>(
    session: &mut impl Session,
    rows: impl Iterator<Item = (&'r str, &'r PlacedPartition, Offset)>,
    there: &[(&str, Take)],
) -> Outcome<()> {
    let mut values: Vec<SqlValue> = Vec::new();
    let mut count = 0;
    for (group, PlacedPartition { topic_id, partition }, next) in rows {
        values.extend([group.into(), topic_id.to_string().into(), i64::from(partition.number).into()]);
        values.extend([SqlValue::from(&*partition.topic), 0.into(), next.into()]);
        count += 1;
    }
    if count == 0 {
        return Ok(());
    }
    let key = ["consumer_group", "topic_id", "partition"];
    let columns = ["consumer_group", "topic_id", "partition", "topic", "generation", "next_offset"];
    let sql = session.dialect().insert(TABLE, &columns, count, &key, there);
    session.execute(WRITE, &sql, &values).await.map(drop)
}
