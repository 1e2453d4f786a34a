//! A capture that ends before the group's offset: cut off, or an older copy. What lay between was read
//! once, and what comes at its place later would be skipped.
//!
//! Known before anything is delivered, at the price of reading twice what the group has read: only up
//! to there, since a record at the last offset that it read shows that the capture has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use settle_core::position::{Offset, Partition};

use super::offsets::OffsetFile;
use super::window::Window;
use super::{CaptureConfig, read_files};
use crate::source::{SourceError, SourceEvent, SourceFailure, Stop};
use crate::topics::wanted;

/// Refuses captures that are shorter than the group's offsets.
pub(super) fn refuse(config: &CaptureConfig, files: &[Arc<OffsetFile>]) -> Result<(), Stop> {
    let mut ahead = Ahead::of(config, files);
    if ahead.of.is_empty() {
        return Ok(());
    }
    let mut deliver = |event: SourceEvent| {
        if let SourceEvent::Records(chunk) = event
            && let Some(last) = chunk.records.last()
        {
            ahead.has(&chunk.partition, last.offset.saturating_add(1));
        }
        // Nobody needs to hear more.
        if ahead.of.is_empty() { Err(Stop::NobodyListens) } else { Ok(()) }
    };
    match read_files(config, files, &Window::Whole, true, &mut deliver) {
        Ok(()) | Err(Stop::NobodyListens) => {}
        Err(failed) => return Err(failed),
    }
    ahead.refusal(config).map_or(Ok(()), |error| Err(error.into()))
}

/// Partitions in which the group is ahead of what was seen of the captures.
pub(super) struct Ahead {
    of: BTreeMap<Partition, Group>,
}

/// The group in one of them.
struct Group {
    committed: Offset,
    /// Up to where the capture was seen.
    end: Option<Offset>,
    file: Arc<OffsetFile>,
}

impl Ahead {
    /// All in which the group has an offset, as long as nothing was seen.
    pub(super) fn of(config: &CaptureConfig, files: &[Arc<OffsetFile>]) -> Self {
        let mut of = BTreeMap::new();
        for file in files {
            for (partition, committed) in file.committed() {
                if committed > 0 && wanted(&config.topics, &partition.topic) {
                    of.insert(partition, Group { committed, end: None, file: file.clone() });
                }
            }
        }
        Self { of }
    }

    /// The captures have the partition up to here.
    pub(super) fn has(&mut self, partition: &Partition, end: Offset) {
        if let Some(group) = self.of.get_mut(partition) {
            group.end = group.end.max(Some(end));
            if end >= group.committed {
                self.of.remove(partition);
            }
        }
    }

    /// Why they cannot be read on, if they cannot.
    pub(super) fn refusal(&self, config: &CaptureConfig) -> Option<SourceError> {
        let (partition, Group { committed, end, file }) = self.of.first_key_value()?;
        let ends = match end {
            Some(end) => format!("the capture ends at {end}"),
            None => "the capture has nothing of it".to_owned(),
        };
        let message = format!(
            "group {} is to read {partition} from offset {committed}, but {ends}: the capture was cut off, or is an older \
             copy. Restore it; or read it from the beginning, under a new group or by moving {} away: what is there already \
             stays as it is",
            config.group,
            file.path().display()
        );
        Some(SourceError::new(SourceFailure::Contract, message))
    }
}
