//! Truncates of the target tables: recorded, respected by the view at once, carried out by DELETE.
//!
//! A truncate is a fact in `settle_meta`, recorded before the rows of its batch. The view reads it
//! there: a text with the place in it would be wrong from the moment at which the truncate is
//! recorded until the view is made anew, and for good where another instance, which does not know
//! the truncate yet, makes it anew for a column of its own.
//!
//! Instances write side by side, so rows from before a truncate may arrive behind its DELETE. Each
//! writer reads the truncates before it inserts, and drops what they empty; and again behind its
//! inserts: what was recorded in between it carries out itself. Either its rows were there when the
//! DELETE of the truncate began, or the truncate was recorded when it read again. A writer that
//! dies between the two leaves rows behind that the view hides and `FINAL` shows. For them the DELETE
//! stays pending: it is repeated when the table is opened, when a batch brings rows that a truncate
//! empties, and when everything from before it was read.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Deserialize;
use settle_core::change::Truncate;
use settle_core::position::TopicId;
use settle_core::sink::{FailureKind, Pending, PlacedPartition, SinkError};
use settle_core::truncate::{Cut, Cuts, LogOrder};
use settle_core::version::Version;

use super::column_type::Base;
use super::meta::{Fact, Meta};
use super::names::{QualifiedName, identifier, literal};
use super::server::{CONSISTENTLY, Server};
use super::table::describe;
use crate::config::Target;
use crate::owner::Owner;

const KIND_PENDING: &str = "pending-delete";

fn kind(order: LogOrder) -> String {
    format!("truncate-{order}")
}

/// What `settle_meta` says of truncates, as of one reading.
#[derive(Debug, Default)]
pub(crate) struct Emptied {
    cuts: HashMap<String, Cuts>,
    pending: HashSet<String>,
}

impl Emptied {
    /// The truncates of a target table.
    pub(crate) fn of(&self, table: &str) -> Cuts {
        self.cuts.get(table).copied().unwrap_or_default()
    }

    /// The truncates of every target table.
    pub(crate) fn into_cuts(self) -> Vec<(String, Cuts)> {
        self.cuts.into_iter().collect()
    }

    /// True if rows that a truncate empties may still arrive in the table, or be there.
    pub(crate) fn is_pending(&self, table: &str) -> bool {
        self.pending.contains(table)
    }
}

#[derive(Deserialize)]
struct EmptiedRow {
    kind: String,
    subject: String,
    place: String,
}

/// Reads what is recorded now.
pub(crate) async fn read(server: &Server, meta: &Meta) -> Result<Emptied, SinkError> {
    let places: Vec<String> = LogOrder::ALL
        .into_iter()
        .map(|order| format!("`kind` = {}, {}", literal(&kind(order)), masked("`value`", order)))
        .collect();
    let kinds: Vec<String> = LogOrder::ALL.into_iter().map(|order| literal(&kind(order))).collect();
    let sql = format!(
        "SELECT `kind`, `subject`, toString(max(multiIf({}, `value`))) AS place FROM {} FINAL \
         WHERE `kind` IN ({}, {}) GROUP BY `kind`, `subject`{}",
        places.join(", "),
        meta.name(),
        kinds.join(", "),
        literal(KIND_PENDING),
        CONSISTENTLY,
    );
    let rows: Vec<EmptiedRow> = server.client.rows("reading the truncates of the target tables", &sql).await?;
    let mut emptied = Emptied::default();
    for row in rows {
        match LogOrder::ALL.into_iter().find(|order| kind(*order) == row.kind) {
            None => drop(emptied.pending.insert(row.subject)),
            Some(order) => {
                let place: u128 = row.place.parse().map_err(|_| meta.unreadable("version"))?;
                emptied.cuts.entry(row.subject).or_default().add(Cut { version: Version::from(place), order });
            }
        }
    }
    Ok(emptied)
}

/// Records truncates that are not recorded yet, each with its pending DELETE. Returns the target
/// tables of all of them.
pub(crate) async fn record(
    server: &Server,
    meta: &mut Meta,
    target: &Target,
    truncates: &[Truncate],
) -> Result<BTreeSet<String>, SinkError> {
    let mut tables = BTreeSet::new();
    let mut facts = Vec::new();
    for truncate in truncates {
        let table = target.table_name(&truncate.table);
        let owner = Owner { table: truncate.table.clone(), lineage: truncate.lineage.clone() };
        meta.claim(&server.client, &table, &owner).await?;
        let partition = &truncate.record.partition;
        facts.push(Fact {
            kind: kind(truncate.order),
            topic_id: meta.topic_id(partition)?,
            partition: partition.number,
            subject: table.clone(),
            offset: truncate.record.offset,
            value: truncate.version.as_u128(),
            done: false,
        });
        tables.insert(table);
    }
    facts = meta.missing(&server.client, facts).await?;
    let pending: Vec<Fact> = facts.iter().map(|fact| Fact { kind: KIND_PENDING.to_owned(), ..fact.clone() }).collect();
    facts.extend(pending);
    meta.put(&server.client, "recording truncates", &facts).await?;
    Ok(tables)
}

/// Removes what the truncates of a table empty, if any of it is there. The table need not be.
pub(crate) async fn delete(server: &Server, target: &Target, table: &str, cuts: Cuts) -> Result<(), SinkError> {
    let name = server.name(table);
    let Some(condition) = condition(&target.meta.version, cuts) else { return Ok(()) };
    let Some(described) = describe(&server.client, &name).await? else { return Ok(()) };
    let operation = format!("truncating {name}");
    let version = described.column(&target.meta.version);
    if !described.engine.is_replacing()
        || version.is_none_or(|column| column.column_type.base != (Base::Int { bits: 128, signed: false }))
    {
        let context = "the table lacks the column in which settle keeps the version of each row; `settle check` says how \
                       to move its rows into one that has it";
        return Err(SinkError::new(FailureKind::Contract, operation, context));
    }
    if !any(server, &operation, &name, &condition).await? {
        return Ok(());
    }
    // Waits for this replica, and where there are others for them.
    let waits_for = if described.engine.is_replicated() { 2 } else { 1 };
    let sql = format!("ALTER TABLE {name} DELETE WHERE {condition} SETTINGS mutations_sync = {waits_for}");
    server.client.run(&operation, &sql).await?;
    tracing::info!(table = %name, "the rows that a truncate at the source emptied are removed");
    Ok(())
}

#[derive(Deserialize)]
struct FoundRow {
    #[expect(dead_code, reason = "that there is a row is the answer")]
    settle_found: u8,
}

async fn any(server: &Server, operation: &str, name: &QualifiedName, condition: &str) -> Result<bool, SinkError> {
    let sql = format!("SELECT 1 AS settle_found FROM {name} WHERE {condition} LIMIT 1{CONSISTENTLY}");
    Ok(!server.client.rows::<FoundRow>(operation, &sql).await?.is_empty())
}

/// The truncates that are pending, of the topics of these partitions.
pub(crate) async fn pending(
    server: &Server,
    meta: &Meta,
    parts: &[PlacedPartition],
) -> Result<Vec<Pending>, SinkError> {
    let facts = meta.of_kind(&server.client, KIND_PENDING).await?;
    let pending = |fact: Fact| {
        let part = parts.iter().find(|part| part.topic_id == fact.topic_id)?;
        let topic = part.partition.topic.clone();
        Some(Pending::Truncate { topic, topic_id: fact.topic_id, version: Version::from(fact.value) })
    };
    Ok(facts.into_iter().filter_map(pending).collect())
}

/// Carries out, for the last time, the truncates that are pending and whose position `passed` says
/// that everything has passed: no row from before them can arrive any more. Returns how many.
pub(crate) async fn finish(
    server: &Server,
    meta: &Meta,
    target: &Target,
    passed: &(dyn Fn(TopicId, Version) -> bool + Sync),
) -> Result<usize, SinkError> {
    let facts = meta.of_kind(&server.client, KIND_PENDING).await?;
    let done: Vec<Fact> = facts
        .into_iter()
        .filter(|fact| passed(fact.topic_id, Version::from(fact.value)))
        .map(|fact| Fact { done: true, ..fact })
        .collect();
    let emptied = read(server, meta).await?;
    let tables: BTreeSet<&str> = done.iter().map(|fact| fact.subject.as_str()).collect();
    for table in tables {
        delete(server, target, table, emptied.of(table)).await?;
    }
    meta.put(&server.client, "recording that truncates are carried out", &done).await?;
    Ok(done.len())
}

/// True for rows that are gone; none where no truncate is known.
fn condition(version: &str, cuts: Cuts) -> Option<String> {
    let column = identifier(version);
    let parts: Vec<String> = LogOrder::ALL
        .into_iter()
        .filter(|order| cuts.of(*order) > Version::default())
        .map(|order| format!("{} < {}", masked(&column, order), number(cuts.of(order))))
        .collect();
    (!parts.is_empty()).then(|| parts.join(" OR "))
}

/// True for rows that no truncate empties, whenever it is asked: what the view says.
pub(crate) fn kept(meta: &QualifiedName, table: &str, version: &str) -> String {
    let column = identifier(version);
    let parts: Vec<String> = LogOrder::ALL
        .into_iter()
        .map(|order| {
            // Without a truncate the greatest is 0, or NULL under aggregate_functions_null_for_empty.
            format!(
                "{} >= (SELECT coalesce(max({}), toUInt128(0)) FROM {meta} WHERE `kind` = {} AND `subject` = {})",
                masked(&column, order),
                masked("`value`", order),
                literal(&kind(order)),
                literal(table)
            )
        })
        .collect();
    parts.join(" AND ")
}

fn masked(version: &str, order: LogOrder) -> String {
    match order {
        LogOrder::Commit => version.to_owned(),
        order => format!("bitAnd({version}, {})", number(order.mask())),
    }
}

/// A bare literal of this size would be read as a float.
fn number(version: Version) -> String {
    format!("toUInt128('{}')", version.as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_in_the_servers_language() {
        let version = Version::pack(settle_core::epoch::Epoch::new(1).unwrap(), 2, true, 3).unwrap();
        let mut cuts = Cuts::default();
        assert_eq!(condition("_version", cuts), None);
        cuts.add(Cut { version, order: LogOrder::Record });
        let place = (1u128 << 120) | 3;
        let mask = (0x7fu128 << 120) | ((1 << 62) - 1);
        assert_eq!(
            condition("_version", cuts).unwrap(),
            format!("bitAnd(`_version`, toUInt128('{mask}')) < toUInt128('{place}')")
        );
        cuts.add(Cut { version, order: LogOrder::Commit });
        assert!(
            condition("_version", cuts)
                .unwrap()
                .ends_with(&format!(" OR `_version` < toUInt128('{}')", version.as_u128()))
        );
    }
}
