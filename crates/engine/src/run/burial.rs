//! Records are set aside here: written where dead letters are kept, counted, and stopped when they
//! are too many to be mishaps.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use settle_core::dead_letter::{DeadLetter, ErrorClass};
use settle_core::position::{Partition, Place, TopicId};
use settle_core::sink::{FailureKind, SinkError};

use super::RunError;
use super::attempts::Attempts;
use crate::config::dlq::DlqLimit;
use crate::dead_letter::{DeadLetters, Letter};

/// Dead letters of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfClass {
    count: u64,
    first: String,
}

/// What was set aside of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buried {
    pub(super) by_class: BTreeMap<&'static str, u64>,
    /// Letters that the store had to cut.
    pub(super) truncated: u64,
}

/// The store of dead letters, and how many went there in this run.
pub(super) struct Burial {
    store: Box<dyn DeadLetters>,
    limit: DlqLimit,
    /// Records read by the run, those of the batch at hand included.
    read: u64,
    seen: BTreeMap<ErrorClass, OfClass>,
}

impl Burial {
    pub(super) fn new(store: Box<dyn DeadLetters>, limit: DlqLimit) -> Self {
        Self { store, limit, read: 0, seen: BTreeMap::new() }
    }

    /// The destination holds rows behind letters.
    pub(super) fn expect_letters(&mut self) {
        self.store.expect_letters();
    }

    /// An open letter of the topic that does not tell its row.
    pub(super) async fn without_row(&mut self, topic_id: TopicId, topic: &str) -> Result<Option<Place>, SinkError> {
        self.store.without_row(topic_id, topic).await
    }

    /// Another batch of this many records is at hand.
    pub(super) fn read(&mut self, records: u64) {
        self.read += records;
    }

    /// Refuses letters that would be too many. Nothing of them is written then.
    pub(super) fn check(&self, letters: &[DeadLetter]) -> Result<(), RunError> {
        let before: u64 = self.seen.values().map(|of| of.count).sum();
        let dead = before + letters.len() as u64;
        if !exceeds(self.limit, self.read, dead) {
            return Ok(());
        }
        let mut seen = self.seen.clone();
        letters.iter().for_each(|letter| count(&mut seen, letter));
        Err(RunError::TooManyDeadLetters(TooMany { limit: self.limit, read: self.read, dead, seen }))
    }

    /// Writes the letters and waits until they are safe.
    pub(super) async fn write(
        &mut self,
        letters: Vec<DeadLetter>,
        topic_ids: &HashMap<Partition, TopicId>,
        attempts: &mut Attempts<'_>,
        buried: &mut Buried,
    ) -> Result<(), RunError> {
        if letters.is_empty() {
            return Ok(());
        }
        self.check(&letters)?;
        for letter in &letters {
            count(&mut self.seen, letter);
            *buried.by_class.entry(letter.class.name()).or_default() += 1;
        }
        let mut placed = Vec::with_capacity(letters.len());
        for dead in letters {
            let Some(&topic_id) = topic_ids.get(&dead.record.partition) else {
                let context = format!("partition {} was never opened", dead.record.partition);
                return Err(RunError::DeadLetters(SinkError::new(FailureKind::Bug, "write dead letters", context)));
            };
            placed.push(Letter { topic_id, dead });
        }
        loop {
            match self.store.write(&placed).await {
                Ok(written) => {
                    buried.truncated += written.truncated;
                    attempts.succeeded();
                    return Ok(());
                }
                Err(error) => attempts.wait_after(error).await.map_err(RunError::DeadLetters)?,
            }
        }
    }
}

fn count(seen: &mut BTreeMap<ErrorClass, OfClass>, letter: &DeadLetter) {
    seen.entry(letter.class).or_insert_with(|| OfClass { count: 0, first: letter.error.clone() }).count += 1;
}

#[expect(clippy::cast_precision_loss, reason = "counts of records, far below 2^53")]
fn exceeds(limit: DlqLimit, read: u64, dead: u64) -> bool {
    dead > 0 && read >= limit.min_records && dead as f64 > limit.max_ratio * read as f64
}

/// More dead letters than the configuration allows: something else is wrong than a few records.
#[derive(Clone, Debug, PartialEq)]
pub struct TooMany {
    limit: DlqLimit,
    read: u64,
    dead: u64,
    seen: BTreeMap<ErrorClass, OfClass>,
}

impl std::error::Error for TooMany {}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, read, dead, seen } = self;
        write!(
            f,
            "{dead} of {read} records read cannot be applied, more than [dlq] max_ratio = {} allows; the last of them \
             were not set aside and nothing of their batch is committed",
            limit.max_ratio
        )?;
        for (class, OfClass { count, first }) in seen {
            write!(f, "; {count} {class}, the first: {first}")?;
        }
        f.write_str("; mend what they have in common and start again, or raise max_ratio if they are to be set aside")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_counts_only_behind_the_first_records_and_is_itself_allowed() {
        let limit = DlqLimit { max_ratio: 0.01, min_records: 1_000 };
        for (read, dead, told) in [(999, 999, false), (1_000, 10, false), (1_000, 11, true), (5_000, 0, false)] {
            assert_eq!(exceeds(limit, read, dead), told, "{dead} of {read}");
        }
        let none = DlqLimit { max_ratio: 0.0, min_records: 0 };
        assert!(exceeds(none, 1, 1) && !exceeds(none, 1, 0));
        let all = DlqLimit { max_ratio: 1.0, min_records: 0 };
        assert!(!exceeds(all, 7, 7));
    }
}
