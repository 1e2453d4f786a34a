//! Dead letters driven again: the original record through recognition, version and the guard of
//! the destination, with the version that it had.
//!
//! The guard makes it harmless at any time, beside a running pipeline too: a row that is newer
//! stays. No offset moves. A letter that leaves columns out (TOAST) waits for the open letters of
//! its row before it: the values may be theirs.

use std::collections::HashSet;

use bytes::Bytes;
use settle_core::batch::Batch;
use settle_core::change::{Change, Event};
use settle_core::fold::{Fold, Limits};
use settle_core::holds::Holds;
use settle_core::key::Key;
use settle_core::lane::{Fed, Lane, LoneTombstones, Past};
use settle_core::policy::{Verdict, decide};
use settle_core::position::{Partition, Place, TopicId};
use settle_core::sink::{FailureKind, Outcome, PlacedPartition, Places, Sink, SinkError};

use super::Entry;

/// Letters that are tried at once.
const CHUNK: usize = 500;

/// What became of a letter.
#[derive(Debug)]
pub enum Fate {
    /// It is in the destination, or something newer is.
    Settled,
    /// It stays, for this reason.
    Stays(String),
}

/// What became of all of them.
#[derive(Debug, Default)]
pub struct Retried {
    /// Beside each letter that was tried.
    pub fates: Vec<(usize, Fate)>,
    /// Rows that were made current (or written, where the destination cannot say).
    pub applied: u64,
    /// Rows that the destination had as new or newer.
    pub stale: u64,
    /// Records overtaken by others among them, or that concern no row.
    pub superseded: u64,
}

/// A letter of one row.
type RowOf = (TopicId, Partition, Option<Bytes>);

/// Tries `letters[selected]`, which are in order of origin; `letters` are all open ones. Ends early
/// where the destination is away.
pub async fn retry(
    sink: &mut dyn Sink,
    letters: &[&Entry],
    selected: &[usize],
) -> Result<Retried, (Retried, SinkError)> {
    let mut retried = Retried::default();
    let mut open: HashSet<usize> = (0..letters.len()).collect();
    let mut selected = selected.iter().copied().peekable();
    while let Some(&first) = selected.peek() {
        // The sink knows one incarnation of a topic at a time.
        let topic_id = letters[first].topic_id;
        let mut group = Vec::new();
        while let Some(at) = selected.next_if(|&at| letters[at].topic_id == topic_id) {
            group.push(at);
        }
        let mut attempt = match Attempt::open(sink, letters, &group).await {
            Ok(attempt) => attempt,
            Err(error) => return Err((retried, error)),
        };
        for chunk in group.chunks(CHUNK) {
            if let Err(error) = attempt.chunk(chunk, &mut open, &mut retried).await {
                return Err((retried, error));
            }
        }
        if let Err(error) = attempt.release(&open).await {
            return Err((retried, error));
        }
    }
    Ok(retried)
}

/// The letters of one topic incarnation.
struct Attempt<'a> {
    sink: &'a mut dyn Sink,
    letters: &'a [&'a Entry],
    topic_id: TopicId,
    places: Places,
    settled: Vec<(Partition, Key, RowOf)>,
}

impl<'a> Attempt<'a> {
    async fn open(sink: &'a mut dyn Sink, letters: &'a [&'a Entry], group: &[usize]) -> Result<Attempt<'a>, SinkError> {
        let topic_id = letters[group[0]].topic_id;
        let mut parts: Vec<PlacedPartition> = Vec::new();
        for &at in group {
            let partition = &letters[at].record.partition;
            if !parts.iter().any(|part| part.partition == *partition) {
                parts.push(PlacedPartition { topic_id, partition: partition.clone() });
            }
        }
        let places = sink.open(&parts).await?;
        Ok(Attempt { sink, letters, topic_id, places, settled: Vec::new() })
    }

    /// All at once; one by one where a row among them is refused.
    async fn chunk(
        &mut self,
        chunk: &[usize],
        open: &mut HashSet<usize>,
        retried: &mut Retried,
    ) -> Result<(), SinkError> {
        let mut read = Vec::new();
        for &at in chunk {
            match self.read(at) {
                Ok(fed) => read.push((at, fed)),
                Err(reason) => retried.fates.push((at, Fate::Stays(reason))),
            }
        }
        let together = read.len() > 1 && !read.iter().any(|(_, fed)| is_masked(&fed.event));
        if together && let Ok(batch) = self.batch(read.iter().map(|(at, fed)| (*at, fed.clone()))) {
            match self.apply(&batch).await {
                Ok(outcome) => {
                    count(&batch, outcome, retried);
                    for (at, fed) in &read {
                        self.settle(*at, &fed.event, open, retried);
                    }
                    return Ok(());
                }
                Err(error) if is_of_a_row(&error) => {}
                Err(error) => return Err(error),
            }
        }
        for (at, fed) in read {
            // Asked only now: the letter before it may just have been settled.
            if is_masked(&fed.event)
                && let Some(before) = self.open_before(at, open)
            {
                let reason = format!(
                    "it leaves out columns whose values may be in the dead letter {before} of its row; retry that one first"
                );
                retried.fates.push((at, Fate::Stays(reason)));
                continue;
            }
            let event = fed.event.clone();
            let batch = match self.batch([(at, fed)]) {
                Ok(batch) => batch,
                Err(reason) => {
                    retried.fates.push((at, Fate::Stays(reason)));
                    continue;
                }
            };
            match self.apply(&batch).await {
                Ok(outcome) => {
                    count(&batch, outcome, retried);
                    self.settle(at, &event, open, retried);
                }
                Err(error) if is_of_a_row(&error) => retried.fates.push((at, Fate::Stays(error.to_string()))),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The record as an event, with the version that it had where that is known.
    fn read(&self, at: usize) -> Result<Fed, String> {
        let entry = self.letters[at];
        if let Some(bytes) = entry.truncated {
            return Err(format!(
                "its value ({bytes} bytes) was too big for the queue; once what made it fail is mended, read it again from its \
                 topic (settle replay --from {0} --to {0}), then drop this letter",
                entry.record.place()
            ));
        }
        let Place { partition, offset } = entry.record.place();
        let floors = self.places.floors_of(self.topic_id, &partition);
        let boundaries = self.places.epochs_of(self.topic_id, &partition);
        let past = Past { floors: &floors, boundaries: &boundaries, marks: &[] };
        let mut lane = Lane::behind(partition, offset, past, LoneTombstones::Skip);
        let mut fed = lane.feed(entry.record.clone()).map_err(|refused| refused.to_string())?;
        match (&mut fed.event, entry.version) {
            (Event::Change(change), Some(version)) => change.version = version,
            (Event::Truncate(truncate), Some(version)) => truncate.version = version,
            _ => {}
        }
        if let Event::Change(change) = &fed.event
            && change.old_key.is_some()
            && !change.is_whole()
        {
            return Err(
                "it leaves out columns, whose values were under another key; a later record that carries the whole row, \
                 or a new snapshot of it, brings them"
                    .to_owned(),
            );
        }
        Ok(fed)
    }

    fn row_of(&self, at: usize) -> RowOf {
        let record = &self.letters[at].record;
        (self.topic_id, record.partition.clone(), record.key.clone())
    }

    fn open_before(&self, at: usize, open: &HashSet<usize>) -> Option<Place> {
        let row = self.row_of(at);
        (0..at)
            .find(|&other| {
                open.contains(&other) && self.letters[other].topic_id == self.topic_id && self.row_of(other) == row
            })
            .map(|other| self.letters[other].record.place())
    }

    fn batch(&self, read: impl IntoIterator<Item = (usize, Fed)>) -> Result<Batch, String> {
        let mut fold = Fold::new(Limits { max_rows: usize::MAX, max_bytes: usize::MAX, max_age_ms: u64::MAX });
        for (at, Fed { event, floor, .. }) in read {
            let Place { partition, offset } = self.letters[at].record.place();
            if fold.must_cut_before(&event) {
                return Err("the schema of its table changes".to_owned());
            }
            fold.push(&partition, offset, event, floor, 0).map_err(|refused| refused.to_string())?;
        }
        Ok(fold.cut().without_spans())
    }

    async fn apply(&mut self, batch: &Batch) -> Result<Outcome, SinkError> {
        Ok(self.sink.apply(batch).await?.outcome)
    }

    fn settle(&mut self, at: usize, event: &Event, open: &mut HashSet<usize>, retried: &mut Retried) {
        open.remove(&at);
        if let Event::Change(change) = event {
            self.settled.push((change.record.partition.clone(), change.key.clone(), self.row_of(at)));
        }
        retried.fates.push((at, Fate::Settled));
    }

    /// Rows without an open letter are not held any more.
    async fn release(&mut self, open: &HashSet<usize>) -> Result<(), SinkError> {
        let still: HashSet<RowOf> =
            open.iter().filter(|&&at| self.letters[at].topic_id == self.topic_id).map(|&at| self.row_of(at)).collect();
        let mut holds = Holds::default();
        let partitions: Vec<Partition> = self.places.holds.iter().map(|hold| hold.partition.clone()).collect();
        holds.open(partitions.iter(), std::mem::take(&mut self.places.holds));
        for (partition, key, row) in &self.settled {
            if !still.contains(row) {
                holds.release(partition, key);
            }
        }
        let notes: Vec<_> = holds.take_notes();
        if notes.is_empty() {
            return Ok(());
        }
        self.apply(&Batch::of_notes(notes)).await.map(|_| ())
    }
}

fn is_masked(event: &Event) -> bool {
    matches!(event, Event::Change(change) if !Change::is_whole(change))
}

fn is_of_a_row(error: &SinkError) -> bool {
    decide(error.kind) == Verdict::Isolate || error.kind == FailureKind::Contract
}

fn count(batch: &Batch, outcome: Outcome, retried: &mut Retried) {
    let tally = batch.tally();
    retried.applied += outcome.applied;
    retried.stale += outcome.stale;
    retried.superseded += tally.superseded + tally.control;
    retried.applied += tally.truncates;
}
