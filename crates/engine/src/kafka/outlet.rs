//! The way out of the reader's thread: the channel to the run loop, and the request to stop.

use std::collections::VecDeque;

use tokio::sync::mpsc::{Permit, Sender};
use tokio::sync::watch;

use crate::source::{SourceEvent, Stop};

/// The channel to the run loop.
pub(super) struct Outlet {
    events: Sender<SourceEvent>,
    closing: watch::Receiver<bool>,
}

impl Outlet {
    pub(super) fn new(events: Sender<SourceEvent>, closing: watch::Receiver<bool>) -> Self {
        Self { events, closing }
    }

    /// Waits until the thread is to end.
    pub(super) async fn closed(&self) {
        let mut closing = self.closing.clone();
        tokio::select! {
            // An error means that the other half of the source is gone.
            _ = closing.wait_for(|closing| *closing) => {}
            () = self.events.closed() => {}
        }
    }

    /// Room for one event, if there is any now.
    pub(super) fn room(&self) -> Option<Permit<'_, SourceEvent>> {
        self.events.try_reserve().ok()
    }

    /// Waits for room.
    pub(super) async fn wait_for_room(&self) {
        if self.events.reserve().await.is_err() {
            // Nobody listens: `closed` tells.
            std::future::pending().await
        }
    }

    /// Sends as soon as there is room.
    pub(super) async fn send(&self, event: SourceEvent) -> Result<(), Stop> {
        self.events.send(event).await.map_err(|_| Stop::NobodyListens)
    }

    /// Sends what waits, in order, as room comes. Cancel-safe: what was not sent still waits.
    pub(super) async fn send_all(&self, waiting: &mut VecDeque<SourceEvent>) -> Result<(), Stop> {
        while !waiting.is_empty() {
            let room = self.events.reserve().await.map_err(|_| Stop::NobodyListens)?;
            if let Some(event) = waiting.pop_front() {
                room.send(event);
            }
        }
        Ok(())
    }
}
