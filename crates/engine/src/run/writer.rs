//! The writer: one task that owns the sink and applies batches one after the other.
//!
//! One batch at a time keeps the order that TOAST look-ups rely on: a batch is applied only when
//! every earlier one is durable.

use std::time::Duration;

use settle_core::batch::Batch;
use settle_core::policy::{Verdict, backoff_ms, decide};
use settle_core::sink::{Durable, PlacedPartition, Places, Sink, SinkError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::progress::Pause;

/// Work for the writer.
pub(super) enum Order {
    /// Prepare for these partitions.
    Open(Vec<PlacedPartition>, oneshot::Sender<Result<Places, SinkError>>),
    /// Apply this batch.
    Apply(Box<Batch>),
}

/// A batch with its proof, or with why there is none.
pub(super) struct Applied {
    pub(super) batch: Box<Batch>,
    pub(super) result: Result<Durable, SinkError>,
    pub(super) retries: u64,
}

/// How long the environment may be away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Give up after this; for ever where none.
    pub(super) deadline: Option<Duration>,
}

/// Runs until the orders end.
pub(super) async fn write(
    mut sink: Box<dyn Sink>,
    mut orders: mpsc::Receiver<Order>,
    proofs: mpsc::Sender<Applied>,
    pause: watch::Sender<Option<Pause>>,
    patience: Patience,
) {
    while let Some(order) = orders.recv().await {
        match order {
            Order::Open(parts, reply) => {
                let mut attempts = Attempts::new(patience, &pause);
                let result = loop {
                    match sink.open(&parts).await {
                        Ok(places) => break Ok(places),
                        Err(error) => {
                            if let Err(error) = attempts.wait_after(error).await {
                                break Err(error);
                            }
                        }
                    }
                };
                // Nobody waits for the answer once the run has ended.
                let _ = reply.send(result);
            }
            Order::Apply(batch) => {
                let mut attempts = Attempts::new(patience, &pause);
                let result = loop {
                    match sink.apply(&batch).await {
                        Ok(proof) => break Ok(proof),
                        Err(error) => {
                            if let Err(error) = attempts.wait_after(error).await {
                                break Err(error);
                            }
                        }
                    }
                };
                let failed = result.is_err();
                let applied = Applied { batch, result, retries: attempts.made };
                if proofs.send(applied).await.is_err() || failed {
                    // A later batch must not be applied when an earlier one was not.
                    return;
                }
            }
        }
        pause.send_if_modified(|paused| paused.take().is_some());
    }
}

/// The attempts at one order.
struct Attempts<'a> {
    patience: Patience,
    pause: &'a watch::Sender<Option<Pause>>,
    away_since: Option<Instant>,
    made: u64,
}

impl<'a> Attempts<'a> {
    fn new(patience: Patience, pause: &'a watch::Sender<Option<Pause>>) -> Self {
        Self { patience, pause, away_since: None, made: 0 }
    }

    /// Waits before the next attempt, or gives the error back where there is none.
    async fn wait_after(&mut self, error: SinkError) -> Result<(), SinkError> {
        let verdict = decide(error.kind);
        if !matches!(verdict, Verdict::Retry | Verdict::Pause) {
            return Err(error);
        }
        let since = *self.away_since.get_or_insert_with(Instant::now);
        if self.patience.deadline.is_some_and(|deadline| since.elapsed() >= deadline) {
            return Err(error);
        }
        self.made += 1;
        if verdict == Verdict::Pause {
            if self.made == 1 {
                tracing::warn!(error = %error, "paused: the destination is away, trying again");
            }
            self.pause.send_replace(Some(Pause { why: error.to_string() }));
        }
        let attempt = u32::try_from(self.made).unwrap_or(u32::MAX);
        let mut wait = Duration::from_millis(backoff_ms(attempt, jitter(self.made)));
        if let Some(deadline) = self.patience.deadline {
            wait = wait.min(deadline.saturating_sub(since.elapsed()));
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Spreads the retries of several instances; not random for anyone, different for each process.
fn jitter(attempt: u64) -> f64 {
    let mixed = (u64::from(std::process::id()) ^ attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    f64::from(u32::try_from(mixed).unwrap_or(0)) / f64::from(1 << 24)
}
