//! What becomes of one batch: it is applied whole, or taken apart.
//!
//! A batch with a poison row is applied in pieces, its dead letters are made safe, and only what is
//! left of it, with the spans, proves anything. Partitions that another instance has are taken out of
//! it, wherever on this way the destination says so.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use settle_core::batch::Batch;
use settle_core::dead_letter::DeadLetter;
use settle_core::holds::Holds;
use settle_core::policy::{Verdict, decide};
use settle_core::position::{Partition, TopicId};
use settle_core::sink::{Durable, FailureKind, Sink, SinkError};
use settle_core::unfold::Pieces;

use super::RunError;
use super::attempts::Attempts;
use super::burial::{Burial, Buried};
use super::fences::Fences;

/// The writer's hands, while it has a batch.
pub(super) struct Settling<'w, 'a> {
    pub(super) sink: &'w mut Box<dyn Sink>,
    pub(super) fences: &'w mut Fences,
    pub(super) burial: Option<&'w mut Burial>,
    pub(super) topic_ids: &'w HashMap<Partition, TopicId>,
    pub(super) without_key: &'w mut BTreeSet<Arc<str>>,
    pub(super) attempts: &'w mut Attempts<'a>,
    pub(super) buried: &'w mut Buried,
}

/// What became of a batch that was applied whole.
pub(super) enum Whole {
    /// It is durable.
    Durable(Box<Batch>, Durable),
    /// The destination refused a row of it, and there is a place for dead letters.
    Refused(Box<Batch>, SinkError),
}

impl Settling<'_, '_> {
    /// Makes its dead letters safe, and then applies the batch.
    pub(super) async fn whole(
        &mut self,
        mut letters: Vec<DeadLetter>,
        mut batch: Box<Batch>,
        holds: &mut Holds,
    ) -> Result<Whole, RunError> {
        while !letters.is_empty() {
            let gone = self.fences.ask(self.sink, &batch.asking(), self.attempts).await?;
            if gone.is_empty() {
                break;
            }
            letters = batch.withdraw_with(letters, &gone)?;
            holds.forget(&gone);
        }
        self.bury(letters).await?;
        loop {
            match apply(self.sink, &batch, self.attempts).await {
                Ok(proof) => return Ok(Whole::Durable(batch, proof)),
                Err(error) if decide(error.kind) == Verdict::Isolate && self.burial.is_some() => {
                    return Ok(Whole::Refused(batch, error));
                }
                Err(error) => self.take_out(error, &mut batch, holds)?,
            }
        }
    }

    /// Applies pieces until each poison row is alone, and makes the dead letters safe. Gives what is left
    /// of the batch: nothing of it is proved yet.
    pub(super) async fn pieces(&mut self, mut pieces: Pieces<'_>) -> Result<Batch, RunError> {
        self.check(&pieces)?;
        while let Some(piece) = pieces.next_piece()? {
            match apply(self.sink, &piece, self.attempts).await {
                Ok(proof) => pieces.applied(&piece, proof.outcome),
                Err(error) if decide(error.kind) == Verdict::Isolate => pieces.refused(piece, &error),
                Err(error) => {
                    let gone = self.fences.of(error, &piece)?;
                    pieces.withdraw(Some(piece), &gone);
                }
            }
            // Before more is looked for: a topic of poison is not taken apart to its last record.
            self.check(&pieces)?;
        }
        while !pieces.dead_letters().is_empty() {
            let gone = self.fences.ask(self.sink, &pieces.asking(), self.attempts).await?;
            if gone.is_empty() {
                break;
            }
            pieces.withdraw(None, &gone);
        }
        let (letters, rest) = pieces.finish();
        self.bury(letters).await?;
        Ok(rest)
    }

    /// Applies what is left of a batch behind its pieces.
    pub(super) async fn rest(&mut self, rest: Batch, holds: &mut Holds) -> Result<(Box<Batch>, Durable), RunError> {
        let mut rest = Box::new(rest);
        loop {
            match apply(self.sink, &rest, self.attempts).await {
                Ok(proof) => return Ok((rest, proof)),
                Err(error) => self.take_out(error, &mut rest, holds)?,
            }
        }
    }

    /// Takes out of the batch what another instance has, where that is what the destination says.
    fn take_out(&mut self, error: SinkError, batch: &mut Batch, holds: &mut Holds) -> Result<(), RunError> {
        let gone = self.fences.of(error, batch)?;
        batch.withdraw(&gone)?;
        holds.forget(&gone);
        Ok(())
    }

    /// Stops where there are too many dead letters, or no place for them.
    fn check(&self, pieces: &Pieces<'_>) -> Result<(), RunError> {
        match &self.burial {
            Some(burial) => burial.check(pieces.dead_letters()),
            None => Err(RunError::Sink(nowhere_to_go(pieces))),
        }
    }

    async fn bury(&mut self, letters: Vec<DeadLetter>) -> Result<(), RunError> {
        let nameless = letters.iter().filter(|letter| letter.key.is_none());
        self.without_key.extend(nameless.map(|letter| letter.record.partition.topic.clone()));
        match &mut self.burial {
            Some(burial) => burial.write(letters, self.topic_ids, self.attempts, self.buried).await,
            None => Ok(()),
        }
    }
}

/// Applies the batch, again where that may help.
pub(super) async fn apply(
    sink: &mut Box<dyn Sink>,
    batch: &Batch,
    attempts: &mut Attempts<'_>,
) -> Result<Durable, SinkError> {
    loop {
        match sink.apply(batch).await {
            Ok(proof) => {
                attempts.succeeded();
                return Ok(proof);
            }
            Err(error) => attempts.wait_after(error).await?,
        }
    }
}

/// A record follows a dead letter of an earlier run, and this one has no place for it.
fn nowhere_to_go(pieces: &Pieces<'_>) -> SinkError {
    let why = pieces.dead_letters().first().map(|letter| letter.error.clone()).unwrap_or_default();
    SinkError::new(FailureKind::Contract, "apply a batch", format!("{why}; or name a [dlq] as that run had"))
}
