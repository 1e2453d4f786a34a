//! Records that are set aside: in which order things become durable, and what stops the run.

use std::time::Duration;

use settle_core::dead_letter::ErrorClass;
use settle_core::fold::Limits;
use settle_core::holds::{Held, Hold, HoldState};
use settle_core::key::Key;
use settle_core::position::Offset;
use settle_core::sink::FailureKind;
use settle_engine::config::dlq::DlqLimit;
use settle_engine::run::{Options, RunError};
use settle_engine::source::{Assignment, Chunk, SourceEvent};

use crate::told::{self, SinkHandle, Told, assignment, chunk, partition};

/// Batches are cut where the log ends.
fn options() -> Options {
    Options {
        limits: Limits { max_rows: 10_000, max_bytes: 1 << 24, max_age_ms: 60_000 },
        drain_timeout: Duration::from_secs(20),
        until_end: true,
        ..Options::default()
    }
}

fn start(options: Options) -> Told {
    Told::start_with(options, Some(DlqLimit::default()), SinkHandle::default())
}

/// Gives a run one partition and this log of it, and its end.
async fn feed(told: &Told, log: Chunk) {
    let end = log.records.last().unwrap().offset + 1;
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(log)).await;
    told.send(told::end_of(0, 1, end)).await;
}

/// Ten inserts of distinct keys, those at `garbage` no JSON.
fn ten(garbage: &[usize]) -> Chunk {
    let mut log = chunk(0, 1, 0..10);
    garbage.iter().for_each(|at| log.records[*at].payload = Some("{not json".into()));
    log
}

/// Updates of one row, in which `body` is sent or not.
fn updates(of: &[(Offset, bool)]) -> Chunk {
    let record = |&(offset, sent): &(Offset, bool)| told::update(1, sent, offset);
    Chunk { partition: partition(0), generation: 1, records: of.iter().map(record).collect() }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_safe_before_its_batch_is_written() {
    for garbage in [vec![0], vec![4], vec![9], vec![0, 4, 9]] {
        let mut told = start(options());
        feed(&told, ten(&garbage)).await;
        let ended = told.ended().await;
        assert!(ended.error.is_none(), "{:?}", ended.error);
        let journal = told.sink.journal();
        assert_eq!(journal.len(), 2, "{journal:?}");
        assert!(journal[0].starts_with("letters") && journal[1].ends_with("spans [0..10]"), "{journal:?}");
        let tally = ended.report.tally;
        assert_eq!((tally.read, tally.dead_lettered), (10, garbage.len() as u64));
        assert!(ended.report.is_sound());
        assert_eq!(ended.report.dead_letters_by_class["not-json"], garbage.len() as u64);
        assert_eq!(told.offsets.last(), [(0, 10)]);
    }
}

#[tokio::test]
async fn rows_that_the_destination_refuses_are_found_and_set_aside_before_anything_is_proven() {
    for names_records in [true, false] {
        for poison in [&[0][..], &[5], &[9], &[0, 4, 5, 9], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
            let mut told = start(options());
            told.sink.refuse(poison, names_records);
            feed(&told, ten(&[])).await;
            let ended = told.ended().await;
            assert!(ended.error.is_none(), "{:?}", ended.error);
            let wanted: Vec<_> = poison.iter().map(|offset| (*offset, ErrorClass::Value)).collect();
            assert_eq!(told.queue.letters(), wanted);
            let journal = told.sink.journal();
            let (last, before) = journal.split_last().unwrap();
            assert_eq!(last, "rows [] spans [0..10]", "what proves comes last");
            assert!(before.last().unwrap().starts_with("letters"), "{journal:?}");
            assert!(before.iter().all(|line| line.starts_with("letters") || line.ends_with("spans []")), "{journal:?}");
            let tally = ended.report.tally;
            assert_eq!((tally.applied, tally.dead_lettered), (10 - poison.len() as u64, poison.len() as u64));
            assert!(ended.report.is_sound());
            assert_eq!(told.offsets.committed(), [(0, 10)]);
        }
    }
}

#[tokio::test]
async fn a_letter_has_the_record_its_table_and_its_version() {
    let mut told = start(options());
    told.sink.refuse(&[3], true);
    let mut log = ten(&[]);
    log.records[3].headers = vec![settle_core::record::Header { name: "h".into(), value: Some("v".into()) }];
    let record = log.records[3].clone();
    feed(&told, log).await;
    told.ended().await;
    let letter = told.queue.last();
    assert_eq!(letter.topic_id, assignment(0, 1).topic_id.unwrap());
    assert_eq!(letter.dead.record, record);
    assert_eq!(letter.dead.table.unwrap().to_string(), "public.t");
    assert_eq!(letter.dead.version.unwrap().to_string(), "0/1003/1/1003");
    assert_eq!(letter.dead.error, "write: told to refuse it");
}

#[tokio::test]
async fn while_the_queue_is_away_nothing_is_committed_and_the_run_pauses() {
    for poison in ["not read", "refused"] {
        let mut told = start(options());
        told.queue.fail(&[FailureKind::Unreachable; 1_000]);
        let log = if poison == "refused" {
            told.sink.refuse(&[4], false);
            ten(&[])
        } else {
            ten(&[4])
        };
        feed(&told, log).await;
        assert_eq!(told.until_paused().await, "write dead letters: told to fail", "{poison}");
        assert_eq!(told.offsets.committed(), [], "{poison}");
        assert!(told.sink.journal().iter().all(|line| line.ends_with("spans []")), "{poison}");
        told.queue.mend();
        let ended = told.ended().await;
        assert!(ended.error.is_none(), "{:?}", ended.error);
        assert_eq!(told.queue.letters().len(), 1, "{poison}");
        assert_eq!(told.offsets.last(), [(0, 10)]);
        assert!(ended.report.retries > 0);
    }
}

#[tokio::test]
async fn a_queue_that_stays_away_ends_a_bounded_run_and_what_came_before_is_committed() {
    for kind in [FailureKind::Unreachable, FailureKind::Contract] {
        let deadline = Some(Duration::from_millis(300));
        let mut told = start(Options { deadline, limits: Limits { max_rows: 4, ..options().limits }, ..options() });
        told.queue.fail(&[kind; 1_000]);
        feed(&told, ten(&[5])).await;
        let ended = told.ended().await;
        assert!(matches!(ended.error, Some(RunError::DeadLetters(_))), "{:?}", ended.error);
        assert_eq!(told.offsets.last(), [(0, 4)]);
        assert_eq!((ended.report.tally.dead_lettered, ended.report.unsettled), (0, 6));
        assert!(ended.report.is_sound());
    }
}

#[tokio::test]
async fn a_failure_of_the_environment_while_a_batch_is_in_pieces_is_waited_for() {
    let mut told = start(options());
    told.sink.refuse(&[6], false);
    told.sink.succeed(1);
    told.sink.fail(&[FailureKind::Unreachable, FailureKind::Overloaded]);
    feed(&told, ten(&[])).await;
    let ended = told.ended().await;
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!((ended.report.retries, ended.report.tally.applied), (2, 9));
    assert_eq!(told.queue.letters(), [(6, ErrorClass::Value)]);
}

#[tokio::test]
async fn a_contract_that_breaks_while_a_batch_is_in_pieces_stops_and_sets_nothing_aside() {
    let mut told = start(options());
    told.sink.refuse(&[6], false);
    told.sink.succeed(1);
    told.sink.fail(&[FailureKind::Contract]);
    feed(&told, ten(&[])).await;
    let ended = told.ended().await;
    assert!(matches!(ended.error, Some(RunError::Sink(_))), "{:?}", ended.error);
    assert_eq!((told.queue.letters(), told.offsets.committed()), (vec![], vec![]));
    assert_eq!(ended.report.unsettled, 10);
}

#[tokio::test]
async fn too_many_stop_the_run_before_their_batch_is_written() {
    let limit = Some(DlqLimit { max_ratio: 0.1, min_records: 5 });
    let options = Options { limits: Limits { max_rows: 5, ..options().limits }, ..options() };
    // One of five is too many. One of ten is not: the first batch is below `min_records` of this one.
    for (garbage, min_records, is_too_many) in [(&[1][..], 5, true), (&[1], 6, false), (&[1, 8], 6, true)] {
        let limit = limit.map(|limit| DlqLimit { min_records, ..limit });
        let mut told = Told::start_with(options, limit, SinkHandle::default());
        feed(&told, ten(garbage)).await;
        let ended = told.ended().await;
        if is_too_many {
            let Some(RunError::TooManyDeadLetters(error)) = ended.error else { panic!("{:?}", ended.error) };
            let said = error.to_string();
            let share = format!("{} of {} records read cannot be applied", garbage.len(), 5 * garbage.len());
            assert!(said.starts_with(&share), "{said}");
            assert!(said.contains("not-json, the first: record t:0:1: the value is not JSON"), "{said}");
            assert_eq!(told.queue.letters().len(), garbage.len() - 1, "the last ones are not written");
            assert_eq!(told.offsets.last().len(), garbage.len() - 1, "nor is their batch committed");
        } else {
            assert!(ended.error.is_none(), "{:?}", ended.error);
        }
        assert!(ended.report.is_sound());
    }
}

#[tokio::test]
async fn a_topic_of_poison_is_not_taken_apart_to_its_last_record() {
    let limit = Some(DlqLimit { max_ratio: 0.1, min_records: 5 });
    let mut told = Told::start_with(options(), limit, SinkHandle::default());
    told.sink.refuse(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], false);
    feed(&told, ten(&[])).await;
    let ended = told.ended().await;
    assert!(matches!(ended.error, Some(RunError::TooManyDeadLetters(_))), "{:?}", ended.error);
    assert!(told.sink.attempts().len() < 10, "{} writes", told.sink.attempts().len());
    assert_eq!((told.queue.letters(), told.offsets.committed()), (vec![], vec![]));
}

#[tokio::test]
async fn a_record_without_a_key_is_poison_only_where_others_have_one() {
    let keyless = |at: usize| {
        let mut log = ten(&[]);
        log.records[at].key = None;
        log
    };
    let mut told = start(options());
    feed(&told, keyless(1)).await;
    assert!(told.ended().await.error.is_none());
    assert_eq!(told.queue.letters(), [(1, ErrorClass::NoKey)]);
    // None had one yet: it may be the topic that has none.
    let mut told = start(options());
    feed(&told, keyless(0)).await;
    let ended = told.ended().await;
    assert!(matches!(ended.error, Some(RunError::Record(_))), "{:?}", ended.error);
    assert_eq!((told.queue.letters(), told.offsets.committed()), (vec![], vec![]));
    // The group went on from here before: those it read had keys, or it had stopped.
    let mut told = start(options());
    told.send(SourceEvent::Assigned(vec![Assignment { resumed: true, ..assignment(0, 1) }])).await;
    told.send(SourceEvent::Records(keyless(0))).await;
    told.send(told::end_of(0, 1, 10)).await;
    assert!(told.ended().await.error.is_none());
    assert_eq!(told.queue.letters(), [(0, ErrorClass::NoKey)]);
}

#[tokio::test]
async fn what_breaks_a_promise_of_the_topic_stops_the_run_beside_a_queue_too() {
    let mut told = start(options());
    let mut log = ten(&[2]);
    log.records[5].payload = None;
    feed(&told, log).await;
    let ended = told.ended().await;
    let said = ended.error.unwrap().to_string();
    assert!(said.starts_with("record t:0:5: a tombstone alone"), "{said}");
    assert!(!said.contains("[dlq]"), "it is no way out of this: {said}");
    assert_eq!((told.queue.letters(), told.offsets.last()), (vec![(2, ErrorClass::NotJson)], vec![(0, 5)]));
}

#[tokio::test]
async fn without_a_queue_the_message_says_the_way_out() {
    let mut told = Told::start(options());
    told.sink.refuse(&[2], true);
    feed(&told, ten(&[])).await;
    let said = told.ended().await.error.unwrap().to_string();
    assert!(said.contains("told to refuse it; to set such records aside and go on, say where: [dlq] path"), "{said}");
}

#[tokio::test]
async fn what_leaves_columns_out_follows_the_dead_letter_of_its_row_and_the_destination_is_told() {
    use ErrorClass::{FollowsADeadLetter, NotJson};
    let mut told = start(options());
    let mut log = updates(&[(0, true), (1, true), (2, false), (3, true), (4, false)]);
    log.records[1].payload = Some("{".into());
    feed(&told, log).await;
    let ended = told.ended().await;
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(told.queue.letters(), [(1, NotJson), (2, FollowsADeadLetter)]);
    assert_eq!(told.sink.journal(), ["rows [4] spans []", "letters [1 2]", "rows [] spans [0..5]"]);
    assert_eq!(told.sink.notes().last().unwrap().now, HoldState::Lifted(3));
    let error = told.queue.last().dead.error;
    assert!(error.starts_with("record t:0:2: it leaves out columns") && error.contains("dead letter t:0:1"), "{error}");
}

#[tokio::test]
async fn a_hold_that_the_destination_recorded_is_kept_by_the_next_run() {
    let sink = || {
        let sink = SinkHandle::default();
        let key = Key::parse("{\"id\":1}", None).unwrap();
        sink.has_recorded(Hold { partition: partition(0), key, held: Held { first: 3, last: 3 } });
        sink
    };
    let log = || updates(&[(2, false), (4, false), (5, true), (6, false)]);
    let mut told = Told::start_with(options(), Some(DlqLimit::default()), sink());
    feed(&told, log()).await;
    assert!(told.ended().await.error.is_none());
    assert_eq!(told.queue.letters(), [(4, ErrorClass::FollowsADeadLetter)]);
    assert_eq!(told.sink.notes().last().unwrap().now, HoldState::Lifted(5));
    // Without a queue there is no place for what follows.
    let mut told = Told::start_with(options(), None, sink());
    feed(&told, log()).await;
    let said = told.ended().await.error.unwrap().to_string();
    assert!(said.contains("record t:0:4: it leaves out columns") && said.contains("name a [dlq]"), "{said}");
    assert_eq!(told.offsets.committed(), []);
}

#[tokio::test]
async fn letters_that_were_cut_are_counted() {
    let mut told = start(options());
    let mut log = ten(&[]);
    log.records[1].payload = Some("x".repeat(20_000).into());
    feed(&told, log).await;
    assert_eq!(told.ended().await.report.dlq_truncated, 1);
}
