//! A log that is not the one the group read, or not the whole of it: never passed in silence.

use settle_core::epoch::Boundary;
use settle_core::position::{Partition, TopicId};
use settle_core::sink::{PlacedPartition, Places};

use super::RunError;
use crate::source::{Assignment, GroupOffsets, SourceError, SourceFailure};

/// So many partitions are named; a topic may have hundreds.
const LISTED: usize = 8;

/// Refuses partitions whose offsets do not fit what the destination records of them. `keeps_places`:
/// it moves the group's places with every batch, so that the group is never ahead of it.
pub(crate) fn refuse(
    assignments: &[Assignment],
    places: &Places,
    group: &GroupOffsets,
    keeps_places: bool,
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
    let ahead = || if keeps_places { lost_rows(assignments, places, group) } else { None };
    match assignments.iter().find_map(of_one).or_else(ahead) {
        Some(message) => Err(contract(message)),
        None => Ok(()),
    }
}

/// The group is ahead of the destination: what lies between was there once, or was never read.
///
/// A batch moves the place of its group in its own transaction, and an offset is committed behind
/// it. So a group that is ahead, at an offset of our own, was in another destination, or in this one
/// before it was restored; without our mark, a tool moved it. A tool may move a group that
/// was never here wherever it likes, and any group to where the log begins: all that is left is read
/// then.
fn lost_rows(assignments: &[Assignment], places: &Places, group: &GroupOffsets) -> Option<String> {
    let (mut behind, mut nothing) = (Vec::new(), Vec::new());
    for assignment in assignments.iter().filter(|assignment| assignment.resumed) {
        let Assignment { partition, start, begins, standing, .. } = assignment;
        let is_ours = standing.is_some();
        let Some(topic_id) = assignment.topic_id else { continue };
        match places.applied_of(topic_id, partition) {
            Some(held) if held < *start && (is_ours || start > begins) => behind.push((partition, *start, held)),
            None if is_ours => nothing.push((partition, *start, *begins)),
            _ => {}
        }
    }
    if !behind.is_empty() {
        let each = listed(behind.iter().map(|(part, at, held)| format!("{part} at {at}, applied up to {held}")));
        let back: Vec<_> = behind.iter().map(|&(part, _, held)| (part, held)).collect();
        return Some(format!(
            "the group is ahead of the destination ({each}): the destination was restored from a backup, or a tool moved \
             the group forward. To apply what lies between again, {}; what is there already stays as it is. To leave it \
             out, read on under a new group",
            group.how_to_move_each(&back)
        ));
    }
    if nothing.is_empty() {
        return None;
    }
    let each = listed(nothing.iter().map(|(part, at, _)| format!("{part} at {at}")));
    let start = nothing.iter().map(|&(part, _, begins)| (part, begins)).collect::<Vec<_>>();
    let or_move =
        if group.move_command.is_some() { format!(", or {}", group.how_to_move_each(&start)) } else { String::new() };
    Some(format!(
        "the destination holds nothing of the group, which has read and written before ({each}): it is a new one, or was \
         lost. If it is the wrong one, name the right one in [sink]. To fill it from the beginning of the log, read under \
         a new group{or_move}"
    ))
}

/// The first of them, and how many more there are.
fn listed(parts: impl ExactSizeIterator<Item = String>) -> String {
    let more = parts.len().saturating_sub(LISTED);
    let mut listed = parts.take(LISTED).collect::<Vec<_>>().join("; ");
    if more > 0 {
        listed.push_str(&format!("; and {more} more"));
    }
    listed
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
        refuse(assignments, places, group, false).err().map(|error| error.to_string())
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

    fn refused_by_keeper(assignments: &[Assignment], places: &Places, group: &GroupOffsets) -> Option<String> {
        refuse(assignments, places, group, true).err().map(|error| error.to_string())
    }

    /// Moved there by a tool: without our mark.
    fn moved(start: i64) -> Assignment {
        Assignment { resumed: true, ..assignment(0, start) }
    }

    fn applied(parts: &[(i32, i64)]) -> Places {
        let applied = parts.iter().map(|&(number, next)| (place("now", number), next)).collect();
        Places { applied, ..Places::default() }
    }

    #[test]
    fn a_group_that_is_ahead_of_the_destination_is_refused_with_the_way_back() {
        let both = [resumed(9, 0), Assignment { partition: Partition::new("t", 1), ..moved(7) }];
        assert_eq!(
            refused_by_keeper(&both, &applied(&[(0, 4), (1, 6)]), &kafka()).unwrap(),
            "source: the group is ahead of the destination (t:0 at 9, applied up to 4; t:1 at 7, applied up to 6): the \
             destination was restored from a backup, or a tool moved the group forward. To apply what lies between again, \
             move the group there (move --group g --topic t:0 --reset-offsets --to-offset 4 --execute; move --group g \
             --topic t:1 --reset-offsets --to-offset 6 --execute); what is there already stays as it is. To leave it out, \
             read on under a new group"
        );
        let said = refused_by_keeper(&both, &applied(&[(0, 4), (1, 6)]), &GroupOffsets::default()).unwrap();
        assert!(said.contains("To apply what lies between again, read the capture under a new group;"), "{said}");
        assert_eq!(refused(&both, &applied(&[(0, 4), (1, 6)]), &kafka()), None, "a destination that keeps no places");
    }

    #[test]
    fn a_group_that_is_at_the_place_of_the_destination_or_behind_it_goes_on() {
        for held in [9, 10, 1_000] {
            for assigned in [resumed(9, 0), moved(9), assignment(0, 9)] {
                assert_eq!(refused_by_keeper(&[assigned], &applied(&[(0, held)]), &kafka()), None);
            }
        }
        // By a tool to where the log begins: the way out where retention was faster than the group.
        let to_the_beginning = Assignment { begins: 9, ..moved(9) };
        assert_eq!(refused_by_keeper(&[to_the_beginning], &applied(&[(0, 4)]), &kafka()), None);
        // By us, and the log was cut there since: what was read of it is gone with the destination.
        let ours = Assignment { begins: 9, ..resumed(9, 0) };
        assert!(refused_by_keeper(&[ours], &applied(&[(0, 4)]), &kafka()).is_some());
    }

    #[test]
    fn a_destination_without_a_trace_of_the_group_is_refused_and_a_group_that_begins_is_not() {
        let read = Assignment { begins: 2, ..resumed(9, 0) };
        assert_eq!(
            refused_by_keeper(std::slice::from_ref(&read), &applied(&[(1, 9)]), &kafka()).unwrap(),
            "source: the destination holds nothing of the group, which has read and written before (t:0 at 9): it is a new \
             one, or was lost. If it is the wrong one, name the right one in [sink]. To fill it from the beginning of the \
             log, read under a new group, or move the group there (move --group g --topic t:0 --reset-offsets --to-offset \
             2 --execute)"
        );
        let said = refused_by_keeper(&[read], &Places::default(), &GroupOffsets::default()).unwrap();
        assert!(said.ends_with("To fill it from the beginning of the log, read under a new group"), "{said}");
        // A new group, one that a tool placed somewhere, and one whose offsets expired.
        for assigned in [assignment(0, 0), assignment(0, 9), moved(9)] {
            assert_eq!(refused_by_keeper(&[assigned], &Places::default(), &kafka()), None);
        }
    }

    #[test]
    fn of_many_partitions_the_first_are_named() {
        let many: Vec<Assignment> =
            (0..20).map(|number| Assignment { partition: Partition::new("t", number), ..resumed(9, 0) }).collect();
        let said = refused_by_keeper(&many, &Places::default(), &kafka()).unwrap();
        assert!(said.contains("t:7 at 9; and 12 more)") && !said.contains("t:8"), "{said}");
    }
}
