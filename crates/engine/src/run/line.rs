//! The state between source and sink: lanes, the batch being gathered, the ledger. No I/O, no
//! waiting: it is told what happened and says what is ready.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use settle_core::batch::Batch;
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Fed, Lane, LoneTombstones, Past};
use settle_core::ledger::Ledger;
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::record::Record;
use settle_core::sink::{Durable, Places};
use settle_core::tally::Tally;

use super::RunError;
use super::ghosts::Ghosts;
use super::owners::Owners;
use super::rules::unmatched_rules;
use crate::config::Target;
use crate::finding::Finding;
use crate::source::{Assignment, Chunk, CommitPoint};

/// Batches handed to the writer and not yet proven: one being applied, one waiting.
const MAX_IN_FLIGHT: usize = 2;

struct Slot {
    lane: Lane,
    topic_id: Option<TopicId>,
    /// Partitions of the topic that the group is known to read.
    topic_size: u32,
    generation: u64,
    /// The group had committed an offset of it.
    resumed: bool,
    /// Offsets below this were taken in before, by this run or as the destination says.
    seen: Offset,
    /// A bounded run reads nothing more of it.
    ended: bool,
    /// Its end was reached once since it was assigned.
    reached: bool,
}

/// The line.
pub(super) struct Line {
    slots: BTreeMap<Partition, Slot>,
    owners: Owners,
    target: Target,
    pub(super) ghosts: Ghosts,
    /// Greatest next offset ever read here, per partition: survives revocations.
    high: BTreeMap<Partition, Offset>,
    fold: Fold,
    ledger: Ledger,
    /// Records fetched, waiting for room.
    backlog: VecDeque<Record>,
    /// What is to be kept with the end of each span that may be committed.
    standings: BTreeMap<(Partition, Offset), String>,
    /// An event that may not join the batch being gathered.
    held: Option<(Partition, Offset, Fed)>,
    in_flight: usize,
    must_cut: bool,
    /// Partitions that went away while records of theirs were gathered: the batch is still
    /// written, but its spans of them prove nothing to a later assignment.
    orphans: BTreeSet<Partition>,
    max_messages: Option<u64>,
    lone_tombstones: LoneTombstones,
    /// Records that alone are at fault become dead letters; they stop the run otherwise.
    pub(super) sets_aside: bool,
    /// Counts of what was read; `tally` has what became durable.
    pub(super) taken: u64,
    pub(super) redelivered: u64,
    pub(super) tally: Tally,
    pub(super) batches: u64,
    /// Rules for tables that match nothing were said.
    said_rules: bool,
}

impl Line {
    pub(super) fn new(
        limits: Limits,
        lone_tombstones: LoneTombstones,
        max_messages: Option<u64>,
        target: Target,
    ) -> Self {
        Self {
            owners: Owners::new(target.clone()),
            target,
            ghosts: Ghosts::default(),
            slots: BTreeMap::new(),
            high: BTreeMap::new(),
            fold: Fold::new(limits),
            ledger: Ledger::default(),
            backlog: VecDeque::new(),
            standings: BTreeMap::new(),
            held: None,
            in_flight: 0,
            must_cut: false,
            orphans: BTreeSet::new(),
            max_messages,
            lone_tombstones,
            sets_aside: false,
            taken: 0,
            redelivered: 0,
            tally: Tally::default(),
            batches: 0,
            said_rules: false,
        }
    }

    /// Partitions held.
    pub(super) fn partitions(&self) -> usize {
        self.slots.len()
    }

    /// True if the partition is held.
    pub(super) fn holds(&self, partition: &Partition) -> bool {
        self.slots.contains_key(partition)
    }

    /// Takes partitions on, with what the destination knows of their places.
    pub(super) fn assign(&mut self, assignments: Vec<Assignment>, places: &Places) {
        for assignment in assignments {
            let Assignment { partition, topic_id, start, resumed, standing, partitions, generation, .. } = assignment;
            let floors = topic_id.map(|id| places.floors_of(id, &partition)).unwrap_or_default();
            let boundaries = topic_id.map(|id| places.epochs_of(id, &partition)).unwrap_or_default();
            let marks = standing.map(|standing| standing.marks).unwrap_or_default();
            let past = Past { floors: &floors, boundaries: &boundaries, marks: &marks };
            let recorded = topic_id.and_then(|id| places.applied_of(id, &partition)).unwrap_or(0);
            let seen = self.high.get(&partition).copied().unwrap_or(0).max(recorded);
            let lane = Lane::behind(partition.clone(), start, past, self.lone_tombstones);
            let slot = Slot {
                lane,
                topic_id,
                topic_size: partitions,
                generation,
                resumed,
                seen,
                ended: false,
                reached: false,
            };
            self.slots.insert(partition, slot);
        }
    }

    /// Stops taking records of these partitions. What is gathered of them is still written.
    pub(super) fn close(&mut self, partitions: &[Partition]) {
        self.backlog.retain(|record| !partitions.contains(&record.partition));
        self.held.take_if(|(partition, ..)| partitions.contains(partition));
        self.cut_soon();
    }

    /// Forgets these partitions: nothing of theirs is committed from here on.
    pub(super) fn drop_partitions(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            self.slots.remove(partition);
            self.ledger.drop_partition(partition);
            self.standings.retain(|(other, _), _| other != partition);
        }
        if !self.fold.is_empty() {
            self.must_cut = true;
            self.orphans.extend(partitions.iter().cloned());
        }
    }

    /// Queues fetched records. Those of an assignment that is over are dropped: they will be
    /// delivered to its next owner.
    pub(super) fn queue(&mut self, chunk: Chunk) {
        if self.slots.get(&chunk.partition).is_some_and(|slot| slot.generation == chunk.generation) {
            self.backlog.extend(chunk.records);
        }
    }

    /// Feeds queued records until the batch is full or none is left. A refused record stops it;
    /// what came before it is kept.
    pub(super) fn feed(&mut self, now_ms: u64) -> Result<(), RunError> {
        while !self.must_cut && !self.fold.is_full() && !self.has_enough() {
            let (partition, offset, fed) = match self.held.take() {
                Some(held) => held,
                None => {
                    let Some(record) = self.backlog.pop_front() else { return Ok(()) };
                    let Some(slot) = self.slots.get_mut(&record.partition) else { continue };
                    let (partition, offset) = (record.partition.clone(), record.offset);
                    let fed = match slot.lane.take_in(record) {
                        Ok(fed) => fed,
                        Err(refused) if self.sets_aside => {
                            let keyed = self.has_keys(&partition);
                            let letter = refused.into_dead_letter(keyed).map_err(|refused| refused.refusal)?;
                            self.fold.push_dead(letter, now_ms);
                            self.count(partition, offset);
                            continue;
                        }
                        Err(refused) => return Err(refused.refusal.into()),
                    };
                    self.owners.check(&fed.event).map_err(RunError::Source)?;
                    (partition, offset, fed)
                }
            };
            if self.fold.must_cut_before(&fed.event) {
                self.held = Some((partition, offset, fed));
                self.must_cut = true;
                return Ok(());
            }
            self.ghosts.follow(&fed.event, fed.full, &self.target);
            self.fold.push(&partition, offset, fed.event, fed.floor, now_ms)?;
            self.count(partition, offset);
        }
        Ok(())
    }

    fn count(&mut self, partition: Partition, offset: Offset) {
        self.taken += 1;
        if self.slots.get(&partition).is_some_and(|slot| offset < slot.seen) {
            self.redelivered += 1;
        }
        let high = self.high.entry(partition).or_insert(0);
        *high = (*high).max(offset + 1);
    }

    /// True if records of the partition's topic have keys: one was read, or the group has been
    /// here before and went on. Where none has, it is the topic that lacks them, not a record.
    fn has_keys(&self, partition: &Partition) -> bool {
        let of_topic = self.slots.iter().filter(|(other, _)| other.topic == partition.topic);
        of_topic.map(|(_, slot)| slot).any(|slot| slot.resumed || slot.lane.knows_keys())
    }

    /// Everything below `end` was delivered; what is left there are markers.
    pub(super) fn reached_end(
        &mut self,
        partition: &Partition,
        generation: u64,
        end: Offset,
        bounded: bool,
        now_ms: u64,
    ) {
        let Some(slot) = self.slots.get_mut(partition).filter(|slot| slot.generation == generation) else { return };
        slot.ended |= bounded;
        slot.reached = true;
        let next = slot.lane.next();
        if end > next {
            slot.lane.pass(end);
            self.fold.pass(partition, next, end, now_ms);
        }
    }

    /// The incarnation of a topic of which partitions are held.
    pub(super) fn topic_id(&self, topic: &str) -> Option<TopicId> {
        let slot = self.slots.iter().find(|(partition, _)| *partition.topic == *topic);
        slot.and_then(|(_, slot)| slot.topic_id)
    }

    /// Where the partitions held were read to.
    pub(super) fn ends(&self) -> Vec<(Partition, Offset)> {
        self.slots.iter().map(|(partition, slot)| (partition.clone(), slot.lane.next())).collect()
    }

    /// True if there is room for more from the source.
    pub(super) fn can_take(&self) -> bool {
        self.all_fed() && !self.must_cut && !self.fold.is_full()
    }

    /// True if records wait that could be fed now.
    pub(super) fn can_feed(&self) -> bool {
        (self.held.is_some() || !self.backlog.is_empty())
            && !self.must_cut
            && !self.fold.is_full()
            && !self.has_enough()
    }

    /// True if as many records were taken as were asked for.
    pub(super) fn has_enough(&self) -> bool {
        self.max_messages.is_some_and(|max| self.taken >= max)
    }

    /// True if nothing fetched waits to be fed.
    pub(super) fn all_fed(&self) -> bool {
        self.backlog.is_empty() && self.held.is_none()
    }

    /// True if the end of every partition held was reached since it was assigned.
    pub(super) fn all_reached(&self) -> bool {
        !self.slots.is_empty() && self.slots.values().all(|slot| slot.reached)
    }

    /// Says which rules for tables match nothing that was read, once. `at_end`: the log's end is reached.
    pub(super) fn say_unmatched_rules(&mut self, at_end: bool) {
        let read = self.owners.tables();
        if self.said_rules || read.is_empty() {
            return;
        }
        self.said_rules = true;
        let whole = at_end && !self.slots.is_empty() && self.slots.values().all(|slot| !slot.resumed);
        for Finding { what, fix, .. } in unmatched_rules(&self.target, &read, whole) {
            tracing::warn!("{what}; {fix}");
        }
    }

    /// True if every partition held has ended. Without any it is not known: those that were lost
    /// in an outage come back unread.
    pub(super) fn all_ended(&self) -> bool {
        self.all_fed() && !self.slots.is_empty() && self.slots.values().all(|slot| slot.ended)
    }

    /// Cut what is gathered, whatever its size.
    pub(super) fn cut_soon(&mut self) {
        self.must_cut = !self.fold.is_empty();
    }

    /// When the gathered batch is old enough to be cut; none while the writer has no room.
    pub(super) fn due_at_ms(&self) -> Option<u64> {
        if self.in_flight < MAX_IN_FLIGHT { self.fold.due_at_ms() } else { None }
    }

    /// The next batch for the writer, if one is ready and there is room for it.
    pub(super) fn next_batch(&mut self, now_ms: u64) -> Option<Batch> {
        let old = self.fold.due_at_ms().is_some_and(|due| due <= now_ms);
        if self.in_flight >= MAX_IN_FLIGHT || self.fold.is_empty() || !(self.must_cut || old || self.fold.is_full()) {
            return None;
        }
        self.must_cut = false;
        let batch = self.fold.cut();
        let orphans = std::mem::take(&mut self.orphans);
        for span in batch.spans().iter().filter(|span| !orphans.contains(&span.partition)) {
            self.ledger.open(span.clone());
            if let Some(Slot { lane, topic_id: Some(topic_id), topic_size, .. }) = self.slots.get(&span.partition) {
                let line = lane.standing(*topic_id, span.end, *topic_size).line();
                self.standings.insert((span.partition.clone(), span.end), line);
            }
        }
        self.in_flight += 1;
        Some(batch)
    }

    /// Takes a proof and says what may be committed, and what is to be kept with it.
    pub(super) fn settle(&mut self, batch: &Batch, proof: Durable) -> Vec<CommitPoint> {
        self.in_flight -= 1;
        self.batches += 1;
        let mut tally = batch.tally();
        tally.applied += proof.outcome.applied;
        tally.stale += proof.outcome.stale;
        self.tally.add(&tally);
        let ready = self.ledger.settle(proof);
        ready.into_iter().map(|(partition, offset)| self.commit_point(partition, offset)).collect()
    }

    fn commit_point(&mut self, partition: Partition, offset: Offset) -> CommitPoint {
        let metadata = self.standings.remove(&(partition.clone(), offset)).unwrap_or_default();
        self.standings.retain(|(other, end), _| *other != partition || *end > offset);
        CommitPoint { partition, offset, metadata }
    }

    /// True if nothing of these partitions is gathered or in flight.
    pub(super) fn is_settled(&self, partitions: &[Partition]) -> bool {
        !self.must_cut && partitions.iter().all(|partition| self.ledger.is_settled(partition))
    }

    /// True if nothing at all is gathered or in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.fold.is_empty() && self.in_flight == 0
    }
}
