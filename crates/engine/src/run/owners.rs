//! One target table, one owner, and one topic: offsets of two topics do not compare. A second one
//! is refused before the first of its rows is written.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use settle_core::change::{Event, Lineage, TableName};
use settle_core::record::Record;

use crate::config::Target;
use crate::owner::Owner;
use crate::source::{SourceError, SourceFailure};

/// What was written first to a target table.
struct First {
    owner: Owner,
    topic: Arc<str>,
}

/// Who writes to which target table.
pub(crate) struct Owners {
    target: Target,
    first: HashMap<String, First>,
    /// The origin seen last: nearly every record has the one of the record before.
    last: Option<(Arc<TableName>, Arc<str>, Arc<Lineage>)>,
}

impl Owners {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, first: HashMap::new(), last: None }
    }

    /// Source tables that came, by name.
    pub(crate) fn tables(&self) -> BTreeSet<String> {
        self.first.values().map(|first| first.owner.table.to_string()).collect()
    }

    /// Checks the event's origin against the one that its target table has.
    pub(crate) fn check(&mut self, event: &Event) -> Result<(), SourceError> {
        let (record, table, lineage): (&Record, _, _) = match event {
            Event::Change(change) => (&change.record, &change.table, &change.lineage),
            Event::Truncate(truncate) => (&truncate.record, &truncate.table, &truncate.lineage),
            Event::Control(_) => return Ok(()),
        };
        let topic = &record.partition.topic;
        if let Some((last_table, last_topic, last_lineage)) = &self.last
            && Arc::ptr_eq(last_table, table)
            && Arc::ptr_eq(last_topic, topic)
            && Arc::ptr_eq(last_lineage, lineage)
        {
            return Ok(());
        }
        let name = self.target.table_name(table);
        let owner = Owner { table: table.clone(), lineage: lineage.clone() };
        let known =
            self.first.entry(name.clone()).or_insert_with(|| First { owner: owner.clone(), topic: topic.clone() });
        let of_topics = || {
            (known.topic != *topic).then(|| {
                format!(
                    "topics {} and {topic} both carry table {table}; offsets of two topics do not compare, so read one of \
                     them, or write them to two tables from two pipelines",
                    known.topic
                )
            })
        };
        let Some(conflict) = known.owner.conflict(&owner, &name).or_else(of_topics) else {
            self.last = Some((table.clone(), topic.clone(), lineage.clone()));
            return Ok(());
        };
        Err(SourceError::new(SourceFailure::Contract, format!("record {}: {conflict}", record.place())))
    }
}
