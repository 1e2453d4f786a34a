//! A stretch of the log that nobody read: never passed in silence.

use settle_core::sink::Places;

use super::RunError;
use crate::source::{Assignment, SourceError, SourceFailure};

/// A group that has no offset starts at the beginning of the log. Where the destination holds its
/// records up to an offset that is not in the log any more, what lay between was never read.
pub(crate) fn refuse(assignments: &[Assignment], places: &Places) -> Result<(), RunError> {
    for assignment in assignments.iter().filter(|assignment| !assignment.resumed) {
        let Assignment { partition, topic_id, start, .. } = assignment;
        let held = topic_id.and_then(|id| places.applied_of(id, partition));
        if let Some(held) = held.filter(|held| held < start) {
            let message = format!(
                "the group has no offset in {partition}, the destination holds its records up to offset {held}, and the \
                 log begins at {start}: the group lost its offsets, and what lay between was removed before it was read. To \
                 go on without it, move the group to {start}; rows that changed in the gap are right again after a new \
                 snapshot"
            );
            return Err(RunError::Source(SourceError::new(SourceFailure::Contract, message)));
        }
    }
    Ok(())
}
