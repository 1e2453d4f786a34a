//! Rows whose holds are lifted in the destination while a run goes on: by a retry of their dead letters.

use settle_core::dead_letter::ErrorClass::{FollowsADeadLetter, NotJson};
use settle_core::fold::Limits;
use settle_core::holds::{Held, Hold};
use settle_core::key::Key;
use settle_core::position::Offset;
use settle_core::sink::FailureKind;
use settle_engine::config::dlq::DlqLimit;
use settle_engine::run::Options;
use settle_engine::source::{Chunk, SourceEvent};

use crate::options;
use crate::told::{SinkHandle, Told, assignment, partition, update};

/// What is sent of a row.
#[derive(Clone, Copy)]
enum Sent {
    Whole,
    /// Without a column.
    Masked,
    Garbage,
}

use Sent::{Garbage, Masked, Whole};

/// A destination that has recorded a hold of row 1.
fn held() -> SinkHandle {
    let sink = SinkHandle::default();
    let key = Key::parse("{\"id\":1}", None).unwrap();
    sink.has_recorded(Hold { partition: partition(0), key, held: Held { first: 0, last: 0 } });
    sink
}

/// A run whose batches are what it is fed at once.
async fn start(sink: SinkHandle) -> Told {
    let options = Options { limits: Limits { max_rows: 100, max_age_ms: 10, ..options().limits }, ..options() };
    let told = Told::start_with(options, Some(DlqLimit { max_ratio: 1.0, min_records: 0 }), sink);
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.sink.until_opened(0).await;
    told
}

/// Updates of row 1 from `offset` on, which are a batch.
async fn feed(told: &Told, offset: Offset, sent: &[Sent]) {
    let record = |(offset, sent): (Offset, &Sent)| {
        let mut record = update(1, !matches!(sent, Masked), offset);
        if matches!(sent, Garbage) {
            record.payload = Some("{".into());
        }
        record
    };
    let records: Vec<_> = (offset..).zip(sent).map(record).collect();
    let end = offset + i64::try_from(records.len()).unwrap();
    told.send(SourceEvent::Records(Chunk { partition: partition(0), generation: 1, records })).await;
    told.offsets.until_committed(&[(0, end)]).await;
}

#[tokio::test]
async fn what_leaves_columns_out_is_applied_once_the_hold_of_its_row_is_lifted() {
    let mut told = start(held()).await;
    feed(&told, 1, &[Masked]).await;
    assert_eq!(told.queue.letters(), [(1, FollowsADeadLetter)]);
    told.sink.lifts_holds();
    feed(&told, 2, &[Masked]).await;
    feed(&told, 3, &[Masked]).await;
    assert_eq!(told.queue.letters(), [(1, FollowsADeadLetter)], "its values are in the destination");
    let ended = told.end().await;
    assert_eq!((ended.report.tally.applied, ended.report.tally.dead_lettered), (2, 1));
    assert!(ended.report.is_sound());
}

#[tokio::test]
async fn a_hold_of_this_run_is_lifted_too_and_a_later_one_is_not() {
    let mut told = start(SinkHandle::default()).await;
    feed(&told, 0, &[Whole, Garbage]).await;
    feed(&told, 2, &[Masked, Masked]).await;
    let mut letters = vec![(1, NotJson), (2, FollowsADeadLetter), (3, FollowsADeadLetter)];
    assert_eq!(told.queue.letters(), letters);
    told.sink.lifts_holds();
    // Only the batch itself knows of its dead letter.
    feed(&told, 4, &[Garbage, Masked]).await;
    letters.extend([(4, NotJson), (5, FollowsADeadLetter)]);
    assert_eq!(told.queue.letters(), letters);
    feed(&told, 6, &[Masked, Masked]).await;
    letters.extend([(6, FollowsADeadLetter), (7, FollowsADeadLetter)]);
    assert_eq!(told.queue.letters(), letters, "it was recorded");
    told.sink.lifts_holds();
    feed(&told, 8, &[Masked, Garbage]).await;
    letters.push((9, NotJson));
    assert_eq!(told.queue.letters(), letters, "what is before it does not stand on it");
    feed(&told, 10, &[Masked, Whole]).await;
    letters.push((10, FollowsADeadLetter));
    assert_eq!(told.queue.letters(), letters);
    assert!(told.end().await.error.is_none());
}

#[tokio::test]
async fn while_the_destination_does_not_say_what_is_held_nothing_follows() {
    let mut told = start(held()).await;
    told.sink.lifts_holds();
    told.sink.fail(&[FailureKind::Unreachable, FailureKind::Overloaded]);
    feed(&told, 1, &[Masked]).await;
    assert_eq!((told.queue.letters(), told.sink.attempts().len()), (vec![], 1));
    assert_eq!(told.end().await.report.retries, 2);
}
