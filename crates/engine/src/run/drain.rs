//! The end of a run: what was read becomes durable and is committed, as far as it may take time.

use settle_core::invariant;
use tokio::time::Instant;

use super::RunError;
use super::flow::{Run, answered, at};
use super::report::{End, Report};
use super::writer::Order;
use crate::shutdown::Request;
use crate::source::{SourceError, SourceEvent, SourceFailure};

/// How a drain ended.
enum Drained {
    Whole,
    /// What is left will be delivered again.
    CutShort,
}

impl Run {
    /// Ends what flowed until it came to its end, was asked to stop, or failed. Says why it ended.
    pub(super) async fn end(&mut self, flowed: Result<End, RunError>) -> (End, Option<RunError>) {
        let (mut why, mut error) = match flowed {
            Ok(why) => (why, None),
            Err(error) => (End::Failed, Some(error)),
        };
        // A run that came to its end is done when its work is, however long that takes: the deadline
        // for what is away holds here too, and a request to stop.
        let limit = (error.is_some() || why == End::Interrupted).then(|| self.drain_limit());
        let ended = match &error {
            _ if self.shutdown.request() == Request::Abort => Ok(Drained::CutShort),
            // What the writer wrote before it failed is committed.
            Some(RunError::Bug(_)) => self.commit_all(limit).await,
            Some(_) if self.writer_ended => self.commit_all(limit).await,
            _ => match self.drain(limit).await {
                Err(failed) if self.writer_ended => {
                    // It failed while draining: what it wrote before is committed, too.
                    let limit = self.drain_limit();
                    if let Err(also) = self.commit_all(Some(limit)).await {
                        tracing::warn!(error = %also, "offsets could not be committed; what they cover will be delivered again");
                    }
                    Err(failed)
                }
                drained => drained,
            },
        };
        let ended = match ended {
            Ok(Drained::Whole) if error.is_none() && why != End::Interrupted => self.hear_the_group().await,
            ended => ended,
        };
        match ended {
            Ok(Drained::CutShort) if error.is_none() => why = End::Interrupted,
            Ok(_) => {}
            Err(while_draining) => {
                why = End::Failed;
                error.get_or_insert(while_draining);
            }
        }
        (why, error)
    }

    /// A part of what was read turned out to be another instance's at the very end: done is the run
    /// only if the group says so, too.
    async fn hear_the_group(&mut self) -> Result<Drained, RunError> {
        let due = self.contested.due(self.has_group());
        while !self.contested.is_empty() {
            let event = tokio::select! { biased;
                () = self.shutdown.at_least(Request::Drain) => return Ok(Drained::CutShort),
                event = self.events.recv(), if !self.source_ended => event,
                () = at(due) => return Err(RunError::Sink(self.contested.refusal(self.has_group()))),
            };
            match event {
                Some(
                    SourceEvent::Revoked { .. } | SourceEvent::Lost(_) | SourceEvent::Failed(_) | SourceEvent::Ended,
                )
                | None => {
                    self.on_source(event).await?;
                    self.answer_revocations();
                }
                // Nothing more is read.
                Some(_) => {}
            }
        }
        Ok(Drained::Whole)
    }

    fn drain_limit(&self) -> Instant {
        Instant::now() + self.options.drain_timeout
    }

    /// Makes what was read durable and commits it. Without a limit, a request to stop sets one.
    async fn drain(&mut self, mut limit: Option<Instant>) -> Result<Drained, RunError> {
        self.line.cut_soon();
        loop {
            while let Some(batch) = self.line.next_batch(self.now_ms()) {
                self.orders.give(Order::Apply(Box::new(batch)));
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
                never = self.orders.hand_over() => match never {},
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
                    committed.map_err(RunError::Source)?;
                    break;
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
        // A writer that has ended does nothing more: the next run does it.
        if !self.writer_ended {
            self.last_orders().await;
        }
        Ok(Drained::Whole)
    }

    /// What the destination is told when everything is committed, as far as it may take time.
    async fn last_orders(&mut self) {
        let limit = self.drain_limit();
        if let Some(told) = self.tell_stored(true) {
            let _ = self.orders.hand_over_until(limit, told).await;
        }
        if !self.passing.is_idle() {
            let all_read = (self.source_ended && self.line.all_fed()).then(|| self.line.ends());
            let asked = tokio::time::timeout_at(limit, self.passing.at_the_end(all_read)).await;
            self.finish_passed(asked.unwrap_or_default());
        }
        while !self.finishing.is_empty() {
            let Some(swept) = self.orders.hand_over_until(limit, answered(&mut self.finishing)).await else { break };
            self.report.swept += swept;
        }
    }

    pub(super) async fn finish(mut self, why: End) -> Report {
        self.say_unmatched_rules(false);
        for revoking in self.revoking.drain(..) {
            let _ = revoking.done.send(());
        }
        // Closing leaves the group, and the source's thread may still be handing something over.
        self.events.close();
        self.commits.close().await;
        let mut report = self.report;
        report.ended = why;
        report.elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.tally = self.line.tally;
        report.unsettled = self.line.taken - report.tally.read;
        report.tally.read = self.line.taken;
        report.redelivered = self.line.redelivered;
        report.batches = self.line.batches;
        report.committed = self.commits.committed();
        report.possible_ghosts = std::mem::take(&mut self.line.ghosts.suspected);
        report.broken_invariants = invariant::broken().map(|(name, times)| (name.to_owned(), times)).collect();
        report
    }
}
