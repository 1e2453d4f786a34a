//! Partitions that the destination gives to another instance, and the group still to this one.
//!
//! The group has the last word. An instance that was held up for longer than its session learns of
//! that from the broker, as soon as it polls again: the partition is revoked or lost then, and the
//! run goes on with the others. Where it stays ours, two processes read one group side by side, and
//! each fences the other for ever: the run stops.

use std::collections::BTreeSet;
use std::time::Duration;

use settle_core::position::Partition;
use settle_core::sink::{FailureKind, SinkError};
use tokio::time::Instant;

/// How long the group has to say that a partition is not ours. The poll itself asks nothing: the
/// answer to the next heartbeat must have come, too.
const GROUP_SAYS_WITHIN: Duration = Duration::from_secs(10);

/// Those that are contested now.
#[derive(Default)]
pub(super) struct Contested {
    partitions: BTreeSet<Partition>,
    since: Option<Instant>,
}

impl Contested {
    /// The destination gives these to another.
    pub(super) fn add(&mut self, partitions: Vec<Partition>) {
        if !partitions.is_empty() {
            self.partitions.extend(partitions);
            self.listen_anew();
        }
    }

    /// The group says otherwise by now, or they were opened here again.
    pub(super) fn resolve<'a>(&mut self, partitions: impl IntoIterator<Item = &'a Partition>) {
        for partition in partitions {
            self.partitions.remove(partition);
        }
    }

    /// True if none is.
    pub(super) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The group can be heard from now on only.
    pub(super) fn listen_anew(&mut self) {
        self.since = Some(Instant::now());
    }

    /// When the group has had its say. `has_group`: there is one that could say it.
    pub(super) fn due(&self, has_group: bool) -> Option<Instant> {
        let since = self.since.filter(|_| !self.is_empty())?;
        Some(if has_group { since + GROUP_SAYS_WITHIN } else { since })
    }

    /// Why the run cannot go on.
    pub(super) fn refusal(&self, has_group: bool) -> SinkError {
        let partitions: Vec<Partition> = self.partitions.iter().cloned().collect();
        let named: Vec<String> = partitions.iter().map(Partition::to_string).collect();
        let (still, or_else) = if has_group {
            (
                "while the group gives them to this one",
                ", or this process was held up for longer than its session and the broker has not said so yet",
            )
        } else {
            ("while this one reads them", "")
        };
        let context = format!(
            "another process of the same group has opened {} in the destination, {still}: two processes read as one group \
             without sharing its partitions{or_else}. The other one goes on; what this one had read of them and not \
             written is left to it, so nothing is lost. See that the other process is the one that you want, or give the \
             two pipelines groups of their own ([source] group), and start again",
            named.join(", ")
        );
        SinkError { fenced: partitions.into(), ..SinkError::new(FailureKind::Fenced, "apply a batch", context) }
    }
}
