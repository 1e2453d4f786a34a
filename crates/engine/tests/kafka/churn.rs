//! Instances that come and go while records flow: nothing is skipped, nothing runs backwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use settle_core::position::{Offset, Partition};
use settle_engine::source::CommitPoint;
use settle_engine::source::SourceEvent;
use settle_testkit::kafka as broker;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::stage::{LIMIT, Reading, config, fill, topic};

const PARTITIONS: i32 = 5;

/// Offsets delivered to whatever instance, and the offset after the last one committed.
#[derive(Default)]
struct Seen {
    delivered: BTreeMap<Partition, BTreeSet<Offset>>,
    committed: BTreeMap<Partition, Offset>,
}

impl Seen {
    fn count(&self) -> usize {
        self.delivered.values().map(BTreeSet::len).sum()
    }
}

/// One instance: takes what comes, commits after each chunk, drains when asked.
struct Instance {
    reading: Reading,
    seen: Arc<Mutex<Seen>>,
    /// Generation and next offset of what is held.
    held: BTreeMap<Partition, (u64, Offset)>,
}

impl Instance {
    fn start(group: &str, topic: &str, seen: &Arc<Mutex<Seen>>) -> (oneshot::Sender<()>, JoinHandle<()>) {
        let instance =
            Self { reading: Reading::start(config(group, &[topic])), seen: seen.clone(), held: BTreeMap::new() };
        let (stop, stopped) = oneshot::channel();
        (stop, tokio::spawn(instance.live(stopped)))
    }

    async fn live(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let event = tokio::select! {
                _ = &mut stopped => break,
                event = self.reading.next() => event,
            };
            match event {
                SourceEvent::Assigned(assignments) => {
                    for a in assignments {
                        let committed = self.seen.lock().unwrap().committed.get(&a.partition).copied().unwrap_or(0);
                        assert_eq!(a.start, committed, "{} starts where its last owner committed", a.partition);
                        assert!(self.held.insert(a.partition, (a.generation, a.start)).is_none());
                    }
                }
                SourceEvent::Records(chunk) => {
                    let (generation, next) = self.held.get_mut(&chunk.partition).expect("records of what is ours");
                    assert_eq!(*generation, chunk.generation);
                    for record in &chunk.records {
                        assert_eq!(record.offset, *next, "{} without a gap", chunk.partition);
                        *next += 1;
                    }
                    let offsets = chunk.records.iter().map(|record| record.offset);
                    self.seen.lock().unwrap().delivered.entry(chunk.partition.clone()).or_default().extend(offsets);
                    self.commit(&[chunk.partition]).await;
                }
                SourceEvent::Revoked { partitions, done } => {
                    self.commit(&partitions).await;
                    self.held.retain(|partition, _| !partitions.contains(partition));
                    done.send(()).expect("an answer in time");
                }
                SourceEvent::ReachedEnd { .. } => {}
                other => panic!("while instances come and go: {other:?}"),
            }
        }
        let all: Vec<Partition> = self.held.keys().cloned().collect();
        self.commit(&all).await;
        self.reading.close().await;
    }

    async fn commit(&self, partitions: &[Partition]) {
        let offsets: Vec<_> = partitions.iter().map(|partition| (partition.clone(), self.held[partition].1)).collect();
        let points: Vec<_> = offsets.iter().map(|(p, offset)| CommitPoint::bare(p.clone(), *offset)).collect();
        self.reading.offsets.commit(&points).await.unwrap();
        self.seen.lock().unwrap().committed.extend(offsets);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_come_and_go_skip_nothing() {
    let topic = topic("churn", PARTITIONS, 0).await;
    let group = broker::unique("g");
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut running = vec![Instance::start(&group, &topic, &seen)];
    let mut produced = 0;
    for round in 0..12 {
        // Instances join and leave in the middle of what is produced.
        match round {
            2 | 4 | 8 => running.push(Instance::start(&group, &topic, &seen)),
            6 | 10 => {
                let (stop, ended) = running.remove(0);
                stop.send(()).unwrap();
                ended.await.unwrap();
            }
            _ => {}
        }
        fill(&topic, PARTITIONS, produced, 700).await;
        produced += 700;
    }
    let all = produced * usize::try_from(PARTITIONS).unwrap();
    let deadline = Instant::now() + LIMIT;
    while seen.lock().unwrap().count() < all {
        assert!(Instant::now() < deadline, "{} of {all} records came", seen.lock().unwrap().count());
        assert!(running.iter().all(|(_, instance)| !instance.is_finished()), "an instance failed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (stop, ended) in running {
        stop.send(()).unwrap();
        ended.await.unwrap();
    }
    let end = Offset::try_from(produced).unwrap();
    let committed = broker::committed(&group, &topic).await;
    assert!(committed.iter().all(|at| at.as_ref().is_some_and(|at| at.offset == end)), "{committed:?}");
}
