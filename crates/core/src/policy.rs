//! What a failure means: one function, whose default is to stop.

use crate::sink::FailureKind;

/// What to do with a batch that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Apply the identical batch again, soon.
    Retry,
    /// The environment is away: back off and apply the identical batch until it is back, or until
    /// the deadline of a bounded run.
    Pause,
    /// One row is at fault: find it, set it aside, go on.
    Isolate,
    /// Stop. Nothing is committed; the message says what to do.
    Stop,
    /// Stop: an invariant is broken.
    Bug,
}

/// Maps a kind of failure to what is done about it. A kind that is not listed stops the run, so
/// that a new one is never retried by accident.
pub fn decide(kind: FailureKind) -> Verdict {
    match kind {
        FailureKind::Conflict => Verdict::Retry,
        FailureKind::Unreachable | FailureKind::Denied | FailureKind::NotWritable | FailureKind::Overloaded => {
            Verdict::Pause
        }
        FailureKind::Row | FailureKind::Constraint => Verdict::Isolate,
        FailureKind::Bug => Verdict::Bug,
        _ => Verdict::Stop,
    }
}

/// How long to wait before attempt `attempt` (from 1), milliseconds: 100 ms doubling to 10 s, with
/// the given jitter in `[0, 1)` taking off up to half.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "below 10,000"
)]
pub fn backoff_ms(attempt: u32, jitter: f64) -> u64 {
    let full = 100u64.saturating_mul(1 << attempt.saturating_sub(1).min(7)).min(10_000);
    full - (full as f64 * 0.5 * jitter.clamp(0.0, 1.0)) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_verdict() {
        use FailureKind::{Bug, Conflict, Constraint, Contract, Denied, NotWritable, Overloaded, Row, Unreachable};
        for (kind, verdict) in [
            (Conflict, Verdict::Retry),
            (Unreachable, Verdict::Pause),
            (Denied, Verdict::Pause),
            (NotWritable, Verdict::Pause),
            (Overloaded, Verdict::Pause),
            (Row, Verdict::Isolate),
            (Constraint, Verdict::Isolate),
            (Contract, Verdict::Stop),
            (Bug, Verdict::Bug),
        ] {
            assert_eq!(decide(kind), verdict, "{kind:?}");
        }
    }

    #[test]
    fn waiting_doubles_up_to_ten_seconds() {
        let waits: Vec<_> = (0..10).map(|attempt| backoff_ms(attempt, 0.0)).collect();
        assert_eq!(waits, [100, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(backoff_ms(u32::MAX, 0.0), 10_000);
    }

    proptest! {
        #[test]
        fn jitter_takes_off_half_at_most(attempt in any::<u32>(), jitter in any::<f64>()) {
            let full = backoff_ms(attempt, 0.0);
            let wait = backoff_ms(attempt, jitter);
            prop_assert!(full / 2 <= wait && wait <= full, "{wait} of {full}");
        }
    }
}
