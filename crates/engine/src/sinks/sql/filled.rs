//! Which tables were filled from which partition, noted with the rows (kind `filled`). So a table that
//! is gone is told from one that is still to be made; and `settle_meta` itself, which is gone where
//! `settle_positions` says that something was applied.

use std::collections::{BTreeMap, HashMap};

use settle_core::batch::TableRows;
use settle_core::change::TableName;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::{MissingTable, PlacedPartition, SinkError};
use uuid::Uuid;

use super::dialect::{Dialect, Take};
use super::meta::{self, Line, READ, of_kind, put};
use super::positions::{self, Fence};
use super::session::{Cells, Outcome, Session, contract};
use crate::config::target::Target;

const KIND: &str = "filled";

/// What was noted of a table, in this process.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    from: HashMap<(TopicId, i32), Offset>,
}

impl Filled {
    /// Notes what is about to be written to the table.
    pub(crate) async fn note(
        &mut self,
        session: &mut impl Session,
        fence: &Fence,
        table: &str,
        rows: TableRows<'_>,
    ) -> Outcome<()> {
        let mut least: BTreeMap<&Partition, Offset> = BTreeMap::new();
        for row in rows.rows() {
            let record = &row.change().record;
            let from = least.entry(&record.partition).or_insert(record.offset);
            *from = record.offset.min(*from);
        }
        for (partition, from) in least {
            let place = (fence.topic_id(partition)?, partition.number);
            if self.from.get(&place).is_some_and(|known| *known <= from) {
                continue;
            }
            let TableName { namespace, name } = &**rows.table;
            let subject = serde_json::json!([table, place.0.0, place.1, namespace, name]).to_string();
            put(session, Line { kind: KIND, subject: &subject, hi: from, ..Line::default() }, &[("hi", Take::Least)])
                .await?;
            self.from.insert(place, from);
        }
        Ok(())
    }
}

/// A line of what was noted: a table, what fills it, and from where.
struct Known {
    table: String,
    source: TableName,
    topic_id: Uuid,
    partition: i32,
    from: Offset,
}

/// All lines of tables that are still the targets of what filled them.
async fn known(session: &mut impl Session, target: &Target) -> Outcome<Vec<Known>> {
    let sql = of_kind(session.dialect(), &["subject", "hi"]);
    let mut known = Vec::new();
    for row in session.query(READ, &sql, &[KIND.into()]).await? {
        let mut cells = Cells::of(READ, row);
        let (subject, from) = (cells.text()?, cells.int()?);
        let (table, topic_id, partition, namespace, name): (String, Uuid, i32, Box<str>, Box<str>) =
            serde_json::from_str(&subject)
                .map_err(|_| contract(READ, "what fills a table is not of the form this program writes"))?;
        let source = TableName { namespace, name };
        if session.dialect().same(&target.table_name(&source), &table) {
            known.push(Known { table, source, topic_id, partition, from });
        }
    }
    Ok(known)
}

/// Source tables by the table that they fill, as the dialect compares names.
pub(crate) async fn sources(session: &mut impl Session, target: &Target) -> Outcome<BTreeMap<String, TableName>> {
    let dialect = session.dialect();
    let known = known(session, target).await?;
    Ok(known.into_iter().map(|line| (dialect.canonical(&line.table).into_owned(), line.source)).collect())
}

/// The tables that were filled from these partitions, are still their targets, and are not there.
pub(crate) async fn missing(
    session: &mut impl Session,
    target: &Target,
    parts: &[PlacedPartition],
) -> Outcome<Vec<MissingTable>> {
    let mut filled = Vec::new();
    for Known { table, topic_id, partition, from, .. } in known(session, target).await? {
        let is_its = |part: &&PlacedPartition| part.topic_id.0 == topic_id && part.partition.number == partition;
        if let Some(part) = parts.iter().find(is_its) {
            filled.push(MissingTable { part: part.clone(), table, from });
        }
    }
    let mut there: BTreeMap<String, bool> = BTreeMap::new();
    for MissingTable { table, .. } in &filled {
        if !there.contains_key(table) {
            there.insert(table.clone(), is_there(session, table).await?);
        }
    }
    filled.retain(|filled| there.get(&filled.table) != Some(&true));
    Ok(filled)
}

/// Why a table is not made that a run has written to: its rows are gone, and those that do not change
/// again would be missing.
pub(crate) fn dropped(table: &str) -> SinkError {
    contract(
        format!("prepare table \"{table}\""),
        "it was dropped while the run wrote to it. Restore it from a backup; or remove it with its tombstones, and read \
         everything again from the beginning of the log under a new group",
    )
}

/// Refuses a database that lost `settle_meta`: the epochs, floors, truncates and holds that rows stand
/// on are gone with it. Asked before it is made anew.
pub(crate) async fn refuse_lost_meta(session: &mut impl Session) -> Outcome<()> {
    if !is_there(session, positions::TABLE).await? || !positions::any_applied(session).await? {
        return Ok(());
    }
    let has_scheme = is_there(session, meta::TABLE).await? && meta::has_scheme(session).await?;
    if has_scheme {
        return Ok(());
    }
    let positions = session.dialect().quoted(positions::TABLE);
    Err(contract(
        READ,
        format!(
            "it is not there, or empty, but settle_positions says that records were applied: it was lost, and with it what \
             the rows stand on (epochs, floors, truncates, held rows). Restore it from a backup; or remove settle_positions, \
             too (DROP TABLE {positions}), and read everything again from the beginning of the log under a new group"
        ),
    ))
}

/// True if there is such a table, or a view.
async fn is_there(session: &mut impl Session, table: &str) -> Outcome<bool> {
    let dialect = session.dialect();
    let (sql, name) = match dialect {
        Dialect::Sqlite => (
            "SELECT 1 FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE",
            table.to_owned(),
        ),
        // In Settle's own schema, which the search path begins with: one of the same name may be behind it.
        Dialect::Postgres => (
            "SELECT 1::BIGINT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = current_schema() AND c.relname = $1::TEXT AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            table.to_owned(),
        ),
        Dialect::MySql => (
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
            table.to_owned(),
        ),
    };
    let operation = format!("look for table \"{table}\"");
    Ok(!session.query(&operation, sql, &[name.into()]).await?.is_empty())
}
