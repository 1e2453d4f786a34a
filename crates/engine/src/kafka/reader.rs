//! The thread's loop: serve librdkafka, carry out rebalances, hand records over.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use tokio::time::Instant;

use super::client::{self, Consumer};
use super::config::KafkaConfig;
use super::confirmation::{Asking, Unconfirmed};
use super::context::{Context, Trouble};
use super::group::Ownership;
use super::intake::{Intake, Look};
use super::outlet::Outlet;
use super::start::Ends;
use super::topics::Topic;
use crate::source::{SourceError, SourceEvent, Stop};

/// The thread looks round this often even if nothing wakes it.
const TICK: Duration = Duration::from_millis(250);
/// With so much to be said, whatever would add to it waits too.
const MAX_UNSAID: usize = 64;

/// Everything the thread holds while it is in the group.
pub(super) struct Reader {
    pub(super) config: KafkaConfig,
    pub(super) ends: Option<Ends>,
    /// What was selected at the start.
    pub(super) topics: Vec<Topic>,
    pub(super) outlet: Outlet,
    pub(super) ownership: Arc<Ownership>,
    /// Dropped before the consumer: a queue must not outlive it.
    pub(super) intakes: Vec<Intake>,
    pub(super) consumer: Arc<Consumer>,
    pub(super) generation: u64,
    pub(super) health: Health,
    /// What the run loop is still to be told, before any further record. A rebalance must not wait
    /// for a run loop that is held up: the whole group would wait with it.
    pub(super) unsaid: VecDeque<SourceEvent>,
    /// What was read and is not handed on yet.
    pub(super) unconfirmed: Unconfirmed,
    pub(super) asking: Asking,
    /// Partitions that wait for others are not looked after before this.
    pub(super) next_growth_look: Instant,
    turn: usize,
}

/// What is known of the broker.
pub(super) struct Health {
    /// We told the run loop that the source is away.
    pub(super) away: Option<Away>,
    /// Something that may mean that it is.
    pub(super) suspicion: Option<Trouble>,
    /// Not asked again before this.
    pub(super) next_check: Instant,
    /// When topics and access are looked at again.
    pub(super) next_round: Instant,
}

/// How the source is away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Away {
    /// No broker answers: asking tells when one does.
    Silent,
    /// Access was refused: only a record shows that it is granted.
    Denied,
}

/// What a round through the partitions came to.
enum Round {
    Handed,
    NothingThere,
    NoRoom,
    Trouble(usize, Trouble),
}

impl Reader {
    pub(super) fn new(
        config: KafkaConfig,
        ends: Option<Ends>,
        topics: Vec<Topic>,
        outlet: Outlet,
        ownership: Arc<Ownership>,
        consumer: Arc<Consumer>,
        asking: Asking,
    ) -> Self {
        let now = Instant::now();
        let health = Health { away: None, suspicion: None, next_check: now, next_round: now };
        let intakes = Vec::new();
        let unsaid = VecDeque::new();
        Self {
            config,
            ends,
            topics,
            outlet,
            ownership,
            intakes,
            consumer,
            generation: 0,
            health,
            unsaid,
            unconfirmed: Unconfirmed::default(),
            asking,
            next_growth_look: now,
            turn: 0,
        }
    }

    /// Reads until the source is closed.
    pub(super) async fn live(mut self) {
        let stop = loop {
            if let Err(stop) = self.step().await {
                break stop;
            }
        };
        if let Stop::Failed(error) = stop {
            // Still a member of the group: the run loop may have offsets to commit.
            let mut unsaid = std::mem::take(&mut self.unsaid);
            unsaid.push_back(SourceEvent::Failed(error));
            let said = async {
                let _ = self.outlet.send_all(&mut unsaid).await;
                std::future::pending::<()>().await;
            };
            // Ends when the source is closed.
            let _ = self.attended(said).await;
        }
    }

    async fn step(&mut self) -> Result<(), Stop> {
        client::poll(&self.consumer)?;
        if self.unsaid.len() < MAX_UNSAID {
            if let Some(rebalance) = self.context().rebalance() {
                return self.carry_out(&rebalance).await;
            }
            while let Some(trouble) = self.context().trouble() {
                self.on_trouble(None, trouble).await?;
            }
            self.check_health()?;
            self.look_after_growth()?;
        }
        self.confirm().await?;
        match self.round()? {
            Round::Handed => {
                self.shows_access();
                Ok(())
            }
            Round::Trouble(intake, trouble) => self.on_trouble(Some(intake), trouble).await,
            Round::NothingThere => self.rest(std::future::pending()).await,
            Round::NoRoom => self.rest(self.outlet.wait_for_room()).await,
        }
    }

    /// Hands on what is confirmed, for as long as the channel has room, and looks once into each
    /// partition, in turn, for as long as not too much waits.
    fn round(&mut self) -> Result<Round, SourceError> {
        let mut handed = false;
        while !self.unsaid.is_empty() {
            let Some(room) = self.outlet.room() else { return Ok(Round::NoRoom) };
            if let Some(event) = self.unsaid.pop_front() {
                room.send(event);
            }
        }
        let mut is_held_up = false;
        while self.unconfirmed.has_confirmed() {
            let Some(room) = self.outlet.room() else {
                is_held_up = true;
                break;
            };
            if let Some(event) = self.unconfirmed.pop() {
                room.send(event);
                handed = true;
            }
        }
        for _ in 0..self.intakes.len() {
            if self.unconfirmed.is_full() {
                break;
            }
            self.turn = (self.turn + 1) % self.intakes.len();
            match self.intakes[self.turn].look(self.consumer.context()) {
                Look::Nothing => {}
                Look::Event(event) => {
                    let Intake { partition, topic_id, .. } = &self.intakes[self.turn];
                    self.unconfirmed.push(partition.clone(), *topic_id, event);
                    handed = true;
                }
                Look::Trouble(trouble) => return Ok(Round::Trouble(self.turn, trouble)),
                Look::Failed(error) => return Err(error),
            }
        }
        Ok(match (handed, is_held_up) {
            (true, _) => Round::Handed,
            (false, true) => Round::NoRoom,
            (false, false) => Round::NothingThere,
        })
    }

    /// Waits until there may be something to do.
    async fn rest(&self, room: impl Future<Output = ()>) -> Result<(), Stop> {
        let asks_at = self.asks_at().unwrap_or_else(|| Instant::now() + TICK);
        tokio::select! {
            () = self.outlet.closed() => Err(Stop::NobodyListens),
            () = room => Ok(()),
            () = self.context().wake.notified() => Ok(()),
            () = tokio::time::sleep(TICK) => Ok(()),
            () = tokio::time::sleep_until(asks_at) => Ok(()),
        }
    }

    /// Waits for `what` while librdkafka is served: a wait, however long, never costs the
    /// assignment.
    pub(super) async fn attended<T>(&self, what: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! { biased;
            () = self.outlet.closed() => Err(Stop::NobodyListens),
            done = what => Ok(done),
            error = self.attend() => Err(Stop::Failed(error)),
        }
    }

    /// Waits, and says what is to be said meanwhile.
    pub(super) async fn pause(&mut self, time: Duration) -> Result<(), Stop> {
        let mut unsaid = std::mem::take(&mut self.unsaid);
        let said = async {
            self.outlet.send_all(&mut unsaid).await?;
            std::future::pending().await
        };
        let paused = self.attended(async {
            tokio::select! {
                stopped = said => stopped,
                () = tokio::time::sleep(time) => Ok(()),
            }
        });
        let paused = paused.await;
        self.unsaid = unsaid;
        paused?
    }

    async fn attend(&self) -> SourceError {
        loop {
            if let Err(error) = client::poll(&self.consumer) {
                return error;
            }
            tokio::select! {
                () = self.context().wake.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// Tells the run loop, as soon as it listens.
    pub(super) fn say(&mut self, event: SourceEvent) {
        self.unsaid.push_back(event);
    }

    pub(super) fn context(&self) -> &Context {
        self.consumer.context()
    }
}

impl Drop for Reader {
    /// Whatever ended the thread, a panic included: librdkafka waits for every rebalance to be
    /// carried out before a consumer can be closed.
    fn drop(&mut self) {
        self.intakes.clear();
        for rebalance in self.consumer.context().close() {
            rebalance.let_go(&self.consumer);
        }
    }
}
