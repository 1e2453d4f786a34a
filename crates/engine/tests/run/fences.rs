//! Partitions that another instance opens in the destination while this one holds records of them.

use std::time::Duration;

use settle_core::fold::Limits;
use settle_core::sink::FailureKind;
use settle_engine::config::dlq::DlqLimit;
use settle_engine::run::{Ended, Options, RunError};
use settle_engine::source::{SourceError, SourceEvent, SourceFailure};

use crate::told::{SinkHandle, Told, assignment, chunk, partition};

/// Batches are cut where they are four records long.
fn options() -> Options {
    Options {
        limits: Limits { max_rows: 4, max_bytes: 1 << 20, max_age_ms: 3_600_000 },
        drain_timeout: Duration::from_secs(20),
        ..Options::default()
    }
}

/// A run that holds partitions 0 and 1, and two records of each in a batch that waits.
async fn with_a_batch_of_both(options: Options, limit: Option<DlqLimit>) -> Told {
    let told = Told::start_in_group(options, limit, SinkHandle::default());
    told.sink.hold();
    told.send(SourceEvent::Assigned(vec![assignment(0, 1), assignment(1, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.send(SourceEvent::Records(chunk(1, 1, 0..2))).await;
    told.sink.until_applying(1).await;
    told
}

fn is_fenced(ended: &Ended) -> bool {
    matches!(&ended.error, Some(RunError::Sink(error)) if error.kind == FailureKind::Fenced)
}

#[tokio::test(start_paused = true)]
async fn a_fenced_partition_is_taken_out_and_the_run_goes_on_when_the_group_revokes_it() {
    let mut told = with_a_batch_of_both(options(), None).await;
    told.sink.fence(&[1]);
    told.sink.release();
    told.offsets.until_committed(&[(0, 2)]).await;
    assert_eq!(told.sink.journal(), ["rows [0 1] spans [0..2]"], "the rest of the batch, applied again");
    // It is held no more, whatever else comes of it under this assignment.
    told.send(SourceEvent::Records(chunk(1, 1, 2..6))).await;
    told.send(SourceEvent::Lost(vec![partition(1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 2..6))).await;
    told.offsets.until_committed(&[(0, 6)]).await;
    let ended = told.end().await;
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(told.offsets.last(), [(0, 6)]);
    let report = ended.report;
    assert_eq!((report.fenced, report.lost, report.tally.read, report.unsettled), (1, 1, 8, 2));
    assert!(report.is_sound());
    assert_eq!(told.sink.refusals(), 1, "nothing of it is sent again");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_partition_that_stays_assigned_stops_the_run() {
    let mut told = with_a_batch_of_both(options(), None).await;
    told.sink.fence(&[1]);
    told.sink.release();
    let ended = told.ended().await;
    assert!(is_fenced(&ended), "{:?}", ended.error);
    let said = ended.error.unwrap().to_string();
    assert!(said.contains("another process of the same group has opened t:1 in the destination"), "{said}");
    assert_eq!(told.offsets.last(), [(0, 2)], "what is ours is written, and committed");
    assert!(ended.report.is_sound());
}

#[tokio::test(start_paused = true)]
async fn the_group_is_not_held_to_its_word_while_it_cannot_be_heard() {
    let mut told = with_a_batch_of_both(options(), None).await;
    told.send(SourceEvent::Away(SourceError::new(SourceFailure::Unreachable, "told to be away"))).await;
    told.sink.fence(&[1]);
    told.sink.release();
    told.offsets.until_committed(&[(0, 2)]).await;
    assert!(!told.has_ended_within(Duration::from_secs(600)).await, "the broker may say that it is lost");
    told.send(SourceEvent::Back).await;
    told.send(SourceEvent::Lost(vec![partition(1)])).await;
    assert!(!told.has_ended_within(Duration::from_secs(600)).await, "it did");
    assert!(told.end().await.error.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_assigned_again_is_opened_again_and_read_from_where_the_other_left_it() {
    let mut told = with_a_batch_of_both(options(), None).await;
    assert_eq!(told.sink.opened(), [0, 1], "before the first record is taken");
    told.sink.fence(&[1]);
    told.sink.release();
    told.offsets.until_committed(&[(0, 2)]).await;
    told.send(SourceEvent::Lost(vec![partition(1)])).await;
    told.send(SourceEvent::Assigned(vec![assignment(1, 2)])).await;
    told.send(SourceEvent::Records(chunk(1, 1, 2..6))).await;
    told.send(SourceEvent::Records(chunk(1, 2, 0..4))).await;
    told.offsets.until_committed(&[(1, 4)]).await;
    assert_eq!(told.sink.opened(), [0, 1, 1]);
    let ended = told.end().await;
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(told.sink.journal(), ["rows [0 1] spans [0..2]", "rows [0 1 2 3] spans [0..4]"]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_opened_whenever_it_is_assigned_again() {
    let mut told = Told::start_in_group(options(), None, SinkHandle::default());
    for generation in 1..4 {
        told.send(SourceEvent::Assigned(vec![assignment(0, generation)])).await;
        told.send(SourceEvent::Records(chunk(0, generation, 0..4))).await;
        told.revoke(&[0]).await.await.unwrap();
        assert_eq!(told.sink.opened().len() as u64, generation);
    }
    assert!(told.end().await.error.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_of_an_earlier_assignment_says_nothing_of_a_later_one() {
    // The old batch is refused while the new assignment waits to be opened.
    let mut told = with_a_batch_of_both(options(), None).await;
    told.sink.fence(&[1]);
    told.send(SourceEvent::Lost(vec![partition(1)])).await;
    told.send(SourceEvent::Assigned(vec![assignment(1, 2)])).await;
    told.sink.release();
    told.sink.until_refused(1).await;
    told.send(SourceEvent::Records(chunk(1, 2, 0..4))).await;
    told.offsets.until_committed(&[(0, 2), (1, 4)]).await;
    let ended = told.end().await;
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(ended.report.fenced, 0, "it was not held when that was found out");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_partition_that_turns_out_to_be_fenced_is_let_go() {
    let mut told = with_a_batch_of_both(options(), None).await;
    let done = told.revoke(&[1]).await;
    told.sink.fence(&[1]);
    told.sink.release();
    tokio::time::timeout(Duration::from_secs(5), done).await.expect("it is not waited for").unwrap();
    told.send(SourceEvent::Records(chunk(0, 1, 2..6))).await;
    told.offsets.until_committed(&[(0, 6)]).await;
    assert!(!told.has_ended_within(Duration::from_secs(600)).await, "the group has spoken");
    let ended = told.end().await;
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(told.offsets.last(), [(0, 6)], "nothing of the other one");
}

#[tokio::test(start_paused = true)]
async fn where_no_group_says_whose_a_partition_is_the_run_stops_at_once() {
    let mut told = Told::start(options());
    told.sink.hold();
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..4))).await;
    told.sink.until_applying(1).await;
    told.sink.fence(&[0]);
    told.sink.release();
    assert!(told.has_ended_within(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_bounded_run_is_done_without_a_partition_only_where_the_group_says_so() {
    for lost in [false, true] {
        let mut told = with_a_batch_of_both(Options { until_end: true, ..options() }, None).await;
        told.send(crate::told::end_of(0, 1, 2)).await;
        told.send(crate::told::end_of(1, 1, 2)).await;
        told.sink.fence(&[1]);
        told.sink.release();
        told.sink.until_refused(1).await;
        if lost {
            told.send(SourceEvent::Lost(vec![partition(1)])).await;
        }
        let ended = told.ended().await;
        assert_eq!((is_fenced(&ended), ended.error.is_none()), (!lost, lost), "{:?}", ended.error);
        assert_eq!(told.offsets.last(), [(0, 2)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_last_drain_is_fenced_has_not_done_it_all() {
    let mut told = with_a_batch_of_both(options(), None).await;
    told.send(SourceEvent::Ended).await;
    told.sink.fence(&[1]);
    told.sink.release();
    let ended = told.ended().await;
    assert!(is_fenced(&ended), "{:?}", ended.error);
    assert_eq!((told.offsets.last(), ended.report.unsettled), (vec![(0, 2)], 2));
}

#[tokio::test(start_paused = true)]
async fn dead_letters_of_a_fenced_partition_are_left_to_its_new_owner() {
    for written_before in [false, true] {
        let limit = Some(DlqLimit { max_ratio: 1.0, min_records: 0 });
        let mut told = Told::start_in_group(options(), limit, SinkHandle::default());
        told.send(SourceEvent::Assigned(vec![assignment(0, 1), assignment(1, 1)])).await;
        // Unreadable, or refused by the destination.
        let (mut ours, mut theirs) = (chunk(0, 1, 0..2), chunk(1, 1, 2..4));
        if written_before {
            ours.records[1].payload = Some("{not json".into());
            theirs.records[1].payload = Some("{not json".into());
        } else {
            told.sink.refuse(&[1, 3], true);
        }
        told.sink.until_opened(1).await;
        told.sink.fence(&[1]);
        told.send(SourceEvent::Records(ours)).await;
        told.send(SourceEvent::Records(theirs)).await;
        told.offsets.until_committed(&[(0, 2)]).await;
        assert_eq!(told.queue.letters().iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [1]);
        told.send(SourceEvent::Lost(vec![partition(1)])).await;
        let ended = told.end().await;
        assert!(ended.error.is_none(), "{:?}", ended.error);
        let tally = ended.report.tally;
        assert_eq!((tally.read, tally.applied, tally.dead_lettered, ended.report.unsettled), (4, 1, 1, 2));
        assert!(ended.report.is_sound());
        assert!(told.sink.notes().iter().all(|note| note.partition == partition(0)), "no hold of the other one");
    }
}
