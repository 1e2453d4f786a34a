//! A source, a store of offsets and a destination that do as they are told.

mod destination;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use settle_core::position::{Offset, Partition, TopicId};
use settle_core::record::Record;
use settle_core::sink::BoxFuture;
use settle_engine::config::Target;
use settle_engine::config::dlq::DlqLimit;
use settle_engine::run::progress::Watch;
use settle_engine::run::{Destination, Ended, Options, progress, run};
use settle_engine::shutdown::{self, Stopper};
use settle_engine::source::{
    Assignment, Chunk, CommitPoint, GroupOffsets, OffsetStore, PartitionProgress, Source, SourceError, SourceEvent,
    SourceFailure,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

pub use destination::{QueueHandle, SinkHandle};

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

    /// As a member of a group that says whose the partitions are.
    pub fn start_in_group(options: Options, limit: Option<DlqLimit>, sink: SinkHandle) -> Self {
        let group = GroupOffsets { move_command: Some("move --group g".to_owned()) };
        Self::start_as(group, options, Target::default(), limit, sink)
    }

    fn start_all(options: Options, target: Target, limit: Option<DlqLimit>, sink: SinkHandle) -> Self {
        Self::start_as(GroupOffsets::default(), options, target, limit, sink)
    }

    fn start_as(
        group: GroupOffsets,
        options: Options,
        target: Target,
        limit: Option<DlqLimit>,
        sink: SinkHandle,
    ) -> Self {
        let (events, receiver) = mpsc::channel(4);
        let queue = QueueHandle::beside(sink.its_journal());
        let destination = Destination::from(Box::new(sink.clone()));
        let destination = match limit {
            Some(limit) => destination.with_dead_letters(Box::new(queue.clone()), limit),
            None => destination,
        };
        let offsets = OffsetsHandle::default();
        let (stopper, shutdown) = shutdown::channel();
        let (show, watch) = progress::channel();
        let source = Source { events: receiver, offsets: Box::new(offsets.clone()), group };
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

/// An update of row `id`, in which `body` is sent or not.
pub fn update(id: i64, sent: bool, offset: Offset) -> Record {
    let body = if sent { "\"b\"" } else { "\"__debezium_unavailable_value\"" };
    let lsn = 1_000 + offset;
    let payload = format!(
        r#"{{"op":"u","before":null,"after":{{"id":{id},"body":{body}}},"source":{{"connector":"postgresql","name":"s","db":"d","schema":"public","table":"t","ts_ms":1,"lsn":{lsn},"sequence":"[\"{lsn}\",\"{lsn}\"]"}}}}"#
    );
    Record {
        partition: partition(0),
        offset,
        timestamp_ms: None,
        key: Some(format!("{{\"id\":{id}}}").into()),
        payload: Some(payload.into()),
        headers: vec![],
    }
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
