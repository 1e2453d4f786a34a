//! What was written to the log behind the offsets that a proof replays.
//!
//! A live pipeline may go on while a proof runs. Whatever it writes comes from these records, and a
//! row that it wrote has the version of one of them: so a row with such a version, or one below a
//! truncate among them, is no witness of what the replay did, and is left out.

use std::collections::{BTreeMap, HashSet};

use settle_core::change::Event;
use settle_core::position::Span;
use settle_core::sink::{PlacedPartition, SinkError};
use settle_core::version::Version;
use settle_engine::config::Config;
use settle_engine::inspection;
use settle_engine::log::Ends;
use settle_engine::scan::{self, ScanError};
use settle_engine::shutdown::Shutdown;

use super::looks::Entry;

/// Changes since.
#[derive(Debug, Default)]
pub(super) struct Since {
    /// Versions of changes, by target table.
    versions: BTreeMap<String, HashSet<Version>>,
    /// The greatest truncate of each target table.
    truncates: BTreeMap<String, Version>,
}

/// Why they could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SinceError {
    #[error(transparent)]
    Scan(#[from] ScanError),
    #[error("sink: {0}")]
    Sink(#[from] SinkError),
}

impl Since {
    /// Reads everything behind `ends` that is there now. Read after the look that it explains.
    pub(super) async fn read(config: &Config, ends: &Ends, shutdown: Shutdown) -> Result<Self, SinceError> {
        let log = inspection::survey(config).await.map_err(ScanError::Source)?;
        let mut since = Self::default();
        let mut spans = Vec::new();
        let mut parts = Vec::new();
        for part in log {
            let start = ends.get(&part.partition).copied().unwrap_or(part.start).max(part.start);
            if let Some(topic_id) = part.topic_id.filter(|_| start < part.end) {
                spans.push(Span { partition: part.partition.clone(), start, end: part.end });
                parts.push(PlacedPartition { topic_id, partition: part.partition });
            }
        }
        if spans.is_empty() {
            return Ok(since);
        }
        let places = inspection::contents(config)?.places(&parts).await?;
        let source = inspection::range(config, spans).map_err(ScanError::Source)?;
        // What is refused here is not written by the live pipeline either.
        scan::scan(source, &places, config.source.lone_tombstones, shutdown, |_, fed| {
            if let Ok(fed) = fed {
                since.add(config, fed.event);
            }
        })
        .await?;
        Ok(since)
    }

    fn add(&mut self, config: &Config, event: Event) {
        match event {
            Event::Change(change) => {
                let table = config.target.table_name(&change.table);
                self.versions.entry(table).or_default().insert(change.version);
            }
            Event::Truncate(truncate) => {
                let floor = self.truncates.entry(config.target.table_name(&truncate.table)).or_default();
                *floor = truncate.version.max(*floor);
            }
            Event::Control(_) => {}
        }
    }

    /// Whether one of the changes explains how a key is in the later look.
    pub(super) fn explains(&self, table: &str, was: Option<Entry>, is: Option<Entry>) -> bool {
        match (was, is) {
            (_, Some(is)) => self.versions.get(table).is_some_and(|versions| versions.contains(&is.version)),
            (Some(was), None) => self.truncates.get(table).is_some_and(|floor| was.version < *floor),
            (None, None) => false,
        }
    }
}
