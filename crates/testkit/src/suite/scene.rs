//! One behaviour at work: a fresh destination, a source, what was delivered of it, and what should be there now.

use std::collections::{BTreeMap, BTreeSet};

use settle_core::position::Offset;
use settle_core::record::Record;
use settle_core::sink::{Guarantee, Outcome, PlacedPartition, Sink};

use super::model::Model;
use super::run::Run;
use super::source::{Engine, Source, Written};
use super::stand::{Deletes, Destination, Need, Rules, Stand};
use super::table::{Contents, Table};

pub(super) struct Scene {
    pub(super) destination: Box<dyn Destination>,
    pub(super) source: Source,
    pub(super) model: Model,
    pub(super) rules: Rules,
    /// A batch is a transaction: what was stale is counted, and what fails leaves nothing.
    pub(super) is_atomic: bool,
}

impl Scene {
    /// An empty destination for a source on PostgreSQL with one table, whose key is `id`.
    pub(super) async fn new(stand: &dyn Stand) -> Self {
        Self::of(stand, Source::new(Engine::Postgres, [Table::of("items")])).await
    }

    /// An empty destination for this source.
    pub(super) async fn of(stand: &dyn Stand, source: Source) -> Self {
        let rules = Rules {
            group: "g".into(),
            tables: source.tables(),
            deletes: None,
            declares: !source.with_schemas,
            refuses_columns: false,
            sweeps: false,
        };
        let destination = stand.fresh().await;
        let guarantee = destination.sink(&rules).guarantee();
        assert_eq!(guarantee, stand.guarantee(), "the stand says what its sink promises");
        let is_atomic = guarantee == Guarantee::Atomic;
        Self { destination, source, model: Model::default(), rules, is_atomic }
    }

    /// The same with rows that leave in each way that the sink has.
    pub(super) fn ways_to_delete(stand: &dyn Stand) -> Vec<Deletes> {
        let hard = stand.lacks(Need::HardDeletes).is_none();
        [Deletes::Soft].into_iter().chain(hard.then_some(Deletes::Hard)).collect()
    }

    /// Another table of the source.
    pub(super) fn add_table(&mut self, table: Table) -> usize {
        self.source.add_table(table);
        self.rules.tables = self.source.tables();
        self.rules.tables.len() - 1
    }

    /// A sink of the pipeline.
    pub(super) fn sink(&self) -> Box<dyn Sink> {
        self.destination.sink(&self.rules)
    }

    /// A new run of the pipeline with all partitions.
    pub(super) async fn run(&self) -> Run {
        self.run_of(&self.source.partitions()).await
    }

    /// A new run of the pipeline with these partitions.
    pub(super) async fn run_of(&self, parts: &[PlacedPartition]) -> Run {
        Run::start(self.sink(), parts).await.expect("a sink that opens")
    }

    /// A new run of the pipeline with the partitions of one table.
    pub(super) async fn run_on(&self, table: usize) -> Run {
        let parts: Vec<_> = (0..3).map(|number| self.source.partition(table, number)).collect();
        self.run_of(&parts).await
    }

    /// A sink of another group.
    pub(super) fn sink_of(&self, group: &str) -> Box<dyn Sink> {
        self.destination.sink(&Rules { group: group.to_owned(), ..self.rules.clone() })
    }

    /// A new run of another group with all partitions.
    pub(super) async fn run_as(&self, group: &str) -> Run {
        Run::start(self.sink_of(group), &self.source.partitions()).await.expect("a sink that opens")
    }

    /// A new run whose sink meets faults.
    pub(super) async fn faulty_run(&self) -> Run {
        let sink = self.destination.faulty_sink(&self.rules);
        Run::start(sink, &self.source.partitions()).await.expect("a sink that opens")
    }

    /// Records of the log by their place in it.
    pub(super) fn written(&self, which: impl IntoIterator<Item = usize>) -> Vec<Written> {
        which.into_iter().map(|at| self.source.log()[at].clone()).collect()
    }

    /// The same without what they mean.
    pub(super) fn records(&self, which: impl IntoIterator<Item = usize>) -> Vec<Record> {
        which.into_iter().map(|at| self.source.log()[at].record.clone()).collect()
    }

    /// All of the log.
    pub(super) fn all(&self) -> std::ops::Range<usize> {
        0..self.source.log().len()
    }

    /// Delivers these records as one batch, and checks what the sink says of it.
    pub(super) async fn deliver(&mut self, run: &mut Run, which: impl IntoIterator<Item = usize>) -> Outcome {
        let written = self.written(which);
        let outcome = run.settle(written.iter().map(|w| &w.record)).await.expect("a batch that is applied");
        let should = self.model.take(written.iter());
        if self.is_atomic {
            assert_eq!(outcome, should, "what became of the rows");
        }
        outcome
    }

    /// Delivers these records in batches of this size.
    pub(super) async fn deliver_by(&mut self, size: usize, run: &mut Run, which: impl IntoIterator<Item = usize>) {
        let which: Vec<usize> = which.into_iter().collect();
        for batch in which.chunks(size) {
            self.deliver(run, batch.iter().copied()).await;
        }
    }

    /// Delivers several stories at once, each in its own batches: their first batches as one, then their second.
    pub(super) async fn deliver_each(&mut self, run: &mut Run, stories: &[Story]) {
        for round in 0..stories.iter().map(Vec::len).max().unwrap_or(0) {
            let batch: Vec<usize> = stories.iter().filter_map(|story| story.get(round)).flatten().copied().collect();
            self.deliver(run, batch).await;
        }
    }

    /// Delivers these records once more, as a new run in batches of this size.
    pub(super) async fn replay(&mut self, size: usize, which: impl IntoIterator<Item = usize>) {
        let mut run = self.run().await;
        self.deliver_by(size, &mut run, which).await;
    }

    /// What a table of the source shows in the destination.
    pub(super) async fn contents(&self, table: usize) -> Contents {
        self.destination.contents(self.source.table(table)).await
    }

    /// Checks that the destination holds what was delivered, no more and no less.
    pub(super) async fn check(&self, when: &str) {
        for table in 0..self.source.tables().len() {
            self.check_table(table, when).await;
        }
    }

    async fn check_table(&self, table: usize, when: &str) -> Contents {
        let should = self.model.contents(&self.source, table);
        let seen = self.model.without_emptied(table, self.contents(table).await);
        let differs = difference(&seen, &should);
        assert!(differs.is_empty(), "{when}: table {:?}: {}", self.source.table(table).name, differs.join("; "));
        seen
    }

    /// Checks that the destination is the source itself: everything was delivered.
    pub(super) async fn check_end(&self, when: &str) {
        for table in 0..self.source.tables().len() {
            let live = self.check_table(table, when).await.live;
            let rows = self.source.rows(table).iter();
            let should: BTreeMap<_, _> =
                rows.map(|(key, row)| (key.clone(), self.source.table(table).shown(row))).collect();
            let seen: BTreeMap<_, _> = live.into_iter().map(|(key, live)| (key, live.columns)).collect();
            assert!(seen == should, "{when}: {should:?} is at the source, and {seen:?} in the destination");
        }
    }

    /// Checks that the destination keeps the group's offsets with the rows, where it does so: those behind what
    /// was delivered of table 0.
    pub(super) fn check_offsets(&self, run: &Run, ends: [Offset; 3]) {
        if !self.is_atomic {
            return;
        }
        for (number, end) in (0..).zip(ends) {
            let part = self.source.partition(0, number);
            assert_eq!(run.places.applied_of(part.topic_id, &part.partition).unwrap_or(0), end, "{}", part.partition);
        }
    }
}

/// Records of the log in the batches in which they come.
pub(super) type Story = Vec<Vec<usize>>;

/// A story of these records, which begin at `start`, in batches of this size.
pub(super) fn story(start: usize, order: &[usize], size: usize) -> Story {
    order.chunks(size).map(|batch| batch.iter().map(|at| start + at).collect()).collect()
}

/// Where two tables differ, the first few keys.
fn difference(seen: &Contents, should: &Contents) -> Vec<String> {
    let mut told = Vec::new();
    let live: BTreeSet<_> = seen.live.keys().chain(should.live.keys()).collect();
    for key in live.into_iter().filter(|key| seen.live.get(*key) != should.live.get(*key)) {
        told.push(format!("row {key:?} is {} and should be {}", of(seen.live.get(key)), of(should.live.get(key))));
    }
    let deleted: BTreeSet<_> = seen.deleted.keys().chain(should.deleted.keys()).collect();
    for key in deleted.into_iter().filter(|key| seen.deleted.get(*key) != should.deleted.get(*key)) {
        let (seen, should) = (of(seen.deleted.get(key)), of(should.deleted.get(key)));
        told.push(format!("the delete of {key:?} is {seen} and should be {should}"));
    }
    told.truncate(4);
    told
}

fn of(what: Option<&impl std::fmt::Debug>) -> String {
    let text = what.map_or("not there".to_owned(), |what| format!("{what:?}"));
    if text.len() < 400 {
        text
    } else {
        format!("{}… ({} bytes)", text.chars().take(300).collect::<String>(), text.len())
    }
}
