//! A destination that has lost rows, or never got them: told before anything is applied.
//!
//! A group goes on where its offset says, so whatever is missing before that offset stays missing
//! for ever. What a destination remembers of the group is held against that offset:
//!
//! - *Atomic* destinations move the group's place in the transaction of every batch, and an offset is
//!   committed behind it: the group is never ahead. One that is ahead at an offset of our own was in
//!   another destination, or in this one before it was restored; without our mark, a tool moved it.
//! - *Versioned* ones note that the group begins to write a partition before the first of its rows, so
//!   before any offset; that it has an offset, behind the first commit; and now and then how far it
//!   has committed. Each of the three says no more than what had happened by then, so a crash between
//!   two of them is no loss: *begun* without an offset is a group that never came to commit, *an
//!   offset known* without one is a group that lost it, and an offset of our own of which nothing is
//!   noted, not even the begin, is a destination that was lost. The note of how far lags behind the
//!   group, so an offset of our own above it means nothing. An offset without our mark is a tool's:
//!   above the note it may have skipped records, and to go back to the note costs no more than that
//!   records are read again.
//! - Every destination notes which tables were filled from which partition, and from which offset on,
//!   before their rows. A table that is gone is filled anew by who reads from there; who goes on
//!   behind it would make it without its rows.
//!
//! A tool may move a group that was never here wherever it likes, any group back, and any group to
//! where the log begins: all that is left is read then.

use settle_core::position::{Offset, Partition};
use settle_core::sink::{Guarantee, MissingTable, Places};

use crate::source::{Assignment, GroupOffsets};

/// So many partitions, or tables, are named; a topic may have hundreds.
const LISTED: usize = 8;

/// Why the group would leave rows out, if it would.
pub(super) fn refusal(
    assignments: &[Assignment],
    places: &Places,
    group: &GroupOffsets,
    guarantee: Guarantee,
) -> Option<String> {
    let is_exact = guarantee == Guarantee::Atomic;
    let (mut behind, mut nothing) = (Vec::new(), Vec::new());
    for assignment in assignments.iter().filter(|assignment| assignment.resumed) {
        let Assignment { partition, start, begins, standing, .. } = assignment;
        let is_ours = standing.is_some();
        let Some(topic_id) = assignment.topic_id else { continue };
        let is_skipped = !is_ours && start > begins;
        let knows = places.knows(topic_id, partition);
        match places.applied_of(topic_id, partition) {
            Some(held) if held < *start && (is_skipped || is_ours && is_exact) => {
                behind.push((partition, *start, held));
            }
            None if is_ours && (is_exact || !knows) => nothing.push((partition, *start, *begins)),
            None if is_skipped && knows && is_exact => nothing.push((partition, *start, *begins)),
            None if is_skipped && knows => tracing::warn!(
                %partition,
                offset = start,
                "a tool moved the group; how far it had come is not noted, so whether that skips records cannot be told"
            ),
            _ => {}
        }
    }
    if !behind.is_empty() {
        return Some(ahead(&behind, group, is_exact));
    }
    if !nothing.is_empty() {
        return Some(unknown(&nothing, group));
    }
    missing_tables(assignments, places, group)
}

/// Why a pass that is nobody's progress would make tables without their rows, if it would.
pub(super) fn refusal_beside(assignments: &[Assignment], places: &Places) -> Option<String> {
    let found = passed_tables(assignments, places, |assignment, from| assignment.start > from);
    found.map(|(tables, _)| {
        format!(
            "{tables} not there, and had rows of records that lie before those to be read: made anew, they would be \
             missing. Restore what was lost from a backup; or, if the rows are not wanted, make it yourself (settle ddl \
             prints how)"
        )
    })
}

type Ahead<'a> = (&'a Partition, Offset, Offset);

fn ahead(behind: &[Ahead<'_>], group: &GroupOffsets, is_exact: bool) -> String {
    let applied = if is_exact { "applied" } else { "known to be applied" };
    let each = listed(behind.iter().map(|(part, at, held)| format!("{part} at {at}, {applied} up to {held}")));
    let back: Vec<_> = behind.iter().map(|&(part, _, held)| (part, held)).collect();
    let why = if is_exact {
        "the destination was restored from a backup, or a tool moved the group forward"
    } else {
        "a tool moved the group, and what it passed may never have been applied"
    };
    format!(
        "the group is ahead of the destination ({each}): {why}. To apply what lies between again, {}; what is there \
         already stays as it is",
        group.how_to_move_each(&back)
    )
}

fn unknown(nothing: &[Ahead<'_>], group: &GroupOffsets) -> String {
    let each = listed(nothing.iter().map(|(part, at, _)| format!("{part} at {at}")));
    let start: Vec<_> = nothing.iter().map(|&(part, _, begins)| (part, begins)).collect();
    format!(
        "the destination holds nothing of the group, which has read and written before ({each}): it is a new one, or was \
         lost. If it is the wrong one, name the right one in [sink]. To fill it from the beginning of the log, read under \
         a new group{}",
        or_move(group, &start)
    )
}

fn or_move(group: &GroupOffsets, places: &[(&Partition, Offset)]) -> String {
    if group.move_command.is_some() { format!(", or {}", group.how_to_move_each(places)) } else { String::new() }
}

/// Tables that the group would make anew without their rows.
fn missing_tables(assignments: &[Assignment], places: &Places, group: &GroupOffsets) -> Option<String> {
    let has_passed = |part: &Assignment, from| part.start > part.begins && part.start > from;
    let (tables, passed) = passed_tables(assignments, places, has_passed)?;
    let each = listed(passed.iter().map(|part| format!("{} at {}", part.partition, part.start)));
    let start: Vec<_> = passed.iter().map(|part| (&part.partition, part.begins)).collect();
    Some(format!(
        "{tables} not there, and had rows of records that the group has passed ({each}): made anew, they would be missing. \
         Restore what was lost from a backup; or, if the rows are not wanted, make it yourself (settle ddl prints how) and \
         start again; or, to fill it from the beginning of the log, read under a new group{}",
        or_move(group, &start)
    ))
}

/// The tables, as the subject of a sentence, that are not there and had rows which these have passed.
fn passed_tables<'a>(
    assignments: &'a [Assignment],
    places: &Places,
    has_passed: impl Fn(&Assignment, Offset) -> bool,
) -> Option<(String, Vec<&'a Assignment>)> {
    let mut tables: Vec<&str> = Vec::new();
    let mut passed: Vec<&Assignment> = Vec::new();
    for MissingTable { part, table, from } in &places.missing {
        let is_its = |assignment: &&Assignment| {
            assignment.topic_id == Some(part.topic_id) && assignment.partition == part.partition
        };
        let Some(assignment) = assignments.iter().find(is_its).filter(|assignment| has_passed(assignment, *from))
        else {
            continue;
        };
        if !tables.contains(&table.as_str()) {
            tables.push(table);
        }
        if !passed.iter().any(|other| other.partition == assignment.partition) {
            passed.push(assignment);
        }
    }
    tables.sort_unstable();
    passed.sort_by(|a, b| a.partition.cmp(&b.partition));
    let (named, are) = if tables.len() == 1 { ("table", "is") } else { ("tables", "are") };
    let named = format!("the {named} {} {are}", listed(tables.iter().map(|table| format!("\"{table}\""))));
    (!tables.is_empty()).then_some((named, passed))
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

#[cfg(test)]
mod tests {
    use settle_core::epoch::Epoch;
    use settle_core::position::TopicId;
    use settle_core::sink::PlacedPartition;
    use settle_core::standing::Standing;

    use super::*;

    fn id() -> TopicId {
        TopicId::of_first_line("t", b"now")
    }

    fn place(number: i32) -> PlacedPartition {
        PlacedPartition { topic_id: id(), partition: Partition::new("t", number) }
    }

    fn new(number: i32, start: i64) -> Assignment {
        Assignment::plain(Partition::new("t", number), Some(id()), start, false, 1)
    }

    /// Read up to `start` by us.
    fn resumed(number: i32, start: i64) -> Assignment {
        let standing =
            Standing { topic_id: id(), offset: start, partitions: 2, epoch: Epoch::FIRST, marks: Vec::new() };
        Assignment { resumed: true, standing: Some(standing), ..new(number, start) }
    }

    /// Moved there by a tool: without our mark.
    fn moved(number: i32, start: i64) -> Assignment {
        Assignment { resumed: true, ..new(number, start) }
    }

    fn kafka() -> GroupOffsets {
        GroupOffsets { move_command: Some("move --group g".to_owned()) }
    }

    fn applied(parts: &[(i32, i64)]) -> Places {
        Places { applied: parts.iter().map(|&(number, next)| (place(number), next)).collect(), ..Places::default() }
    }

    fn by_keeper(assignments: &[Assignment], places: &Places) -> Option<String> {
        refusal(assignments, places, &kafka(), Guarantee::Atomic)
    }

    fn by_noter(assignments: &[Assignment], places: &Places) -> Option<String> {
        refusal(assignments, places, &kafka(), Guarantee::Versioned)
    }

    #[test]
    fn a_group_that_is_ahead_of_the_destination_is_refused_with_the_way_back() {
        let both = [resumed(0, 9), moved(1, 7)];
        assert_eq!(
            by_keeper(&both, &applied(&[(0, 4), (1, 6)])).unwrap(),
            "the group is ahead of the destination (t:0 at 9, applied up to 4; t:1 at 7, applied up to 6): the destination \
             was restored from a backup, or a tool moved the group forward. To apply what lies between again, move the \
             group there (move --group g --topic t:0 --reset-offsets --to-offset 4 --execute; move --group g --topic t:1 \
             --reset-offsets --to-offset 6 --execute); what is there already stays as it is"
        );
        let captures = GroupOffsets::default();
        let said = refusal(&both, &applied(&[(0, 4), (1, 6)]), &captures, Guarantee::Atomic).unwrap();
        assert!(said.contains("To apply what lies between again, read the capture under a new group;"), "{said}");
    }

    #[test]
    fn a_group_that_is_at_the_place_of_the_destination_or_behind_it_goes_on() {
        for held in [9, 10, 1_000] {
            for assigned in [resumed(0, 9), moved(0, 9), new(0, 9)] {
                assert_eq!(by_keeper(std::slice::from_ref(&assigned), &applied(&[(0, held)])), None);
                assert_eq!(by_noter(&[assigned], &applied(&[(0, held)])), None);
            }
        }
        // By a tool to where the log begins: the way out where retention was faster than the group.
        let to_the_beginning = Assignment { begins: 9, ..moved(0, 9) };
        assert_eq!(by_keeper(std::slice::from_ref(&to_the_beginning), &applied(&[(0, 4)])), None);
        assert_eq!(by_noter(&[to_the_beginning], &applied(&[(0, 4)])), None);
        // By us, and the log was cut there since: what was read of it is gone with the destination.
        let ours = Assignment { begins: 9, ..resumed(0, 9) };
        assert!(by_keeper(&[ours], &applied(&[(0, 4)])).is_some());
    }

    #[test]
    fn a_note_that_lags_behind_refuses_what_a_tool_did_and_nothing_of_ours() {
        assert_eq!(by_noter(&[resumed(0, 9)], &applied(&[(0, 4)])), None, "it lags");
        assert_eq!(by_noter(&[moved(0, 3)], &applied(&[(0, 4)])), None, "a replay that was meant");
        assert_eq!(
            by_noter(&[moved(0, 9)], &applied(&[(0, 4)])).unwrap(),
            "the group is ahead of the destination (t:0 at 9, known to be applied up to 4): a tool moved the group, and \
             what it passed may never have been applied. To apply what lies between again, move the group there (move \
             --group g --topic t:0 --reset-offsets --to-offset 4 --execute); what is there already stays as it is"
        );
        let only_known = Places { written: vec![place(0)], ..Places::default() };
        assert_eq!(by_noter(&[moved(0, 9)], &only_known), None, "it cannot be told apart");
    }

    #[test]
    fn a_destination_without_a_trace_of_the_group_is_refused_and_a_group_that_begins_is_not() {
        let read = Assignment { begins: 2, ..resumed(0, 9) };
        let of_another = applied(&[(1, 9)]);
        let told = "the destination holds nothing of the group, which has read and written before (t:0 at 9): it is a new \
                    one, or was lost. If it is the wrong one, name the right one in [sink]. To fill it from the beginning \
                    of the log, read under a new group, or move the group there (move --group g --topic t:0 \
                    --reset-offsets --to-offset 2 --execute)";
        assert_eq!(by_keeper(std::slice::from_ref(&read), &of_another).unwrap(), told);
        assert_eq!(by_noter(std::slice::from_ref(&read), &of_another).unwrap(), told);
        let captures = GroupOffsets::default();
        let said = refusal(std::slice::from_ref(&read), &of_another, &captures, Guarantee::Versioned).unwrap();
        assert!(said.ends_with("To fill it from the beginning of the log, read under a new group"), "{said}");
        // A new group, one that a tool placed somewhere, and one whose offsets expired.
        for assigned in [new(0, 0), new(0, 9), moved(0, 9)] {
            assert_eq!(by_keeper(std::slice::from_ref(&assigned), &Places::default()), None);
            assert_eq!(by_noter(&[assigned], &Places::default()), None);
        }
        // A crash between the first rows and the note that they are committed.
        let begun = Places { begun: vec![place(0)], ..Places::default() };
        assert_eq!(by_noter(&[read], &begun), None);
        // What keeps its places with the rows has lost them.
        let written = Places { written: vec![place(0)], ..Places::default() };
        assert!(by_keeper(&[moved(0, 9)], &written).unwrap().contains("holds nothing of the group"));
    }

    #[test]
    fn a_table_that_is_gone_is_refused_where_its_rows_were_passed() {
        let missing = |number, table: &str, from| MissingTable { part: place(number), table: table.to_owned(), from };
        let gone = Places { missing: vec![missing(1, "b", 3), missing(0, "a", 3)], ..applied(&[(0, 9), (1, 9)]) };
        let told = by_keeper(&[resumed(0, 9), resumed(1, 4)], &gone).unwrap();
        assert_eq!(
            told,
            "the tables \"a\"; \"b\" are not there, and had rows of records that the group has passed (t:0 at 9; t:1 at 4): \
             made anew, they would be missing. Restore what was lost from a backup; or, if the rows are not wanted, make \
             it yourself (settle ddl prints how) and start again; or, to fill it from the beginning of the log, read under \
             a new group, or move the group there (move --group g --topic t:0 --reset-offsets --to-offset 0 --execute; \
             move --group g --topic t:1 --reset-offsets --to-offset 0 --execute)"
        );
        assert_eq!(by_noter(&[resumed(0, 9), resumed(1, 4)], &gone).unwrap(), told);
        // Whoever still has all of its rows to read makes it anew.
        for assigned in [new(0, 0), resumed(0, 3), Assignment { begins: 9, ..moved(0, 9) }, resumed(2, 9)] {
            let gone = Places { begun: vec![place(2)], ..gone.clone() };
            assert_eq!(by_noter(&[assigned], &gone), None);
        }
    }

    #[test]
    fn of_many_partitions_the_first_are_named() {
        let many: Vec<Assignment> = (0..20).map(|number| resumed(number, 9)).collect();
        let said = by_keeper(&many, &Places::default()).unwrap();
        assert!(said.contains("t:7 at 9; and 12 more)") && !said.contains("t:8"), "{said}");
    }
}
