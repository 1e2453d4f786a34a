//! What a source of records looks like to the run loop.
//!
//! A source runs on its own thread and speaks through one bounded channel, so that its order is
//! the loop's order: records of an assignment come between its `Assigned` and its `Revoked`.

use std::error::Error;
use std::fmt;

use settle_core::position::{Offset, Partition, TopicId};
use settle_core::record::Record;
use settle_core::sink::BoxFuture;
use settle_core::standing::Standing;
use tokio::sync::{mpsc, oneshot};

/// A partition that is ours from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Partition.
    pub partition: Partition,
    /// Incarnation of its topic; none on a broker that has no ids.
    pub topic_id: Option<TopicId>,
    /// Next offset to read: the group's committed offset, or the start of the log.
    pub start: Offset,
    /// First offset that the log has.
    pub begins: Offset,
    /// True where the group had committed an offset.
    pub resumed: bool,
    /// What was kept with that offset. Whatever does not belong to it is not here.
    pub standing: Option<Standing>,
    /// Partitions of the topic that the group is known to read, to be kept with its offsets; 0 where
    /// a topic does not grow.
    pub partitions: u32,
    /// True if no record comes before other partitions of the topic are committed so far: its keys
    /// were theirs before the topic grew. Until then the group has no offset of it.
    pub waits: bool,
    /// Tells this assignment of the partition from earlier ones; records of another are dropped.
    pub generation: u64,
}

impl Assignment {
    /// A partition of a log that does not grow, with nothing kept beside its offset.
    pub fn plain(
        partition: Partition,
        topic_id: Option<TopicId>,
        start: Offset,
        resumed: bool,
        generation: u64,
    ) -> Self {
        let (begins, standing) = (0, None);
        Self { partition, topic_id, start, begins, resumed, standing, partitions: 0, waits: false, generation }
    }
}

/// Records of one partition, in offset order.
#[derive(Debug)]
pub struct Chunk {
    /// Partition.
    pub partition: Partition,
    /// The assignment under which they were fetched.
    pub generation: u64,
    /// At least one record.
    pub records: Vec<Record>,
}

/// What happened at the source.
#[derive(Debug)]
pub enum SourceEvent {
    /// Partitions were assigned; at least one. An instance that gets none in its group is told
    /// nothing.
    Assigned(Vec<Assignment>),
    /// Records were read.
    Records(Chunk),
    /// Everything below `end` was delivered: the end fixed at the start of a bounded run, or the
    /// end of the log as it is now.
    ReachedEnd {
        /// Partition.
        partition: Partition,
        /// The assignment.
        generation: u64,
        /// Next offset to read.
        end: Offset,
        /// True if the run was bounded at this end and delivers nothing more of the partition.
        bounded: bool,
    },
    /// Partitions go away, orderly: drain what is in flight, commit, then answer. The source waits
    /// for the answer with a deadline; one that comes too late is told by a `Lost` that follows.
    Revoked {
        /// Which.
        partitions: Vec<Partition>,
        /// Answered when they are drained and committed, or given up.
        done: oneshot::Sender<()>,
    },
    /// Partitions are gone: drop everything of theirs, commit nothing.
    Lost(Vec<Partition>),
    /// The source is away; it keeps trying. Shown as *paused: why*.
    Away(SourceError),
    /// It is back.
    Back,
    /// The run must stop.
    Failed(SourceError),
    /// A source that ends (a capture, stdin) has ended.
    Ended,
}

/// The receiving end of a source.
pub struct Source {
    /// What happens there, in order.
    pub events: mpsc::Receiver<SourceEvent>,
    /// Where offsets are committed.
    pub offsets: Box<dyn OffsetStore>,
    /// What is known of the group's offsets.
    pub group: GroupOffsets,
}

/// What is known of the place where the group's offsets are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOffsets {
    /// The command that moves the group, up to the topic; where there is one, a service keeps the
    /// offsets, and a group that has none of a partition that it wrote has lost them. None where
    /// they lie beside a capture, and a missing file is a start from the beginning.
    pub move_command: Option<String>,
}

impl GroupOffsets {
    /// How to move the group to `offset` of a partition, for people.
    pub fn how_to_move(&self, partition: &Partition, offset: Offset) -> String {
        self.how_to_move_each(&[(partition, offset)])
    }

    /// How to move the group in several partitions, for people.
    pub fn how_to_move_each(&self, places: &[(&Partition, Offset)]) -> String {
        let Some(command) = &self.move_command else { return "read the capture under a new group".to_owned() };
        let one = |(partition, offset): &(&Partition, Offset)| {
            format!("{command} --topic {partition} --reset-offsets --to-offset {offset} --execute")
        };
        let mut commands: Vec<String> = places.iter().take(COMMANDS).map(one).collect();
        if places.len() > COMMANDS {
            commands.push("and so on for the others".to_owned());
        }
        format!("move the group there ({})", commands.join("; "))
    }
}

/// An offset to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPoint {
    /// Partition.
    pub partition: Partition,
    /// Next offset to read.
    pub offset: Offset,
    /// One line to keep with it; may be empty.
    pub metadata: String,
}

impl CommitPoint {
    /// An offset with nothing to keep beside it.
    pub fn bare(partition: Partition, offset: Offset) -> Self {
        Self { partition, offset, metadata: String::new() }
    }
}

/// So many commands are written out; a topic may have hundreds of partitions.
const COMMANDS: usize = 8;

/// How far a group is in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProgress {
    /// Partition.
    pub partition: Partition,
    /// First offset in the log.
    pub start: Offset,
    /// Next offset to be written.
    pub end: Offset,
    /// The group's offset.
    pub committed: Option<Offset>,
}

/// Where the group's offsets live.
pub trait OffsetStore: Send + Sync {
    /// Commits next-to-read offsets and waits until they are stored. Offsets of partitions that are
    /// no longer ours are refused by the store; that is no failure of the run.
    fn commit<'a>(&'a self, offsets: &'a [CommitPoint]) -> BoxFuture<'a, Result<(), SourceError>>;

    /// The ends of a topic's partitions now, and how far the group has committed each, by whichever
    /// instance. None where that cannot be known before the source has ended.
    fn progress<'a>(&'a self, topic: &'a str) -> BoxFuture<'a, Result<Option<Vec<PartitionProgress>>, SourceError>>;

    /// Leaves the group and stops the source's thread.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Whether a source's failure heals by waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFailure {
    /// The broker does not answer, or refuses us for now.
    Unreachable,
    /// The log is not what it was: offset out of range, topic missing or recreated, a file that
    /// cannot be read.
    Contract,
    /// Our place in the group is taken.
    Fenced,
}

/// A failure at the source, with what to do about it.
#[derive(Debug)]
pub struct SourceError {
    /// What kind.
    pub kind: SourceFailure,
    /// What happened and how to fix it.
    pub message: String,
    /// The error beneath.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl SourceError {
    /// An error without one beneath.
    pub fn new(kind: SourceFailure, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for SourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}

/// Why a source does not go on.
pub(crate) enum Stop {
    /// It was asked to stop, or nobody listens any more.
    NobodyListens,
    /// The run must stop.
    Failed(SourceError),
}

impl From<SourceError> for Stop {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}
