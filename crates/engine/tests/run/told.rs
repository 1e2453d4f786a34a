//! A source, a store of offsets and a destination that do as they are told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use settle_core::batch::Batch;
use settle_core::dead_letter::ErrorClass;
use settle_core::holds::{Hold, HoldNote};
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::record::Record;
use settle_core::sink::{
    BoxFuture, Durable, FailureKind, Guarantee, Outcome, Pending, PlacedPartition, Places, Seen, Sink, SinkError, Sweep,
};
use settle_engine::config::Target;
use settle_engine::config::dlq::DlqLimit;
use settle_engine::dead_letter::{DeadLetters, Letter, Written};
use settle_engine::run::progress::Watch;
use settle_engine::run::{Destination, Ended, Options, progress, run};
use settle_engine::shutdown::{self, Stopper};
use settle_engine::source::{
    Assignment, Chunk, CommitPoint, GroupOffsets, OffsetStore, PartitionProgress, Source, SourceError, SourceEvent,
    SourceFailure,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(20);

/// A run whose ends are in the test's hands.
pub struct Told {
    events: mpsc::Sender<SourceEvent>,
    pub sink: SinkHandle,
    pub queue: QueueHandle,
    pub offsets: OffsetsHandle,
    pub stopper: Stopper,
    watch: Watch,
    task: Option<JoinHandle<Ended>>,
}

impl Told {
    pub fn start(options: Options) -> Self {
        Self::start_with(options, None, SinkHandle::default())
    }

    /// With a place for dead letters, and a destination that may have been told something.
    pub fn start_with(options: Options, limit: Option<DlqLimit>, sink: SinkHandle) -> Self {
        Self::start_all(options, Target::default(), limit, sink)
    }

    /// Into tables that are set up so.
    pub fn start_for(options: Options, target: Target) -> Self {
        Self::start_all(options, target, None, SinkHandle::default())
    }

    fn start_all(options: Options, target: Target, limit: Option<DlqLimit>, sink: SinkHandle) -> Self {
        let (events, receiver) = mpsc::channel(4);
        let queue = QueueHandle { journal: sink.0.journal.clone(), ..QueueHandle::default() };
        let destination = Destination::from(Box::new(sink.clone()));
        let destination = match limit {
            Some(limit) => destination.with_dead_letters(Box::new(queue.clone()), limit),
            None => destination,
        };
        let offsets = OffsetsHandle::default();
        let (stopper, shutdown) = shutdown::channel();
        let (show, watch) = progress::channel();
        let source = Source { events: receiver, offsets: Box::new(offsets.clone()), group: GroupOffsets::default() };
        let task = tokio::spawn(run(source, destination, target, options, show, shutdown));
        Self { events, sink, queue, offsets, stopper, watch, task: Some(task) }
    }

    pub async fn send(&self, event: SourceEvent) {
        // A run that has ended hears no more; the test sees it by what the run did.
        let _ = tokio::time::timeout(LIMIT, self.events.send(event)).await.expect("the run takes events");
    }

    pub async fn revoke(&self, numbers: &[i32]) -> oneshot::Receiver<()> {
        let (done, answer) = oneshot::channel();
        let partitions = numbers.iter().map(|n| partition(*n)).collect();
        self.send(SourceEvent::Revoked { partitions, done }).await;
        answer
    }

    pub async fn until_read(&mut self, count: u64) {
        let read = self.watch.progress.wait_for(|progress| progress.tally.read >= count);
        tokio::time::timeout(LIMIT, read).await.expect("read in time").unwrap();
    }

    /// Waits until so many rows are shown as swept.
    pub async fn until_swept(&mut self, count: u64) {
        let swept = self.watch.progress.wait_for(|progress| progress.swept >= count);
        tokio::time::timeout(LIMIT, swept).await.expect("swept in time").unwrap();
    }

    /// Waits until the run says why nothing moves.
    pub async fn until_paused(&mut self) -> String {
        let paused = self.watch.pause.wait_for(Option::is_some);
        let paused = tokio::time::timeout(LIMIT, paused).await.expect("paused in time").unwrap();
        paused.as_ref().unwrap().why.clone()
    }

    /// Waits until this many records have their place.
    pub async fn until_placed(&mut self, count: u64) {
        let placed = self.watch.progress.wait_for(|progress| progress.tally.placed() >= count);
        tokio::time::timeout(LIMIT, placed).await.expect("placed in time").unwrap();
    }

    /// Whether the run ends by itself within `time`.
    pub async fn has_ended_within(&mut self, time: Duration) -> bool {
        let task = self.task.as_mut().expect("one end");
        tokio::time::timeout(time, task).await.is_ok()
    }

    /// Ends the source and waits for the run.
    pub async fn end(&mut self) -> Ended {
        self.send(SourceEvent::Ended).await;
        self.ended().await
    }

    pub async fn ended(&mut self) -> Ended {
        let task = self.task.take().expect("one end");
        tokio::time::timeout(LIMIT, task).await.expect("the run ends in time").unwrap()
    }
}

pub fn partition(number: i32) -> Partition {
    Partition::new("t", number)
}

pub fn assignment(number: i32, generation: u64) -> Assignment {
    let topic_id = Some(TopicId::of_first_line("t", b"line"));
    Assignment::plain(partition(number), topic_id, 0, false, generation)
}

pub fn end_of(number: i32, generation: u64, end: Offset) -> SourceEvent {
    SourceEvent::ReachedEnd { partition: partition(number), generation, end, bounded: true }
}

/// Inserts of distinct keys.
pub fn chunk(number: i32, generation: u64, offsets: Range<i64>) -> Chunk {
    let record = |offset: i64| {
        let lsn = 1_000 + offset;
        Record {
            partition: partition(number),
            offset,
            timestamp_ms: None,
            key: Some(format!("{{\"id\":{}}}", offset * 10 + i64::from(number)).into()),
            payload: Some(
                format!(
                    r#"{{"op":"c","before":null,"after":{{"id":{offset}}},"source":{{"connector":"postgresql","name":"s","db":"d","schema":"public","table":"t","ts_ms":1,"lsn":{lsn},"sequence":"[\"{lsn}\",\"{lsn}\"]"}}}}"#
                )
                .into(),
            ),
            headers: vec![],
        }
    };
    Chunk { partition: partition(number), generation, records: offsets.map(record).collect() }
}

/// A row of a full snapshot, which a connector took that knew no place.
pub fn read_row(number: i32, offset: Offset, mark: &str) -> Record {
    let mut record = chunk(number, 1, offset..offset + 1).records.remove(0);
    let payload = String::from_utf8(record.payload.unwrap().to_vec()).unwrap();
    let lsn = 1_000 + offset;
    let payload = payload
        .replace(r#""op":"c""#, r#""op":"r""#)
        .replace(&format!(r#"[\"{lsn}\",\"{lsn}\"]"#), r#"[null,\"5000\"]"#)
        .replace(&format!(r#""lsn":{lsn}"#), &format!(r#""snapshot":"{mark}","lsn":5000"#));
    record.payload = Some(payload.into());
    record
}

/// A destination that holds, fails or acknowledges.
#[derive(Clone, Default)]
pub struct SinkHandle(Arc<SinkState>);

struct SinkState {
    held: watch::Sender<bool>,
    failures: Mutex<VecDeque<Option<FailureKind>>>,
    attempts: Mutex<Vec<String>>,
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

    /// Rows of these records are refused.
    pub fn refuse(&self, offsets: &[Offset], names_records: bool) {
        *self.0.poison.lock().unwrap() = (offsets.iter().copied().collect(), names_records);
    }

    /// It has recorded this hold.
    pub fn has_recorded(&self, hold: Hold) {
        self.0.places.lock().unwrap().holds.push(hold);
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

    fn open<'a>(&'a mut self, _parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>> {
        Box::pin(async { Ok(self.0.places.lock().unwrap().clone()) })
    }

    #[expect(clippy::disallowed_methods, reason = "a destination that acknowledges")]
    fn apply<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Durable, SinkError>> {
        Box::pin(async move {
            self.0.applying.send_modify(|n| *n += 1);
            let rows: Vec<String> =
                batch.tables().flat_map(|t| t.rows()).map(|row| format!("{}@{}", row.key(), row.version())).collect();
            self.tell(format!("apply {}", rows.len()));
            self.0.attempts.lock().unwrap().push(rows.join(" "));
            let mut held = self.0.held.subscribe();
            held.wait_for(|held| !held).await.unwrap();
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
            let spans: Vec<String> = batch.spans().iter().map(|span| format!("{}..{}", span.start, span.end)).collect();
            self.0.journal.add(format!("rows [{}] spans [{}]", offsets.join(" "), spans.join(" ")));
            self.0.notes.lock().unwrap().extend(batch.holds().iter().cloned());
            Ok(Durable::mint(batch, Outcome { applied: batch.row_count() as u64, stale: 0 }))
        })
    }

    fn plan<'a>(&'a mut self, _: TopicId, sweep: &'a Sweep, seen: Seen) -> BoxFuture<'a, Result<(), SinkError>> {
        self.tell(format!("plan {} {seen:?}", sweep.table));
        Box::pin(async { Ok(()) })
    }

    fn finish<'a>(&'a mut self, pending: &'a Pending) -> BoxFuture<'a, Result<u64, SinkError>> {
        let what = match pending {
            Pending::Truncate { .. } => "truncate".to_owned(),
            Pending::Sweep(_, sweep) => format!("sweep {}", sweep.table),
        };
        self.tell(format!("finish {what}"));
        Box::pin(async { Ok(7) })
    }

    fn stored<'a>(&'a mut self, _parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<(), SinkError>> {
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
}

/// Offsets as they were committed, in order.
#[derive(Clone, Default)]
pub struct OffsetsHandle(Arc<OffsetsState>);

struct OffsetsState {
    committed: watch::Sender<Vec<(i32, Offset)>>,
    progress: Mutex<Option<Vec<PartitionProgress>>>,
    asked: watch::Sender<usize>,
    failures: Mutex<u32>,
}

impl Default for OffsetsState {
    fn default() -> Self {
        Self {
            committed: watch::Sender::new(Vec::new()),
            progress: Mutex::default(),
            asked: watch::Sender::new(0),
            failures: Mutex::default(),
        }
    }
}

impl OffsetsHandle {
    /// The group stands so: partition, end, committed.
    pub fn stands(&self, parts: &[(i32, Offset, Offset)]) {
        let part = |&(number, end, committed): &(i32, Offset, Offset)| PartitionProgress {
            partition: partition(number),
            start: 0,
            end,
            committed: Some(committed),
        };
        *self.0.progress.lock().unwrap() = Some(parts.iter().map(part).collect());
    }

    /// How often it was asked how the group stands.
    pub fn asked(&self) -> usize {
        *self.0.asked.borrow()
    }

    pub async fn until_asked(&self, times: usize) {
        let mut asked = self.0.asked.subscribe();
        tokio::time::timeout(LIMIT, asked.wait_for(|n| *n >= times)).await.expect("asked in time").unwrap();
    }

    pub fn fail_times(&self, times: u32) {
        *self.0.failures.lock().unwrap() = times;
    }

    pub fn committed(&self) -> Vec<(i32, Offset)> {
        self.0.committed.borrow().clone()
    }

    /// The last offset of each partition.
    pub fn last(&self) -> Vec<(i32, Offset)> {
        self.committed().into_iter().collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    pub async fn until_committed(&self, wanted: &[(i32, Offset)]) {
        let mut committed = self.0.committed.subscribe();
        let all = committed.wait_for(|committed| wanted.iter().all(|w| committed.contains(w)));
        tokio::time::timeout(LIMIT, all).await.unwrap_or_else(|_| panic!("not committed: {wanted:?}")).unwrap();
    }
}

impl OffsetStore for OffsetsHandle {
    fn commit<'a>(&'a self, offsets: &'a [CommitPoint]) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(async move {
            let mut failures = self.0.failures.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                return Err(SourceError::new(SourceFailure::Unreachable, "told to fail"));
            }
            self.0
                .committed
                .send_modify(|all| all.extend(offsets.iter().map(|point| (point.partition.number, point.offset))));
            Ok(())
        })
    }

    fn progress<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Vec<PartitionProgress>>, SourceError>> {
        self.0.asked.send_modify(|n| *n += 1);
        let progress = self.0.progress.lock().unwrap().clone();
        Box::pin(async { Ok(progress) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
