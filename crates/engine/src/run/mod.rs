//! The run loop: one `select!` says what happened, one `match` decides.
//!
//! Records flow one way (source → line → writer), proofs come back, and only a proof moves an
//! offset. Nothing here knows Kafka or a destination.

mod commits;
mod gap;
mod line;
mod owners;
pub mod progress;
mod report;
mod writer;

use std::time::Duration;

use settle_core::fold::Limits;
use settle_core::invariant;
use settle_core::lane::LoneTombstones;
use settle_core::position::Partition;
use settle_core::refusal::Refusal;
use settle_core::sink::{PlacedPartition, Sink, SinkError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::config::Target;
use crate::shutdown::{Request, Shutdown};
use crate::source::{Assignment, Source, SourceError, SourceEvent, SourceFailure};
use commits::Commits;
use line::Line;
use progress::Show;
pub use report::Report;
use writer::{Applied, Order, Patience};

/// When a run ends, and how it gathers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Batch limits.
    pub limits: Limits,
    /// Tombstones that follow no delete.
    pub lone_tombstones: LoneTombstones,
    /// End when every partition reached the end fixed at start.
    pub until_end: bool,
    /// End after this many records.
    pub max_messages: Option<u64>,
    /// End when no record came for this long.
    pub idle_timeout: Option<Duration>,
    /// Give up on a source or destination that is away for this long; never where none.
    pub deadline: Option<Duration>,
    /// How long a drain may take after a request to stop.
    pub drain_timeout: Duration,
}

/// Why a run failed. What came before the record, or the batch, at fault is durable; it is committed
/// too unless the source itself is what failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source.
    #[error("source: {0}")]
    Source(#[source] SourceError),
    /// The destination.
    #[error("sink: {0}")]
    Sink(#[source] SinkError),
    /// A record.
    #[error("{0}")]
    Record(#[from] Refusal),
    /// A task of ours ended without a word.
    #[error("the {0} stopped without saying why; this is a bug in settle")]
    Bug(&'static str),
}

/// What ended a run, with its report.
#[derive(Debug)]
pub struct Ended {
    /// Counters.
    pub report: Report,
    /// The failure, if it was one.
    pub error: Option<RunError>,
}

/// Runs the pipeline from `source` to `sink` until it ends.
pub async fn run(
    source: Source,
    sink: Box<dyn Sink>,
    target: Target,
    options: Options,
    show: Show,
    shutdown: Shutdown,
) -> Ended {
    let started = Instant::now();
    let (orders, order_queue) = mpsc::channel(4);
    let (proof_sender, proofs) = mpsc::channel(4);
    let patience = Patience { deadline: options.deadline };
    let writer = tokio::spawn(writer::write(sink, order_queue, proof_sender, show.pause, patience));
    let mut run = Run {
        line: Line::new(options.limits, options.lone_tombstones, options.max_messages, target),
        commits: Commits::new(source.offsets),
        events: source.events,
        orders,
        proofs,
        shutdown,
        options,
        started,
        quiet_since: started,
        away_since: None,
        revoking: Vec::new(),
        caught_up: false,
        source_ended: false,
        progress: show.progress,
        report: Report::default(),
    };
    let (mut why, mut error) = match run.flow().await {
        Ok(why) => (why, None),
        Err(error) => ("failed", Some(error)),
    };
    // A run that came to its end is done when its work is, however long that takes: the deadline
    // for what is away holds here too, and a request to stop.
    let limit = (error.is_some() || why == INTERRUPTED).then(|| run.drain_limit());
    let ended = match &error {
        _ if run.shutdown.request() == Request::Abort => Ok(Drained::CutShort),
        // A failed sink writes nothing more; what it wrote before is committed.
        Some(RunError::Sink(_) | RunError::Bug(_)) => run.commit_all(limit).await,
        _ => match run.drain(limit).await {
            Err(RunError::Sink(failed)) => {
                // It failed while draining: what it wrote before is committed, too.
                let limit = run.drain_limit();
                if let Err(also) = run.commit_all(Some(limit)).await {
                    tracing::warn!(error = %also, "offsets could not be committed; what they cover will be delivered again");
                }
                Err(RunError::Sink(failed))
            }
            drained => drained,
        },
    };
    match ended {
        Ok(Drained::CutShort) if error.is_none() => why = INTERRUPTED,
        Ok(_) => {}
        Err(while_draining) => {
            why = "failed";
            error.get_or_insert(while_draining);
        }
    }
    let report = run.finish(why).await;
    writer.abort();
    Ended { report, error }
}

/// Why a run ended that was asked to.
const INTERRUPTED: &str = "interrupted";

/// What happened.
enum Happened {
    Stop,
    Proof(Option<Applied>),
    Committed(Result<(), SourceError>),
    Source(Option<SourceEvent>),
    Due,
    Idle,
    Away,
}

/// How a drain ended.
enum Drained {
    Whole,
    /// What is left will be delivered again.
    CutShort,
}

struct Revoking {
    partitions: Vec<Partition>,
    done: oneshot::Sender<()>,
}

struct Run {
    line: Line,
    commits: Commits,
    events: mpsc::Receiver<SourceEvent>,
    orders: mpsc::Sender<Order>,
    proofs: mpsc::Receiver<Applied>,
    shutdown: Shutdown,
    options: Options,
    started: Instant,
    /// Since when no record came though one could have.
    quiet_since: Instant,
    away_since: Option<(Instant, SourceError)>,
    revoking: Vec<Revoking>,
    caught_up: bool,
    source_ended: bool,
    progress: watch::Sender<progress::Progress>,
    report: Report,
}

impl Run {
    /// Flows until the run ends by itself, is asked to stop, or fails.
    async fn flow(&mut self) -> Result<&'static str, RunError> {
        loop {
            self.advance().await?;
            if let Some(why) = self.ended() {
                return Ok(why);
            }
            match self.next().await {
                Happened::Stop => return Ok(INTERRUPTED),
                Happened::Proof(applied) => self.settle(applied)?,
                Happened::Committed(result) => result.map_err(RunError::Source)?,
                Happened::Source(event) => self.on_source(event).await?,
                Happened::Due => {}
                Happened::Idle => return Ok("idle"),
                Happened::Away => {
                    let error = self.away_since.take().map(|(_, error)| error);
                    return Err(error.map_or(RunError::Bug("clock"), RunError::Source));
                }
            }
        }
    }

    /// Waits for what happens next. In this order: a request to stop must not wait behind work;
    /// proofs free room and answer revocations; commits follow proofs; new records come last.
    async fn next(&mut self) -> Happened {
        let due = self.line.due_at_ms().map(|ms| self.started + Duration::from_millis(ms));
        // A source that is away is not idle.
        let idle = self.options.idle_timeout.filter(|_| self.away_since.is_none());
        let idle = idle.map(|timeout| self.quiet_since + timeout);
        let away = match (&self.away_since, self.options.deadline) {
            (Some((since, _)), Some(deadline)) => Some(*since + deadline),
            _ => None,
        };
        let takes = self.line.can_take() && !self.source_ended;
        tokio::select! { biased;
            () = self.shutdown.at_least(Request::Drain) => Happened::Stop,
            applied = self.proofs.recv() => Happened::Proof(applied),
            result = self.commits.next() => Happened::Committed(result),
            event = self.events.recv(), if takes => Happened::Source(event),
            () = at(due) => Happened::Due,
            () = at(idle), if takes => Happened::Idle,
            () = at(away) => Happened::Away,
        }
    }

    /// Moves everything that can move: feeds the line, hands batches over, starts commits,
    /// answers revocations.
    async fn advance(&mut self) -> Result<(), RunError> {
        loop {
            let fed = self.line.feed(self.now_ms());
            while let Some(batch) = self.line.next_batch(self.now_ms()) {
                self.hand_over(Order::Apply(Box::new(batch))).await?;
            }
            fed?;
            if !self.line.can_feed() {
                break;
            }
        }
        self.commits.start();
        self.answer_revocations();
        self.show();
        Ok(())
    }

    /// Hands work to the writer. One that has ended left the reason among its proofs.
    async fn hand_over(&mut self, order: Order) -> Result<(), RunError> {
        match self.orders.send(order).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.writer_failure().await),
        }
    }

    /// Why the writer ended: it said so before it went.
    async fn writer_failure(&mut self) -> RunError {
        loop {
            let applied = self.proofs.recv().await;
            if let Err(error) = self.settle(applied) {
                return error;
            }
        }
    }

    fn ended(&self) -> Option<&'static str> {
        if self.line.has_enough() {
            return Some("max-messages");
        }
        let bounded = self.options.until_end && self.line.all_ended();
        (bounded || (self.source_ended && self.line.all_fed())).then_some("end")
    }

    fn settle(&mut self, applied: Option<Applied>) -> Result<(), RunError> {
        let Applied { batch, result, retries } = applied.ok_or(RunError::Bug("writer"))?;
        self.report.retries += retries;
        let proof = result.map_err(RunError::Sink)?;
        self.commits.add(self.line.settle(&batch, proof));
        Ok(())
    }

    async fn on_source(&mut self, event: Option<SourceEvent>) -> Result<(), RunError> {
        match event {
            Some(SourceEvent::Records(chunk)) => {
                self.quiet_since = Instant::now();
                self.line.queue(chunk);
            }
            Some(SourceEvent::Assigned(assignments)) => self.assign(assignments).await?,
            Some(SourceEvent::ReachedEnd { partition, generation, end, bounded }) => {
                let now = self.now_ms();
                self.line.reached_end(&partition, generation, end, bounded, now);
                if !self.caught_up && self.line.all_reached() {
                    self.caught_up = true;
                    tracing::info!(partitions = self.line.partitions(), "caught up with the log");
                }
            }
            Some(SourceEvent::Revoked { partitions, done }) => {
                tracing::info!(partitions = partitions.len(), "partitions revoked, draining");
                self.report.revoked += partitions.len() as u64;
                self.line.close(&partitions);
                self.revoking.push(Revoking { partitions, done });
            }
            Some(SourceEvent::Lost(partitions)) => {
                tracing::warn!(partitions = partitions.len(), "partitions lost, dropping what is in flight");
                self.report.lost += partitions.len() as u64;
                self.line.close(&partitions);
                self.line.drop_partitions(&partitions);
                self.commits.drop_partitions(&partitions);
            }
            Some(SourceEvent::Away(error)) => {
                if self.away_since.is_none() {
                    tracing::warn!(error = %error, "paused: the source is away, trying again");
                    self.away_since = Some((Instant::now(), error));
                }
            }
            Some(SourceEvent::Back) => {
                self.away_since = None;
                self.quiet_since = Instant::now();
            }
            Some(SourceEvent::Failed(error)) => return Err(RunError::Source(error)),
            Some(SourceEvent::Ended) => self.source_ended = true,
            None => return Err(RunError::Bug("source")),
        }
        Ok(())
    }

    /// Opens the sink for new partitions, then their lanes.
    async fn assign(&mut self, assignments: Vec<Assignment>) -> Result<(), RunError> {
        let mut parts = Vec::with_capacity(assignments.len());
        for assignment in &assignments {
            let topic_id = assignment.topic_id.ok_or_else(|| {
                RunError::Source(SourceError::new(
                    SourceFailure::Contract,
                    format!(
                        "the broker gives no topic id for {}: Kafka 2.8 or newer is needed",
                        assignment.partition.topic
                    ),
                ))
            })?;
            parts.push(PlacedPartition { topic_id, partition: assignment.partition.clone() });
        }
        let (reply, mut answer) = oneshot::channel();
        self.hand_over(Order::Open(parts, reply)).await?;
        // Batches in flight are proven meanwhile: the writer works in order, and its proofs have
        // bounded room.
        let places = loop {
            tokio::select! { biased;
                () = self.shutdown.at_least(Request::Drain) => return Ok(()),
                places = &mut answer => match places {
                    Ok(places) => break places.map_err(RunError::Sink)?,
                    Err(_) => return Err(self.writer_failure().await),
                },
                applied = self.proofs.recv() => self.settle(applied)?,
            }
        };
        gap::refuse(&assignments, &places)?;
        self.report.assigned += assignments.len() as u64;
        self.away_since = None;
        self.quiet_since = Instant::now();
        tracing::info!(partitions = assignments.len(), "partitions assigned");
        self.line.assign(assignments, &places);
        self.caught_up = false;
        Ok(())
    }

    /// Lets go of revoked partitions. Nothing is waited for here: the loop must hear of a stop, and
    /// of a source that gave the wait up.
    fn answer_revocations(&mut self) {
        while let Some(at) = self.revoking.iter().position(|revoking| self.may_go(revoking)) {
            let Revoking { partitions, done } = self.revoking.swap_remove(at);
            self.line.drop_partitions(&partitions);
            self.commits.drop_partitions(&partitions);
            // A source that stopped waiting has gone on without the commit: the records come again.
            let _ = done.send(());
        }
    }

    /// True if everything of the partitions is proven and committed, or nobody waits for it.
    fn may_go(&self, Revoking { partitions, done }: &Revoking) -> bool {
        done.is_closed() || self.line.is_settled(partitions) && !self.commits.holds(partitions)
    }

    fn drain_limit(&self) -> Instant {
        Instant::now() + self.options.drain_timeout
    }

    /// Makes what was read durable and commits it. Without a limit, a request to stop sets one.
    async fn drain(&mut self, mut limit: Option<Instant>) -> Result<Drained, RunError> {
        self.line.cut_soon();
        loop {
            while let Some(batch) = self.line.next_batch(self.now_ms()) {
                self.hand_over(Order::Apply(Box::new(batch))).await?;
            }
            if self.line.is_idle() {
                return self.commit_all(limit).await;
            }
            let cuts_short = if limit.is_some() { Request::Abort } else { Request::Drain };
            tokio::select! { biased;
                () = self.shutdown.at_least(cuts_short) => match limit {
                    Some(_) => return Ok(Drained::CutShort),
                    None => limit = Some(self.drain_limit()),
                },
                applied = self.proofs.recv() => self.settle(applied)?,
                () = at(limit) => {
                    tracing::warn!("the drain took too long; what is in flight will be delivered again");
                    return Ok(Drained::CutShort);
                }
            }
        }
    }

    /// Commits what is durable. Without a limit, a request to stop sets one.
    async fn commit_all(&mut self, mut limit: Option<Instant>) -> Result<Drained, RunError> {
        let deadline = self.options.deadline.map(|deadline| Instant::now() + deadline);
        loop {
            let cuts_short = if limit.is_some() { Request::Abort } else { Request::Drain };
            tokio::select! { biased;
                () = self.shutdown.at_least(cuts_short) => match limit {
                    Some(_) => return Ok(Drained::CutShort),
                    None => limit = Some(self.drain_limit()),
                },
                committed = self.commits.finish() => {
                    return committed.map(|()| Drained::Whole).map_err(RunError::Source);
                }
                () = at(limit) => {
                    tracing::warn!("offsets could not be committed in time; what they cover will be delivered again");
                    return Ok(Drained::CutShort);
                }
                () = at(deadline), if limit.is_none() => {
                    let message = "offsets could not be committed by the deadline; what they cover is durable and will \
                                   be delivered again: see that the source can be reached, and start again";
                    return Err(RunError::Source(SourceError::new(SourceFailure::Unreachable, message)));
                }
            }
        }
    }

    async fn finish(mut self, why: &'static str) -> Report {
        for revoking in self.revoking.drain(..) {
            let _ = revoking.done.send(());
        }
        // Closing leaves the group, and the source's thread may still be handing something over.
        self.events.close();
        self.commits.close().await;
        let mut report = self.report;
        report.ended = why.to_owned();
        report.elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.tally = self.line.tally;
        report.unsettled = self.line.taken - report.tally.read;
        report.tally.read = self.line.taken;
        report.redelivered = self.line.redelivered;
        report.batches = self.line.batches;
        report.committed = self.commits.committed();
        report.broken_invariants = invariant::broken().map(|(name, times)| (name.to_owned(), times)).collect();
        report
    }

    fn show(&self) {
        let mut tally = self.line.tally;
        tally.read = self.line.taken;
        self.progress.send_replace(progress::Progress {
            tally,
            partitions: self.line.partitions(),
            source_away: self.away_since.as_ref().map(|(_, error)| error.to_string()),
        });
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Waits until `when`; for ever where none.
async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
