//! Dead letters driven again: the original record through recognition, version and the guard of
//! the destination, with the version that it had.
//!
//! The guard makes it harmless at any time, beside a running pipeline too: a row that is newer
//! stays. No offset moves. A letter that leaves columns out (TOAST) needs those of its row before it
//! to be in the destination: the values may be theirs. One of them that was dropped is missing there
//! until a record brings the whole row.

use std::collections::HashMap;

use bytes::Bytes;
use settle_core::batch::Batch;
use settle_core::change::{Change, Event};
use settle_core::fold::{Fold, Limits};
use settle_core::holds::Holds;
use settle_core::key::Key;
use settle_core::lane::{Fed, Lane, LoneTombstones, Past};
use settle_core::policy::{Verdict, decide};
use settle_core::position::{Partition, Place, TopicId};
use settle_core::sink::{FailureKind, MissingTable, Outcome, PlacedPartition, Places, Sink, SinkError};

use super::{Found, Resolution};

/// Letters that are tried at once.
const CHUNK: usize = 500;

/// How far the clocks of the log, of the destination and of this machine may differ, milliseconds.
const CLOCKS_DIFFER_MS: i64 = 3_600_000;

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

/// What tells one row from another: its key, however that was written; its bytes where it cannot be read.
type RowOf = (TopicId, Partition, Result<Key, Option<Bytes>>);

fn row_of(letter: &Found) -> RowOf {
    let record = &letter.entry.record;
    let key = record.key.as_deref().and_then(Key::of_message).ok_or_else(|| record.key.clone());
    (letter.entry.topic_id, record.partition.clone(), key)
}

/// Tries `letters[selected]`; `letters` are all of the pipeline, in order of origin. Ends early where
/// the destination is away. Of rows that were deleted the destination may have no tombstones any more that
/// keep out records from before `purged_before` (milliseconds since 1970).
pub async fn retry(
    sink: &mut dyn Sink,
    letters: &[Found],
    selected: &[usize],
    purged_before: Option<i64>,
) -> Result<Retried, (Retried, SinkError)> {
    let mut retried = Retried::default();
    let mut states: Vec<Option<Resolution>> = letters.iter().map(|found| found.resolved).collect();
    let mut selected = selected.iter().copied().peekable();
    while let Some(&first) = selected.peek() {
        // The sink knows one incarnation of a topic at a time.
        let topic_id = letters[first].entry.topic_id;
        let mut group = Vec::new();
        while let Some(at) = selected.next_if(|&at| letters[at].entry.topic_id == topic_id) {
            group.push(at);
        }
        let mut attempt = match Attempt::open(sink, letters, &group).await {
            Ok(attempt) => Attempt { purged_before, ..attempt },
            Err(error) => return Err((retried, error)),
        };
        let before = retried.fates.len();
        let mut tried = Ok(());
        for chunk in group.chunks(CHUNK) {
            tried = attempt.chunk(chunk, &mut states, &mut retried).await;
            if tried.is_err() {
                break;
            }
        }
        // Also of those that were settled before the destination went away.
        if let Err(error) = attempt.release(&states).await {
            // Their rows are held still: they stay open, and another try changes nothing but that.
            let fates = retried.fates.split_off(before);
            retried.fates.extend(fates.into_iter().filter(|(_, fate)| !matches!(fate, Fate::Settled)));
            return Err((retried, error));
        }
        if let Err(error) = tried {
            return Err((retried, error));
        }
    }
    Ok(retried)
}

/// The letters of one topic incarnation.
struct Attempt<'a> {
    sink: &'a mut dyn Sink,
    letters: &'a [Found],
    topic_id: TopicId,
    places: Places,
    holds: Holds,
    /// The letters of each row, in order of origin.
    rows: HashMap<RowOf, Vec<usize>>,
    settled: Vec<(Partition, Key, RowOf)>,
    purged_before: Option<i64>,
}

impl<'a> Attempt<'a> {
    async fn open(sink: &'a mut dyn Sink, letters: &'a [Found], group: &[usize]) -> Result<Attempt<'a>, SinkError> {
        let topic_id = letters[group[0]].entry.topic_id;
        let mut parts: Vec<PlacedPartition> = Vec::new();
        for &at in group {
            let partition = &letters[at].entry.record.partition;
            if !parts.iter().any(|part| part.partition == *partition) {
                parts.push(PlacedPartition { topic_id, partition: partition.clone() });
            }
        }
        let mut places = sink.open(&parts).await?;
        if let Some(MissingTable { table, .. }) = places.missing.first() {
            let context = format!(
                "table \"{table}\" is not there, and had rows before: made anew for a dead letter, it would lack them in \
                 silence; settle check says the ways out"
            );
            return Err(SinkError::new(FailureKind::Contract, "retry dead letters", context));
        }
        let mut holds = Holds::default();
        holds.open(parts.iter().map(|part| &part.partition), std::mem::take(&mut places.holds));
        let mut rows: HashMap<RowOf, Vec<usize>> = HashMap::new();
        for (at, letter) in letters.iter().enumerate() {
            rows.entry(row_of(letter)).or_default().push(at);
        }
        Ok(Attempt { sink, letters, topic_id, places, holds, rows, settled: Vec::new(), purged_before: None })
    }

    /// All at once; one by one where a row among them is refused.
    async fn chunk(
        &mut self,
        chunk: &[usize],
        states: &mut [Option<Resolution>],
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
                        self.settle(*at, &fed.event, states, retried);
                    }
                    return Ok(());
                }
                Err(error) if is_of_a_row(&error) => {}
                Err(error) => return Err(error),
            }
        }
        for (at, fed) in read {
            // Asked only now: the letter before it may just have been settled.
            if let Event::Change(change) = &fed.event
                && let Some(reason) = self.lacks(at, change, states)
            {
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
                    self.settle(at, &event, states, retried);
                }
                Err(error) if is_of_a_row(&error) => retried.fates.push((at, Fate::Stays(error.to_string()))),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The record as an event, with the version that it had where that is known.
    fn read(&self, at: usize) -> Result<Fed, String> {
        let entry = &self.letters[at].entry;
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
            && !change.is_delete()
            && let Some(purged_before) = self.purged_before.max(self.places.purged_of(&change.table))
            && entry.record.timestamp_ms.is_none_or(|written| written < purged_before.saturating_add(CLOCKS_DIFFER_MS))
        {
            return Err(
                "it is older than the tombstones of its table ([sink] tombstone_retention, now or when they were purged), or \
                 does not say how old it is: nothing would tell whether its row was deleted since; where the row is \
                 missing, a new snapshot brings it; then drop this letter"
                    .to_owned(),
            );
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

    /// Why the values that a change leaves out may not be in the destination; none if they are.
    fn lacks(&self, at: usize, change: &Change, states: &[Option<Resolution>]) -> Option<String> {
        if change.is_whole() {
            return None;
        }
        let held = self.holds.of(&change.record.partition, &change.key);
        let row = row_of(&self.letters[at]);
        let Some(missing) = self.missing(&row, at, states) else {
            let Place { partition, offset } = self.letters[at].entry.record.place();
            let first = held.map(|held| held.first).filter(|first| *first < offset)?;
            let offset_of = |at: &usize| self.letters[*at].entry.record.offset;
            let is_known = self.rows.get(&row).into_iter().flatten().any(|at| offset_of(at) == first);
            return (!is_known).then(|| {
                format!(
                    "it leaves out columns whose values may have been in the dead letter {partition}:{first} of its row, \
                     which is not in the queue any more; drop this one, too: a later record of the whole row, or a new \
                     snapshot of it, makes it right"
                )
            });
        };
        match missing {
            (before, None) => Some(format!(
                "it leaves out columns whose values may be in the dead letter {before} of its row; retry that one first"
            )),
            // Where the row is not held any more, a whole one has come since.
            (before, Some(_)) => held.map(|_| {
                format!(
                    "it leaves out columns whose values may have been in the dead letter {before} of its row, which was \
                     dropped; drop this one, too: a later record of the whole row, or a new snapshot of it, makes it right"
                )
            }),
        }
    }

    /// The last letter of a row before `end` whose values are not in the destination, and what was done about it.
    fn missing(&self, row: &RowOf, end: usize, states: &[Option<Resolution>]) -> Option<(Place, Option<Resolution>)> {
        let mut missing = None;
        for &at in self.rows.get(row).into_iter().flatten().take_while(|&&at| at < end) {
            match states[at] {
                // A whole row needs nothing of what was before it.
                Some(Resolution::Retried) if self.read(at).is_ok_and(|fed| !is_masked(&fed.event)) => missing = None,
                Some(Resolution::Retried) => {}
                state => missing = Some((self.letters[at].entry.record.place(), state)),
            }
        }
        missing
    }

    fn batch(&self, read: impl IntoIterator<Item = (usize, Fed)>) -> Result<Batch, String> {
        let mut fold = Fold::new(Limits { max_rows: usize::MAX, max_bytes: usize::MAX, max_age_ms: u64::MAX });
        for (at, Fed { event, floor, .. }) in read {
            let Place { partition, offset } = self.letters[at].entry.record.place();
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

    fn settle(&mut self, at: usize, event: &Event, states: &mut [Option<Resolution>], retried: &mut Retried) {
        states[at] = Some(Resolution::Retried);
        if let Event::Change(change) = event {
            self.settled.push((change.record.partition.clone(), change.key.clone(), row_of(&self.letters[at])));
        }
        retried.fates.push((at, Fate::Settled));
    }

    /// Rows whose letters are all in the destination are not held any more.
    async fn release(&mut self, states: &[Option<Resolution>]) -> Result<(), SinkError> {
        for (partition, key, row) in std::mem::take(&mut self.settled) {
            if self.missing(&row, self.letters.len(), states).is_some() {
                continue;
            }
            // A letter that was written since the queue was read is not among them.
            if let Some(&last) = self.rows.get(&row).and_then(|known| known.last()) {
                self.holds.release(&partition, &key, self.letters[last].entry.record.offset);
            }
        }
        let notes: Vec<_> = self.holds.take_notes();
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
