//! The writer: one task that owns the sink and applies batches one after the other.
//!
//! One batch at a time keeps the order that TOAST look-ups rely on: a batch is applied only when
//! every earlier one is durable.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use settle_core::batch::Batch;
use settle_core::holds::Holds;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::{Durable, FailureKind, Passed, Pending, PlacedPartition, Places, Seen, Sink, SinkError, Sweep};
use settle_core::unfold::{Pieces, Ready, prepare};
use tokio::sync::{mpsc, oneshot, watch};

use super::attempts::{Attempts, Patience};
use super::burial::{Burial, Buried};
use super::fences::Fences;
use super::progress::Pause;
use super::settling::{Settling, Whole};
use super::{Destination, RunError};

/// Work for the writer.
pub(super) enum Order {
    /// Prepare for these partitions.
    Open(Vec<PlacedPartition>, oneshot::Sender<Result<Places, SinkError>>),
    /// Apply this batch.
    Apply(Box<Batch>),
    /// The group has committed these offsets.
    Stored(Vec<(PlacedPartition, Offset)>, oneshot::Sender<()>),
    /// This was seen of a snapshot by which ghosts are to be swept when everything has passed it.
    Plan(TopicId, Sweep, Seen),
    /// Everything has passed these. Answered with the rows swept.
    Finish(Vec<Passed>, oneshot::Sender<u64>),
}

/// A batch with its proof, or why there is none.
pub(super) struct Applied {
    pub(super) result: Result<(Box<Batch>, Durable), RunError>,
    pub(super) buried: Buried,
    pub(super) retries: u64,
    /// Partitions of which it was found out that another instance has them: they are not in the batch.
    pub(super) fenced: Vec<Partition>,
}

/// Runs until the orders end.
pub(super) async fn write(
    destination: Destination,
    mut orders: mpsc::Receiver<Order>,
    proofs: mpsc::Sender<Applied>,
    pause: watch::Sender<Option<Pause>>,
    patience: Patience,
) {
    let Destination { sink, dead_letters, skips } = destination;
    let burial = dead_letters.map(|(store, limit)| Burial::new(store, limit));
    let holds = if skips { Holds::unnoted() } else { Holds::default() };
    let mut writer = Writer {
        sink,
        burial,
        holds,
        topic_ids: HashMap::new(),
        without_key: BTreeSet::new(),
        fences: Fences::default(),
    };
    while let Some(order) = orders.recv().await {
        let mut attempts = Attempts::new(patience, &pause);
        match order {
            Order::Open(parts, reply) => {
                let result = writer.open(&parts, &mut attempts).await;
                // Nobody waits for the answer once the run has ended.
                let _ = reply.send(result);
            }
            Order::Stored(committed, reply) => {
                if let Err(error) = writer.sink.stored(&committed).await {
                    // Only a loss of the group's offsets would go unnoticed; it is told again by the next run.
                    tracing::warn!(error = %error, "the destination could not note that the group has offsets");
                }
                let _ = reply.send(());
            }
            Order::Plan(topic_id, sweep, seen) => {
                if let Err(error) = writer.plan(topic_id, &sweep, seen, &mut attempts).await {
                    let (result, buried) = (Err(RunError::Sink(error)), Buried::default());
                    // Whoever waits for a proof hears why there is none.
                    let applied = Applied { result, buried, retries: attempts.made, fenced: Vec::new() };
                    let _ = proofs.send(applied).await;
                    return;
                }
            }
            Order::Finish(passed, reply) => {
                let mut swept = 0;
                for passed in &passed {
                    match writer.finish(passed, &mut attempts).await {
                        Ok(rows) => swept += rows,
                        // It stays recorded, and the next run does it.
                        Err(error) => tracing::warn!(error = %error, "what was put off could not be done yet"),
                    }
                }
                let _ = reply.send(swept);
            }
            Order::Apply(batch) => {
                let mut buried = Buried::default();
                let result = writer.settle(batch, &mut attempts, &mut buried).await;
                let failed = result.is_err();
                let fenced = writer.fences.take_found();
                let applied = Applied { result, buried, retries: attempts.made, fenced };
                if proofs.send(applied).await.is_err() || failed {
                    // A later batch must not be applied when an earlier one was not.
                    return;
                }
            }
        }
        pause.send_if_modified(|paused| paused.take().is_some());
    }
}

struct Writer {
    sink: Box<dyn Sink>,
    burial: Option<Burial>,
    holds: Holds,
    topic_ids: HashMap<Partition, TopicId>,
    /// Topics with a dead letter of which nobody knows the row.
    without_key: BTreeSet<Arc<str>>,
    fences: Fences,
}

impl Writer {
    async fn open(&mut self, parts: &[PlacedPartition], attempts: &mut Attempts<'_>) -> Result<Places, SinkError> {
        let places = loop {
            match self.sink.open(parts).await {
                Ok(places) => break places,
                Err(error) => attempts.wait_after(error).await?,
            }
        };
        self.fences.opened(parts);
        self.topic_ids.extend(parts.iter().map(|part| (part.partition.clone(), part.topic_id)));
        self.holds.open(parts.iter().map(|part| &part.partition), places.holds.clone());
        if let Some(burial) = self.burial.as_mut().filter(|_| !places.holds.is_empty()) {
            burial.expect_letters();
        }
        Ok(places)
    }

    async fn plan(
        &mut self,
        topic_id: TopicId,
        sweep: &Sweep,
        seen: Seen,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), SinkError> {
        loop {
            match self.sink.plan(topic_id, sweep, seen).await {
                Ok(()) => return Ok(()),
                Err(error) => attempts.wait_after(error).await?,
            }
        }
    }

    async fn finish(&mut self, passed: &Passed, attempts: &mut Attempts<'_>) -> Result<u64, SinkError> {
        if let Pending::Sweep(topic_id, sweep) = &passed.what {
            self.refuse_unknown_rows(*topic_id, sweep).await?;
        }
        loop {
            match self.sink.finish(passed).await {
                Ok(rows) => return Ok(rows),
                Err(error) => attempts.wait_after(error).await?,
            }
        }
    }

    /// Refuses to sweep while a dead letter may be of any row. Those of earlier runs, and of other instances, are
    /// where dead letters are kept.
    async fn refuse_unknown_rows(&mut self, topic_id: TopicId, sweep: &Sweep) -> Result<(), SinkError> {
        let known = match &mut self.burial {
            Some(burial) => burial.without_row(topic_id, &sweep.topic).await?,
            None => None,
        };
        let cure = match known {
            Some(place) => format!("compare with the source, then run settle dlq drop {place}"),
            None if self.without_key.contains(&sweep.topic) => "compare with the source".to_owned(),
            None => return Ok(()),
        };
        let context = format!(
            "a dead letter of topic {} has no key that could be read: the source may have its row still; {cure}",
            sweep.topic
        );
        Err(SinkError::new(FailureKind::Contract, format!("sweep ghosts of {}", sweep.table), context))
    }

    /// Ends the holds that a retry has lifted, before changes of the batch follow a dead letter that is applied.
    async fn end_lifted(&mut self, batch: &Batch, attempts: &mut Attempts<'_>) -> Result<(), SinkError> {
        let rows = self.holds.in_question(batch);
        let partitions: BTreeSet<&Partition> = rows.iter().map(|(partition, _)| partition).collect();
        let placed = |partition: &Partition| {
            let topic_id = *self.topic_ids.get(partition)?;
            Some(PlacedPartition { topic_id, partition: partition.clone() })
        };
        // Nothing is known to be lifted of a partition that cannot be asked about.
        let parts: Option<Vec<PlacedPartition>> = partitions.into_iter().map(placed).collect();
        let Some(parts) = parts.filter(|parts| !parts.is_empty()) else { return Ok(()) };
        let recorded = loop {
            match self.sink.held(&parts).await {
                Ok(recorded) => break recorded,
                Err(error) => attempts.wait_after(error).await?,
            }
        };
        attempts.succeeded();
        self.holds.end_lifted(rows, &recorded);
        Ok(())
    }

    /// Makes everything of the batch durable, each record in its place, but for partitions that
    /// another instance has.
    async fn settle(
        &mut self,
        mut batch: Box<Batch>,
        attempts: &mut Attempts<'_>,
        buried: &mut Buried,
    ) -> Result<(Box<Batch>, Durable), RunError> {
        batch.withdraw(&self.fences.known_in(&batch))?;
        self.end_lifted(&batch, attempts).await.map_err(RunError::Sink)?;
        let Self { sink, burial, holds, topic_ids, without_key, fences } = self;
        if let Some(burial) = burial {
            burial.read(batch.tally().read);
        }
        let mut settling = Settling { sink, fences, burial: burial.as_mut(), topic_ids, without_key, attempts, buried };
        let pieces = match prepare(batch, holds) {
            Ready::Pieces(pieces) => pieces,
            Ready::Whole(letters, batch) => match settling.whole(letters, batch, holds).await? {
                Whole::Durable(batch, proof) => return Ok((batch, proof)),
                Whole::Refused(batch, error) => Pieces::of_refused(*batch, holds, &error),
            },
        };
        let rest = settling.pieces(pieces).await?;
        settling.rest(rest, holds).await
    }
}
