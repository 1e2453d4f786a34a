//! A log that is not the one the group read, or not the whole of it: never passed in silence.

use settle_core::epoch::Boundary;
use settle_core::position::{Partition, TopicId};
use settle_core::sink::{Guarantee, PlacedPartition, Places};

use super::{RunError, lost_rows};
use crate::source::{Assignment, GroupOffsets, SourceError, SourceFailure};

/// Refuses partitions whose offsets do not fit what the destination records of them. Without a
/// `guarantee`, what is read is nobody's progress, or the destination could not be asked.
pub(crate) fn refuse(
    assignments: &[Assignment],
    places: &Places,
    group: &GroupOffsets,
    guarantee: Option<Guarantee>,
) -> Result<(), RunError> {
    let placed = |assignment: &Assignment| {
        let partition = assignment.partition.clone();
        assignment.topic_id.map(|topic_id| PlacedPartition { topic_id, partition })
    };
    let parts: Vec<PlacedPartition> = assignments.iter().filter_map(placed).collect();
    refuse_made_anew(&parts, places, group)?;
    let of_one = |assignment: &Assignment| {
        let topic_id = assignment.topic_id?;
        lost_offsets(assignment, topic_id, places, group).or_else(|| other_epoch(assignment, topic_id, places, group))
    };
    let lost_rows = || match guarantee {
        Some(guarantee) => lost_rows::refusal(assignments, places, group, guarantee),
        None => lost_rows::refusal_beside(assignments, places),
    };
    match assignments.iter().find_map(of_one).or_else(lost_rows) {
        Some(message) => Err(contract(message)),
        None => Ok(()),
    }
}

/// Refuses topics of which the group had offsets in another incarnation, where no epoch says that this
/// one is new. Kafka deletes a group's offsets with a topic, so the destination alone remembers.
/// `places` are those of the pipeline's own group, also for a pass that is another's.
pub(crate) fn refuse_made_anew(
    parts: &[PlacedPartition],
    places: &Places,
    group: &GroupOffsets,
) -> Result<(), RunError> {
    // A capture is a log of its own each time.
    if group.move_command.is_none() {
        return Ok(());
    }
    match parts.iter().find_map(|part| made_anew(parts, part, places)) {
        Some(message) => Err(contract(message)),
        None => Ok(()),
    }
}

fn contract(message: String) -> RunError {
    RunError::Source(SourceError::new(SourceFailure::Contract, message))
}

fn made_anew(all: &[PlacedPartition], part: &PlacedPartition, places: &Places) -> Option<String> {
    let PlacedPartition { topic_id, partition: Partition { topic, .. } } = part;
    let former = places.former_topic(*topic_id, topic)?;
    let lacks_epoch = |part: &PlacedPartition| places.epochs_of(part.topic_id, &part.partition).is_empty();
    if !lacks_epoch(part) {
        return None;
    }
    let begins: Vec<String> = all
        .iter()
        .filter(|other| other.partition.topic == *topic && lacks_epoch(other))
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

#[cfg(test)]
mod tests {
    use settle_core::epoch::Epoch;
    use settle_core::standing::Standing;

    use super::*;

    fn id(name: &str) -> TopicId {
        TopicId::of_first_line("t", name.as_bytes())
    }

    fn place(topic: &str, number: i32) -> PlacedPartition {
        PlacedPartition { topic_id: id(topic), partition: Partition::new("t", number) }
    }

    fn assignment(number: i32, start: i64) -> Assignment {
        Assignment {
            partition: Partition::new("t", number),
            topic_id: Some(id("now")),
            start,
            begins: 0,
            resumed: false,
            standing: None,
            partitions: 2,
            waits: false,
            generation: 1,
        }
    }

    /// Read up to `start` in this epoch.
    fn resumed(start: i64, epoch: u64) -> Assignment {
        let epoch = Epoch::new(epoch).unwrap();
        let standing = Standing { topic_id: id("now"), offset: start, partitions: 2, epoch, marks: Vec::new() };
        Assignment { resumed: true, standing: Some(standing), ..assignment(0, start) }
    }

    fn epoch(number: i32, offset: i64, epoch: u64) -> (PlacedPartition, Boundary) {
        (place("now", number), Boundary { offset, epoch: Epoch::new(epoch).unwrap() })
    }

    fn kafka() -> GroupOffsets {
        GroupOffsets { move_command: Some("move --group g".to_owned()) }
    }

    fn refused(assignments: &[Assignment], places: &Places, group: &GroupOffsets) -> Option<String> {
        refuse(assignments, places, group, None).err().map(|error| error.to_string())
    }

    #[test]
    fn a_topic_whose_former_one_the_group_read_is_refused_until_an_epoch_begins_in_it() {
        let both = [assignment(0, 0), assignment(1, 0)];
        let mut places = Places { written: vec![place("former", 0)], ..Places::default() };
        assert_eq!(
            refused(&both, &places, &kafka()).unwrap(),
            format!(
                "source: topic t was deleted and made anew: the group wrote id {}, now it is {}. Rows of the one before \
                 would win or lose by accident: let a new epoch begin with the new one (settle epoch bump t:0:0 t:1:0), \
                 and start again",
                id("former"),
                id("now")
            )
        );
        places.epochs.push(epoch(0, 0, 1));
        assert!(refused(&both, &places, &kafka()).unwrap().contains("(settle epoch bump t:1:0)"));
        places.epochs.push(epoch(1, 0, 1));
        assert_eq!(refused(&both, &places, &kafka()), None);
        let captures = GroupOffsets::default();
        assert_eq!(refused(&both, &Places { epochs: Vec::new(), ..places }, &captures), None, "each its own log");
    }

    #[test]
    fn offsets_that_a_service_lost_are_refused_and_a_new_group_is_not() {
        let mut places = Places { written: vec![place("now", 1)], ..Places::default() };
        assert_eq!(refused(&[assignment(0, 0)], &places, &kafka()), None, "another partition");
        places.written.push(place("now", 0));
        assert_eq!(
            refused(&[assignment(0, 4)], &places, &kafka()).unwrap(),
            "source: the group has no offset in t:0, but had one, and the destination holds its records: the group lost \
             its offsets (expired, or deleted). To go on, move the group there (move --group g --topic t:0 \
             --reset-offsets --to-offset 4 --execute); reading again what is there changes nothing"
        );
        places.applied.push((place("now", 0), 9));
        let said = refused(&[assignment(0, 4)], &places, &kafka()).unwrap();
        assert!(said.contains("--to-offset 9"), "where the destination knows how far it came: {said}");
        assert_eq!(refused(&[assignment(0, 4)], &places, &GroupOffsets::default()), None, "a capture's missing file");
        let waits = Assignment { waits: true, ..assignment(0, 4) };
        assert_eq!(refused(&[waits], &places, &kafka()), None);
        assert_eq!(refused(&[resumed(9, 0)], &places, &kafka()), None);
    }

    #[test]
    fn what_was_read_in_another_epoch_is_refused() {
        let places =
            |boundaries: &[(PlacedPartition, Boundary)]| Places { epochs: boundaries.to_vec(), ..Places::default() };
        assert_eq!(
            refused(&[resumed(8, 0)], &places(&[epoch(0, 4, 1)]), &kafka()).unwrap(),
            "source: the group read t:0 up to offset 8 in epoch 0, and epoch 1 begins at 4: what lies between was taken \
             for older than it is, and has to be read again. To do so, move the group there (move --group g --topic t:0 \
             --reset-offsets --to-offset 4 --execute)"
        );
        let said = refused(&[resumed(8, 0)], &places(&[epoch(0, 4, 1)]), &GroupOffsets::default()).unwrap();
        assert!(said.ends_with("To do so, read the capture under a new group"), "{said}");
        assert_eq!(
            refused(&[resumed(8, 2)], &places(&[epoch(0, 4, 1)]), &kafka()).unwrap(),
            "source: the group read t:0 up to offset 8 in epoch 2, and the destination records no epoch above 1 before \
             that offset: its settle_meta was lost or is an older copy; restore it, or read everything again under a new \
             group into an empty destination"
        );
        for (start, read) in [(4, 0), (3, 0), (5, 1), (9, 3)] {
            let places = places(&[epoch(0, 4, 1), epoch(0, 8, 3), epoch(1, 0, 7)]);
            assert_eq!(refused(&[resumed(start, read)], &places, &kafka()), None, "at {start} in {read}");
        }
        assert_eq!(refused(&[resumed(8, 0)], &Places::default(), &kafka()), None);
    }
}
