//! One target table, one origin: positions of two servers do not compare, and neither do offsets of
//! two topics. Two origins in one table are refused before the first row of the second is written.

use std::collections::HashMap;
use std::sync::Arc;

use settle_core::change::{Event, Lineage, TableName};
use settle_core::record::Record;

use crate::config::Target;
use crate::source::{SourceError, SourceFailure};

struct Origin {
    table: Arc<TableName>,
    topic: Arc<str>,
    lineage: Arc<Lineage>,
}

/// Who writes to which target table.
pub(crate) struct Owners {
    target: Target,
    origins: HashMap<String, Origin>,
    /// The origin seen last: nearly every record has the one of the record before.
    last: Option<(Arc<TableName>, Arc<str>, Arc<Lineage>)>,
}

impl Owners {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, origins: HashMap::new(), last: None }
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
        let known = self.origins.entry(name.clone()).or_insert_with(|| Origin {
            table: table.clone(),
            topic: topic.clone(),
            lineage: lineage.clone(),
        });
        let conflict = if known.table != *table {
            format!(
                "source tables {} and {table} would both be written to table {name}; give one of them another \
                 name, as [tables.\"{table}\"] name = \"…\"",
                known.table
            )
        } else if known.topic != *topic {
            format!(
                "topics {} and {topic} both carry table {table}; offsets of two topics do not compare, so read \
                 one of them, or write them to two tables from two pipelines",
                known.topic
            )
        } else if known.lineage != *lineage {
            format!(
                "table {name} would hold rows of {} and of {lineage} (source.name/source.db); positions of two \
                 servers do not compare, so write them to two tables from two pipelines",
                known.lineage
            )
        } else {
            self.last = Some((table.clone(), topic.clone(), lineage.clone()));
            return Ok(());
        };
        Err(SourceError::new(SourceFailure::Contract, format!("record {}: {conflict}", record.place())))
    }
}
