//! The line between a log and a destination, as a run drives it: lanes, fold, ledger.

use std::collections::BTreeMap;

use settle_core::batch::Batch;
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::ledger::Ledger;
use settle_core::position::{Offset, Partition};
use settle_core::record::Record;
use settle_core::refusal::Refusal;
use settle_core::tally::Tally;

use super::destination::Destination;

/// One run. It starts each partition where its first record stands, with the floors that the
/// destination has recorded.
pub struct Line<'a> {
    pub destination: &'a mut Destination,
    lanes: BTreeMap<Partition, Lane>,
    fold: Fold,
    ledger: Ledger,
    tally: Tally,
    committed: BTreeMap<Partition, Offset>,
}

impl<'a> Line<'a> {
    /// A run whose batches are cut at `rows` records.
    pub fn new(destination: &'a mut Destination, rows: usize) -> Self {
        let limits = Limits { max_rows: rows, max_bytes: usize::MAX, max_age_ms: u64::MAX };
        Self {
            destination,
            lanes: BTreeMap::new(),
            fold: Fold::new(limits),
            ledger: Ledger::default(),
            tally: Tally::default(),
            committed: BTreeMap::new(),
        }
    }

    pub fn feed(&mut self, record: &Record) -> Result<(), Refusal> {
        let (partition, offset) = (record.partition.clone(), record.offset);
        let destination = &*self.destination;
        let lane = self.lanes.entry(partition.clone()).or_insert_with(|| {
            let floors = destination.floors_of(&partition);
            Lane::new(partition.clone(), offset, &floors, LoneTombstones::Refuse)
        });
        let fed = lane.feed(record.clone())?;
        if self.fold.must_cut_before(&fed.event) {
            self.cut();
        }
        self.fold.push(&partition, offset, fed.event, fed.floor, 0)?;
        if self.fold.is_full() {
            self.cut();
        }
        Ok(())
    }

    /// Writes what is gathered and commits it.
    pub fn cut(&mut self) {
        if !self.fold.is_empty() {
            let batch = self.fold.cut();
            self.write(&batch);
        }
    }

    fn write(&mut self, batch: &Batch) {
        batch.spans().iter().for_each(|span| self.ledger.open(span.clone()));
        let proof = self.destination.apply(batch);
        let mut tally = batch.tally();
        tally.applied += proof.outcome.applied;
        tally.stale += proof.outcome.stale;
        assert!(tally.balances(), "{tally:?}");
        self.tally.add(&tally);
        self.committed.extend(self.ledger.settle(proof));
    }

    /// The next offsets to read that the group has committed.
    pub fn committed(&self) -> &BTreeMap<Partition, Offset> {
        &self.committed
    }

    /// Writes the rest. Everything that was fed is committed then.
    pub fn finish(mut self) -> Tally {
        self.cut();
        assert!(self.ledger.is_all_settled());
        for (partition, lane) in &self.lanes {
            assert_eq!(self.committed.get(partition), Some(&lane.next()), "{partition}");
        }
        self.tally
    }
}

/// Reads `records` to the end in batches of `rows`.
pub fn settle<'a>(destination: &mut Destination, records: impl IntoIterator<Item = &'a Record>, rows: usize) -> Tally {
    let mut line = Line::new(destination, rows);
    for record in records {
        line.feed(record).unwrap();
    }
    line.finish()
}
