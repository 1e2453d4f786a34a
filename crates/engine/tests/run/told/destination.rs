//! A destination, and a place for dead letters, that do as they are told.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use settle_core::batch::Batch;
use settle_core::dead_letter::ErrorClass;
use settle_core::holds::{Hold, HoldNote, HoldState};
use settle_core::position::{Offset, Partition, Place, TopicId};
use settle_core::sink::{
    BoxFuture, Durable, FailureKind, Guarantee, Outcome, Passed, Pending, PlacedPartition, Places, Seen, Sink,
    SinkError, Sweep,
};
use settle_engine::dead_letter::{DeadLetters, Letter, Written};
use settle_engine::source::Assignment;
use tokio::sync::watch;

use super::LIMIT;

/// A destination that holds, fails or acknowledges.
#[derive(Clone, Default)]
pub struct SinkHandle(Arc<SinkState>);

struct SinkState {
    held: watch::Sender<bool>,
    failures: Mutex<VecDeque<Option<FailureKind>>>,
    attempts: Mutex<Vec<String>>,
    /// Partitions that were opened, in order.
    opened: watch::Sender<Vec<i32>>,
    /// Partitions that another instance has opened since.
    fenced: Mutex<BTreeSet<i32>>,
    /// Batches that were refused for that.
    refusals: watch::Sender<usize>,
    places: Mutex<Places>,
    /// Offsets whose rows are refused, and whether the refusal names the record.
    poison: Mutex<(BTreeSet<Offset>, bool)>,
    notes: Mutex<Vec<HoldNote>>,
    journal: Journal,
    applying: watch::Sender<usize>,
    /// What it was told, in order.
    told: watch::Sender<Vec<String>>,
}

impl Default for SinkState {
    fn default() -> Self {
        Self {
            held: watch::Sender::new(false),
            failures: Mutex::default(),
            attempts: Mutex::default(),
            opened: watch::Sender::new(Vec::new()),
            fenced: Mutex::default(),
            refusals: watch::Sender::new(0),
            places: Mutex::default(),
            poison: Mutex::default(),
            notes: Mutex::default(),
            journal: Journal::default(),
            applying: watch::Sender::new(0),
            told: watch::Sender::new(Vec::new()),
        }
    }
}

impl SinkHandle {
    /// Where it, and what it is given with it, notes what becomes durable.
    pub fn its_journal(&self) -> Journal {
        self.0.journal.clone()
    }

    /// This waits until it is passed.
    pub fn has_pending(&self, pending: Pending) {
        self.0.places.lock().unwrap().pending.push(pending);
    }

    /// What it was told besides its first batches, in order.
    pub fn told(&self) -> Vec<String> {
        self.0.told.borrow().clone()
    }

    pub async fn until_told(&self, what: &str) {
        let mut told = self.0.told.subscribe();
        let all = told.wait_for(|told| told.iter().any(|one| one == what));
        tokio::time::timeout(LIMIT, all).await.unwrap_or_else(|_| panic!("not told: {what}")).unwrap();
    }

    fn tell(&self, what: String) {
        self.0.told.send_modify(|told| told.push(what));
    }

    pub fn hold(&self) {
        self.0.held.send_replace(true);
    }

    pub fn release(&self) {
        self.0.held.send_replace(false);
    }

    pub fn fail(&self, kinds: &[FailureKind]) {
        self.0.failures.lock().unwrap().extend(kinds.iter().copied().map(Some));
    }

    /// The next attempts succeed, before what it is told next.
    pub fn succeed(&self, times: usize) {
        self.0.failures.lock().unwrap().extend(std::iter::repeat_n(None, times));
    }

    /// It holds records of the partition up to this offset.
    pub fn holds(&self, assignment: &Assignment, next: Offset) {
        let place = PlacedPartition { topic_id: assignment.topic_id.unwrap(), partition: assignment.partition.clone() };
        self.0.places.lock().unwrap().applied.push((place, next));
    }

    /// Another instance opens these partitions.
    pub fn fence(&self, numbers: &[i32]) {
        self.0.fenced.lock().unwrap().extend(numbers);
    }

    /// Partitions that were opened here, in order.
    pub fn opened(&self) -> Vec<i32> {
        self.0.opened.borrow().clone()
    }

    pub async fn until_opened(&self, number: i32) {
        let mut opened = self.0.opened.subscribe();
        let wanted = opened.wait_for(|opened| opened.contains(&number));
        tokio::time::timeout(LIMIT, wanted).await.expect("opened in time").unwrap();
    }

    /// How many batches were refused because another instance has partitions of theirs.
    pub fn refusals(&self) -> usize {
        *self.0.refusals.borrow()
    }

    pub async fn until_refused(&self, times: usize) {
        let mut refusals = self.0.refusals.subscribe();
        tokio::time::timeout(LIMIT, refusals.wait_for(|n| *n >= times)).await.expect("refused in time").unwrap();
    }

    /// Refuses a batch of which another instance has partitions.
    fn check_fence(&self, batch: &Batch) -> Result<(), SinkError> {
        let fenced = self.0.fenced.lock().unwrap();
        let partitions: Vec<Partition> = batch.spans().iter().map(|span| span.partition.clone()).collect();
        let gone: Vec<Partition> = partitions.into_iter().filter(|part| fenced.contains(&part.number)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        self.0.refusals.send_modify(|n| *n += 1);
        Err(SinkError::fenced("write", gone))
    }

    /// Rows of these records are refused.
    pub fn refuse(&self, offsets: &[Offset], names_records: bool) {
        *self.0.poison.lock().unwrap() = (offsets.iter().copied().collect(), names_records);
    }

    /// It has recorded this hold.
    pub fn has_recorded(&self, hold: Hold) {
        self.0.places.lock().unwrap().holds.push(hold);
    }

    /// The holds that it has recorded are lifted, beside the run.
    pub fn lifts_holds(&self) {
        self.0.places.lock().unwrap().holds.clear();
    }

    fn note(&self, notes: &[HoldNote]) {
        let holds = &mut self.0.places.lock().unwrap().holds;
        for HoldNote { partition, key, now } in notes {
            let is_over = |hold: &Hold| match now {
                HoldState::Held(_) => true,
                HoldState::Lifted(by) => hold.held.last < *by,
            };
            holds.retain(|hold| !(hold.partition == *partition && hold.key == *key && is_over(hold)));
            if let HoldState::Held(held) = now {
                holds.push(Hold { partition: partition.clone(), key: key.clone(), held: *held });
            }
        }
        self.0.notes.lock().unwrap().extend(notes.iter().cloned());
    }

    /// What it was told of holds with what it acknowledged.
    pub fn notes(&self) -> Vec<HoldNote> {
        self.0.notes.lock().unwrap().clone()
    }

    /// What became durable in which order: rows by offset with the spans they were proven with,
    /// and dead letters.
    pub fn journal(&self) -> Vec<String> {
        self.0.journal.0.lock().unwrap().clone()
    }

    /// Every attempt, as the rows of its batch.
    pub fn attempts(&self) -> Vec<String> {
        self.0.attempts.lock().unwrap().clone()
    }

    pub async fn until_applying(&self, count: usize) {
        let mut applying = self.0.applying.subscribe();
        tokio::time::timeout(LIMIT, applying.wait_for(|n| *n >= count)).await.expect("applying in time").unwrap();
    }
}

impl Sink for SinkHandle {
    fn guarantee(&self) -> Guarantee {
        Guarantee::Atomic
    }

    fn open<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        for PlacedPartition { partition, .. } in parts {
            self.0.fenced.lock().unwrap().remove(&partition.number);
            self.0.opened.send_modify(|opened| opened.push(partition.number));
        }
        Box::pin(async { Ok(self.0.places.lock().unwrap().clone()) })
    }

    #[expect(clippy::disallowed_methods, reason = "a destination that acknowledges")]
    fn apply<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Durable, SinkError>> {
        Box::pin(async move {
            // Holds that are lifted beside a run.
            if batch.spans().is_empty() && !batch.holds().is_empty() {
                if let Some(Some(kind)) = self.0.failures.lock().unwrap().pop_front() {
                    return Err(SinkError::new(kind, "lift holds", "told to fail"));
                }
                self.note(batch.holds());
                return Ok(Durable::mint(batch, Outcome::default()));
            }
            // It is only asked whether the partitions are still ours.
            if batch.row_count() == 0 && batch.spans().iter().all(|span| span.start == span.end) {
                self.check_fence(batch)?;
                return Ok(Durable::mint(batch, Outcome::default()));
            }
            self.0.applying.send_modify(|n| *n += 1);
            let rows: Vec<String> =
                batch.tables().flat_map(|t| t.rows()).map(|row| format!("{}@{}", row.key(), row.version())).collect();
            self.tell(format!("apply {}", rows.len()));
            self.0.attempts.lock().unwrap().push(rows.join(" "));
            let mut held = self.0.held.subscribe();
            held.wait_for(|held| !held).await.unwrap();
            self.check_fence(batch)?;
            if let Some(Some(kind)) = self.0.failures.lock().unwrap().pop_front() {
                return Err(SinkError::new(kind, "write", "told to fail"));
            }
            let rows = || batch.tables().flat_map(|table| table.rows()).map(|row| row.change());
            let (poison, names_records) = self.0.poison.lock().unwrap().clone();
            if let Some(change) = rows().find(|change| poison.contains(&change.record.offset)) {
                let error = SinkError::new(FailureKind::Row, "write", "told to refuse it");
                return Err(if names_records { error.at(change.place()) } else { error });
            }
            let offsets: Vec<String> = rows().map(|change| change.record.offset.to_string()).collect();
            // The empty ones of a piece prove nothing.
            let proven = batch.spans().iter().filter(|span| span.start < span.end);
            let spans: Vec<String> = proven.map(|span| format!("{}..{}", span.start, span.end)).collect();
            self.0.journal.add(format!("rows [{}] spans [{}]", offsets.join(" "), spans.join(" ")));
            self.note(batch.holds());
            Ok(Durable::mint(batch, Outcome { applied: batch.row_count() as u64, stale: 0 }))
        })
    }

    fn held<'a>(&'a mut self, _: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Vec<Hold>, SinkError>> {
        Box::pin(async {
            match self.0.failures.lock().unwrap().pop_front().flatten() {
                Some(kind) => Err(SinkError::new(kind, "read holds", "told to fail")),
                None => Ok(self.0.places.lock().unwrap().holds.clone()),
            }
        })
    }

    fn plan<'a>(&'a mut self, _: TopicId, sweep: &'a Sweep, seen: Seen) -> BoxFuture<'a, Result<(), SinkError>> {
        self.tell(format!("plan {} {seen:?}", sweep.table));
        Box::pin(async { Ok(()) })
    }

    fn finish<'a>(&'a mut self, pending: &'a Passed) -> BoxFuture<'a, Result<u64, SinkError>> {
        let what = match &pending.what {
            Pending::Truncate { .. } => "truncate".to_owned(),
            Pending::Sweep(_, sweep) => format!("sweep {}", sweep.table),
        };
        self.tell(format!("finish {what}"));
        Box::pin(async { Ok(7) })
    }

    fn stored<'a>(&'a mut self, _: &'a [(PlacedPartition, Offset)]) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async { Ok(()) })
    }
}

/// What became durable, in order.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

/// A place for dead letters that does as it is told.
#[derive(Clone, Default)]
pub struct QueueHandle {
    journal: Journal,
    failures: Arc<Mutex<VecDeque<FailureKind>>>,
    letters: Arc<Mutex<Vec<Letter>>>,
}

impl QueueHandle {
    pub(super) fn beside(journal: Journal) -> Self {
        Self { journal, ..Self::default() }
    }

    pub fn fail(&self, kinds: &[FailureKind]) {
        self.failures.lock().unwrap().extend(kinds);
    }

    /// It is there again.
    pub fn mend(&self) {
        self.failures.lock().unwrap().clear();
    }

    /// Offset and class of every letter, in the order in which they came.
    pub fn letters(&self) -> Vec<(Offset, ErrorClass)> {
        self.letters.lock().unwrap().iter().map(|letter| (letter.dead.record.offset, letter.dead.class)).collect()
    }

    pub fn last(&self) -> Letter {
        self.letters.lock().unwrap().last().expect("a letter").clone()
    }
}

impl DeadLetters for QueueHandle {
    fn write<'a>(&'a mut self, letters: &'a [Letter]) -> BoxFuture<'a, Result<Written, SinkError>> {
        Box::pin(async move {
            if let Some(kind) = self.failures.lock().unwrap().pop_front() {
                return Err(SinkError::new(kind, "write dead letters", "told to fail"));
            }
            let offsets: Vec<String> = letters.iter().map(|letter| letter.dead.record.offset.to_string()).collect();
            self.journal.add(format!("letters [{}]", offsets.join(" ")));
            self.letters.lock().unwrap().extend(letters.iter().cloned());
            Ok(Written { truncated: letters.iter().filter(|letter| letter.dead.record.size() > 10_000).count() as u64 })
        })
    }

    fn without_row<'a>(&'a mut self, topic_id: TopicId, _: &'a str) -> BoxFuture<'a, Result<Option<Place>, SinkError>> {
        let letters = self.letters.lock().unwrap();
        let found = letters.iter().find(|letter| letter.topic_id == topic_id && letter.dead.key.is_none());
        let place = found.map(|letter| letter.dead.record.place());
        Box::pin(async move { Ok(place) })
    }
}
