//! A batch without the partitions that another instance has taken.
//!
//! A destination that fences refuses such a batch whole. Its partitions are no unit: what is left
//! without the others' must be applied, and must not hold a trace of them.
//!
//! Invariant: what is left equals the batch that would have been gathered had those partitions never
//! been read. A row's records may lie in several partitions, so it is folded anew: the survivor of
//! a row may have been one that is taken out.

use crate::batch::Batch;
use crate::dead_letter::DeadLetter;
use crate::fold::fold_into;
use crate::position::{Partition, Span};
use crate::refusal::Refusal;

impl Batch {
    /// Takes the partitions out: rows, truncates, floors, holds, dead letters, spans and counts.
    /// Fails where records contradict each other that the ones taken out had overtaken.
    pub fn withdraw(&mut self, partitions: &[Partition]) -> Result<(), Refusal> {
        let truncates = self.truncates.len();
        self.let_go(partitions);
        let is_gone = |partition: &Partition| partitions.contains(partition);
        let mut gone = 0;
        self.dead.retain(|letter| {
            let is_gone = is_gone(&letter.record.partition);
            if is_gone {
                gone += 1;
                self.bytes -= letter.record.size();
            }
            !is_gone
        });
        self.tally.dead_lettered -= gone;
        self.tally.read -= gone;
        // A truncate of theirs had parted rows from what they stand on.
        let is_as_it_was = self.truncates.len() == truncates;
        if is_as_it_was && self.changes.iter().all(|change| !is_gone(&change.record.partition)) {
            return Ok(());
        }
        if self.changes.is_empty() {
            return Ok(());
        }
        let mut changes = std::mem::take(&mut self.changes);
        let all = changes.len();
        // Folding counts all of them again.
        self.bytes -= changes.iter().map(|change| change.record.size()).sum::<usize>();
        self.tally.superseded = 0;
        self.earlier.clear();
        self.tables.clear();
        changes.retain(|change| !is_gone(&change.record.partition));
        self.tally.read -= (all - changes.len()) as u64;
        *self = fold_into(std::mem::take(self), changes)?;
        Ok(())
    }

    /// As [`Batch::withdraw`], for a batch whose dead letters were taken out and are not written yet.
    /// Gives back those that are left.
    pub fn withdraw_with(
        &mut self,
        letters: Vec<DeadLetter>,
        partitions: &[Partition],
    ) -> Result<Vec<DeadLetter>, Refusal> {
        self.dead = letters;
        self.withdraw(partitions)?;
        Ok(std::mem::take(&mut self.dead))
    }

    /// A batch that asks the destination whether the partitions of this one are still ours: empty
    /// spans, which prove and move nothing.
    pub fn asking(&self) -> Batch {
        let empty = |span: &Span| Span { end: span.start, ..span.clone() };
        Batch { spans: self.spans.iter().map(empty).collect(), controls: vec![0; self.spans.len()], ..Batch::default() }
    }

    /// Drops what is kept beside the rows of these partitions, with its counts.
    pub(crate) fn let_go(&mut self, partitions: &[Partition]) {
        let is_gone = |partition: &Partition| partitions.contains(partition);
        let spans = std::mem::take(&mut self.spans).into_iter().zip(std::mem::take(&mut self.controls));
        for (span, controls) in spans {
            if is_gone(&span.partition) {
                self.tally.control -= controls;
                self.tally.read -= controls;
            } else {
                self.spans.push(span);
                self.controls.push(controls);
            }
        }
        let mut gone = 0;
        self.truncates.retain(|truncate| {
            let is_gone = is_gone(&truncate.record.partition);
            if is_gone {
                gone += 1;
                self.bytes -= truncate.record.size();
            }
            !is_gone
        });
        self.tally.truncates -= gone;
        self.tally.read -= gone;
        self.floors.retain(|(partition, _)| !is_gone(partition));
        self.holds.retain(|note| !is_gone(&note.partition));
    }
}
