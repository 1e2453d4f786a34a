//! Reads a part of the log as a run would, and writes nothing.

use std::collections::HashMap;
use std::time::Duration;

use settle_core::lane::{Fed, Lane, LoneTombstones, Past};
use settle_core::position::Partition;
use settle_core::record::Record;
use settle_core::refusal::Refusal;
use settle_core::sink::Places;
use tokio::time::Instant;

use crate::shutdown::{Request, Shutdown};
use crate::source::{Assignment, Source, SourceError, SourceEvent, SourceFailure};

/// How long a source that is away is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a scan ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The source.
    #[error("source: {0}")]
    Source(#[from] SourceError),
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Feeds every record of `source` through its partition's lane, with the floors of `places`, and
/// hands over what a run would make of it. Goes on behind refused records, as each of them would
/// have to be dealt with.
pub async fn scan(
    mut source: Source,
    places: &Places,
    lone_tombstones: LoneTombstones,
    mut shutdown: Shutdown,
    mut each: impl FnMut(&Record, Result<Fed, Refusal>),
) -> Result<(), ScanError> {
    let mut lanes: HashMap<Partition, Lane> = HashMap::new();
    let mut away: Option<(Instant, SourceError)> = None;
    let ended = loop {
        let until = away.as_ref().map(|(since, _)| *since + PATIENCE);
        let event = tokio::select! { biased;
            () = shutdown.at_least(Request::Drain) => break Err(ScanError::Interrupted),
            event = source.events.recv() => event,
            () = at(until) => {
                let error = away.take().map(|(_, error)| error);
                let gone = || SourceError::new(SourceFailure::Unreachable, "the source does not answer");
                break Err(error.unwrap_or_else(gone).into());
            }
        };
        match event {
            Some(SourceEvent::Assigned(assignments)) => {
                for Assignment { partition, topic_id, start, .. } in assignments {
                    let floors = topic_id.map(|id| places.floors_of(id, &partition)).unwrap_or_default();
                    let boundaries = topic_id.map(|id| places.epochs_of(id, &partition)).unwrap_or_default();
                    let past = Past { floors: &floors, boundaries: &boundaries, marks: &[] };
                    lanes.insert(partition.clone(), Lane::behind(partition, start, past, lone_tombstones));
                }
            }
            Some(SourceEvent::Records(chunk)) => {
                let Some(lane) = lanes.get_mut(&chunk.partition) else { continue };
                for record in chunk.records {
                    let fed = lane.feed(record.clone());
                    each(&record, fed);
                }
            }
            Some(SourceEvent::Away(error)) => away = Some((Instant::now(), error)),
            Some(SourceEvent::Back) => away = None,
            Some(SourceEvent::Failed(error)) => break Err(error.into()),
            Some(SourceEvent::Ended) | None => break Ok(()),
            Some(SourceEvent::ReachedEnd { .. } | SourceEvent::Revoked { .. } | SourceEvent::Lost(_)) => {}
        }
    };
    source.events.close();
    source.offsets.close().await;
    ended
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
