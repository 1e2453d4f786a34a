//! Taking a connector away, and what it leaves at its database.

use std::time::Duration;

use tokio::time::Instant;

use crate::connector::{SignalError, Worker, WorkerError, source_of};
use crate::database::{Address, DatabaseError, Engine, Session, name as quoted_name, quoted};

/// The server ends the connection of a connector that is gone within `wal_sender_timeout`, a minute by default.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(200);

/// Why something is left.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// The worker.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The database is not known.
    #[error(transparent)]
    Source(#[from] SignalError),
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Not a PostgreSQL connector.
    #[error("--drop-slot is for PostgreSQL: connector {0} has no slot")]
    NoSlot(String),
    /// Somebody reads from the slot.
    #[error(
        "slot {slot} is still in use after {seconds} s, by another connector or client; end it, then run: \
         SELECT pg_drop_replication_slot('{slot}')"
    )]
    Busy {
        /// The slot.
        slot: String,
        /// How long it was waited for.
        seconds: u64,
    },
}

/// Deletes a connector; with `slot` also its replication slot and publication. Without a slot PostgreSQL forgets where
/// the connector was: one that is registered later has missed what happened in between.
pub async fn delete(worker: &Worker, name: &str, slot: bool, address: Option<&Address>) -> Result<(), RemovalError> {
    if !slot {
        return Ok(worker.delete(name).await?);
    }
    // All that can be wrong is found before anything is deleted.
    let Some(settings) = worker.settings(name).await? else {
        return Err(worker.unknown(name).await.into());
    };
    let address = match address {
        Some(address) => address.clone(),
        None => source_of(name, &settings)?,
    };
    if address.engine() != Engine::Postgres {
        return Err(RemovalError::NoSlot(name.to_owned()));
    }
    let slot = settings.get("slot.name").unwrap_or("debezium");
    let publication = settings.get("publication.name").unwrap_or("dbz_publication");
    let session = Session::open(&address).await?;
    worker.delete(name).await?;
    drop_with(session, slot, publication).await
}

/// Drops a slot and a publication; what is not there is fine.
pub async fn drop_slot(address: &Address, slot: &str, publication: &str) -> Result<(), RemovalError> {
    drop_with(Session::open(address).await?, slot, publication).await
}

async fn drop_with(mut session: Session, slot: &str, publication: &str) -> Result<(), RemovalError> {
    let literal = quoted(slot, Engine::Postgres);
    let active = format!("SELECT active FROM pg_replication_slots WHERE slot_name = {literal}");
    let until = Instant::now() + PATIENCE;
    loop {
        match session.value(&active).await?.as_deref() {
            None => break,
            Some("f") => {
                let drop = format!("SELECT pg_drop_replication_slot({literal})");
                session.execute(&drop).await.map_err(|error| error.while_doing(format!("dropping slot {slot}")))?;
            }
            Some(_) if Instant::now() > until => {
                return Err(RemovalError::Busy { slot: slot.to_owned(), seconds: PATIENCE.as_secs() });
            }
            Some(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    let drop = format!("DROP PUBLICATION IF EXISTS {}", quoted_name(&[publication], Engine::Postgres));
    let dropped = session.execute(&drop).await;
    session.close().await;
    dropped.map_err(|error| error.while_doing(format!("dropping publication {publication}")))?;
    Ok(())
}
