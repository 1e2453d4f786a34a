//! What is done when every partition has passed a place: ghosts are swept, truncates carried out.

use settle_core::change::TableName;
use settle_core::sink::{Pending, Sweep};
use settle_core::version::Version;
use settle_engine::config::Target;
use settle_engine::config::target::OnResnapshot;
use settle_engine::source::{Chunk, SourceEvent};

use super::options;
use super::told::{Told, assignment, chunk, end_of, partition, read_row};

fn sweeping() -> Target {
    Target { on_resnapshot: OnResnapshot::Sweep, ..Target::default() }
}

/// The connector reads the table again behind two streamed rows.
async fn read_again(told: &Told) {
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..2))).await;
    let records = vec![read_row(0, 2, "true"), read_row(0, 3, "last")];
    told.send(SourceEvent::Records(Chunk { partition: partition(0), generation: 1, records })).await;
    told.offsets.until_committed(&[(0, 4)]).await;
}

#[tokio::test]
async fn a_sweep_is_remembered_before_its_rows_are_applied_and_done_when_every_partition_has_passed() {
    let mut told = Told::start_for(options(), sweeping());
    // Another instance has partition 1 and is behind.
    told.offsets.stands(&[(0, 4, 4), (1, 9, 8)]);
    read_again(&told).await;
    let before = ["apply 2", "plan public.t Gap", "plan public.t Last", "apply 2"];
    assert_eq!(told.sink.told(), before);
    // What is written from here on need not be passed.
    told.offsets.until_asked(told.offsets.asked() + 1).await;
    told.offsets.stands(&[(0, 20, 4), (1, 20, 8)]);
    told.offsets.until_asked(told.offsets.asked() + 1).await;
    assert_eq!(told.sink.told(), before, "a partition has not passed");
    told.offsets.stands(&[(0, 20, 4), (1, 20, 9)]);
    told.sink.until_told("finish sweep public.t").await;
    // While the run goes on: one that is ended by force has counted them, too.
    told.until_swept(7).await;
    let asked = told.offsets.asked();
    told.send(end_of(0, 1, 4)).await;
    let ended = told.end().await;
    assert_eq!((ended.report.swept, &ended.report.possible_ghosts[..]), (7, &["public.t".to_owned()][..]));
    assert_eq!(told.offsets.asked(), asked, "nothing waits, nobody asks");
    assert_eq!(told.sink.told().len(), before.len() + 1, "done once");
}

#[tokio::test]
async fn at_the_end_of_a_log_everything_has_passed() {
    // A capture cannot say more than that.
    let mut told = Told::start_for(options(), sweeping());
    read_again(&told).await;
    let ended = told.end().await;
    assert_eq!((ended.report.swept, ended.error.is_none()), (7, true));
    assert_eq!(told.sink.told().last().unwrap(), "finish sweep public.t");
}

#[tokio::test]
async fn a_run_that_stops_before_that_leaves_it_to_the_next() {
    let told = Told::start_for(options(), sweeping());
    told.offsets.stands(&[(0, 4, 4), (1, 9, 8)]);
    read_again(&told).await;
    told.stopper.ask();
    let mut told = told;
    let ended = told.ended().await;
    assert_eq!((ended.report.swept, ended.error.is_none()), (0, true));
    assert!(!told.sink.told().iter().any(|what| what.starts_with("finish")), "{:?}", told.sink.told());
}

#[tokio::test]
async fn what_a_destination_has_pending_is_done_once_it_is_passed() {
    let mut told = Told::start_for(options(), sweeping());
    let topic_id = assignment(0, 1).topic_id.unwrap();
    let table = std::sync::Arc::new(TableName { namespace: "public".into(), name: "old".into() });
    let sweep = Sweep { table, topic: "t".into(), below: Version::from_halves(1, 0) };
    told.sink.has_pending(Pending::Sweep(topic_id, sweep));
    told.sink.has_pending(Pending::Truncate { topic: "t".into(), topic_id, version: Version::from_halves(1, 0) });
    told.offsets.stands(&[(0, 4, 3), (1, 0, 0)]);
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.offsets.until_asked(1).await;
    assert_eq!(told.sink.told(), [""; 0]);
    told.offsets.stands(&[(0, 4, 4), (1, 0, 0)]);
    told.sink.until_told("finish sweep public.old").await;
    told.sink.until_told("finish truncate").await;
    told.end().await;
}

#[tokio::test]
async fn without_being_asked_to_nothing_is_swept() {
    let mut told = Told::start(options());
    read_again(&told).await;
    let ended = told.end().await;
    assert_eq!((ended.report.swept, &ended.report.possible_ghosts[..]), (0, &["public.t".to_owned()][..]));
    assert_eq!(told.sink.told(), ["apply 2", "apply 2"]);
    assert_eq!(told.offsets.asked(), 0);
}
