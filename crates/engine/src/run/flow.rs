//! The loop itself: one `select!` says what happened, one `match` decides.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use settle_core::batch::Batch;
use settle_core::position::Partition;
use settle_core::sink::{Guarantee, Passed, Pending, PlacedPartition, Seen};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::attempts::Patience;
use super::commits::Commits;
use super::contested::Contested;
use super::line::Line;
use super::notes::Notes;
use super::orders::Orders;
use super::passed::Passing;
use super::progress::{self, Show};
use super::report::{End, Report};
use super::writer::{self, Applied, Order};
use super::{Destination, Ended, Options, RunError, gap};
use crate::config::Target;
use crate::shutdown::{Request, Shutdown};
use crate::source::{Assignment, GroupOffsets, OffsetStore, Source, SourceError, SourceEvent, SourceFailure};

/// Runs the pipeline from `source` to `sink` until it ends.
pub async fn run(
    source: Source,
    destination: impl Into<Destination>,
    target: Target,
    options: Options,
    show: Show,
    shutdown: Shutdown,
) -> Ended {
    let started = Instant::now();
    let (orders, order_queue) = mpsc::channel(4);
    let (proof_sender, proofs) = mpsc::channel(4);
    let patience = Patience { deadline: options.deadline };
    let destination = destination.into();
    let mut line = Line::new(options.limits, options.lone_tombstones, options.max_messages, target);
    line.ghosts.beside = options.beside;
    line.sets_aside = destination.dead_letters.is_some();
    let guarantee = destination.sink.guarantee();
    let writer = tokio::spawn(writer::write(destination, order_queue, proof_sender, show.pause, patience));
    let store: Arc<dyn OffsetStore> = source.offsets.into();
    let mut run = Run {
        line,
        passing: Passing::new(store.clone()),
        finishing: VecDeque::new(),
        commits: Commits::new(store),
        // What is read beside the pipeline is nobody's progress.
        guarantee: (!options.beside).then_some(guarantee),
        notes: Notes::new(guarantee != Guarantee::Atomic),
        group: source.group,
        events: source.events,
        orders: Orders::new(orders),
        proofs,
        shutdown,
        options,
        started,
        quiet_since: started,
        away_since: None,
        revoking: Vec::new(),
        contested: Contested::default(),
        caught_up: false,
        source_ended: false,
        writer_ended: false,
        progress: show.progress,
        report: Report::default(),
    };
    let flowed = run.flow().await;
    let (why, error) = run.end(flowed).await;
    let report = run.finish(why).await;
    writer.abort();
    // A sink that blocks its thread (SQLite, waiting for a lock) hears of it only afterwards, and must
    // not find a runtime without a clock then.
    let _ = writer.await;
    Ended { report, error }
}

/// What happened.
enum Happened {
    Stop,
    Proof(Option<Applied>),
    Committed(Result<(), SourceError>),
    Passed(Vec<Passed>),
    /// So many rows were swept.
    Finished(u64),
    Source(Option<SourceEvent>),
    Due,
    Idle,
    Away,
    Contested,
}

pub(super) struct Revoking {
    pub(super) partitions: Vec<Partition>,
    pub(super) done: oneshot::Sender<()>,
}

pub(super) struct Run {
    pub(super) line: Line,
    pub(super) commits: Commits,
    /// What is done when everything has passed it.
    pub(super) passing: Passing,
    /// What the destination is doing of that, in order: answered with the rows swept.
    pub(super) finishing: VecDeque<oneshot::Receiver<u64>>,
    /// What the destination promises; none where what is read is nobody's progress.
    pub(super) guarantee: Option<Guarantee>,
    /// What it is to be told of the group's offsets.
    pub(super) notes: Notes,
    /// Where the group's offsets are kept.
    pub(super) group: GroupOffsets,
    pub(super) events: mpsc::Receiver<SourceEvent>,
    pub(super) orders: Orders,
    pub(super) proofs: mpsc::Receiver<Applied>,
    pub(super) shutdown: Shutdown,
    pub(super) options: Options,
    pub(super) started: Instant,
    /// Since when no record came though one could have.
    pub(super) quiet_since: Instant,
    pub(super) away_since: Option<(Instant, SourceError)>,
    pub(super) revoking: Vec<Revoking>,
    /// Partitions that another instance has in the destination, and we in the group.
    pub(super) contested: Contested,
    pub(super) caught_up: bool,
    pub(super) source_ended: bool,
    /// It failed, and writes nothing more.
    pub(super) writer_ended: bool,
    pub(super) progress: watch::Sender<progress::Progress>,
    pub(super) report: Report,
}

impl Run {
    /// Flows until the run ends by itself, is asked to stop, or fails.
    async fn flow(&mut self) -> Result<End, RunError> {
        loop {
            self.advance()?;
            if let Some(why) = self.ended() {
                self.say_unmatched_rules(why == End::End);
                return Ok(why);
            }
            match self.next().await {
                Happened::Stop => return Ok(End::Interrupted),
                Happened::Proof(applied) => self.settle(applied)?,
                Happened::Committed(result) => {
                    result.map_err(RunError::Source)?;
                    self.tell_stored(false);
                }
                Happened::Passed(passed) => self.finish_passed(passed),
                Happened::Finished(swept) => self.report.swept += swept,
                Happened::Source(event) => self.on_source(event).await?,
                Happened::Due => {}
                Happened::Idle => return Ok(End::Idle),
                Happened::Contested => return Err(RunError::Sink(self.contested.refusal(self.has_group()))),
                Happened::Away => {
                    let error = self.away_since.take().map(|(_, error)| error);
                    return Err(error.map_or(RunError::Bug("clock"), RunError::Source));
                }
            }
        }
    }

    /// Waits for what happens next. In this order: a request to stop must not wait behind work; the
    /// writer gets what it has room for; proofs free room and answer revocations; commits follow proofs;
    /// new records come last.
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
        // What the group has said already is heard first, so only while its word is listened to.
        let contested = self.contested.due(self.has_group()).filter(|_| takes && self.away_since.is_none());
        tokio::select! { biased;
            () = self.shutdown.at_least(Request::Drain) => Happened::Stop,
            never = self.orders.hand_over() => match never {},
            applied = self.proofs.recv() => Happened::Proof(applied),
            result = self.commits.next() => Happened::Committed(result),
            swept = answered(&mut self.finishing) => Happened::Finished(swept),
            passed = self.passing.next() => Happened::Passed(passed),
            event = self.events.recv(), if takes => Happened::Source(event),
            () = at(due) => Happened::Due,
            () = at(idle), if takes => Happened::Idle,
            () = at(away) => Happened::Away,
            () = at(contested) => Happened::Contested,
        }
    }

    /// Moves everything that can move: feeds the line, hands batches over, starts commits,
    /// answers revocations.
    fn advance(&mut self) -> Result<(), RunError> {
        loop {
            let fed = self.line.feed(self.now_ms());
            self.plan_sweeps();
            while let Some(batch) = self.line.next_batch(self.now_ms()) {
                self.orders.give(Order::Apply(Box::new(batch)));
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

    /// Why the writer ended: it said so before it went.
    async fn writer_failure(&mut self) -> RunError {
        loop {
            let applied = self.proofs.recv().await;
            if let Err(error) = self.settle(applied) {
                return error;
            }
        }
    }

    /// What a pass beside the pipeline reads is not what the rules were written for.
    pub(super) fn say_unmatched_rules(&mut self, at_end: bool) {
        if !self.options.beside {
            self.line.say_unmatched_rules(at_end);
        }
    }

    fn ended(&self) -> Option<End> {
        if self.line.has_enough() {
            return Some(End::MaxMessages);
        }
        // A contested partition may come back, unread.
        let bounded = self.options.until_end && self.line.all_ended() && self.contested.is_empty();
        (bounded || (self.source_ended && self.line.all_fed())).then_some(End::End)
    }

    pub(super) fn settle(&mut self, applied: Option<Applied>) -> Result<(), RunError> {
        let Applied { result, buried, retries, fenced } = applied.ok_or(RunError::Bug("writer"))?;
        self.report.retries += retries;
        self.writer_ended |= result.is_err();
        let (batch, proof) = result?;
        self.report.bury(buried);
        self.wait_for_truncates(&batch);
        self.commits.add(self.line.settle(&batch, proof));
        self.let_go(fenced);
        Ok(())
    }

    /// Lets go of partitions that another instance has opened in the destination: nothing of theirs is
    /// written here any more, so nothing of theirs is waited for either.
    fn let_go(&mut self, mut fenced: Vec<Partition>) {
        fenced.retain(|partition| self.line.holds(partition));
        if fenced.is_empty() {
            return;
        }
        tracing::warn!(partitions = fenced.len(), "another instance has taken partitions, dropping what is in flight");
        self.report.fenced += fenced.len() as u64;
        self.line.close(&fenced);
        self.line.drop_partitions(&fenced);
        self.commits.drop_partitions(&fenced);
        // Of one that is on its way the group has spoken.
        let is_revoked = |partition: &Partition| self.revoking.iter().any(|going| going.partitions.contains(partition));
        fenced.retain(|partition| !is_revoked(partition));
        self.contested.add(fenced);
    }

    /// True if a service says whose the partitions are.
    pub(super) fn has_group(&self) -> bool {
        self.group.move_command.is_some()
    }

    /// Rows from before a truncate may still come from other partitions.
    fn wait_for_truncates(&mut self, batch: &Batch) {
        for truncate in batch.truncates().iter().filter(|_| !self.options.beside) {
            let topic = truncate.record.partition.topic.clone();
            if let Some(topic_id) = self.line.topic_id(&topic) {
                self.passing.wait_for(Pending::Truncate { topic, topic_id, version: truncate.version });
            }
        }
    }

    /// Has the destination remember what sweeps go by, before the rows that say it are acknowledged.
    fn plan_sweeps(&mut self) {
        let seen = std::mem::take(&mut self.line.ghosts.seen);
        if self.options.beside {
            return;
        }
        for (sweep, seen) in seen {
            let Some(topic_id) = self.line.topic_id(&sweep.topic) else { continue };
            // Whoever reads the last row waits. A gap is seen before it, or in what is passed then.
            if seen == Seen::Last {
                self.passing.wait_for(Pending::Sweep(topic_id, sweep.clone()));
            }
            self.orders.give(Order::Plan(topic_id, sweep, seen));
        }
    }

    /// Has the destination do what everything has passed.
    pub(super) fn finish_passed(&mut self, passed: Vec<Passed>) {
        if passed.is_empty() {
            return;
        }
        let (reply, answer) = oneshot::channel();
        self.orders.give(Order::Finish(passed, reply));
        self.finishing.push_back(answer);
    }

    pub(super) async fn on_source(&mut self, event: Option<SourceEvent>) -> Result<(), RunError> {
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
                    self.say_unmatched_rules(true);
                }
            }
            Some(SourceEvent::Revoked { partitions, done }) => {
                tracing::info!(partitions = partitions.len(), "partitions revoked, draining");
                self.report.revoked += partitions.len() as u64;
                self.line.close(&partitions);
                self.contested.resolve(&partitions);
                self.revoking.push(Revoking { partitions, done });
            }
            Some(SourceEvent::Lost(partitions)) => {
                tracing::warn!(partitions = partitions.len(), "partitions lost, dropping what is in flight");
                self.report.lost += partitions.len() as u64;
                self.line.close(&partitions);
                self.contested.resolve(&partitions);
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
                self.contested.listen_anew();
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
        self.orders.give(Order::Open(parts.clone(), reply));
        // Batches in flight are proven meanwhile: the writer works in order, and its proofs have
        // bounded room.
        let places = loop {
            tokio::select! { biased;
                () = self.shutdown.at_least(Request::Drain) => return Ok(()),
                never = self.orders.hand_over() => match never {},
                places = &mut answer => match places {
                    Ok(places) => break places.map_err(RunError::Sink)?,
                    Err(_) => return Err(self.writer_failure().await),
                },
                applied = self.proofs.recv() => self.settle(applied)?,
            }
        };
        // What was written before these were opened says nothing of them as they are now.
        while let Ok(applied) = self.proofs.try_recv() {
            self.settle(Some(applied))?;
        }
        self.contested.resolve(parts.iter().map(|part| &part.partition));
        gap::refuse(&assignments, &places, &self.group, self.guarantee)?;
        for pending in places.pending.iter().filter(|_| !self.options.beside) {
            self.passing.wait_for(pending.clone());
        }
        self.notes.opened(parts, &places);
        self.report.assigned += assignments.len() as u64;
        self.away_since = None;
        self.quiet_since = Instant::now();
        tracing::info!(partitions = assignments.len(), "partitions assigned");
        self.line.assign(assignments, &places);
        self.caught_up = false;
        Ok(())
    }

    /// Has the destination remember what is to be told of the group's offsets. Gives the answer to wait
    /// for, if there is anything; `last`: there is no later.
    pub(super) fn tell_stored(&mut self, last: bool) -> Option<oneshot::Receiver<()>> {
        let stored = self.commits.take_stored();
        // What lies beside a capture, or nowhere, cannot be lost unseen.
        if !self.has_group() || self.options.beside {
            return None;
        }
        self.notes.committed(stored);
        let due = self.notes.due(last);
        if due.is_empty() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        self.orders.give(Order::Stored(due, reply));
        Some(answer)
    }

    /// Lets go of revoked partitions. Nothing is waited for here: the loop must hear of a stop, and
    /// of a source that gave the wait up.
    pub(super) fn answer_revocations(&mut self) {
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

    fn show(&self) {
        let mut tally = self.line.tally;
        tally.read = self.line.taken;
        self.progress.send_replace(progress::Progress {
            tally,
            partitions: self.line.partitions(),
            swept: self.report.swept,
            source_away: self.away_since.as_ref().map(|(_, error)| error.to_string()),
        });
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The rows that the first of these swept; for ever where there is none. Cancel-safe.
pub(super) async fn answered(finishing: &mut VecDeque<oneshot::Receiver<u64>>) -> u64 {
    let Some(answer) = finishing.front_mut() else { return std::future::pending().await };
    // A writer that has ended answers nothing more; why it ended is among its proofs.
    let swept = answer.await.unwrap_or(0);
    finishing.pop_front();
    swept
}

/// Waits until `when`; for ever where none.
pub(super) async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
