//! Random histories of a source, delivered as a hostile world would: cut anywhere, partitions in any order, runs
//! killed, partitions moved, zombies, proofs lost, everything again by another group. After every few batches the
//! destination is what a plain model says, and at the end it is the source.

use std::collections::BTreeMap;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use settle_core::position::Partition;
use settle_core::sink::{FailureKind, PlacedPartition};

use crate::services::is_full;
use crate::suite::run::Run;
use crate::suite::scene::Scene;
use crate::suite::source::{Engine, Sent, Source};
use crate::suite::stand::Stand;
use crate::suite::table::{Column, Kind, Table};

/// Seeds that are played by default, and with `SETTLE_TEST_FULL=1`.
const SEEDS: (u64, u64) = (4, 150);
/// Rounds of one history, of some records and most often a batch each.
const ROUNDS: usize = 40;
/// Rows of a table; few, so that histories meet.
const IDS: i64 = 6;

pub(in crate::suite) async fn random_histories_end_as_the_source(stand: &dyn Stand) {
    let seeds = match std::env::var("SETTLE_TEST_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("SETTLE_TEST_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..if is_full() { SEEDS.1 } else { SEEDS.0 },
    };
    for seed in seeds {
        // Said when it fails: the play below panics.
        let told = Told(seed);
        play(stand, seed).await;
        std::mem::forget(told);
    }
}

/// Names the seed when a history fails.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            super::super::report::say(&format!(
                "the history of seed {0} failed: SETTLE_TEST_SEED={0} plays it alone",
                self.0
            ));
        }
    }
}

async fn play(stand: &dyn Stand, seed: u64) {
    let mut world = World::new(stand, seed).await;
    for round in 0..ROUNDS {
        for _ in 0..world.random.random_range(0..4) {
            world.act();
        }
        match world.random.random_range(0..100) {
            0..8 => world.kill().await,
            8..16 => world.hand_over().await,
            16..22 => world.lose_a_proof().await,
            22..25 => world.replay_as_another_group().await,
            _ => world.deliver().await,
        }
        if round % 5 == 4 {
            world.scene.check(&format!("seed {seed}, round {round}")).await;
        }
    }
    world.run_to_the_end().await;
    world.scene.check_end(&format!("seed {seed}, at the end")).await;
}

struct World {
    random: Xoshiro256PlusPlus,
    engine: Engine,
    scene: Scene,
    /// Instances of the group.
    runs: Vec<Run>,
    /// Which of them has each partition, and how many of its records are settled.
    places: BTreeMap<Partition, (usize, usize)>,
    /// No record from before the last full snapshot is sent again.
    snapshot_at: usize,
}

impl World {
    async fn new(stand: &dyn Stand, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let engine = if seed % 3 == 2 { Engine::MariaDb } else { Engine::Postgres };
        let columns = vec![
            Column::key("region", Kind::Text),
            Column::key("id", Kind::Int),
            Column::new("body", Kind::Text),
            Column::new("n", Kind::Int),
        ];
        let regions = Table { name: "regions".into(), columns };
        let mut source = Source::new(engine, [Table::of("items"), regions]);
        source.with_schemas = seed % 4 != 1;
        let ways = Scene::ways_to_delete(stand);
        let mut scene = Scene::of(stand, source).await;
        scene.rules.deletes = Some(ways[random.random_range(0..ways.len())]);
        let parts = scene.source.partitions();
        let (left, right) = parts.split_at(parts.len() / 2);
        let runs = vec![scene.run_of(left).await, scene.run_of(right).await];
        let owner = |n: usize| usize::from(n >= parts.len() / 2);
        let places = parts.iter().enumerate().map(|(n, part)| (part.partition.clone(), (owner(n), 0))).collect();
        Self { random, engine, scene, runs, places, snapshot_at: 0 }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    /// Something happens at the source.
    fn act(&mut self) {
        if self.chance(15) {
            self.scene.source.begin();
            (0..self.random.random_range(2..5)).for_each(|_| self.change());
            self.scene.source.end_transaction();
            return;
        }
        match self.random.random_range(0..40) {
            0 => {
                let (table, partition) = (self.random.random_range(0..2), self.random.random_range(0..3));
                self.scene.source.truncate(table, partition);
            }
            1 => {
                let table = self.random.random_range(0..2);
                self.scene.source.read_again(table);
            }
            2 => {
                let table = self.random.random_range(0..2);
                self.scene.source.snapshot(table);
                self.snapshot_at = self.scene.all().end;
            }
            3 | 4 => {
                let end = self.scene.all().end;
                let back = self.random.random_range(1..5).min(end - self.snapshot_at);
                self.scene.source.send_again(end - back..end);
            }
            _ => self.change(),
        }
    }

    /// A row changes.
    fn change(&mut self) {
        let (table, id, to) =
            (self.random.random_range(0..2), self.random.random_range(0..IDS), self.random.random_range(0..IDS));
        let key = |id: i64| match table {
            0 => json!({"id": id}),
            _ => json!({"region": if id < 3 { "nörd" } else { "it's" }, "id": id}),
        };
        let with = |id: i64, more: Value| {
            let mut row = key(id);
            let fields = row.as_object_mut().expect("an object");
            fields.extend(more.as_object().expect("an object").clone());
            row
        };
        let is_there = |source: &Source, id: i64| {
            let row = key(id);
            let held = source.table(table).key_of(row.as_object().expect("an object"));
            source.rows(table).contains_key(&held)
        };
        let n = self.random.random_range(0..1000);
        let body = if self.chance(10) { Value::Null } else { format!("body {n}").into() };
        let kind = self.random.random_range(0..20);
        let masks = self.engine == Engine::Postgres && self.chance(60);
        let sent = if masks { Sent::Masked } else { Sent::Whole };
        let source = &mut self.scene.source;
        match (is_there(source, id), kind) {
            (false, _) => {
                source.insert(table, with(id, json!({"n": n, "body": body})));
            }
            (true, 0..4) => {
                source.delete(table, key(id));
            }
            (true, 4..7) if !is_there(source, to) => {
                // Without its values a key change must find both halves in one batch: in one partition they are.
                let sent = if (id - to) % 3 == 0 { sent } else { Sent::Whole };
                source.rename(table, key(id), with(to, json!({"n": n})), sent);
            }
            (true, 7..12) => {
                source.update(table, with(id, json!({"body": body})), Sent::Whole);
            }
            (true, _) => {
                source.update(table, with(id, json!({"n": n})), sent);
            }
        }
    }

    /// Records of a partition, as places in the log.
    fn log_of(&self, partition: &Partition) -> Vec<usize> {
        let log = self.scene.source.log();
        (0..log.len()).filter(|at| log[*at].record.partition == *partition).collect()
    }

    /// The next records of a partition behind `from`, at most `size` of them but for halves that belong together.
    fn next(&self, partition: &Partition, from: usize, size: usize) -> Vec<usize> {
        let all = self.log_of(partition);
        let mut to = all.len().min(from + size);
        while to < all.len() && self.scene.source.log()[all[to]].needs_other_half {
            to += 1;
        }
        all[from..to].to_vec()
    }

    /// A batch for a run: some of its partitions, in any interleaving.
    fn batch(&mut self, run: usize) -> Vec<usize> {
        let own: Vec<(Partition, usize)> = self
            .places
            .iter()
            .filter(|(_, (owner, _))| *owner == run)
            .map(|(p, (_, next))| (p.clone(), *next))
            .collect();
        let mut stretches = Vec::new();
        for (partition, from) in own {
            if self.chance(70) {
                let size = self.random.random_range(1..8);
                stretches.push(self.next(&partition, from, size));
            }
        }
        let mut batch = Vec::new();
        stretches.retain(|stretch| !stretch.is_empty());
        while !stretches.is_empty() {
            let which = self.random.random_range(0..stretches.len());
            batch.push(stretches[which].remove(0));
            stretches.retain(|stretch| !stretch.is_empty());
        }
        batch
    }

    fn settled(&mut self, batch: &[usize]) {
        for at in batch {
            let partition = &self.scene.source.log()[*at].record.partition;
            if let Some((_, next)) = self.places.get_mut(partition) {
                *next += 1;
            }
        }
    }

    async fn deliver(&mut self) {
        let run = self.random.random_range(0..self.runs.len());
        let batch = self.batch(run);
        if !batch.is_empty() {
            self.scene.deliver(&mut self.runs[run], batch.iter().copied()).await;
            self.settled(&batch);
        }
    }

    fn parts(&self, of: impl Fn(usize) -> bool) -> Vec<PlacedPartition> {
        let owned = |part: &PlacedPartition| self.places.get(&part.partition).is_some_and(|(owner, _)| of(*owner));
        self.scene.source.partitions().into_iter().filter(owned).collect()
    }

    /// What was not committed of a partition comes again.
    fn step_back(&mut self, partition: &Partition) {
        let all = self.log_of(partition);
        let back = if self.chance(50) { self.random.random_range(0..10) } else { 0 };
        let Some((_, next)) = self.places.get_mut(partition) else { return };
        *next = next.saturating_sub(back);
        while *next > 0 && all.get(*next).is_some_and(|at| self.scene.source.log()[*at].needs_other_half) {
            *next -= 1;
        }
    }

    /// A process dies, and another begins in its place.
    async fn kill(&mut self) {
        let run = self.random.random_range(0..self.runs.len());
        self.start_anew(run).await;
    }

    async fn start_anew(&mut self, run: usize) {
        let parts = self.parts(|owner| owner == run);
        self.runs[run] = self.scene.run_of(&parts).await;
        for part in parts {
            self.step_back(&part.partition);
        }
    }

    /// A partition goes to the other instance, and the one that had it wakes once more.
    async fn hand_over(&mut self) {
        let parts = self.scene.source.partitions();
        let part = parts[self.random.random_range(0..parts.len())].clone();
        let (owner, next) = self.places[&part.partition];
        let held = self.next(&part.partition, next, 3);
        let other = 1 - owner;
        self.runs[other].open(std::slice::from_ref(&part)).await.expect("a partition is taken over");
        self.places.insert(part.partition.clone(), (other, next));
        self.step_back(&part.partition);
        if held.is_empty() {
            return;
        }
        let written = self.scene.written(held);
        let woke = self.runs[owner].settle(written.iter().map(|w| &w.record)).await;
        match woke {
            Ok(_) if self.scene.is_atomic => panic!("a zombie is not fenced"),
            Ok(_) => {
                self.scene.model.take(written.iter());
            }
            Err(error) => assert_eq!(error.kind, FailureKind::Fenced, "{error}"),
        }
    }

    /// A batch is durable, and nobody hears of it.
    async fn lose_a_proof(&mut self) {
        let run = self.random.random_range(0..self.runs.len());
        let batch = self.batch(run);
        if batch.is_empty() {
            return;
        }
        let written = self.scene.written(batch);
        let folded = self.runs[run].fold(written.iter().map(|w| &w.record)).expect("records that fold");
        drop(self.runs[run].sink.apply(&folded).await.expect("a batch that is applied"));
        self.scene.model.take(written.iter());
        self.start_anew(run).await;
    }

    /// All that was settled, once more and in great batches.
    async fn replay_as_another_group(&mut self) {
        let log = self.scene.source.log();
        let mut seen: BTreeMap<&Partition, usize> = BTreeMap::new();
        let settled = |at: &usize| {
            let partition = &log[*at].record.partition;
            let nth = seen.entry(partition).or_default();
            *nth += 1;
            self.places.get(partition).is_some_and(|(_, next)| *nth <= *next)
        };
        let which: Vec<usize> = self.scene.all().filter(settled).collect();
        let mut run = self.scene.run_as("another").await;
        self.scene.deliver_by(1000, &mut run, which).await;
    }

    async fn run_to_the_end(&mut self) {
        for run in 0..self.runs.len() {
            let own: Vec<(Partition, usize)> = self
                .places
                .iter()
                .filter(|(_, (owner, _))| *owner == run)
                .map(|(p, (_, next))| (p.clone(), *next))
                .collect();
            for (partition, from) in own {
                let rest = self.next(&partition, from, usize::MAX / 2);
                self.scene.deliver(&mut self.runs[run], rest.iter().copied()).await;
            }
        }
    }
}
