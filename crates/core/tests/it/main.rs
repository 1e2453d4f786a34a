//! What core promises, over the recorded topics and over simulated sources: nothing here needs a
//! service, a clock or a file outside the repository.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod folding;
mod ghosts;
mod made_up;
mod naive_schemes;
mod new_logs;
mod recorded_forms;
mod robustness;
mod settling;
mod simulated;
mod support;
mod truncates;
mod unfolding;
mod versions;
mod withdrawal;
