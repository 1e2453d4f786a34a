//! Partitions that another instance of the group has opened in the destination.
//!
//! The destination is the first to know: it refuses a batch whole that has one of them. Their
//! records are taken out of it, and of every batch behind it, until the partition is opened here
//! again. So nothing of theirs is written by us any more, dead letters included.

use std::collections::BTreeSet;

use settle_core::batch::Batch;
use settle_core::position::Partition;
use settle_core::sink::{FailureKind, Guarantee, PlacedPartition, Sink, SinkError};

use super::RunError;
use super::attempts::Attempts;
use super::settling::apply;

/// What the writer knows of them.
#[derive(Default)]
pub(super) struct Fences {
    gone: BTreeSet<Partition>,
    /// Those that were found out since it was last asked.
    found: Vec<Partition>,
}

impl Fences {
    /// These were opened here: whoever had them before is fenced now, and not we.
    pub(super) fn opened(&mut self, parts: &[PlacedPartition]) {
        for part in parts {
            self.gone.remove(&part.partition);
        }
    }

    /// Those of the batch that are known to be another's.
    pub(super) fn known_in(&self, batch: &Batch) -> Vec<Partition> {
        let of_batch = batch.spans().iter().map(|span| &span.partition);
        of_batch.filter(|partition| self.gone.contains(partition)).cloned().collect()
    }

    /// The partitions to take out of the batch, if that is what the failure asks for.
    pub(super) fn of(&mut self, error: SinkError, batch: &Batch) -> Result<Vec<Partition>, RunError> {
        let is_here = |partition: &&Partition| batch.spans().iter().any(|span| span.partition == **partition);
        let gone: Vec<Partition> = error.fenced.iter().filter(is_here).cloned().collect();
        // Without one of its own to take out it would be refused for ever.
        if error.kind != FailureKind::Fenced || gone.is_empty() {
            return Err(RunError::Sink(error));
        }
        for partition in &gone {
            if self.gone.insert(partition.clone()) {
                self.found.push(partition.clone());
            }
        }
        Ok(gone)
    }

    /// Asks the destination whether the partitions are still ours, before anything of theirs is
    /// written elsewhere. Gives those that are not.
    pub(super) async fn ask(
        &mut self,
        sink: &mut Box<dyn Sink>,
        asking: &Batch,
        attempts: &mut Attempts<'_>,
    ) -> Result<Vec<Partition>, RunError> {
        if sink.guarantee() != Guarantee::Atomic {
            return Ok(Vec::new());
        }
        match apply(sink, asking, attempts).await {
            Ok(_) => Ok(Vec::new()),
            Err(error) => self.of(error, asking),
        }
    }

    /// Those that were found out since this was last asked.
    pub(super) fn take_found(&mut self) -> Vec<Partition> {
        std::mem::take(&mut self.found)
    }
}
