//! A stretch of the log that nobody read: never passed in silence.

use settle_core::sink::Places;

use super::RunError;
use crate::source::{Assignment, GroupOffsets, SourceError, SourceFailure};

/// A group that has no offset starts at the beginning of the log. Where it had one, or where the
/// destination holds its records up to an offset that is not in the log any more, that is no start
/// but a loss: what lay between may never have been read.
pub(super) fn refuse(assignments: &[Assignment], places: &Places, group: &GroupOffsets) -> Result<(), RunError> {
    for assignment in assignments.iter().filter(|assignment| !assignment.resumed && !assignment.waits) {
        let Assignment { partition, topic_id, start, .. } = assignment;
        let Some(topic_id) = *topic_id else { continue };
        let held = places.applied_of(topic_id, partition);
        if let Some(held) = held.filter(|held| held < start) {
            let message = format!(
                "the group has no offset in {partition}, the destination holds its records up to offset {held}, and the \
                 log begins at {start}: the group lost its offsets, and what lay between was removed before it was read. To \
                 go on without it, {}; rows that changed in the gap are right again after a new snapshot",
                group.how_to_move(partition, *start)
            );
            return Err(contract(message));
        }
        if group.move_command.is_some() && places.wrote(topic_id, partition) {
            let to = held.unwrap_or(*start);
            let message = format!(
                "the group has no offset in {partition}, but had one, and the destination holds its records: the group lost \
                 its offsets (expired, or deleted). To go on, {}; reading again what is there changes nothing",
                group.how_to_move(partition, to)
            );
            return Err(contract(message));
        }
    }
    Ok(())
}

fn contract(message: String) -> RunError {
    RunError::Source(SourceError::new(SourceFailure::Contract, message))
}
