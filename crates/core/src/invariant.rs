//! What must hold whatever is delivered, in whatever order, whatever crashes: by name, in one place.
//!
//! The same checks run in tests, in simulations and in production. A broken one is a bug of ours,
//! never of the data: it panics in debug builds, so that no test passes over it, and is counted in
//! release builds, so that the run report can say so. Where going on would commit or write too
//! much, the place that checks takes the careful way besides.

use std::sync::atomic::{AtomicU64, Ordering};

/// A named invariant, with the count of times that it was found broken in this process.
#[derive(Debug)]
pub struct Invariant {
    name: &'static str,
    meaning: &'static str,
    broken: AtomicU64,
}

/// Spans of one partition are opened in log order and do not overlap.
pub static SPANS_IN_ORDER: Invariant =
    Invariant::new("spans_in_order", "spans of a partition follow each other in log order");
/// No offset may be committed above a span that has no proof.
pub static COMMITTED_LE_DURABLE: Invariant =
    Invariant::new("committed_le_durable", "every record below a committed offset is durable");
/// While a partition is ours, the offsets that may be committed rise.
pub static COMMITTED_RISES: Invariant =
    Invariant::new("committed_rises", "the committed offset of a partition never goes back");
/// Every record that was read is in exactly one place.
pub static TALLY_BALANCES: Invariant =
    Invariant::new("tally_balances", "every record that was read is in exactly one place");
/// A batch writes each row once.
pub static ONE_SURVIVOR_PER_KEY: Invariant =
    Invariant::new("one_survivor_per_key", "a batch holds one surviving change per table and key");

/// All of them, for reports.
pub static ALL: [&Invariant; 5] =
    [&SPANS_IN_ORDER, &COMMITTED_LE_DURABLE, &COMMITTED_RISES, &TALLY_BALANCES, &ONE_SURVIVOR_PER_KEY];

impl Invariant {
    const fn new(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, broken: AtomicU64::new(0) }
    }

    /// Its name, in reports and metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it says.
    pub fn meaning(&self) -> &'static str {
        self.meaning
    }

    /// How often it was found broken in this process.
    pub fn times_broken(&self) -> u64 {
        self.broken.load(Ordering::Relaxed)
    }
}

/// States that `invariant` holds here, and says so back. Panics in debug builds if it does not,
/// counts it in release builds.
#[track_caller]
#[expect(clippy::panic, reason = "a broken invariant must not pass a test")]
pub fn check(invariant: &Invariant, holds: bool) -> bool {
    if !holds {
        invariant.broken.fetch_add(1, Ordering::Relaxed);
        if cfg!(debug_assertions) {
            panic!("invariant {} is broken: {}", invariant.name, invariant.meaning);
        }
    }
    holds
}

/// The invariants that were found broken in this process, with how often.
pub fn broken() -> impl Iterator<Item = (&'static str, u64)> {
    ALL.iter().map(|invariant| (invariant.name, invariant.times_broken())).filter(|&(_, times)| times > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_invariant_panics_in_debug_and_counts_in_every_build() {
        static PROBE: Invariant = Invariant::new("probe", "holds in this test only");
        assert!(check(&PROBE, true));
        assert_eq!(PROBE.times_broken(), 0);
        let outcome = std::panic::catch_unwind(|| check(&PROBE, false));
        assert_eq!(PROBE.times_broken(), 1);
        if cfg!(debug_assertions) {
            let panic = outcome.unwrap_err();
            let message = panic.downcast_ref::<String>().map(String::as_str);
            assert_eq!(message, Some("invariant probe is broken: holds in this test only"));
        } else {
            assert!(!outcome.unwrap());
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|invariant| invariant.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
