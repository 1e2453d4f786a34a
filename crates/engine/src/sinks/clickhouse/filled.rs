//! Which tables were filled from which partition (kind `filled`: target and source table as subject,
//! the least offset of a row as value), noted before the rows. So a table that is gone is told from
//! one that is still to be made.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use settle_core::batch::TableRows;
use settle_core::change::TableName;
use settle_core::position::{Offset, Partition};
use settle_core::sink::{MissingTable, PlacedPartition, SinkError};

use super::meta::{Fact, Meta};
use super::names::literal;
use super::server::Server;
use crate::config::Target;

const KIND: &str = "filled";

/// What this process knows to be noted.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    from: HashMap<(Partition, String), Offset>,
}

#[derive(Deserialize)]
struct NameRow {
    name: String,
}

impl Filled {
    /// These partitions are opened anew: nothing is known of them.
    pub(crate) fn forget(&mut self, parts: &[PlacedPartition]) {
        self.from.retain(|(partition, _), _| parts.iter().all(|part| part.partition != *partition));
    }

    /// Notes what is about to be written to the table. When it returns that is durable.
    pub(crate) async fn note(
        &mut self,
        server: &Server,
        meta: &Meta,
        table: &str,
        rows: &TableRows<'_>,
    ) -> Result<(), SinkError> {
        let mut least: BTreeMap<&Partition, Offset> = BTreeMap::new();
        for row in rows.rows() {
            let record = &row.change().record;
            let from = least.entry(&record.partition).or_insert(record.offset);
            *from = record.offset.min(*from);
        }
        let place = |partition: &Partition| (partition.clone(), table.to_owned());
        let is_news = |(partition, from): &(&Partition, Offset)| {
            self.from.get(&place(partition)).is_none_or(|known| from < known)
        };
        let news: Vec<(&Partition, Offset)> = least.into_iter().filter(is_news).collect();
        if news.is_empty() {
            return Ok(());
        }
        let known = meta.of_kind(&server.client, KIND).await?;
        let mut facts = Vec::new();
        for (partition, from) in &news {
            let fact = Fact {
                kind: KIND.to_owned(),
                topic_id: meta.topic_id(partition)?,
                partition: partition.number,
                subject: subject(table, rows.table),
                offset: 0,
                value: u128::try_from(*from).unwrap_or_default(),
                done: false,
            };
            if known.iter().all(|other| !other.is_same(&fact) || other.value > fact.value) {
                facts.push(fact);
            }
        }
        meta.put(&server.client, "recording what fills a table", &facts).await?;
        self.from.extend(news.into_iter().map(|(partition, from)| (place(partition), from)));
        Ok(())
    }
}

/// The tables that were filled from these partitions, are still their targets, and are not there.
pub(crate) async fn missing(
    server: &Server,
    meta: &Meta,
    target: &Target,
    parts: &[PlacedPartition],
) -> Result<Vec<MissingTable>, SinkError> {
    let mut filled = Vec::new();
    for Fact { topic_id, partition, subject, value, .. } in meta.of_kind(&server.client, KIND).await? {
        let is_its = |part: &&PlacedPartition| part.topic_id == topic_id && part.partition.number == partition;
        let Some(part) = parts.iter().find(is_its) else { continue };
        let (table, namespace, name): (String, Box<str>, Box<str>) =
            serde_json::from_str(&subject).map_err(|_| meta.unreadable("subject"))?;
        if target.table_name(&TableName { namespace, name }) == table {
            let from = Offset::try_from(value).map_err(|_| meta.unreadable("number"))?;
            filled.push(MissingTable { part: part.clone(), table, from });
        }
    }
    if filled.is_empty() {
        return Ok(filled);
    }
    let names: BTreeSet<String> = filled.iter().map(|filled| literal(&filled.table)).collect();
    let sql = format!(
        "SELECT name FROM system.tables WHERE database = {} AND name IN ({})",
        literal(&server.database),
        names.into_iter().collect::<Vec<_>>().join(", ")
    );
    let there: Vec<NameRow> = server.client.rows("looking for the target tables", &sql).await?;
    filled.retain(|filled| there.iter().all(|row| row.name != filled.table));
    Ok(filled)
}

fn subject(table: &str, source: &TableName) -> String {
    serde_json::json!([table, source.namespace, source.name]).to_string()
}
