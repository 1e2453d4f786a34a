//! Orders that a destination is not ready for: the run hears everything else meanwhile.

use std::time::Duration;

use settle_core::fold::Limits;
use settle_engine::config::Target;
use settle_engine::config::target::OnResnapshot;
use settle_engine::run::Options;
use settle_engine::source::{Chunk, SourceEvent};

use super::options;
use super::told::{Told, assignment, chunk, partition, read_row};

/// Rows of a batch: more than there is room for orders before the writer.
const ROWS: i64 = 8;

fn eight_rows() -> Options {
    Options { limits: Limits { max_rows: 8, ..options().limits }, ..options() }
}

/// A run whose destination does not answer to its first batch, and which has read behind it a snapshot
/// that asks for a plan with every row.
async fn behind_a_batch(options: Options) -> Told {
    let told = Told::start_for(options, Target { on_resnapshot: OnResnapshot::Sweep, ..Target::default() });
    told.sink.hold();
    told.send(SourceEvent::Assigned(vec![assignment(0, 1)])).await;
    told.send(SourceEvent::Records(chunk(0, 1, 0..ROWS))).await;
    told.sink.until_applying(1).await;
    let records = (ROWS..2 * ROWS).map(|offset| read_row(0, offset, "last")).collect();
    told.send(SourceEvent::Records(Chunk { partition: partition(0), generation: 1, records })).await;
    told
}

#[tokio::test]
async fn a_stop_is_heard_however_many_orders_wait_for_the_destination() {
    for requests in [1, 2] {
        let drain_timeout = Duration::from_millis(if requests == 1 { 100 } else { 20_000 });
        let mut told = behind_a_batch(Options { drain_timeout, ..eight_rows() }).await;
        told.until_read(16).await;
        (0..requests).for_each(|_| told.stopper.ask());
        let ended = told.ended().await;
        assert_eq!((ended.report.ended.name(), ended.report.unsettled), ("interrupted", 16));
        assert_eq!(told.offsets.committed(), []);
    }
}

#[tokio::test]
async fn while_orders_wait_the_source_is_heard_and_they_keep_their_order() {
    let mut told = behind_a_batch(eight_rows()).await;
    told.send(SourceEvent::Records(chunk(0, 1, 2 * ROWS..2 * ROWS + 3))).await;
    told.until_read(19).await;
    let mut done = told.revoke(&[0]).await;
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut done).await.is_err(), "nothing is durable yet");
    assert_eq!(told.sink.told(), ["apply 8"]);
    told.sink.release();
    done.await.unwrap();
    assert_eq!(told.offsets.last(), [(0, 2 * ROWS + 3)]);
    let wanted = [&["apply 8", "plan public.t Gap"][..], &["plan public.t Last"; 8], &["apply 8", "apply 3"]].concat();
    assert_eq!(told.sink.told(), wanted);
    assert!(told.end().await.error.is_none());
}
