//! The run loop alone: a source and a destination that do as they are told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod dead_letters;
mod fences;
mod held_rows;
mod orders;
mod passing;
mod retries;
mod told;

use std::time::Duration;

use settle_core::fold::Limits;
use settle_core::sink::FailureKind;
use settle_engine::config::dlq::DlqLimit;
use settle_engine::run::{Options, RunError};
use settle_engine::source::{SourceError, SourceEvent, SourceFailure};

use told::{SinkHandle, Told, assignment, chunk, partition};

fn options() -> Options {
    Options {
        limits: Limits { max_rows: 2, max_bytes: 1 << 20, max_age_ms: 60_000 },
        drain_timeout: Duration::from_secs(20),
        ..Options::default()
    }
}

#[tokio::test]
async fn an_offset_is_committed_only_behind_the_destinations_acknowledgement() {
    let mut told = Told::start(options());
    told.sink.hold();
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.sink.until_applying(1).await;
    assert_eq!(told.offsets.committed(), [], "nothing before the acknowledgement");
    told.sink.release();
    told.offsets.until_committed(&[(0, 2)]).await;
    let ended = told.end().await;
    assert_eq!((ended.report.tally.applied, ended.report.unsettled), (2, 0));
}

#[tokio::test]
async fn a_failed_write_is_tried_again_with_the_identical_batch() {
    let mut told = Told::start(options());
    told.sink.fail(&[FailureKind::Unreachable, FailureKind::Conflict, FailureKind::Overloaded]);
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.offsets.until_committed(&[(0, 2)]).await;
    let ended = told.end().await;
    assert_eq!((ended.report.retries, ended.report.batches), (3, 1));
    let batches = told.sink.attempts();
    assert_eq!(batches.len(), 4);
    assert!(batches.windows(2).all(|pair| pair[0] == pair[1]), "the same batch each time: {batches:?}");
}

#[tokio::test]
async fn a_failure_without_a_cure_stops_and_commits_nothing_of_its_batch() {
    let mut told = Told::start(options());
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.offsets.until_committed(&[(0, 2)]).await;
    told.sink.fail(&[FailureKind::Contract]);
    told.send(SourceEvent::Records(chunk(0, 1, 2..6))).await;
    let ended = told.ended().await;
    assert!(matches!(ended.error, Some(RunError::Sink(_))), "{:?}", ended.error);
    assert_eq!(told.offsets.committed(), [(0, 2)]);
    assert_eq!(ended.report.tally.read, ended.report.tally.placed() + ended.report.unsettled);
}

#[tokio::test]
async fn what_was_durable_before_a_failure_is_committed() {
    // While it reads, and while it drains behind the end of the source.
    for (durable, ends) in (0..5).flat_map(|durable| [(durable, false), (durable, true)]) {
        let mut told = Told::start(options());
        told.sink.succeed(durable);
        told.sink.fail(&[FailureKind::Row]);
        told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
        told.send(SourceEvent::Records(chunk(
            0,
            1,
            0..if ends { 2 * i64::try_from(durable).unwrap() + 1 } else { 20 },
        )))
        .await;
        if ends {
            told.send(SourceEvent::Ended).await;
        }
        let ended = told.ended().await;
        assert!(matches!(ended.error, Some(RunError::Sink(_))), "{:?}", ended.error);
        let wanted: Vec<_> = (durable > 0).then(|| (0, 2 * i64::try_from(durable).unwrap())).into_iter().collect();
        assert_eq!(told.offsets.last(), wanted);
        assert_eq!(ended.report.committed.len(), wanted.len());
    }
}

#[tokio::test]
async fn a_revoked_partition_is_drained_and_committed_before_it_goes() {
    let mut told = Told::start(Options { limits: Limits { max_rows: 100, ..options().limits }, ..options() });
    told.send(SourceEvent::Assigned(vec![assignment(0, 1), assignment(1, 2)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..3))).await;
    told.send(SourceEvent::Records(chunk(1, 2, 0..3))).await;
    told.sink.hold();
    let done = told.revoke(&[1]).await;
    told.sink.until_applying(1).await;
    assert_eq!(told.offsets.committed(), [], "the batch was open: nothing is committed yet");
    told.sink.release();
    done.await.unwrap();
    assert!(told.offsets.committed().contains(&(1, 3)), "committed before the answer");
    // The partition that stays goes on where it was; records of the revoked one are dropped.
    told.send(SourceEvent::Records(chunk(1, 2, 3..5))).await;
    told.send(SourceEvent::Records(chunk(0, 1, 3..4))).await;
    let ended = told.end().await;
    assert_eq!(ended.report.tally.read, 7);
    assert_eq!(told.offsets.last(), [(0, 4), (1, 3)]);
}

#[tokio::test]
async fn a_lost_partition_commits_nothing_even_when_its_batch_lands_later() {
    let mut told = Told::start(options());
    told.sink.hold();
    told.send(SourceEvent::Assigned(vec![assignment(0, 1), assignment(1, 2)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..1))).await;
    told.send(SourceEvent::Records(chunk(1, 2, 0..1))).await;
    told.sink.until_applying(1).await;
    told.send(SourceEvent::Records(chunk(1, 2, 1..2))).await;
    told.send(SourceEvent::Lost(vec![partition(1)])).await;
    // It comes back, from the start: another instance committed nothing.
    told.send(SourceEvent::Assigned(vec![assignment(1, 3)])).await;
    told.sink.release();
    told.offsets.until_committed(&[(0, 1)]).await;
    assert!(told.offsets.committed().iter().all(|(number, _)| *number == 0), "{:?}", told.offsets.committed());
    told.send(SourceEvent::Records(chunk(1, 3, 0..2))).await;
    told.offsets.until_committed(&[(1, 2)]).await;
    let ended = told.end().await;
    assert_eq!(ended.report.redelivered, 2, "offsets 0 and 1 were read before");
}

#[tokio::test]
async fn records_of_an_assignment_that_is_over_are_dropped() {
    let mut told = Told::start(options());
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.revoke(&[0]).await.await.unwrap();
    told.send(SourceEvent::Assigned(vec![assignment(0, 2)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 5..7))).await;
    told.send(SourceEvent::Records(chunk(0, 2, 0..2))).await;
    told.offsets.until_committed(&[(0, 2)]).await;
    assert_eq!(told.end().await.report.tally.read, 2);
}

#[tokio::test]
async fn a_record_that_cannot_be_applied_stops_behind_what_came_before_it() {
    let mut told = Told::start(Options { limits: Limits { max_rows: 100, ..options().limits }, ..options() });
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    let mut bad = chunk(0, 1, 0..5);
    bad.records[3].payload = Some("{not json".into());
    told.send(SourceEvent::Records(bad)).await;
    let ended = told.ended().await;
    let said = ended.error.unwrap().to_string();
    assert!(said.starts_with("record t:0:3: the value is not JSON"), "{said}");
    assert_eq!(told.offsets.last(), [(0, 3)], "the record itself will be delivered again");
    assert_eq!((ended.report.tally.read, ended.report.tally.applied), (3, 3));
}

#[tokio::test]
async fn a_batch_that_is_not_full_lands_within_its_age() {
    let limits = Limits { max_rows: 1_000, max_bytes: 1 << 20, max_age_ms: 50 };
    let mut told = Told::start(Options { limits, ..options() });
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..3))).await;
    told.offsets.until_committed(&[(0, 3)]).await;
    told.end().await;
}

#[tokio::test]
async fn max_messages_ends_by_count_and_idle_by_time() {
    let mut told = Told::start(Options { max_messages: Some(3), ..options() });
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..5))).await;
    let ended = told.ended().await;
    assert_eq!((ended.report.ended.name(), ended.report.tally.read), ("max-messages", 3));
    assert_eq!(told.offsets.last(), [(0, 3)]);

    let mut told = Told::start(Options { idle_timeout: Some(Duration::from_millis(50)), ..options() });
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..1))).await;
    let ended = told.ended().await;
    assert_eq!((ended.report.ended.name(), ended.report.tally.read), ("idle", 1));
    assert_eq!(told.offsets.last(), [(0, 1)]);
}

#[tokio::test]
async fn until_end_ends_at_the_bound_and_commits_the_markers_behind_the_last_record() {
    let mut told = Told::start(Options { until_end: true, ..options() });
    told.send(SourceEvent::Assigned(vec![assignment(0, 1), assignment(1, 2)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..3))).await;
    told.send(told::end_of(0, 1, 7)).await;
    told.send(told::end_of(1, 2, 4)).await;
    let ended = told.ended().await;
    assert_eq!(ended.report.ended.name(), "end");
    assert_eq!(told.offsets.last(), [(0, 7), (1, 4)]);
}

#[tokio::test]
async fn a_store_of_offsets_that_is_away_is_tried_again() {
    let mut told = Told::start(options());
    told.offsets.fail_times(2);
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.offsets.until_committed(&[(0, 2)]).await;
    assert!(told.end().await.error.is_none());
}

#[tokio::test]
async fn the_first_request_drains_and_the_second_aborts() {
    let mut told = Told::start(Options { limits: Limits { max_rows: 100, ..options().limits }, ..options() });
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..3))).await;
    told.until_read(3).await;
    told.stopper.ask();
    let ended = told.ended().await;
    assert_eq!((ended.report.ended.name(), ended.report.unsettled), ("interrupted", 0));
    assert_eq!(told.offsets.last(), [(0, 3)]);

    let mut told = Told::start(options());
    told.sink.hold();
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.sink.until_applying(1).await;
    told.stopper.ask();
    told.stopper.ask();
    let ended = told.ended().await;
    assert_eq!((ended.report.ended.name(), ended.report.unsettled), ("interrupted", 2));
    assert_eq!(told.offsets.committed(), []);
}

#[tokio::test]
async fn a_group_without_offsets_is_refused_where_the_log_begins_behind_what_the_destination_holds() {
    let start_at = |start| settle_engine::source::Assignment { start, ..assignment(0, 1) };
    let mut told = Told::start(options());
    told.sink.holds(&assignment(0, 1), 3);
    told.send(SourceEvent::Assigned(vec![start_at(7)])).await;
    let said = told.ended().await.error.unwrap().to_string();
    assert!(said.contains("holds its records up to offset 3, and the log begins at 7"), "{said}");
    assert_eq!(told.offsets.committed(), []);
    // Without a gap it is read again, which changes nothing: a crash before the first commit looks so.
    // Nor is there one where a tool moved the group to what is left of the log.
    for (start, held, resumed) in [(0, 3, false), (3, 3, false), (7, 3, true)] {
        let mut told = Told::start(options());
        told.sink.holds(&assignment(0, 1), held);
        let assigned = settle_engine::source::Assignment { resumed, begins: start, ..start_at(start) };
        told.send(SourceEvent::Assigned(vec![assigned])).await;
        told.send(SourceEvent::Records(chunk(0, 1, start..start + 2))).await;
        told.offsets.until_committed(&[(0, start + 2)]).await;
        assert!(told.end().await.error.is_none());
    }
}

#[tokio::test]
async fn a_group_that_is_ahead_of_the_destination_is_refused_before_anything_is_applied() {
    let mut told = Told::start(options());
    told.sink.holds(&assignment(0, 1), 3);
    let assigned = settle_engine::source::Assignment { start: 7, resumed: true, ..assignment(0, 1) };
    told.send(SourceEvent::Assigned(vec![assigned])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 7..9))).await;
    let said = told.ended().await.error.unwrap().to_string();
    assert!(said.contains("the group is ahead of the destination (t:0 at 7, applied up to 3)"), "{said}");
    assert_eq!((told.sink.attempts(), told.offsets.committed()), (vec![], vec![]));
}

#[tokio::test]
async fn an_offset_that_no_row_stands_for_is_committed_behind_the_destination_too() {
    let heartbeat = || {
        let mut chunk = chunk(0, 1, 0..2);
        for record in &mut chunk.records {
            (record.key, record.payload) = (Some("{\"serverName\":\"s\"}".into()), Some("{\"ts_ms\":1}".into()));
        }
        chunk
    };
    let garbage = || {
        let mut chunk = chunk(0, 1, 0..2);
        chunk.records.iter_mut().for_each(|record| record.payload = Some("{not json".into()));
        chunk
    };
    for stretch in [Some(heartbeat()), Some(garbage()), None] {
        let limit = Some(DlqLimit { max_ratio: 1.0, min_records: 0 });
        let mut told = Told::start_with(Options { until_end: true, ..options() }, limit, SinkHandle::default());
        told.sink.hold();
        told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
        let end = match stretch {
            Some(chunk) => {
                told.send(SourceEvent::Records(chunk)).await;
                2
            }
            // Markers alone.
            None => 5,
        };
        told.send(told::end_of(0, 1, end)).await;
        told.sink.until_applying(1).await;
        assert_eq!(told.offsets.committed(), [], "nothing before the destination has moved the group's place");
        told.sink.release();
        assert!(told.ended().await.error.is_none());
        assert_eq!(told.sink.journal().last().unwrap(), &format!("rows [] spans [0..{end}]"));
        assert_eq!(told.offsets.last(), [(0, end)]);
    }
}

#[tokio::test]
async fn a_destination_that_stays_away_ends_a_run_with_a_deadline() {
    let mut told = Told::start(Options { deadline: Some(Duration::from_millis(300)), ..options() });
    told.sink.fail(&[FailureKind::Unreachable; 50]);
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    let ended = told.ended().await;
    assert!(matches!(ended.error, Some(RunError::Sink(_))));
    assert_eq!(told.offsets.committed(), []);
}

#[tokio::test]
async fn two_servers_in_one_table_are_refused_before_the_second_writes() {
    let mut told = Told::start(options());
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    let mut mixed = chunk(0, 1, 0..4);
    let of_another =
        |payload: &[u8]| String::from_utf8(payload.to_vec()).unwrap().replace(r#""name":"s""#, r#""name":"s2""#);
    mixed.records[3].payload = mixed.records[3].payload.as_deref().map(|payload| of_another(payload).into());
    told.send(SourceEvent::Records(mixed)).await;
    let ended = told.ended().await;
    let said = ended.error.unwrap().to_string();
    assert!(said.contains("of s2/d would be written to table t, which is filled from"), "{said}");
    assert_eq!(told.offsets.last(), [(0, 3)]);
}

#[tokio::test]
async fn a_destination_that_fails_while_a_stop_is_asked_for_is_what_the_run_reports() {
    let mut told = Told::start(options());
    told.sink.hold();
    told.sink.fail(&[FailureKind::Contract]);
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..3))).await;
    told.sink.until_applying(1).await;
    told.until_read(3).await;
    // On one thread the writer ends before the run hears of the stop: the third record is handed
    // to a writer that is gone.
    told.sink.release();
    told.stopper.ask();
    let ended = told.ended().await;
    assert!(matches!(ended.error, Some(RunError::Sink(_))), "{:?}", ended.error);
    assert_eq!(told.offsets.committed(), []);
}

#[tokio::test]
async fn a_run_that_has_reached_its_end_waits_for_the_destination_however_short_the_drain() {
    let mut told = Told::start(Options { until_end: true, drain_timeout: Duration::from_millis(50), ..options() });
    told.sink.hold();
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.send(told::end_of(0, 1, 2)).await;
    told.sink.until_applying(1).await;
    assert!(!told.has_ended_within(Duration::from_millis(300)).await, "nothing is durable yet");
    told.sink.release();
    let ended = told.ended().await;
    assert_eq!((ended.report.ended.name(), ended.report.unsettled), ("end", 0));
    assert_eq!(told.offsets.last(), [(0, 2)]);
}

#[tokio::test]
async fn a_stop_that_cuts_the_last_drain_short_is_told() {
    let mut told = Told::start(Options { until_end: true, drain_timeout: Duration::from_millis(50), ..options() });
    told.sink.hold();
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.send(told::end_of(0, 1, 2)).await;
    told.sink.until_applying(1).await;
    told.stopper.ask();
    let ended = told.ended().await;
    assert_eq!((ended.report.ended.name(), ended.report.unsettled), ("interrupted", 2));
}

#[tokio::test]
async fn a_bounded_run_whose_offsets_cannot_be_committed_by_the_deadline_has_failed() {
    let deadline = Some(Duration::from_millis(200));
    let mut told = Told::start(Options { until_end: true, deadline, ..options() });
    told.offsets.fail_times(u32::MAX);
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.send(told::end_of(0, 1, 2)).await;
    let ended = told.ended().await;
    assert!(matches!(ended.error, Some(RunError::Source(_))), "{:?}", ended.error);
}

#[tokio::test]
async fn until_end_does_not_end_while_it_holds_no_partition() {
    let mut told = Told::start(Options { until_end: true, ..options() });
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..1))).await;
    told.send(SourceEvent::Lost(vec![partition(0)])).await;
    // It comes back after the outage, and only now is read to its end.
    told.send(SourceEvent::Assigned(vec![assignment(0, 2)])).await;
    told.send(SourceEvent::Records(chunk(0, 2, 0..4))).await;
    told.send(told::end_of(0, 2, 4)).await;
    let ended = told.ended().await;
    assert_eq!((ended.report.ended.name(), ended.report.tally.read), ("end", 5));
    assert_eq!(told.offsets.last(), [(0, 4)]);
}

#[tokio::test]
async fn a_stop_is_heard_while_a_revocation_waits_for_its_commit() {
    let mut told = Told::start(Options { drain_timeout: Duration::from_millis(100), ..options() });
    told.offsets.fail_times(u32::MAX);
    told.send(SourceEvent::Assigned(vec![assignment(0, 1), assignment(1, 2)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.until_read(2).await;
    let done = told.revoke(&[0]).await;
    // Taken in before the stop: the loop goes on while the commit is waited for.
    told.send(SourceEvent::Records(chunk(1, 2, 0..2))).await;
    told.until_read(4).await;
    told.stopper.ask();
    let ended = told.ended().await;
    assert_eq!(ended.report.ended.name(), "interrupted");
    assert_eq!(told.offsets.committed(), []);
    drop(done);
}

#[tokio::test]
async fn what_was_durable_before_the_destination_failed_is_committed() {
    let mut told = Told::start(options());
    told.offsets.fail_times(1);
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    told.until_placed(2).await;
    told.sink.fail(&[FailureKind::Contract]);
    told.send(SourceEvent::Records(chunk(0, 1, 2..4))).await;
    let ended = told.ended().await;
    assert!(matches!(ended.error, Some(RunError::Sink(_))), "{:?}", ended.error);
    assert_eq!(told.offsets.last(), [(0, 2)]);
}

#[tokio::test]
async fn a_source_that_is_away_is_not_idle() {
    let idle_timeout = Some(Duration::from_millis(50));
    let deadline = Some(Duration::from_millis(300));
    let mut told = Told::start(Options { idle_timeout, deadline, ..options() });
    told.send(SourceEvent::Away(SourceError::new(SourceFailure::Unreachable, "told to be away"))).await;
    let ended = told.ended().await;
    assert!(matches!(ended.error, Some(RunError::Source(_))), "ended as {}", ended.report.ended.name());
}
