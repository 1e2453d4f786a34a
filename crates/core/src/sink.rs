//! The border to a destination: a batch goes in, a proof comes back.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::batch::Batch;
use crate::change::TableName;
use crate::epoch::Boundary;
use crate::holds::Hold;
use crate::position::{Offset, Partition, Place, Span, TopicId};
#[cfg(doc)]
use crate::resnapshot::Swept;
use crate::truncate::Cuts;
use crate::version::{Floor, Version};

/// A boxed future: one per batch costs nothing.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a sink promises of the effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// A batch becomes visible whole, or not at all.
    Atomic,
    /// Rows carry versions; readers see the greatest.
    Versioned,
    /// An effect happens once per event id.
    OncePerId,
    /// One Kafka transaction.
    Transactional,
}

/// Proof that the batch of these spans is durable, and what became of its rows.
///
/// Only a sink mints it ([`Durable::mint`] is on clippy's disallowed list). A dropped proof
/// acknowledges nothing.
#[must_use = "a dropped proof acknowledges nothing"]
#[derive(Debug, PartialEq, Eq)]
pub struct Durable {
    spans: Vec<Span>,
    /// What became of the batch's surviving rows.
    pub outcome: Outcome,
}

/// What became of the surviving rows of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows made current (or just written, where the destination cannot say).
    pub applied: u64,
    /// Rows that the destination had as new or newer.
    pub stale: u64,
}

impl Durable {
    /// States that everything in `batch` is durable in the destination. Call it only behind the
    /// destination's own acknowledgement.
    pub fn mint(batch: &Batch, outcome: Outcome) -> Self {
        Self { spans: batch.spans().to_vec(), outcome }
    }

    /// The spans that it proves.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    pub(crate) fn into_spans(self) -> Vec<Span> {
        self.spans
    }
}

/// A partition that a sink is about to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedPartition {
    /// Topic incarnation.
    pub topic_id: TopicId,
    /// Partition.
    pub partition: Partition,
}

/// What a destination recorded of the log's places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Floors that full snapshots raised.
    pub floors: Vec<(PlacedPartition, Floor)>,
    /// Next-to-read offsets up to which the group's records are in the destination: exactly where its
    /// guarantee is [`Guarantee::Atomic`], else at least.
    pub applied: Vec<(PlacedPartition, Offset)>,
    /// Where epochs begin.
    pub epochs: Vec<(PlacedPartition, Boundary)>,
    /// Partitions in which the group is known to have had an offset, of the topics of those opened;
    /// those of their earlier incarnations first, the one before the last.
    pub written: Vec<PlacedPartition>,
    /// Partitions, of those opened, of which the group has begun to write records.
    pub begun: Vec<PlacedPartition>,
    /// Tables that were filled from the partitions that were opened, and are not there any more.
    pub missing: Vec<MissingTable>,
    /// Rows that are held, of the partitions that were opened.
    pub holds: Vec<Hold>,
    /// What waits until every partition of the opened topics has passed it.
    pub pending: Vec<Pending>,
    /// Source tables of which tombstones were purged: those from before this moment, in milliseconds since 1970
    /// by the clock of the destination.
    pub purged: Vec<(TableName, i64)>,
    /// Truncates by target table, as the destination spells it: only where it is looked at beside a run.
    pub truncates: Vec<(String, Cuts)>,
}

impl Places {
    /// The floors recorded for one partition.
    pub fn floors_of(&self, topic_id: TopicId, partition: &Partition) -> Vec<Floor> {
        let here = |place: &PlacedPartition| place.topic_id == topic_id && place.partition == *partition;
        self.floors.iter().filter(|(place, _)| here(place)).map(|(_, floor)| floor.clone()).collect()
    }

    /// Where epochs begin in one partition.
    pub fn epochs_of(&self, topic_id: TopicId, partition: &Partition) -> Vec<Boundary> {
        let here = |place: &PlacedPartition| place.topic_id == topic_id && place.partition == *partition;
        self.epochs.iter().filter(|(place, _)| here(place)).map(|(_, boundary)| *boundary).collect()
    }

    /// True if the group is known to have had an offset in the partition.
    pub fn wrote(&self, topic_id: TopicId, partition: &Partition) -> bool {
        self.written.iter().any(|place| place.topic_id == topic_id && place.partition == *partition)
    }

    /// True if the destination knows of the group in the partition, whatever became of its offsets.
    pub fn knows(&self, topic_id: TopicId, partition: &Partition) -> bool {
        let here = |place: &PlacedPartition| place.topic_id == topic_id && place.partition == *partition;
        self.begun.iter().chain(&self.written).any(here) || self.applied.iter().any(|(place, _)| here(place))
    }

    /// The last earlier incarnation of the topic in which the group had offsets, if there is one.
    pub fn former_topic(&self, topic_id: TopicId, topic: &str) -> Option<TopicId> {
        let former = |place: &&PlacedPartition| place.topic_id != topic_id && *place.partition.topic == *topic;
        self.written.iter().rev().find(former).map(|place| place.topic_id)
    }

    /// The moment from before which tombstones of a source table were purged, if any were.
    pub fn purged_of(&self, table: &TableName) -> Option<i64> {
        self.purged.iter().filter(|(known, _)| known == table).map(|(_, until)| *until).max()
    }

    /// The truncates recorded of a target table, however it is spelled.
    pub fn truncates_of(&self, table: &str) -> Cuts {
        let mut cuts = Cuts::default();
        for (_, known) in self.truncates.iter().filter(|(name, _)| name.eq_ignore_ascii_case(table)) {
            cuts.join(*known);
        }
        cuts
    }

    /// How far the destination has the partition, if it says.
    pub fn applied_of(&self, topic_id: TopicId, partition: &Partition) -> Option<Offset> {
        let here = |place: &PlacedPartition| place.topic_id == topic_id && place.partition == *partition;
        self.applied.iter().filter(|(place, _)| here(place)).map(|(_, offset)| *offset).max()
    }
}

/// A table that is not there, though rows of a partition were written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTable {
    /// The partition.
    pub part: PlacedPartition,
    /// Its name in the destination.
    pub table: String,
    /// No row of the partition before this offset was written to it.
    pub from: Offset,
}

/// Ghosts of a table: rows older than a full snapshot of it that did not refresh them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Source table.
    pub table: Arc<TableName>,
    /// Topic of its rows.
    pub topic: Arc<str>,
    /// Rows below this version are ghosts.
    pub below: Version,
}

/// What was read of the snapshot that a sweep goes by. Its rows lie in several partitions, which
/// several instances read, so each tells the destination what it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// One of its rows behind streamed changes: the snapshot may hide deletes.
    Gap,
    /// Its last row: the table was read whole.
    Last,
}

/// Something that is done when every partition of its topic has passed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// A truncate at this version or before may leave rows that arrive late.
    Truncate {
        /// Topic of its record.
        topic: Arc<str>,
        /// Its incarnation.
        topic_id: TopicId,
        /// Its version.
        version: Version,
    },
    /// Ghosts are to be swept, where all was seen of their snapshot.
    Sweep(TopicId, Sweep),
}

impl Pending {
    /// The topic whose partitions must pass it.
    pub fn topic(&self) -> &Arc<str> {
        match self {
            Self::Truncate { topic, .. } | Self::Sweep(_, Sweep { topic, .. }) => topic,
        }
    }
}

/// Something that every partition of its topic has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// What.
    pub what: Pending,
    /// Next offsets up to which the partitions were read: everything before them is in the destination.
    pub ends: Vec<(Partition, Offset)>,
}

/// A destination.
pub trait Sink: Send {
    /// What it promises.
    fn guarantee(&self) -> Guarantee;

    /// Prepares for these partitions: fences others, validates or creates what it needs, and says
    /// what it knows of their places. Called again when partitions are added; `parts` are the new ones.
    ///
    /// A sink whose guarantee is [`Guarantee::Atomic`] counts a generation up for each of them, and
    /// from then on a batch of whoever opened them before is [`FailureKind::Fenced`].
    fn open<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Places, SinkError>>;

    /// Writes the batch. After an error the same batch may be applied again, whatever the
    /// outcome of the first attempt.
    fn apply<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Durable, SinkError>>;

    /// The rows of these partitions, which are open, that are held now: a retry of dead letters lifts holds
    /// beside the run. A hold that was noted over this sink is among them until it is lifted, also where the
    /// destination keeps nothing of it.
    fn held<'a>(&'a mut self, parts: &'a [PlacedPartition]) -> BoxFuture<'a, Result<Vec<Hold>, SinkError>>;

    /// Remembers what was seen of a snapshot by which ghosts are to be swept, before the row that says
    /// it is acknowledged.
    fn plan<'a>(&'a mut self, topic_id: TopicId, sweep: &'a Sweep, seen: Seen) -> BoxFuture<'a, Result<(), SinkError>>;

    /// Does what every partition of its topic has passed, and says how many rows it swept. Ghosts are
    /// swept only where all was seen of their snapshot; from then on what is [`Swept`] stays away. Done
    /// twice it changes nothing more.
    fn finish<'a>(&'a mut self, passed: &'a Passed) -> BoxFuture<'a, Result<u64, SinkError>>;

    /// The group has committed these offsets: that it has some is to be remembered for
    /// [`Places::written`], so that a loss of them is noticed; and by a sink that does not keep them
    /// with its rows, how far they are, for [`Places::applied`].
    fn stored<'a>(&'a mut self, committed: &'a [(PlacedPartition, Offset)]) -> BoxFuture<'a, Result<(), SinkError>>;
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The destination does not answer, or answers that it is not there for us now.
    Unreachable,
    /// It refuses our credentials or our privileges.
    Denied,
    /// It is read-only or its disk is full.
    NotWritable,
    /// It asks for less: too many parts, memory, 429, a lock held by another.
    Overloaded,
    /// Deadlock or serialization failure: the same again may pass.
    Conflict,
    /// A row's value does not fit its column.
    Row,
    /// A constraint of the table refuses a row.
    Constraint,
    /// Another instance of the group has taken partitions of the batch: nothing of it was applied.
    Fenced,
    /// Key, table or scheme does not match.
    Contract,
    /// An invariant of ours is broken.
    Bug,
}

/// Whether the failed operation may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It certainly had none.
    None,
    /// The reply was lost.
    Unknown,
}

/// The one error of sinks.
#[derive(Debug)]
pub struct SinkError {
    /// What kind.
    pub kind: FailureKind,
    /// Whether it may have taken effect.
    pub effect: Effect,
    /// What was being done, as `insert into "t"`.
    pub operation: String,
    /// What happened and how to fix it. No row values.
    pub context: String,
    /// The record at fault, where the destination, or we ahead of it, can tell.
    pub place: Option<Place>,
    /// The partitions that another instance has, for [`FailureKind::Fenced`].
    pub fenced: Box<[Partition]>,
    /// The error beneath, where there is one.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl SinkError {
    /// An error that certainly had no effect.
    pub fn new(kind: FailureKind, operation: impl Into<String>, context: impl Into<String>) -> Self {
        let (operation, context) = (operation.into(), context.into());
        Self { kind, effect: Effect::None, operation, context, place: None, fenced: Box::default(), source: None }
    }

    /// Another instance has opened these partitions since this one did.
    pub fn fenced(operation: impl Into<String>, partitions: Vec<Partition>) -> Self {
        let named: Vec<String> = partitions.iter().map(Partition::to_string).collect();
        let context = format!("another instance of the group has taken {}", named.join(", "));
        Self { fenced: partitions.into(), ..Self::new(FailureKind::Fenced, operation, context) }
    }

    /// With the record at fault.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// What was refused is no row of a batch, but what is kept beside the rows: no row is looked for.
    #[must_use]
    pub fn beside_the_rows(mut self) -> Self {
        if let FailureKind::Row | FailureKind::Constraint = self.kind {
            self.kind = FailureKind::Contract;
        }
        self
    }

    /// With the error beneath.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// With an unknown effect.
    #[must_use]
    pub fn effect_unknown(mut self) -> Self {
        self.effect = Effect::Unknown;
        self
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.context)
    }
}

impl Error for SinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
