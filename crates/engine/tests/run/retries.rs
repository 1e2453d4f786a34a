//! Dead letters driven again, where the destination goes away on the way.

use chrono::DateTime;
use settle_core::holds::{Held, Hold, HoldNote, HoldState};
use settle_core::key::Key;
use settle_core::position::Offset;
use settle_core::sink::FailureKind;
use settle_engine::dead_letter::retry::{Fate, retry};
use settle_engine::dead_letter::{Entry, Found};

use crate::told::{SinkHandle, assignment, partition, update};

fn letter(id: i64, sent: bool, offset: Offset) -> Found {
    let entry = Entry {
        group: "g".to_owned(),
        topic_id: assignment(0, 1).topic_id.unwrap(),
        record: update(id, sent, offset),
        error: String::new(),
        class: "value".to_owned(),
        table: None,
        version: None,
        failed_at: DateTime::UNIX_EPOCH,
        truncated: None,
    };
    Found { entry, times: 1, resolved: None }
}

/// A destination that holds row 1 behind the first letter, takes that, and is away for the second.
fn destination() -> (SinkHandle, Key) {
    let (sink, key) = (SinkHandle::default(), Key::of_message(b"{\"id\":1}").unwrap());
    sink.has_recorded(Hold { partition: partition(0), key: key.clone(), held: Held { first: 1, last: 1 } });
    sink.succeed(1);
    sink.fail(&[FailureKind::Unreachable]);
    (sink, key)
}

/// The second leaves out a column, so that they go one by one.
fn letters() -> [Found; 2] {
    [letter(1, true, 1), letter(2, false, 2)]
}

#[tokio::test]
async fn holds_of_what_was_applied_are_lifted_also_where_the_rest_could_not_be() {
    let (mut sink, key) = destination();
    let (retried, error) = retry(&mut sink, &letters(), &[0, 1], None).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable);
    assert!(matches!(retried.fates[..], [(0, Fate::Settled)]), "{:?}", retried.fates);
    assert_eq!(sink.notes(), [HoldNote { partition: partition(0), key, now: HoldState::Lifted(2) }]);
}

#[tokio::test]
async fn a_letter_whose_hold_could_not_be_lifted_stays_open() {
    let (mut sink, key) = destination();
    sink.fail(&[FailureKind::Unreachable]);
    let (retried, _) = retry(&mut sink, &letters(), &[0, 1], None).await.unwrap_err();
    assert!(retried.fates.is_empty(), "{:?}", retried.fates);
    assert_eq!(sink.notes(), []);
    // Another try changes nothing but that.
    let retried = retry(&mut sink, &letters()[..1], &[0], None).await.unwrap();
    assert!(matches!(retried.fates[..], [(0, Fate::Settled)]), "{:?}", retried.fates);
    assert_eq!(sink.notes(), [HoldNote { partition: partition(0), key, now: HoldState::Lifted(2) }]);
}
