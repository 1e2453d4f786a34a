//! Rows that are held behind a dead letter: kept until a whole row behind it.

use settle_core::batch::Batch;
use settle_core::holds::{Held, Hold, HoldNote, HoldState};
use settle_core::key::Key;
use settle_core::sink::Sink;
use settle_engine::sinks::clickhouse::ClickHouse;

use crate::records::partition;
use crate::stage::{Stage, apply, creating, open, parts, staged};

const HOSTILE: &str = r#"{"a\"b":"x\\y'","n":-0.10}"#;
const ONE: &str = r#"{"id":1}"#;

fn note(key: &str, now: HoldState) -> HoldNote {
    HoldNote { partition: partition(0), key: Key::parse(key, None).unwrap(), now }
}

fn held(first: i64, last: i64) -> HoldState {
    HoldState::Held(Held { first, last })
}

/// What the next process is told, after one that noted this.
async fn told(stage: &Stage, notes: Vec<HoldNote>) -> Vec<(String, Held)> {
    let mut sink = ClickHouse::new(stage.config(), creating()).unwrap();
    open(&mut sink).await.unwrap();
    apply(&mut sink, &Batch::of_notes(notes)).await.unwrap();
    let mut sink = ClickHouse::new(stage.config(), creating()).unwrap();
    let holds = open(&mut sink).await.unwrap().holds;
    let mut holds: Vec<_> = holds.into_iter().map(|Hold { key, held, .. }| (key.to_json(), held)).collect();
    holds.sort_by(|a, b| a.0.cmp(&b.0));
    holds
}

#[tokio::test]
async fn a_hold_is_kept_until_a_whole_row_behind_all_of_its_dead_letters() {
    staged(async |stage| {
        let is = |key: &str, first, last| (key.to_owned(), Held { first, last });
        let all = told(stage, vec![note(ONE, held(5, 5)), note(HOSTILE, held(7, 7))]).await;
        assert_eq!(all, [is(HOSTILE, 7, 7), is(ONE, 5, 5)]);
        assert_eq!(told(stage, vec![note(ONE, held(5, 8))]).await, [is(HOSTILE, 7, 7), is(ONE, 5, 8)]);
        // A replay that has not come to the last of them lifts nothing of it.
        let all = told(stage, vec![note(ONE, HoldState::Lifted(8)), note(HOSTILE, HoldState::Lifted(8))]).await;
        assert_eq!(all, [is(ONE, 8, 8)]);
        let lifted_and_set = vec![note(ONE, HoldState::Lifted(9)), note(ONE, held(11, 11))];
        assert_eq!(told(stage, lifted_and_set).await, [is(ONE, 11, 11)]);
        // What was lifted stays so: the destination has the row that lifted it.
        assert_eq!(told(stage, vec![note(ONE, HoldState::Lifted(12)), note(ONE, held(5, 5))]).await, []);
    })
    .await;
}

#[tokio::test]
async fn one_process_that_sets_and_lifts_many_times_leaves_what_the_last_said() {
    staged(async |stage| {
        let mut sink = ClickHouse::new(stage.config(), creating()).unwrap();
        open(&mut sink).await.unwrap();
        for round in 0..5 {
            let (set, lifted) = (note(ONE, held(2 * round, 2 * round)), note(ONE, HoldState::Lifted(2 * round + 1)));
            apply(&mut sink, &Batch::of_notes(vec![set, lifted])).await.unwrap();
        }
        apply(&mut sink, &Batch::of_notes(vec![note(ONE, held(20, 20)), note(ONE, held(20, 24))])).await.unwrap();
        let mut sink = ClickHouse::new(stage.config(), creating()).unwrap();
        let holds = open(&mut sink).await.unwrap().holds;
        assert_eq!(holds.into_iter().map(|hold| hold.held).collect::<Vec<_>>(), [Held { first: 20, last: 24 }]);
    })
    .await;
}

/// A retry lifts holds beside a process that has them.
#[tokio::test]
async fn what_another_lifts_is_heard_unless_it_was_over_before_it_was_noted() {
    let apply_one = async |sink: &mut ClickHouse, now| {
        apply(sink, &Batch::of_notes(vec![note(ONE, now)])).await.unwrap();
    };
    let read = async |sink: &mut ClickHouse| {
        let holds = sink.held(&parts()).await.unwrap();
        holds.into_iter().map(|hold| (hold.held.first, hold.held.last)).collect::<Vec<_>>()
    };
    staged(async |stage| {
        let mut sink = ClickHouse::new(stage.config(), creating()).unwrap();
        open(&mut sink).await.unwrap();
        apply_one(&mut sink, held(5, 7)).await;
        assert_eq!(read(&mut sink).await, [(5, 7)]);
        let mut other = ClickHouse::new(stage.config(), creating()).unwrap();
        open(&mut other).await.unwrap();
        apply_one(&mut other, HoldState::Lifted(6)).await;
        assert_eq!(read(&mut sink).await, [(7, 7)]);
        // It has noted the first of them before.
        apply_one(&mut sink, held(5, 9)).await;
        open(&mut other).await.unwrap();
        apply_one(&mut other, HoldState::Lifted(10)).await;
        assert_eq!(read(&mut sink).await, []);
        // One that replays what is over holds the row, alone: nobody lifted that.
        apply_one(&mut other, held(5, 5)).await;
        assert_eq!((read(&mut other).await, read(&mut sink).await), (vec![(5, 5)], vec![]));
        apply_one(&mut other, HoldState::Lifted(6)).await;
        assert_eq!(read(&mut other).await, []);
    })
    .await;
}
