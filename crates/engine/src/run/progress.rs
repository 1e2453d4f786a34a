//! What a run shows of itself while it goes on.

use settle_core::tally::Tally;
use tokio::sync::watch;

/// Why nothing moves for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The failure that is waited out.
    pub why: String,
}

/// A view of a run, replaced as it changes.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Counts so far, of durable batches and of records read.
    pub tally: Tally,
    /// Partitions held now.
    pub partitions: usize,
    /// Ghosts swept so far.
    pub swept: u64,
    /// Set while the source is away.
    pub source_away: Option<String>,
}

/// The watching end of a run.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Counters.
    pub progress: watch::Receiver<Progress>,
    /// Set while the destination is away.
    pub pause: watch::Receiver<Option<Pause>>,
}

/// The showing end.
#[derive(Debug)]
pub struct Show {
    pub(super) progress: watch::Sender<Progress>,
    pub(super) pause: watch::Sender<Option<Pause>>,
}

/// A pair of both ends.
pub fn channel() -> (Show, Watch) {
    let (progress, progress_watch) = watch::channel(Progress::default());
    let (pause, pause_watch) = watch::channel(None);
    (Show { progress, pause }, Watch { progress: progress_watch, pause: pause_watch })
}
