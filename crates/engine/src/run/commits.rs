//! Commits of offsets: one at a time, the newest of each partition, so that many small batches
//! cost few commits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use settle_core::position::{Offset, Partition};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::source::{OffsetStore, SourceError, SourceFailure};

/// Rest after a store that was away.
const RETRY_AFTER: Duration = Duration::from_millis(500);

type Offsets = Vec<(Partition, Offset)>;

/// A commit that the store is at.
struct Running {
    offsets: Offsets,
    task: JoinHandle<Result<(), SourceError>>,
}

pub(super) struct Commits {
    store: Arc<dyn OffsetStore>,
    pending: BTreeMap<Partition, Offset>,
    running: Option<Running>,
    /// The store was away: not before this.
    retry_at: Option<Instant>,
    committed: BTreeMap<String, Offset>,
}

impl Commits {
    pub(super) fn new(store: Box<dyn OffsetStore>) -> Self {
        Self {
            store: store.into(),
            pending: BTreeMap::new(),
            running: None,
            retry_at: None,
            committed: BTreeMap::new(),
        }
    }

    /// Adds offsets that the ledger released.
    pub(super) fn add(&mut self, offsets: Offsets) {
        for (partition, offset) in offsets {
            let known = self.pending.entry(partition).or_insert(offset);
            *known = offset.max(*known);
        }
    }

    /// Starts a commit of what is pending, unless one is running or the store is given a rest.
    pub(super) fn start(&mut self) {
        if self.running.is_some() || self.pending.is_empty() || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let offsets: Offsets = std::mem::take(&mut self.pending).into_iter().collect();
        let (store, committing) = (self.store.clone(), offsets.clone());
        let task = tokio::spawn(async move { store.commit(&committing).await });
        self.running = Some(Running { offsets, task });
    }

    /// Waits for a commit to end; for ever where none is running. A store that is away is tried
    /// again later: rows are durable, so a late commit costs nothing but re-delivery. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<(), SourceError> {
        if let Some(at) = self.retry_at {
            tokio::time::sleep_until(at).await;
            self.retry_at = None;
            self.start();
        }
        let Some(running) = self.running.as_mut() else {
            return std::future::pending().await;
        };
        let ended = (&mut running.task).await;
        let offsets = self.running.take().map(|running| running.offsets).unwrap_or_default();
        let result = ended.map_err(|e| {
            SourceError::new(SourceFailure::Contract, format!("the commit of offsets ended without an answer ({e})"))
        })?;
        match result {
            Ok(()) => {
                let named = offsets.into_iter().map(|(partition, offset)| (partition.to_string(), offset));
                self.committed.extend(named);
                Ok(())
            }
            Err(error) if error.kind == SourceFailure::Unreachable => {
                tracing::warn!(error = %error, "offsets could not be committed, trying again");
                self.add(offsets);
                self.retry_at = Some(Instant::now() + RETRY_AFTER);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Commits everything that is pending and waits for it.
    pub(super) async fn finish(&mut self) -> Result<(), SourceError> {
        loop {
            self.start();
            if self.running.is_none() && self.pending.is_empty() {
                return Ok(());
            }
            self.next().await?;
        }
    }

    /// True if an offset of these partitions is not committed yet.
    pub(super) fn holds(&self, partitions: &[Partition]) -> bool {
        let running = self.running.iter().flat_map(|running| &running.offsets).map(|(partition, _)| partition);
        self.pending.keys().chain(running).any(|partition| partitions.contains(partition))
    }

    /// Forgets what is pending for partitions that are not ours any more.
    pub(super) fn drop_partitions(&mut self, partitions: &[Partition]) {
        self.pending.retain(|partition, _| !partitions.contains(partition));
    }

    /// Leaves the group.
    pub(super) async fn close(&self) {
        self.store.close().await;
    }

    /// What was committed, by `topic:partition`.
    pub(super) fn committed(&self) -> BTreeMap<String, Offset> {
        self.committed.clone()
    }
}
