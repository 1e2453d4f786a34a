//! Trying again: what heals by waiting is waited for, as long as the run has patience.

use std::time::Duration;

use settle_core::causes::chain;
use settle_core::policy::{Verdict, backoff_ms, decide};
use settle_core::sink::SinkError;
use tokio::sync::watch;
use tokio::time::Instant;

use super::progress::Pause;

/// Conflicts with others behind each other that are told.
const OFTEN: u64 = 5;
/// How long a pause is not told again.
const REMINDER: Duration = Duration::from_secs(60);

/// How long the environment may be away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Give up after this; for ever where none.
    pub(super) deadline: Option<Duration>,
}

/// The attempts at one order, which may take several steps.
pub(super) struct Attempts<'a> {
    patience: Patience,
    pause: &'a watch::Sender<Option<Pause>>,
    away_since: Option<Instant>,
    /// When the log was told of it.
    told: Option<Instant>,
    /// Attempts at the step at hand that failed.
    failed: u64,
    /// Attempts beyond the first, at every step.
    pub(super) made: u64,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(patience: Patience, pause: &'a watch::Sender<Option<Pause>>) -> Self {
        Self { patience, pause, away_since: None, told: None, failed: 0, made: 0 }
    }

    /// The step at hand is done.
    pub(super) fn succeeded(&mut self) {
        self.away_since = None;
        self.told = None;
        self.failed = 0;
        self.pause.send_if_modified(|paused| paused.take().is_some());
    }

    /// Waits before the next attempt, or gives the error back where there is none.
    pub(super) async fn wait_after(&mut self, error: SinkError) -> Result<(), SinkError> {
        let verdict = decide(error.kind);
        if !matches!(verdict, Verdict::Retry | Verdict::Pause) {
            return Err(error);
        }
        let since = *self.away_since.get_or_insert_with(Instant::now);
        if self.patience.deadline.is_some_and(|deadline| since.elapsed() >= deadline) {
            return Err(error);
        }
        self.made += 1;
        self.failed += 1;
        // What passes with the next attempt is not worth a word; what does not is told as any outage.
        let told = if verdict == Verdict::Pause { 1 } else { OFTEN };
        if self.failed >= told {
            let why = chain(&error);
            if self.told.is_none_or(|told| told.elapsed() >= REMINDER) {
                self.told = Some(Instant::now());
                tracing::warn!(error = why, seconds = since.elapsed().as_secs(), "paused, trying again");
            }
            self.pause.send_replace(Some(Pause { why }));
        }
        let attempt = u32::try_from(self.failed).unwrap_or(u32::MAX);
        let mut wait = Duration::from_millis(backoff_ms(attempt, jitter(self.failed)));
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
