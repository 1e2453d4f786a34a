//! A run of a pipeline, as the engine drives it: lanes, fold, holds, one batch at a time, dead letters by taking
//! batches apart, a ledger that takes the proofs.

use std::collections::BTreeMap;

use settle_core::batch::Batch;
use settle_core::dead_letter::DeadLetter;
use settle_core::fold::{Fold, Limits};
use settle_core::holds::{Hold, Holds};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::ledger::Ledger;
use settle_core::policy::{Verdict, backoff_ms, decide};
use settle_core::position::{Offset, Partition};
use settle_core::record::Record;
use settle_core::refusal::Refusal;
use settle_core::sink::{Durable, Outcome, PlacedPartition, Places, Sink, SinkError};
use settle_core::tally::Tally;
use settle_core::unfold::{Pieces, Ready, prepare};
use settle_core::version::Floor;
use tokio::time::{Duration, sleep};

/// Attempts of a patient run at one batch: more than a minute.
const ATTEMPTS: u32 = 15;

/// Batches are cut where the behaviour says, and nowhere else.
const ANY_SIZE: Limits = Limits { max_rows: usize::MAX, max_bytes: usize::MAX, max_age_ms: u64::MAX };

pub(super) struct Run {
    pub(super) sink: Box<dyn Sink>,
    /// What the destination recorded when the run last opened partitions.
    pub(super) places: Places,
    opened: Vec<PlacedPartition>,
    floors: Vec<(Partition, Floor)>,
    lanes: BTreeMap<Partition, Lane>,
    holds: Holds,
    ledger: Ledger,
    /// Where every record that was settled went.
    pub(super) tally: Tally,
    /// Records set aside, in order of their batches.
    pub(super) letters: Vec<DeadLetter>,
    /// Next offset to read of each partition, as far as it is proved.
    pub(super) committed: BTreeMap<Partition, Offset>,
    /// Waits where the engine would: the destination is busy with others.
    pub(super) is_patient: bool,
}

impl Run {
    /// Opens the sink for these partitions.
    pub(super) async fn start(sink: Box<dyn Sink>, parts: &[PlacedPartition]) -> Result<Self, SinkError> {
        let mut run = Self {
            sink,
            places: Places::default(),
            opened: Vec::new(),
            floors: Vec::new(),
            lanes: BTreeMap::new(),
            holds: Holds::default(),
            ledger: Ledger::default(),
            tally: Tally::default(),
            letters: Vec::new(),
            committed: BTreeMap::new(),
            is_patient: false,
        };
        run.open(parts).await?;
        Ok(run)
    }

    /// Takes on more partitions, or some of them anew.
    pub(super) async fn open(&mut self, parts: &[PlacedPartition]) -> Result<(), SinkError> {
        let places = self.sink.open(parts).await?;
        self.holds.open(parts.iter().map(|part| &part.partition), places.holds.clone());
        for part in parts {
            if !self.opened.contains(part) {
                self.opened.push(part.clone());
            }
            self.lanes.remove(&part.partition);
            self.ledger.drop_partition(&part.partition);
        }
        self.floors.extend(places.floors.iter().map(|(place, floor)| (place.partition.clone(), floor.clone())));
        self.places = places;
        Ok(())
    }

    /// The records as one batch. They are the next of their partitions.
    pub(super) fn fold<'r>(&mut self, records: impl IntoIterator<Item = &'r Record>) -> Result<Batch, Refusal> {
        let mut fold = Fold::new(ANY_SIZE);
        records.into_iter().try_for_each(|record| self.gather(&mut fold, record))?;
        Ok(fold.cut())
    }

    /// The records in the batches that these limits make of them.
    pub(super) fn fold_by<'r>(&mut self, limits: Limits, records: impl IntoIterator<Item = &'r Record>) -> Vec<Batch> {
        let mut fold = Fold::new(limits);
        let mut batches = Vec::new();
        for record in records {
            self.gather(&mut fold, record).expect("records that fold");
            if fold.is_full() {
                batches.push(fold.cut());
            }
        }
        if !fold.is_empty() {
            batches.push(fold.cut());
        }
        batches
    }

    fn gather(&mut self, fold: &mut Fold, record: &Record) -> Result<(), Refusal> {
        let (partition, offset) = (record.partition.clone(), record.offset);
        let floors = &self.floors;
        let begin = || {
            let known = floors.iter().filter(|(place, _)| *place == partition).map(|(_, floor)| floor.clone());
            Lane::new(partition.clone(), offset, &known.collect::<Vec<_>>(), LoneTombstones::Skip)
        };
        match self.lanes.entry(partition.clone()).or_insert_with(begin).take_in(record.clone()) {
            Ok(fed) => {
                assert!(!fold.must_cut_before(&fed.event), "a batch across a change of its schema");
                fold.push(&partition, offset, fed.event, fed.floor, 0)
            }
            Err(refused) => {
                let letter = refused.into_dead_letter(true).map_err(|refused| refused.refusal)?;
                fold.push_dead(letter, 0);
                Ok(())
            }
        }
    }

    /// Hands a batch to the sink as it is.
    pub(super) async fn apply(&mut self, batch: &Batch) -> Result<Outcome, SinkError> {
        let proof = self.attempt(batch).await?;
        assert_eq!(proof.spans(), batch.spans(), "a proof covers its batch, no more and no less");
        let outcome = proof.outcome;
        let mut tally = batch.tally();
        tally.applied += outcome.applied;
        tally.stale += outcome.stale;
        assert!(tally.balances(), "every record is in exactly one place: {tally:?}");
        self.tally.add(&tally);
        batch.spans().iter().for_each(|span| self.ledger.open(span.clone()));
        self.committed.extend(self.ledger.settle(proof));
        Ok(outcome)
    }

    /// Makes one batch of the records durable, each in its place: applied, or among the dead letters. Says what
    /// became of the rows of all pieces.
    pub(super) async fn settle<'r>(
        &mut self,
        records: impl IntoIterator<Item = &'r Record>,
    ) -> Result<Outcome, SinkError> {
        let batch = self.fold(records).expect("records that fold");
        let rows = self.holds.in_question(&batch);
        if !rows.is_empty() {
            let recorded = self.held().await?;
            self.holds.end_lifted(rows, &recorded);
        }
        let mut holds = std::mem::take(&mut self.holds);
        let settled = self.settle_batch(batch, &mut holds).await;
        self.holds = holds;
        settled
    }

    /// The rows that are held in the destination.
    pub(super) async fn held(&mut self) -> Result<Vec<Hold>, SinkError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.sink.held(&self.opened).await {
                Err(error) if self.is_patient && attempt < ATTEMPTS && passes(&error) => {
                    sleep(Duration::from_millis(backoff_ms(attempt, 0.0))).await;
                }
                other => return other,
            }
        }
    }

    async fn settle_batch(&mut self, batch: Batch, holds: &mut Holds) -> Result<Outcome, SinkError> {
        let mut pieces = match prepare(Box::new(batch), holds) {
            Ready::Pieces(pieces) => pieces,
            Ready::Whole(letters, batch) => {
                self.letters.extend(letters);
                match self.apply(&batch).await {
                    Ok(outcome) => return Ok(outcome),
                    Err(error) if decide(error.kind) == Verdict::Isolate => Pieces::of_refused(*batch, holds, &error),
                    Err(error) => return Err(error),
                }
            }
        };
        while let Some(piece) = pieces.next_piece().expect("a piece folds as its batch did") {
            assert!(piece.spans().iter().all(|span| span.start == span.end), "a piece proves nothing");
            match self.attempt(&piece).await {
                Ok(proof) => pieces.applied(&piece, proof.outcome),
                Err(error) if decide(error.kind) == Verdict::Isolate => pieces.refused(piece, &error),
                Err(error) => return Err(error),
            }
        }
        let (letters, rest) = pieces.finish();
        self.letters.extend(letters);
        self.apply(&rest).await?;
        Ok(Outcome { applied: rest.tally().applied, stale: rest.tally().stale })
    }

    /// Asks for the batch until it is durable, where this run is patient and the cause passes.
    async fn attempt(&mut self, batch: &Batch) -> Result<Durable, SinkError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.sink.apply(batch).await {
                Err(error) if self.is_patient && attempt < ATTEMPTS && passes(&error) => {
                    sleep(Duration::from_millis(backoff_ms(attempt, 0.0))).await;
                }
                other => return other,
            }
        }
    }
}

/// True where the engine would wait and ask again.
pub(super) fn passes(error: &SinkError) -> bool {
    matches!(decide(error.kind), Verdict::Retry | Verdict::Pause)
}
