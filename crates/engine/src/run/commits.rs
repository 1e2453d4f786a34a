//! Commits of offsets: one at a time, the newest of each partition, so that many small batches
//! cost few commits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use settle_core::position::{Offset, Partition};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::source::{CommitPoint, OffsetStore, SourceError, SourceFailure};

/// Rest after a store that was away.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A commit that the store is at.
struct Running {
    points: Vec<CommitPoint>,
    task: JoinHandle<Result<(), SourceError>>,
}

pub(super) struct Commits {
    store: Arc<dyn OffsetStore>,
    pending: BTreeMap<Partition, (Offset, String)>,
    running: Option<Running>,
    /// The store was away: not before this.
    retry_at: Option<Instant>,
    committed: BTreeMap<String, Offset>,
    /// What was stored since it was last asked.
    stored: Vec<(Partition, Offset)>,
}

impl Commits {
    pub(super) fn new(store: Arc<dyn OffsetStore>) -> Self {
        Self {
            store,
            pending: BTreeMap::new(),
            running: None,
            retry_at: None,
            committed: BTreeMap::new(),
            stored: Vec::new(),
        }
    }

    /// Adds offsets that may be committed, with what is to be kept beside them.
    pub(super) fn add(&mut self, points: Vec<CommitPoint>) {
        for CommitPoint { partition, offset, metadata } in points {
            let known = self.pending.entry(partition).or_insert((offset, String::new()));
            if offset >= known.0 {
                *known = (offset, metadata);
            }
        }
    }

    /// Starts a commit of what is pending, unless one is running or the store is given a rest.
    pub(super) fn start(&mut self) {
        if self.running.is_some() || self.pending.is_empty() || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let point = |(partition, (offset, metadata))| CommitPoint { partition, offset, metadata };
        let points: Vec<CommitPoint> = std::mem::take(&mut self.pending).into_iter().map(point).collect();
        let (store, committing) = (self.store.clone(), points.clone());
        let task = tokio::spawn(async move { store.commit(&committing).await });
        self.running = Some(Running { points, task });
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
        let points = self.running.take().map(|running| running.points).unwrap_or_default();
        let result = ended.map_err(|e| {
            SourceError::new(SourceFailure::Contract, format!("the commit of offsets ended without an answer ({e})"))
        })?;
        match result {
            Ok(()) => {
                for CommitPoint { partition, offset, .. } in points {
                    self.committed.insert(partition.to_string(), offset);
                    self.stored.push((partition, offset));
                }
                Ok(())
            }
            Err(error) if error.kind == SourceFailure::Unreachable => {
                tracing::warn!(error = %error, "offsets could not be committed, trying again");
                for point in points {
                    // What was added meanwhile is newer.
                    self.pending.entry(point.partition).or_insert((point.offset, point.metadata));
                }
                self.retry_at = Some(Instant::now() + RETRY_AFTER);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// What was stored since this was last asked.
    pub(super) fn take_stored(&mut self) -> Vec<(Partition, Offset)> {
        std::mem::take(&mut self.stored)
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
        let running = self.running.iter().flat_map(|running| &running.points).map(|point| &point.partition);
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
