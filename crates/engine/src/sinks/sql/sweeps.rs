//! Ghosts: rows that a full snapshot taken again did not refresh. They are deleted with the version
//! just above their own, so that a replay of the old log does not bring them back, and whatever
//! the source says of them later still wins.

use std::collections::BTreeMap;
use std::sync::Arc;

use settle_core::batch::Row;
use settle_core::change::TableName;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::resnapshot::Swept;
use settle_core::sink::{Pending, PlacedPartition, Seen, Sweep};
use settle_core::truncate::Cuts;
use settle_core::version::Version;
use uuid::Uuid;

use super::dialect::{Dialect, Lock, Take};
use super::meta::{Line, READ, WRITE, is_subject, of_kind, put, subject_value, table};
use super::outline::Outline;
use super::positions::Fence;
use super::session::{Cells, Outcome, Session, contract};
use super::{claims, holds};
use crate::config::target::{Deletes, OnResnapshot, Target};
use crate::sinks::held::not_swept;
use crate::sinks::plan::Plan;

/// Remembers what was seen of a snapshot until its sweep is done.
pub(crate) async fn plan(session: &mut impl Session, topic_id: TopicId, sweep: &Sweep, seen: Seen) -> Outcome<()> {
    let (hi, lo) = (sweep.below.hi_signed(), sweep.below.lo_signed());
    let subject = subject(topic_id, sweep);
    put(session, Line { kind: kind(seen), subject: &subject, at: hi, hi, lo, detail: "" }, &[]).await
}

const DONE: &str = "swept";

fn kind(seen: Seen) -> &'static str {
    match seen {
        Seen::Gap => "sweep-gap",
        Seen::Last => "sweep-last",
    }
}

/// The snapshots of the topics of these partitions whose last rows were seen.
pub(crate) async fn pending(session: &mut impl Session, parts: &[PlacedPartition]) -> Outcome<Vec<Pending>> {
    let sql = of_kind(session.dialect(), &["subject", "hi", "lo"]);
    let mut pending = Vec::new();
    for row in session.query(READ, &sql, &[kind(Seen::Last).into()]).await? {
        let mut cells = Cells::of(READ, row);
        let (subject, hi, lo) = (cells.text()?, cells.int()?, cells.int()?);
        let (id, topic, namespace, name): (Uuid, String, Box<str>, Box<str>) = serde_json::from_str(&subject)
            .map_err(|_| contract(READ, "a sweep is not of the form this program writes"))?;
        if parts.iter().any(|part| part.topic_id.0 == id) {
            let below = Version::from_halves(hi.cast_unsigned(), lo.cast_unsigned());
            let table = Arc::new(TableName { namespace, name });
            pending.push(Pending::Sweep(TopicId(id), Sweep { table, topic: topic.into(), below }));
        }
    }
    Ok(pending)
}

/// Forgets what was seen of a snapshot. True where its ghosts are to be deleted: a gap was seen, and a
/// sweep is still asked for.
pub(crate) async fn is_due(
    session: &mut impl Session,
    target: &Target,
    topic_id: TopicId,
    sweep: &Sweep,
) -> Outcome<bool> {
    let dialect = session.dialect();
    let subject = subject(topic_id, sweep);
    let sql = format!(
        "DELETE FROM {} WHERE {} AND {} = {}",
        table(dialect),
        is_subject(dialect, 1),
        dialect.quoted("at"),
        dialect.place(3)
    );
    let mut all = true;
    for seen in [Seen::Gap, Seen::Last] {
        let place = [kind(seen).into(), subject_value(dialect, &subject), sweep.below.hi_signed().into()];
        all &= session.execute(WRITE, &sql, &place).await? > 0;
    }
    if !all || target.on_resnapshot(&sweep.table) != OnResnapshot::Sweep {
        return Ok(false);
    }
    match holds::count(session, topic_id).await? {
        0 => Ok(true),
        held => Err(not_swept(&format!("sweep ghosts from table \"{}\"", target.table_name(&sweep.table)), held)),
    }
}

/// Remembers that ghosts are swept, and up to where the partitions were read then.
pub(crate) async fn record(
    session: &mut impl Session,
    topic_id: TopicId,
    sweep: &Sweep,
    ends: &[(Partition, Offset)],
) -> Outcome<()> {
    let (hi, lo) = (sweep.below.hi_signed(), sweep.below.lo_signed());
    let ends: Vec<(i32, Offset)> = ends.iter().map(|(partition, end)| (partition.number, *end)).collect();
    let (subject, ends) = (subject(topic_id, sweep), serde_json::json!(ends).to_string());
    let line = Line { kind: DONE, subject: &subject, at: hi, hi, lo, detail: &ends };
    put(session, line, &[("detail", Take::New)]).await
}

/// The sweeps that were done of a source table.
pub(crate) async fn done(session: &mut impl Session, table: &TableName) -> Outcome<Swept> {
    let sql = of_kind(session.dialect(), &["subject", "hi", "lo", "detail"]);
    let mut swept = Swept::default();
    for row in session.query(READ, &sql, &[DONE.into()]).await? {
        let mut cells = Cells::of(READ, row);
        let (subject, hi, lo, ends) = (cells.text()?, cells.int()?, cells.int()?, cells.text()?);
        let unreadable = || contract(READ, "a sweep that was done is not of the form this program writes");
        let (id, _, namespace, name): (Uuid, String, Box<str>, Box<str>) =
            serde_json::from_str(&subject).map_err(|_| unreadable())?;
        let ends: Vec<(i32, Offset)> = serde_json::from_str(&ends).map_err(|_| unreadable())?;
        if (&namespace, &name) != (&table.namespace, &table.name) {
            continue;
        }
        let below = Version::from_halves(hi.cast_unsigned(), lo.cast_unsigned());
        ends.into_iter().for_each(|(number, end)| swept.add(TopicId(id), number, end, below));
    }
    Ok(swept)
}

/// What keeps a row of a batch from being written, whatever the table has of it.
pub(crate) struct Emptied<'a> {
    /// The truncates of its table.
    pub(crate) cuts: Cuts,
    /// The sweeps of it.
    pub(crate) swept: Swept,
    pub(crate) fence: &'a Fence,
}

impl Emptied<'_> {
    /// True for a row that a truncate or a sweep has taken away.
    pub(crate) fn takes(&self, row: Row<'_>) -> Outcome<bool> {
        if self.cuts.empties(row.version()) {
            return Ok(true);
        }
        if self.swept.is_empty() {
            return Ok(false);
        }
        let record = &row.change().record;
        let topic_id = self.fence.topic_id(&record.partition)?;
        Ok(self.swept.covers(topic_id, record.partition.number, record.offset, row.version()))
    }
}

/// A table that is swept, as it is in the destination.
pub(crate) struct SweptTable<'a> {
    pub(crate) plan: &'a Plan,
    /// Its name.
    pub(crate) table: &'a str,
    /// Its columns of the key.
    pub(crate) key: Vec<&'a str>,
    /// The column that marks deleted rows, where it has one.
    pub(crate) is_deleted: Option<&'a str>,
    /// Its table of tombstones, where that is there.
    pub(crate) graves: Option<&'a str>,
    /// The column that says when one was written, where it has that.
    pub(crate) written: Option<&'a str>,
}

impl<'a> SweptTable<'a> {
    /// This table, with its table of tombstones.
    pub(crate) fn of(
        dialect: Dialect,
        plan: &'a Plan,
        table: &'a impl Outline,
        graves: Option<&'a impl Outline>,
    ) -> Self {
        let added = [plan.version_hi(), plan.version_lo(), plan.meta.written_ms.clone()];
        let is_key = |name: &&str| !added.iter().any(|added| dialect.same(added, name));
        Self {
            plan,
            table: table.name(),
            key: graves.into_iter().flat_map(Outline::columns).filter(is_key).collect(),
            is_deleted: table.known(dialect, &plan.meta.is_deleted),
            graves: graves.map(Outline::name),
            written: graves.and_then(|graves| graves.known(dialect, &plan.meta.written_ms)),
        }
    }
}

/// Deletes the ghosts below a version, and says how many they were.
pub(crate) async fn bury(session: &mut impl Session, swept: &SweptTable<'_>, below: Version) -> Outcome<u64> {
    let dialect = session.dialect();
    let plan = swept.plan;
    let operation = format!("sweep ghosts from table \"{}\"", plan.table);
    // A batch that has looked for a row and its tombstone writes it before, or looks again behind.
    claims::lock(session, &BTreeMap::from([(plan.table.clone(), Lock::Owned)])).await?;
    let (hi, lo) = (dialect.quoted(&plan.version_hi()), dialect.quoted(&plan.version_lo()));
    let flag = swept.is_deleted.map(|column| dialect.quoted(column));
    let live = flag.as_ref().map_or(String::new(), |flag| format!(" AND {flag} = {}", dialect.flag(false)));
    let ours = dialect.quoted(swept.table);
    let ghosts = format!("({hi}, {lo}) < ({}){live}", dialect.places(1, 2));
    let below = [below.hi_signed().into(), below.lo_signed().into()];
    let count = if let (Deletes::Soft, Some(flag)) = (plan.deletes, &flag) {
        let op = dialect.quoted(&plan.meta.op);
        let mark =
            format!("UPDATE {ours} SET {flag} = {}, {op} = 'd', {lo} = {lo} + 1 WHERE {ghosts}", dialect.flag(true));
        session.execute(&operation, &mark, &below).await?
    } else {
        let graves = swept.graves.ok_or_else(|| {
            contract(operation.as_str(), format!("the table \"{}\" is not there", dialect.tombstones(swept.table)))
        })?;
        let graves = dialect.quoted(graves);
        let keys = dialect.list(swept.key.iter().copied());
        let written = swept.written.map(|column| dialect.quoted(column));
        let (column, now) = match &written {
            Some(written) => (format!(", {written}"), format!(", {}", dialect.now_ms())),
            None => Default::default(),
        };
        let select = format!("SELECT {keys}, {hi}, {lo} + 1{now} FROM {ours} WHERE {ghosts}");
        let newer = newer(dialect, plan, &graves, &keys, swept.written);
        let bury = format!("INSERT INTO {graves} ({keys}, {hi}, {lo}{column}) {select} {newer}");
        session.execute(&operation, &bury, &below).await?;
        session.execute(&operation, &format!("DELETE FROM {ours} WHERE {ghosts}"), &below).await?
    };
    tracing::info!(table = plan.table, rows = count, "ghosts are swept: the last full snapshot did not refresh them");
    Ok(count)
}

/// What becomes of a tombstone that is there: the newer version stays.
fn newer(dialect: Dialect, plan: &Plan, graves: &str, keys: &str, written: Option<&str>) -> String {
    let names = [plan.version_hi(), plan.version_lo()];
    let [hi, lo] = names.each_ref().map(|name| dialect.quoted(name));
    let [new_hi, new_lo] = names.each_ref().map(|name| dialect.inserted(name));
    let is_newer = format!("({new_hi}, {new_lo}) > ({graves}.{hi}, {graves}.{lo})");
    let dated = written.map(|column| {
        let (written, now) = (dialect.quoted(column), dialect.inserted(column));
        (written.clone(), dialect.later(&format!("{graves}.{written}"), &now))
    });
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => {
            let dated = dated.map_or(String::new(), |(written, later)| format!(", {written} = {later}"));
            format!("ON CONFLICT ({keys}) DO UPDATE SET {hi} = {new_hi}, {lo} = {new_lo}{dated} WHERE {is_newer}")
        }
        // Assigned one after the other: the upper half last, so that both are compared as they were.
        Dialect::MySql => {
            let dated = dated.map_or(String::new(), |(written, later)| {
                format!("{written} = IF({is_newer}, {later}, {graves}.{written}), ")
            });
            format!(
                "ON DUPLICATE KEY UPDATE {dated}{lo} = IF({is_newer}, {new_lo}, {graves}.{lo}), \
                 {hi} = GREATEST({graves}.{hi}, {new_hi})"
            )
        }
    }
}

fn subject(topic_id: TopicId, sweep: &Sweep) -> String {
    serde_json::json!([topic_id.0, &*sweep.topic, sweep.table.namespace, sweep.table.name]).to_string()
}
