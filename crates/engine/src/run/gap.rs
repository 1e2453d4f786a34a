//! A log that is not the one the group read, or not the whole of it: never passed in silence.

use settle_core::epoch::Boundary;
use settle_core::position::{Partition, TopicId};
use settle_core::sink::Places;

use super::RunError;
use crate::source::{Assignment, GroupOffsets, SourceError, SourceFailure};

/// Refuses partitions whose offsets do not fit what the destination records of them.
pub(super) fn refuse(assignments: &[Assignment], places: &Places, group: &GroupOffsets) -> Result<(), RunError> {
    for assignment in assignments {
        let Some(topic_id) = assignment.topic_id else { continue };
        let problem = made_anew(assignments, assignment, topic_id, places, group)
            .or_else(|| lost_offsets(assignment, topic_id, places, group))
            .or_else(|| other_epoch(assignment, topic_id, places, group));
        if let Some(message) = problem {
            return Err(RunError::Source(SourceError::new(SourceFailure::Contract, message)));
        }
    }
    Ok(())
}

/// The group had offsets in another incarnation of the topic, and no epoch says that this one is new.
/// Kafka deletes a group's offsets with a topic, so the destination alone remembers.
fn made_anew(
    all: &[Assignment],
    assignment: &Assignment,
    topic_id: TopicId,
    places: &Places,
    group: &GroupOffsets,
) -> Option<String> {
    let Partition { topic, .. } = &assignment.partition;
    // A capture is a log of its own each time.
    group.move_command.as_ref()?;
    let former = places.former_topic(topic_id, topic)?;
    if !places.epochs_of(topic_id, &assignment.partition).is_empty() {
        return None;
    }
    let begins: Vec<String> = all
        .iter()
        .filter(|other| other.partition.topic == *topic && places.epochs_of(topic_id, &other.partition).is_empty())
        .map(|other| format!("{}:0", other.partition))
        .collect();
    Some(format!(
        "topic {topic} was deleted and made anew: the group wrote id {former}, now it is {topic_id}. Rows of the one \
         before would win or lose by accident: let a new epoch begin with the new one (settle epoch bump {}), and start \
         again",
        begins.join(" ")
    ))
}

/// A group that has no offset starts at the beginning of the log. Where it had one, or where the
/// destination holds its records up to an offset that is not in the log any more, that is no start
/// but a loss: what lay between may never have been read.
fn lost_offsets(assignment: &Assignment, topic_id: TopicId, places: &Places, group: &GroupOffsets) -> Option<String> {
    let Assignment { partition, start, resumed: false, waits: false, .. } = assignment else { return None };
    let held = places.applied_of(topic_id, partition);
    if let Some(held) = held.filter(|held| held < start) {
        return Some(format!(
            "the group has no offset in {partition}, the destination holds its records up to offset {held}, and the log \
             begins at {start}: the group lost its offsets, and what lay between was removed before it was read. To go on \
             without it, {}; rows that changed in the gap are right again after a new snapshot",
            group.how_to_move(partition, *start)
        ));
    }
    // Beside a capture, a missing file is a start from the beginning.
    (group.move_command.is_some() && places.wrote(topic_id, partition)).then(|| {
        format!(
            "the group has no offset in {partition}, but had one, and the destination holds its records: the group lost its \
             offsets (expired, or deleted). To go on, {}; reading again what is there changes nothing",
            group.how_to_move(partition, held.unwrap_or(*start))
        )
    })
}

/// What was read in one epoch and belongs to another must be read again.
fn other_epoch(assignment: &Assignment, topic_id: TopicId, places: &Places, group: &GroupOffsets) -> Option<String> {
    let Assignment { partition, start, standing: Some(standing), .. } = assignment else { return None };
    let before = places.epochs_of(topic_id, partition).into_iter().filter(|boundary| boundary.offset < *start).max();
    let read = standing.epoch;
    match before {
        Some(Boundary { offset, epoch }) if read < epoch => Some(format!(
            "the group read {partition} up to offset {start} in epoch {read}, and epoch {epoch} begins at {offset}: what \
             lies between was taken for older than it is, and has to be read again. To do so, {}",
            group.how_to_move(partition, offset)
        )),
        before => {
            let recorded = before.map_or(settle_core::epoch::Epoch::FIRST, |boundary| boundary.epoch);
            (read > recorded).then(|| {
                format!(
                    "the group read {partition} up to offset {start} in epoch {read}, and the destination records no \
                     epoch above {recorded} before that offset: its settle_meta was lost or is an older copy; restore it, \
                     or read everything again under a new group into an empty destination"
                )
            })
        }
    }
}
