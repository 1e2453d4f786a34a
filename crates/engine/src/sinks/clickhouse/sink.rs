//! The sink: what is done in which order.
//!
//! Floors first, then rows, then the proof. Every write is idempotent (versions decide), so after
//! any failure the same batch is applied again from its beginning, and sends the same bytes.

use settle_core::batch::Batch;
use settle_core::sink::{
    BoxFuture, Durable, FailureKind, Guarantee, Outcome, PlacedPartition, Places, Sink, SinkError,
};

use super::apply;
use super::config::ClickHouseConfig;
use super::destination::Destination;
use super::holds::HoldFacts;
use super::meta::Meta;
use super::server::Server;
use crate::config::{Deletes, Target};

/// ClickHouse as a destination.
pub struct ClickHouse {
    pub(crate) server: Server,
    pub(crate) target: Target,
    pub(crate) meta: Meta,
    holds: HoldFacts,
    destination: Destination,
    is_open: bool,
}

impl ClickHouse {
    /// Checks the configuration; nothing is sent before [`Sink::open`].
    pub fn new(config: ClickHouseConfig, target: Target) -> Result<Self, SinkError> {
        let hard = target.tables.iter().find(|(_, rule)| rule.deletes == Some(Deletes::Hard));
        let section = match hard {
            Some((table, _)) => Some(format!("[tables.\"{table}\"]")),
            None => (target.deletes == Some(Deletes::Hard)).then(|| "[sink]".to_owned()),
        };
        if let Some(section) = section {
            let context = format!(
                "deletes = \"hard\" in {section}: ClickHouse keeps delete markers, so that a late older row cannot \
                 resurrect a deleted one; remove it and read the `_current` view"
            );
            return Err(super::config::refused(context));
        }
        let server = Server::new(config)?;
        let meta = Meta::new(&server.database);
        let holds = HoldFacts::new(&server.database);
        Ok(Self { server, target, meta, holds, destination: Destination::default(), is_open: false })
    }

    async fn open_parts(&mut self, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
        let version = self.server.probe().await?;
        self.server.prepare(self.target.create).await?;
        let floors = self.meta.open(&self.server.client, parts).await?;
        if !self.is_open {
            tracing::info!(version, database = self.server.database, "connected to ClickHouse");
        }
        self.is_open = true;
        let holds = self.holds.open(&self.server.client, parts).await?;
        Ok(Places { floors, holds, ..Places::default() })
    }

    async fn apply_batch(&mut self, batch: &Batch) -> Result<Durable, SinkError> {
        if !self.is_open {
            return Err(SinkError::new(FailureKind::Bug, "applying a batch", "the sink was never opened"));
        }
        if let Some(truncate) = batch.truncates().first() {
            let context = format!(
                "record {} truncates {}, which is not built for ClickHouse yet; set skipped.operations=t in the connector, \
                 and empty the target table by hand when the source's was emptied",
                truncate.record.place(),
                truncate.table
            );
            return Err(SinkError::new(FailureKind::Contract, "applying a truncate", context));
        }
        self.meta.record(&self.server.client, batch.floors()).await?;
        let mut applied = 0;
        for rows in batch.tables() {
            let known = self.destination.prepare(&self.server, &self.target, &rows, self.meta.max_epoch()).await?;
            match apply::table(&self.server, &self.target, known, &rows).await {
                Ok(written) => applied += written,
                Err(error) => {
                    if error.kind == FailureKind::Contract {
                        self.destination.forget(rows.table);
                    }
                    return Err(error);
                }
            }
        }
        // Behind the rows: what lifts a hold is a row that is there.
        self.holds.record(&self.server.client, batch.holds()).await?;
        #[expect(clippy::disallowed_methods, reason = "the server acknowledged every insert of the batch")]
        Ok(Durable::mint(batch, Outcome { applied, stale: 0 }))
    }
}

impl Sink for ClickHouse {
    fn guarantee(&self) -> Guarantee {
        Guarantee::Versioned
    }

    fn open<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        Box::pin(self.open_parts(parts))
    }

    fn apply<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Durable, SinkError>> {
        Box::pin(self.apply_batch(batch))
    }
}
