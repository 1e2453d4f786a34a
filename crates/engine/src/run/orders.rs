//! Orders on their way to the writer, in the order in which they were given.
//!
//! Nobody waits for the writer to take one: while its destination is away, the loop must hear of a stop and
//! of the source. The queue is bounded by what fills it: the batches in flight, what was seen in the records
//! of the one being gathered, and what waits to be passed, each once.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::writer::Order;

pub(super) struct Orders {
    writer: mpsc::Sender<Order>,
    /// The writer has had no room for them yet.
    waiting: VecDeque<Order>,
}

impl Orders {
    pub(super) fn new(writer: mpsc::Sender<Order>) -> Self {
        Self { writer, waiting: VecDeque::new() }
    }

    /// The next thing for the writer to do.
    pub(super) fn give(&mut self, order: Order) {
        self.waiting.push_back(order);
    }

    /// Hands over what was given, as the writer takes it. Never ends. Cancel-safe.
    pub(super) async fn hand_over(&mut self) -> Infallible {
        while !self.waiting.is_empty() {
            let Ok(room) = self.writer.reserve().await else {
                // Why the writer has ended is among its proofs. Whoever waits for an answer hears that there is none.
                self.waiting.clear();
                break;
            };
            if let Some(order) = self.waiting.pop_front() {
                room.send(order);
            }
        }
        std::future::pending().await
    }

    /// The same until there is an answer, which comes too late behind `limit`.
    pub(super) async fn hand_over_until<T>(&mut self, limit: Instant, answer: impl Future<Output = T>) -> Option<T> {
        tokio::select! { biased;
            never = self.hand_over() => match never {},
            answer = answer => Some(answer),
            () = tokio::time::sleep_until(limit) => None,
        }
    }
}
